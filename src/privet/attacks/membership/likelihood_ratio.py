"""RMIA and BASE: how much more likely a record is under the target than under models in general.

Both start from ln r(x) = ln p(x | target) − ln p(x), where p is the confidence in the true label and p(x) its
mean over reference models. RMIA counts the population records z with r(x)/r(z) ≥ γ. That count is the same
step function of r(x) for all records. So with ties broken by r(x) it orders records as r(x) does, for every
γ: RMIA and BASE are one family. Counting is done by sorting. ``BaVarIA`` is the other end of the family, with
a distribution for each record.

Confidences are softened: p is the softmax of the logits divided by a temperature T = 2. At T = 1 most
confidences are nearly 1 and p says little about them; ``at_temperature`` says what is done where the logits
are not known.

*Reference*: Zarifzadeh et al. 2024 (RMIA); Lassila et al. 2025 (BASE, and that the two are one); Brännvall
2026 (the hierarchy). T = 2 is the temperature of RMIA's experiments and of the library LeakPro, and is fixed:
no target chooses it. Deviations, for all of them: the softmax itself, where RMIA's experiments take a Taylor
polynomial of it with a margin; several queries are averaged in ln r (RMIA takes a majority).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import final

import numpy as np
from scipy.stats import rankdata

from privet.arguments import finite, positive
from privet.attacks.membership.pairwise import break_ties
from privet.attacks.membership.reference_attack import (
    OFFLINE,
    ONLINE,
    ReferenceAttack,
    at_temperature,
    check_temperature,
    require_out_models,
    soften,
)
from privet.attacks.membership.signals import (
    QueryTransform,
    TargetSignals,
    identity,
    log_confidence,
    log_mean,
    mean_confidence,
    signals,
    softened_signals,
)
from privet.errors import InvalidArgument
from privet.scores import Bits, Records, References
from privet.views import BlackBox, Numbers

__all__ = ["BASE", "RMIA", "OfflineBASE", "OfflineRMIA", "Population", "online_log_ratio"]

_DEFAULT_SHARE, _DEFAULT_SCALE = 0.3, 0.33  # where no reference model was trained on any of the records


@final
@dataclass(frozen=True, eq=False)
class Population:
    """Public records that the target was not trained on, and the signals of the same reference models for
    them.
    """

    records: Records
    references: References

    def __post_init__(self) -> None:
        object.__setattr__(self, "references", self.references.align(self.records))


@final
@dataclass(frozen=True, eq=False)
class RMIA(ReferenceAttack):
    """The share of the population that a record's ratio exceeds, with reference models of both kinds.

    *Adversary*: sees the confidence in every class; knows the record, its label, reference models trained
    with it and without it, and public records; wants its membership.

    p(x) = ½ (p̄_in + p̄_out). A record without models on one side takes 1 − p̄_in = a (1 − p̄_out), with the
    a of the records that have both. Without a population, the judged records are the population.

    *Reference*: Zarifzadeh et al. 2024, the score Pr_z(LR(x, z) ≥ γ); see this module for deviations.
    """

    references: References
    population: Population | None = None
    gamma: float = 2.0
    queries: Sequence[QueryTransform] = (identity,)
    temperature: float = 2.0

    name = "RMIA"
    adversary = ONLINE
    softens = True

    def __post_init__(self) -> None:
        super().__post_init__()
        positive("gamma", self.gamma)
        check_temperature(self.temperature)

    def score(self, view: BlackBox, records: Records) -> Numbers:
        if self.population is None:
            return super().score(view, records)
        return self.about(records).judge(
            self.query_target(view, records), _query_population(view, self.population, self.queries)
        )

    def judge(
        self, target: Numbers | TargetSignals, population: Numbers | TargetSignals | None = None
    ) -> Numbers:
        ratios = online_log_ratio(target, self.references, self.temperature)
        if self.population is None or population is None:
            return break_ties(ratios, ratios, self.gamma)
        of_population = online_log_ratio(population, self.population.references, self.temperature)
        return break_ties(ratios, of_population, self.gamma)


@final
@dataclass(frozen=True, eq=False)
class OfflineRMIA(ReferenceAttack):
    """RMIA with reference models that never saw the record; strong with one to four of them.

    *Adversary*: sees the confidence in every class; knows the record, its label, reference models trained
    without it, and public records; wants its membership.

    p(x) = ½ ((1 + a) p̄_out + (1 − a)): training on a record is assumed to leave a share a of 1 − p. Without
    an ``a``, that share is estimated from the reference models and *their* members, Σ (1 − p̄_in)/Σ (1 −
    p̄_out), and is 0.3 where none of them was trained on any of the records. ``tune`` takes the value that is
    best against the reference models. Neither uses the target.

    *Reference*: Zarifzadeh et al. 2024, its approximation of p(x) for offline attacks; see this module for
    deviations; the paper tunes a on a reference model, as ``tune`` does.
    """

    references: References
    a: float | None = None
    population: Population | None = None
    gamma: float = 2.0
    queries: Sequence[QueryTransform] = (identity,)
    temperature: float = 2.0

    name = "RMIA offline"
    adversary = OFFLINE
    softens = True

    def __post_init__(self) -> None:
        super().__post_init__()
        positive("gamma", self.gamma)
        check_temperature(self.temperature)
        if self.a is not None and not 0 <= finite("a", self.a) <= 1:
            raise InvalidArgument(f"'a' must be from 0 to 1, got {self.a!r}. 1 takes p(x) for p̄_out itself.")

    def score(self, view: BlackBox, records: Records) -> Numbers:
        if self.population is None:
            return super().score(view, records)
        return self.about(records).judge(
            self.query_target(view, records), _query_population(view, self.population, self.queries)
        )

    def judge(
        self, target: Numbers | TargetSignals, population: Numbers | TargetSignals | None = None
    ) -> Numbers:
        phi, references = at_temperature(target, self.references, self.temperature)
        share = _known_share(references) if self.a is None else self.a
        ratios = _offline_ratio(phi, references, share)
        if self.population is None or population is None:
            return break_ties(ratios, ratios, self.gamma)
        of_population = at_temperature(population, self.population.references, self.temperature)
        return break_ties(ratios, _offline_ratio(*of_population, share), self.gamma)

    @property
    def share(self) -> float:
        """The value of ``a`` that is used."""
        return _known_share(soften(self.references, self.temperature)) if self.a is None else self.a

    def tune(self) -> "OfflineRMIA":
        """The same attack with the ``a`` of the best mean AUC when each reference model in turn is the
        target.
        """
        grid = np.linspace(0.0, 1.0, 11)
        aucs = [
            auc for model in range(self.references.models) if (auc := self._trial(model, grid)) is not None
        ]
        if not aucs:
            raise InvalidArgument(
                "'references' must hold a model whose members and non-members other references left out, "
                "got none. Train four models or more on halves of the records, or choose 'a' by hand."
            )
        return replace(self, a=float(grid[int(np.argmax(np.mean(aucs, axis=0)))]))

    def _trial(self, model: int, grid: Numbers) -> Numbers | None:
        members = self.references.members
        # Neither the model itself nor its complement, whose members reveal the coin to guess.
        others = (members != ~members[model]).any(axis=1) & (np.arange(len(members)) != model)
        judged = (~members[others]).any(axis=0)
        coin = members[model][judged]
        if coin.all() or not coin.any():
            return None
        rest = self.references.pick_models(others).pick_records(judged)
        softened = self.references.softened
        of_model = TargetSignals(
            self.references.signals[model][:, judged],
            None if softened is None else softened[:, model][:, :, judged],
        )
        both = at_temperature(of_model, rest, self.temperature)
        return np.array([_auc(_offline_ratio(*both, float(a)), coin) for a in grid])


@final
@dataclass(frozen=True, eq=False)
class BASE(ReferenceAttack):
    """The target's loss against the log-mean-exp over reference models: the Bayes-optimal rule, approximated.

    *Adversary*: sees the confidence in every class; knows the record, its label, and reference models trained
    with it and without it; wants its membership.

    The score is ln p(x | target) − ln (1/K) Σ_k p_k(x), over all K reference models alike.

    *Reference*: Lassila et al. 2025, BASE; see this module for deviations.
    """

    references: References
    queries: Sequence[QueryTransform] = (identity,)
    temperature: float = 2.0

    name = "BASE"
    adversary = ONLINE
    softens = True

    def __post_init__(self) -> None:
        super().__post_init__()
        check_temperature(self.temperature)

    def judge(self, target: Numbers | TargetSignals) -> Numbers:
        phi, references = at_temperature(target, self.references, self.temperature)
        return _ratio(phi, *_means(references, np.ones_like(references.members)))


@final
@dataclass(frozen=True, eq=False)
class OfflineBASE(ReferenceAttack):
    """BASE with reference models that never saw the record; the threshold is scaled for the missing half.

    *Adversary*: sees the confidence in every class; knows the record, its label, and reference models trained
    without it; wants its membership.

    The score is ln p(x | target) − s ln p̄_out(x). A record that is hard for models without it is less hard
    for models with it; s < 1 accounts for that. Without a ``scale``, s is estimated from the reference models
    and *their* members: the slope of ln ½(p̄_in + p̄_out) on ln p̄_out over records, from 0 to 1. It is 0.33
    where none of them was trained on any of the records.

    *Reference*: Lassila et al. 2025, BASE offline; s = 0.33 is the default of the authors' library LeakPro.
    See this module for deviations, of which the estimate of s is one.
    """

    references: References
    scale: float | None = None
    queries: Sequence[QueryTransform] = (identity,)
    temperature: float = 2.0

    name = "BASE offline"
    adversary = OFFLINE
    softens = True

    def __post_init__(self) -> None:
        super().__post_init__()
        check_temperature(self.temperature)
        if self.scale is not None:
            finite("scale", self.scale)

    def judge(self, target: Numbers | TargetSignals) -> Numbers:
        phi, references = at_temperature(target, self.references, self.temperature)
        require_out_models(references)
        sure, rest = _means(references, ~references.members)
        threshold = log_mean(sure, rest)
        scale = self.scale
        if scale is None:
            scale = _slope(threshold, _means(references, references.members), (sure, rest))
        answer: Numbers = (log_confidence(phi) - scale * threshold).mean(axis=0)
        return answer


def _query_population(
    view: BlackBox, population: Population, queries: Sequence[QueryTransform]
) -> TargetSignals:
    if population.references.softened is None:
        return TargetSignals(signals(view, population.records, queries))
    return softened_signals(view, population.records, queries)


def online_log_ratio(target: Numbers | TargetSignals, references: References, temperature: float) -> Numbers:
    """ln p(x | target) − ln ½(p̄_in + p̄_out) at a temperature, averaged over queries: what RMIA ranks."""
    phi, references = at_temperature(target, references, temperature)
    sure_in, rest_in = _means(references, references.members)
    sure_out, rest_out = _means(references, ~references.members)
    lacks_in, lacks_out = np.isnan(rest_in), np.isnan(rest_out)
    a = _share(rest_in, rest_out)
    if a is None:
        raise InvalidArgument(
            "'references' must hold models with and without a record, got no record that has both. Train at "
            "least two models on different halves, or take OfflineRMIA."
        )
    rest_in = np.where(lacks_in, a * rest_out, rest_in)
    sure_in = np.where(lacks_in, 1.0 - a * rest_out, sure_in)
    rest_out = np.where(lacks_out, np.minimum(1.0, rest_in / max(a, 1e-3)), rest_out)
    sure_out = np.where(lacks_out, 1.0 - rest_out, sure_out)
    return _ratio(phi, (sure_in + sure_out) / 2, (rest_in + rest_out) / 2)


def _offline_ratio(phi: Numbers, references: References, a: float) -> Numbers:
    require_out_models(references)
    sure, rest = _means(references, ~references.members)
    return _ratio(phi, ((1 + a) * sure + (1 - a)) / 2, (1 + a) * rest / 2)


def _known_share(references: References) -> float:
    """``a`` by the references' own members, or 0.3 where they have none."""
    _, rest_in = _means(references, references.members)
    _, rest_out = _means(references, ~references.members)
    share = _share(rest_in, rest_out)
    return _DEFAULT_SHARE if share is None else share


def _share(rest_in: Numbers, rest_out: Numbers) -> float | None:
    """Σ (1 − p̄_in)/Σ (1 − p̄_out), at most 1, over the records that have both.

    None where there is no such record.
    """
    both = ~(np.isnan(rest_in) | np.isnan(rest_out))
    if not both.any():
        return None
    total = float(rest_out[both].sum())
    return min(1.0, float(rest_in[both].sum()) / total) if total > 0 else 1.0


def _slope(threshold: Numbers, trained: tuple[Numbers, Numbers], left_out: tuple[Numbers, Numbers]) -> float:
    """The slope of ln ½(p̄_in + p̄_out) on ln p̄_out, over the queries and records that have both."""
    both = ~np.isnan(trained[0])
    if both.sum() < 2:
        return _DEFAULT_SCALE
    known = threshold[both]
    middle = log_mean(*((one[both] + other[both]) / 2 for one, other in zip(trained, left_out, strict=True)))
    spread = float(((known - known.mean()) ** 2).sum())
    if spread == 0:
        return _DEFAULT_SCALE
    slope = float(((known - known.mean()) * (middle - middle.mean())).sum()) / spread
    return min(1.0, max(0.0, slope))


def _ratio(phi: Numbers, sure: Numbers, rest: Numbers) -> Numbers:
    """ln p(x | target) − ln p(x), averaged over queries."""
    answer: Numbers = (log_confidence(phi) - log_mean(sure, rest)).mean(axis=0)
    return answer


def _means(references: References, among: Bits) -> tuple[Numbers, Numbers]:
    """p̄ and 1 − p̄ of every query and record over some of the models."""
    return mean_confidence(references.signals, among[:, None, :].astype(np.float64))


def _auc(scores: Numbers, coin: Bits) -> float:
    """Mann–Whitney, ties counted half."""
    members = int(coin.sum())
    ranks = float(rankdata(scores)[coin].sum())
    return (ranks - members * (members + 1) / 2) / (members * (len(coin) - members))
