"""``audit``: a model and two sets of records in, a report with both bounds out. A few lines over the parts."""

import time
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from privet import __version__
from privet.arguments import open_fraction
from privet.attacks import Attack, LayerClassifier, Outputs, QuantileRegression, Shokri, see
from privet.attacks.fitted import class_names
from privet.attacks.membership.referenced import ReferenceAttack
from privet.attacks.membership.signals import checked_labels
from privet.attacks.preflight import enough_records, preflight, same_size
from privet.attacks.shadows import Recipe
from privet.auditing import (
    Audit,
    OneRun,
    OneRunFDP,
    Shares,
    accuracy_by_group,
    by_group,
    measure,
    most_at_risk,
)
from privet.auditing.harm import GroupAccuracy
from privet.checks import Check, Outcome
from privet.errors import InvalidArgument
from privet.fingerprints import FingerprintKey
from privet.guarantees import Guarantee
from privet.ledger import Ledger
from privet.pipeline.choosing import Attacks, choose_attacks
from privet.pipeline.identification import identify, identify_scores, ledger_of
from privet.pipeline.judging import canary_judge
from privet.pipeline.records import Asked, challenge_of, records_of
from privet.pipeline.references import Lender, fewer_than_asked
from privet.pipeline.reproducing import audit_call, scores_call
from privet.pipeline.time_limit import Budget
from privet.reporting.facts import AttackResult, Harm, ModelAudit, Origin, Strength
from privet.reporting.report import Report
from privet.scores import Bits, Challenge, Records, References, Scores
from privet.views import Adversary, BlackBox, LabelOnly, Numbers

__all__ = ["audit", "audit_scores"]

DELTA = 1e-5
_METHODS = {
    OneRun: "Guesses in one run of training (Steinke, Nasr & Jagielski 2023)",
    OneRunFDP: "Guesses in one run of training, by trade-off curves (Mahloujifar, Melis & Chaudhuri 2024)",
}
_UNKNOWN = Adversary(
    sees="whatever the scores were computed from",
    knows="what their author knows",
    wants="whether a record was trained on",
)


@runtime_checkable
class _Planted(Protocol):
    """Canaries of a private run, with their scores."""

    @property
    def scores(self) -> Scores: ...
    @property
    def adversary(self) -> Adversary: ...


@runtime_checkable
class _TrainedPrivately(Protocol):
    """What private training gives: the model with its ledger, and canaries where there were some."""

    @property
    def model(self) -> object: ...
    @property
    def ledger(self) -> Ledger: ...
    @property
    def canaries(self) -> object: ...
    @property
    def plan(self) -> object: ...


@runtime_checkable
class _Planned(Protocol):
    """How many units a run was planned for."""

    @property
    def population(self) -> int: ...


def audit(
    model: object,
    members: object,
    nonmembers: object,
    *,
    name: str = "model",
    recipe: Recipe | None = None,
    references: int | References | None = None,
    attacks: Attacks = None,
    public: object = None,
    ledger: Ledger | None = None,
    delta: float = DELTA,
    confidence: float = 0.95,
    gives: Outputs | None = None,
    budget: Budget | None = None,
    cache: Path | str | None = None,
    seed: int = 0,
    progress: bool = True,
    key: FingerprintKey | None = None,
    public_model: bool = False,
) -> Report:
    """Attack a model, bound its ε from both sides, and report.

    ``model`` is a torch module, an object with ``predict_proba``, a view, or what ``privet.train`` gave, whose ledger and canaries are
    then used; of a private estimator its ``ledger_``. ``members`` are records that it was trained on, all of them where there are
    references, ``nonmembers`` records of the same kind that it was not: (inputs, labels), a torch dataset, or ``Records``.

    With a ``recipe``, by which the model was trained, ``references`` models (16) of the target's size are trained and stronger
    attacks run; ``budget`` limits their time, ``cache`` keeps what they say. Ready ``References`` are put in the order of the records by
    content, or refused. ``attacks`` are attacks, or names of them (``privet.pipeline.ATTACKS``). ``public`` are further records that the model was
    not trained on; some attacks learn from them. δ is 1e−5 unless another is given, and the report says so.

    All statements of the report hold together with ``confidence``: bounds on ε, intervals and comparisons share the failure out
    (``privet.auditing.Shares``), and membership is called detected where one of them excludes chance. It assumes that a fair coin
    decided who was trained on. Nothing is decided in view of the scores.

    The report carries fingerprints of the model, the records and the ledger, keyed by ``key`` or by a fresh one, which ``Report.save_key``
    writes; ``public_model`` says that the model is published, so that its fingerprint needs no key.
    """
    began = time.monotonic()
    open_fraction("confidence", confidence)
    open_fraction("delta", delta)
    recipe = None if recipe is None else recipe.giving(gives)
    lender = Lender(
        recipe=recipe, references=references, budget=budget, cache=cache, seed=seed, progress=progress
    )
    planted, canaries, population, given = None, None, 0, ledger
    recorded = ledger_of(model)
    ledger = recorded if ledger is None else ledger
    if isinstance(model, _TrainedPrivately):
        planted = model.canaries if isinstance(model.canaries, _Planted) else None
        canaries = 0 if planted is None else len(planted.scores)
        population = model.plan.population if isinstance(model.plan, _Planned) else 0
        model = model.model
    view = see(model, gives=gives)
    names = class_names(model)
    sides = records_of("members", members, names), records_of("nonmembers", nonmembers, names)
    asked = challenge_of(*sides, seed=seed)
    challenge = asked.challenge
    secret = FingerprintKey.fresh() if key is None else key
    identified = identify(model, *sides, ledger, secret, public_model=public_model)
    known = asked.spare if public is None else _apart(records_of("public", public, names), challenge.records)
    # Chosen, and the model asked, first: what cannot be done should be said before models are trained.
    choice = choose_attacks(attacks, lender.means(view, challenge.records, known))
    right = _classified_rightly(view, challenge)
    compared = lender.trained(asked, choice)
    lent, used = lender.knowledge(asked, choice, compared, known), lender.facts(compared)
    chosen = choice.made(lent)
    claim = None if ledger is None else _claim(ledger)
    scored = [int((~challenge.members).sum())] * len(chosen)
    scored += [] if planted is None else [int((~planted.scores.members).sum())]
    tables = (challenge.records.labels is not None) + (challenge.records.groups is not None)
    shares = Shares.of(confidence, others=scored, tables=tables)
    results = [
        replace(
            _result(
                attack.run(view, challenge), attack.adversary, claim, OneRun(shares.bound), delta, shares
            ),
            strength=_strength(attack),
        )
        for attack in chosen
    ]
    if planted is not None and recorded is not None:
        judge = canary_judge(recorded, shares.bound)
        scores = replace(planted.scores, attack="canaries in training")
        found = _result(scores, planted.adversary, claim, judge, delta, shares, tossed=True)
        results.append(replace(found, planted=True))
    told = results[len(chosen) - 1]  # the strongest by what it knows, not by how it did
    audited = ModelAudit(
        name=name,
        delta=delta,
        results=tuple(results),
        claim=claim,
        ledger=ledger,
        train_accuracy=None if right is None else float(right[challenge.members].mean()),
        test_accuracy=None if right is None else float(right[~challenge.members].mean()),
        checks=(
            *_unlabelled(challenge),
            *fewer_than_asked(used),
            *preflight(
                view,
                challenge,
                references=lent.references,
                shadow_recipe=recipe,
                canaries=canaries,
                seed=seed,
            ),
            same_size(asked.members, compared),
        ),
        harm=_harm(told.scores, asked, right, shares, confidence),
        reference_models=used,
        population=max(population, len(sides[0])),
        fingerprints=identified,
        seconds=time.monotonic() - began,
    )
    audited = _only_where_detected(audited)
    call = audit_call(
        name=name,
        recipe=recipe,
        reference_models=used,
        attacks=choice,
        public=None if public is None else known,
        ledger=given,
        delta=delta,
        confidence=confidence,
        gives=gives,
        seed=seed,
    )
    return Report(
        audits=(audited,),
        origin=Origin(command=_one_line(call), version=__version__, seed=seed, call=call),
        key=secret,
    )


def audit_scores(
    members: object,
    nonmembers: object,
    *,
    name: str = "model",
    attack: str = "scores",
    ledger: Ledger | None = None,
    delta: float = DELTA,
    confidence: float = 0.95,
    key: FingerprintKey | None = None,
) -> Report:
    """The report of an attack that was run elsewhere: its scores of members and of others, higher = more likely a member.

    >>> report = audit_scores(np.arange(60.0) + 40, np.arange(60.0))
    >>> report.audits[0].results[0].leakage.auc.value
    0.9444...
    """
    began = time.monotonic()
    open_fraction("delta", delta)
    scores = Scores.of(_column("members", members), _column("nonmembers", nonmembers), attack)
    claim = None if ledger is None else _claim(ledger)
    shares = Shares.of(confidence, others=[int((~scores.members).sum())])
    result = _result(scores, _UNKNOWN, claim, OneRun(shares.bound), delta, shares)
    secret = FingerprintKey.fresh() if key is None else key
    audited = ModelAudit(
        name=name,
        delta=delta,
        results=(result,),
        claim=claim,
        ledger=ledger,
        checks=(enough_records(Challenge(Records(scores.values), scores.members), fpr=1e-3),),
        population=int(scores.members.sum()),
        fingerprints=identify_scores(scores, ledger, secret),
        seconds=time.monotonic() - began,
    )
    call = scores_call(name=name, attack=attack, ledger=ledger, delta=delta, confidence=confidence)
    return Report(
        audits=(audited,),
        origin=Origin(command=_one_line(call), version=__version__, call=call),
        key=secret,
    )


def _result(
    scores: Scores,
    adversary: Adversary,
    claim: Guarantee | None,
    judge: Audit,
    delta: float,
    shares: Shares,
    *,
    tossed: bool = False,
) -> AttackResult:
    """One attack with its bound; ``tossed`` says that a fair coin decided of every record, as of canaries."""
    return AttackResult(
        adversary=adversary,
        scores=scores,
        leakage=measure(scores, confidence=shares.interval),
        finding=judge.test(scores if tossed else _balanced(scores), claim, delta=delta),
        method=f"{_METHODS[type(judge)]}, at {100 * judge.confidence:.4g} % confidence. {judge.assumes}",
    )


def _unlabelled(challenge: Challenge) -> tuple[Check, ...]:
    if challenge.records.labels is not None:
        return ()
    return (
        Check(
            name="labels are given",
            outcome=Outcome.WARNED,
            finding="No labels were given, so only attacks that need none were run; stronger ones need them.",
            advice="Give (inputs, labels) for members and for non-members.",
        ),
    )


def _strength(attack: Attack[Any]) -> Strength:
    """Whether the attack compares a record with what other models, or a regression, say of it."""
    calibrated = isinstance(attack, ReferenceAttack | Shokri | QuantileRegression | LayerClassifier)
    return Strength.CALIBRATED if calibrated else Strength.TARGET_ALONE


def _only_where_detected(audited: ModelAudit) -> ModelAudit:
    """Records are called exposed only where membership was detected: their list has a level of its own, which is no part of the family."""
    harm = audited.harm
    if harm is None or audited.detected:
        return audited
    return replace(audited, harm=replace(harm, at_risk=replace(harm.at_risk, flagged=0)))


def _harm(scores: Scores, asked: Asked, right: Bits | None, shares: Shares, confidence: float) -> Harm:
    labels, groups = asked.challenge.records.labels, asked.challenge.records.groups
    risk = most_at_risk(scores)

    def accuracies(names: NDArray[Any] | None) -> tuple[GroupAccuracy, ...]:
        if names is None or right is None:
            return ()
        return accuracy_by_group(scores.members, right, names, confidence=confidence)

    return Harm(
        attack=scores.attack,
        at_risk=risk,
        names=tuple(str(place) for place in asked.places[risk.records]),
        classes=() if labels is None else by_group(scores, labels, confidence=shares.table),
        groups=() if groups is None else by_group(scores, groups, confidence=shares.table),
        class_accuracies=accuracies(labels),
        group_accuracies=accuracies(groups),
        failure=((labels is not None) + (groups is not None)) * (1 - shares.table),
    )


def _balanced(scores: Scores) -> Scores:
    """As many members as others: the bound is about fair coins, and nobody says that these sides come of some."""
    inside, outside = np.flatnonzero(scores.members), np.flatnonzero(~scores.members)
    count = min(len(inside), len(outside))
    if len(inside) == len(outside):
        return scores
    generator = np.random.default_rng(0)
    return scores.take(
        np.concatenate([generator.choice(side, count, replace=False) for side in (inside, outside)])
    )


def _apart(public: Records, judged: Records) -> Records:
    """Public records, or a refusal where some of them are judged: an attack must not learn from what it is asked about."""
    shared = int(np.isin(public.hashes, judged.hashes).sum())
    if shared:
        raise InvalidArgument(
            f"'public' must hold other records than those that are judged, and {shared} of {len(public)} are among them. "
            f"Leave these out."
        )
    return public


def _one_line(call: str) -> str:
    """The call without its comments, on one line."""
    lines = [line.partition("  # ")[0].strip() for line in call.splitlines()]
    return " ".join(lines).replace("( ", "(").replace(", )", ")")


def _classified_rightly(view: LabelOnly, challenge: Challenge) -> Bits | None:
    """Whether the model is right, for each record; None where labels are not known."""
    labels = challenge.records.labels
    if labels is None:
        return None
    if not isinstance(view, BlackBox):
        return np.asarray(view.labels(challenge.records.inputs) == labels, dtype=np.bool_)
    log_confidences = view.log_confidences(challenge.records.inputs)
    known = checked_labels(challenge.records, log_confidences.shape[1])
    return np.asarray(log_confidences.argmax(axis=1) == known, dtype=np.bool_)


def _claim(ledger: Ledger) -> Guarantee:
    from privet.accounting import account  # late: it is not needed where nothing was proved

    return account(ledger)


def _column(name: str, values: object) -> Numbers:
    try:
        column = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError, RuntimeError):
        raise InvalidArgument(
            f"'{name}' must be numbers, got something else. Give one score for each record, of a tensor "
            f"tensor.detach().cpu().numpy()."
        ) from None
    if column.ndim != 1 or len(column) == 0:
        raise InvalidArgument(
            f"'{name}' must be one score for each record, got an array of shape {column.shape}. Give one axis."
        )
    return column
