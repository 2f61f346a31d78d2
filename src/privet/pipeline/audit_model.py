"""``audit``: from a model and two sets of records to a report with both bounds on ε."""

import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from privet import __version__
from privet.accounting import account
from privet.arguments import open_fraction
from privet.attacks import Outputs
from privet.attacks.inversion.registry import RecoveryKnowledge
from privet.attacks.preflight import enough_records, preflight, recipe_of, same_size
from privet.attacks.quantities import features_of
from privet.attacks.shadows.recipe import to_recipe
from privet.auditing import (
    Audit,
    OneRun,
    Shares,
    accuracy_by_group,
    leakage_by_group,
    measure,
    most_at_risk,
)
from privet.auditing.harm import GroupAccuracy
from privet.auditing.recovery_bounds import balance_sides
from privet.checks import Check, Outcome
from privet.errors import InvalidArgument
from privet.fingerprints import FingerprintKey
from privet.guarantees import Guarantee
from privet.ledger import Ledger
from privet.pipeline.canary_bounds import choose_canary_bound
from privet.pipeline.choosing import Attacks, explain_choice
from privet.pipeline.identification import find_ledger, identify, identify_scores
from privet.pipeline.records import ShuffledChallenge, draw_challenge
from privet.pipeline.recovery_attacks import plan_attacks, read_columns
from privet.pipeline.recovery_results import judge_recoveries
from privet.pipeline.references import KnowledgeSource, warn_of_fewer
from privet.pipeline.reproducing import audit_call, one_line, scores_call
from privet.pipeline.target import see_target
from privet.pipeline.time_limit import TimeLimit
from privet.reporting.defence_report import DefenceComparison
from privet.reporting.facts import AttackResult, Harm, ModelAudit, Origin, Strength
from privet.reporting.report import Report
from privet.scores import Bits, Challenge, Records, References, Scores
from privet.views import Adversary, Labels, Numbers

__all__ = ["audit", "audit_scores", "judge_scores"]

DELTA = 1e-5
_UNKNOWN_ADVERSARY = Adversary(
    sees="whatever the scores were computed from",
    knows="what their author knows",
    wants="whether a record was trained on",
)


@runtime_checkable
class _Canaries(Protocol):
    """Canaries of a private run, with their scores."""

    @property
    def scores(self) -> Scores: ...
    @property
    def adversary(self) -> Adversary: ...


@runtime_checkable
class _JudgedCanaries(Protocol):
    """Canaries that say whether their scores are independent of each other."""

    @property
    def independent(self) -> bool: ...


@runtime_checkable
class _PrivateRun(Protocol):
    """The result of private training: the model with its ledger, and its canaries where there are some."""

    @property
    def model(self) -> object: ...
    @property
    def ledger(self) -> Ledger: ...
    @property
    def canaries(self) -> object: ...
    @property
    def plan(self) -> object: ...


@runtime_checkable
class _PlannedRun(Protocol):
    """The plan of a run, with its number of units."""

    @property
    def population(self) -> int: ...


def audit(
    model: object,
    members: object,
    nonmembers: object,
    *,
    name: str = "model",
    recipe: object = None,
    references: int | References | None = None,
    attacks: Attacks = None,
    public: object = None,
    secret: int | Sequence[int] | None = None,
    sample_shape: Sequence[int] | None = None,
    ledger: Ledger | None = None,
    delta: float = DELTA,
    confidence: float = 0.95,
    gives: Outputs | None = None,
    time_limit: TimeLimit | float | str | None = None,
    cache: Path | str | None = None,
    seed: int = 0,
    progress: bool = True,
    key: FingerprintKey | None = None,
    public_model: bool = False,
    comparison: DefenceComparison | None = None,
) -> Report:
    """Attack a model, bound its ε from both sides, and report.

    All statements of the report hold together with ``confidence``: bounds on ε, intervals and comparisons
    share the failure probability (``privet.auditing.Shares``), and membership counts as detected where one of
    them excludes chance. This assumes that a fair coin decided which records were trained on. No choice
    depends on the scores.

    The report carries fingerprints of the model, the records and the ledger.

    Args:
        model: a torch module, an object with ``predict_proba``, a regressor of scikit-learn, a view, or the
        result of ``privet.train``, whose ledger and
            canaries are then used; of a private estimator the ``ledger_`` is used.
        members: records that the model was trained on; all of them where there are references. Pairs (inputs,
        labels), a torch
            dataset, or ``Records``. Inputs are an array, a data frame, or a dictionary or a tuple of what the
            model takes.
        nonmembers: records of the same kind that the model was not trained on. name: what the report calls
        the model. recipe: how the model was trained, so that reference models can be trained in the same way
        and stronger attacks run.
            A ``Recipe``, an unfitted scikit-learn classifier or regressor, or a function
            ``train(inputs, labels, seed)`` that gives a model.
        references: how many reference models of the target's size to train (16), or ready ``References``,
        which are matched
            with the records by content.
        attacks: attacks, or their names (``privet.pipeline.ATTACKS``,
        ``privet.pipeline.ATTACKS_THAT_RECOVER``); by default those on membership that fit. public: further
        records that the model was not trained on; some attacks learn from them. secret: the columns of a
        secret attribute, for ``attributes``. sample_shape: the shape of one input where records are flat
        rows, for attacks that draw pictures. ledger: what the training recorded, where ``model`` does not
        bring it along; it gives the upper bound on ε. delta: the δ of both bounds. The report says which δ
        was used. confidence: the confidence of all statements of the report together. gives: whether a torch
        module gives logits or probabilities, where that cannot be seen, or quantities (regression).
        time_limit: how long the training of reference models may take: seconds, or text such as ``"10min"``.
        cache: a folder for the signals of reference models. seed: the seed of every random choice. progress:
        whether to show a progress bar on a terminal. key: the key of the fingerprints; a new one by default,
        which ``Report.save_key`` writes. public_model: that the model is published, so that its fingerprint
        needs no key. comparison: defences for this model, compared by ``privet.compare``; the advice of the
        report quotes it.
    """
    started = time.monotonic()
    open_fraction("confidence", confidence)
    open_fraction("delta", delta)
    own_recipe = None if recipe is None else to_recipe(recipe).giving(gives)
    source = KnowledgeSource(
        recipe=own_recipe,
        references=references,
        time_limit=None if time_limit is None else TimeLimit.of(time_limit),
        cache=cache,
        seed=seed,
        progress=progress,
    )
    canaries, canary_count, population, given_ledger = None, None, 0, ledger
    own_ledger = find_ledger(model)
    ledger = own_ledger if ledger is None else ledger
    if isinstance(model, _PrivateRun):
        canaries = model.canaries if isinstance(model.canaries, _Canaries) else None
        canary_count = 0 if canaries is None else len(canaries.scores)
        population = model.plan.population if isinstance(model.plan, _PlannedRun) else 0
        model = model.model
    target = see_target(model, members, nonmembers, gives)
    view, sides = target.view, target.sides
    source = replace(source, recipe=target.adapt(own_recipe))
    shuffled = draw_challenge(*sides, seed=seed)
    challenge = shuffled.challenge
    own_key = FingerprintKey.generate() if key is None else key
    fingerprints = identify(model, *sides, ledger, own_key, public_model=public_model)
    known = (
        shuffled.other_nonmembers
        if public is None
        else _require_disjoint(target.read("public", public), challenge.records)
    )
    # Attacks are chosen, and the model is queried, before models are trained: an error should come early.
    knowledge_of_recoveries = RecoveryKnowledge(
        view=view,
        records=challenge.records,
        public=known,
        secret=read_columns(secret, int(np.prod(features_of(challenge.records.inputs).shape[1:]))),
        sample_shape=None if sample_shape is None else tuple(sample_shape),
        seed=seed,
    )
    choice, recovering = plan_attacks(
        attacks, source.means(view, challenge.records, known), knowledge_of_recoveries
    )
    correct = target.correct(challenge)
    trained_references = source.train(shuffled, choice)
    knowledge = source.collect(shuffled, choice, trained_references, known)
    reference_models = source.describe(trained_references)
    chosen = choice.build(knowledge)
    claim = None if ledger is None else account(ledger)
    scored = [int((~challenge.members).sum())] * len(chosen)
    scored += [] if canaries is None else [int((~canaries.scores.members).sum())]
    recoveries = recovering.run(challenge)
    classes = None if target.is_regression else challenge.records.labels
    tables = (classes is not None) + (challenge.records.groups is not None) if chosen else 0
    shares = Shares.of(confidence, others=scored, tables=tables, recoveries=recoveries)
    results = [
        replace(
            judge_scores(
                attack.run(view, challenge),
                target.describe(attack.adversary),
                claim,
                OneRun(shares.bound),
                delta,
                shares,
            ),
            strength=Strength.CALIBRATED if attack.is_calibrated else Strength.TARGET_ALONE,
        )
        for attack in chosen
    ]
    if canaries is not None and own_ledger is not None:
        independent = isinstance(canaries, _JudgedCanaries) and canaries.independent
        bound = choose_canary_bound(own_ledger, shares.bound, independent=independent)
        scores = replace(canaries.scores, attack="canaries in training")
        result = judge_scores(scores, canaries.adversary, claim, bound, delta, shares, fair_coins=True)
        results.append(replace(result, planted=True))
    strongest = results[len(chosen) - 1] if chosen else None  # by its knowledge, not by its result
    audited = ModelAudit(
        name=name,
        delta=delta,
        results=results,
        claim=claim,
        ledger=ledger,
        train_accuracy=None if correct is None else float(correct[challenge.members].mean()),
        test_accuracy=None if correct is None else float(correct[~challenge.members].mean()),
        regression=target.fit(challenge),
        checks=(
            *_warn_of_missing_labels(challenge),
            *explain_choice(choice, chosen, trained_references is not None),
            *warn_of_fewer(reference_models),
            *preflight(
                view,
                challenge,
                references=knowledge.references,
                target_recipe=recipe_of(model, own_recipe),
                shadow_recipe=None if isinstance(references, References) else own_recipe,
                canaries=canary_count,
                seed=seed,
            ),
            same_size(shuffled.member_count, trained_references),
        ),
        harm=None
        if strongest is None
        else _harm(strongest.scores, shuffled, classes, correct, shares, confidence),
        reference_models=reference_models,
        population=max(population, len(sides[0])),
        fingerprints=fingerprints,
        recoveries=[judge_recoveries(each, claim, delta=delta, shares=shares) for each in recoveries],
        seconds=time.monotonic() - started,
    )
    audited = _flag_only_where_detected(audited)
    call = audit_call(
        name=name,
        recipe=own_recipe,
        reference_models=reference_models,
        attacks=choice,
        recoveries=recovering,
        public=None if public is None else known,
        ledger=given_ledger,
        delta=delta,
        confidence=confidence,
        gives=gives,
        seed=seed,
    )
    return Report(
        audits=(audited,),
        origin=Origin(command=one_line(call), version=__version__, seed=seed, call=call),
        key=own_key,
        comparison=comparison,
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
    comparison: DefenceComparison | None = None,
) -> Report:
    """The report of an attack that was run elsewhere, from its scores: higher = more likely a member.

    >>> report = audit_scores(np.arange(60.0) + 40, np.arange(60.0))
    >>> report.audits[0].results[0].leakage.auc.value
    0.9444...
    """
    started = time.monotonic()
    open_fraction("delta", delta)
    scores = Scores.of(_column("members", members), _column("nonmembers", nonmembers), attack)
    claim = None if ledger is None else account(ledger)
    shares = Shares.of(confidence, others=[int((~scores.members).sum())])
    result = judge_scores(scores, _UNKNOWN_ADVERSARY, claim, OneRun(shares.bound), delta, shares)
    secret = FingerprintKey.generate() if key is None else key
    audited = ModelAudit(
        name=name,
        delta=delta,
        results=[result],
        claim=claim,
        ledger=ledger,
        checks=(enough_records(Challenge(Records(scores.values), scores.members), fpr=1e-3),),
        population=int(scores.members.sum()),
        fingerprints=identify_scores(scores, ledger, secret),
        seconds=time.monotonic() - started,
    )
    call = scores_call(name=name, attack=attack, ledger=ledger, delta=delta, confidence=confidence)
    return Report(
        audits=(audited,),
        origin=Origin(command=one_line(call), version=__version__, call=call),
        key=secret,
        comparison=comparison,
    )


def judge_scores(
    scores: Scores,
    adversary: Adversary,
    claim: Guarantee | None,
    bound: Audit,
    delta: float,
    shares: Shares,
    *,
    fair_coins: bool = False,
) -> AttackResult:
    """One attack with its bound.

    ``fair_coins`` says that a fair coin decided on every record, as on canaries.
    """
    return AttackResult(
        adversary=adversary,
        scores=scores,
        leakage=measure(scores, confidence=shares.interval),
        finding=bound.test(scores if fair_coins else balance_sides(scores), claim, delta=delta),
        method=bound.method,
    )


def _warn_of_missing_labels(challenge: Challenge) -> tuple[Check, ...]:
    if challenge.records.labels is not None:
        return ()
    return (
        Check(
            name="labels are given",
            outcome=Outcome.WARNED,
            finding=(
                "No labels were given, so only attacks without labels were run; stronger attacks need labels."
            ),
            advice="Give (inputs, labels) for members and for non-members.",
        ),
    )


def _flag_only_where_detected(audited: ModelAudit) -> ModelAudit:
    """Records are flagged only where membership was detected, because the level of their list is not part of
    ``confidence``.
    """
    harm = audited.harm
    if harm is None or audited.detected:
        return audited
    return replace(audited, harm=replace(harm, at_risk=replace(harm.at_risk, flagged=0)))


def _harm(
    scores: Scores,
    shuffled: ShuffledChallenge,
    labels: Labels | None,
    correct: Bits | None,
    shares: Shares,
    confidence: float,
) -> Harm:
    groups = shuffled.challenge.records.groups
    risk = most_at_risk(scores)

    def accuracies(names: NDArray[Any] | None) -> tuple[GroupAccuracy, ...]:
        if names is None or correct is None:
            return ()
        return accuracy_by_group(scores.members, correct, names, confidence=confidence)

    return Harm(
        attack=scores.attack,
        at_risk=risk,
        names=tuple(str(position) for position in shuffled.positions[risk.records]),
        classes=() if labels is None else leakage_by_group(scores, labels, confidence=shares.table),
        groups=() if groups is None else leakage_by_group(scores, groups, confidence=shares.table),
        class_accuracies=accuracies(labels),
        group_accuracies=accuracies(groups),
        failure=((labels is not None) + (groups is not None)) * (1 - shares.table),
    )


def _require_disjoint(public: Records, judged: Records) -> Records:
    """The public records, or a refusal where some of them are judged: an attack must not learn from the
    records to judge.
    """
    shared = int(np.isin(public.hashes, judged.hashes).sum())
    if shared:
        raise InvalidArgument(
            f"'public' must hold other records than those that are judged, and {shared} of {len(public)} are "
            f"among them. Leave these out."
        )
    return public


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
            f"'{name}' must be one score for each record, got an array of shape {column.shape}. Give one "
            f"axis."
        )
    return column
