"""RMIA and BASE: how much more likely a record is under the target than under models in general.

Both start from ln r(x) = ln p(x | target) − ln p(x), where p is the confidence in the true label and p(x) its
mean over reference models. RMIA counts the population records z with r(x)/r(z) ≥ γ. That count is the same
step function of r(x) for all records. So with ties broken by r(x) it orders records as r(x) does, for every
γ: RMIA and BASE are one family. Counting is done by sorting. ``BaVarIA`` is the other end of the family, with
a distribution for each record.

Confidences are softened: p is the softmax of the logits divided by a temperature T. At T = 1 most
confidences are nearly 1 and p says little about them; ``at_temperature`` says what is done where the logits
are not known. T, and the constants of the offline attacks, are chosen by ``choose_setting``: what is best
against the reference models. With a single pair of them nothing can be chosen, and T = 2 with a = s = 0.33 is
taken, the defaults of the library LeakPro. No target chooses anything.

*Reference*: Zarifzadeh et al. 2024 (RMIA); Lassila et al. 2025 (BASE, and that the two are one); Brännvall
2026 (the hierarchy). Deviations, for all of them: the softmax itself, where RMIA's experiments take a Taylor
polynomial of it with a margin; several queries are averaged in ln r (RMIA takes a majority).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import final

import numpy as np

from privet.arguments import finite, positive
from privet.attacks.membership.crossfit import choose_setting
from privet.attacks.membership.pairwise import break_ties
from privet.attacks.membership.reference_attack import (
    OFFLINE,
    ONLINE,
    ReferenceAttack,
    at_temperature,
    check_temperature,
    require_out_models,
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

__all__ = [
    "BASE",
    "RMIA",
    "OfflineBASE",
    "OfflineRMIA",
    "Population",
    "choose_temperature",
    "online_log_ratio",
]

_TEMPERATURES = (2.0, 1.0, 3.0, 4.0)  # the first two are those of libraries
_CONSTANTS = (0.33, 0.0, 0.1, 0.2, 0.26, 0.42, 0.5, 0.65, 0.8, 1.0)  # of which the first is


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
    temperature: float | None = None

    name = "RMIA"
    adversary = ONLINE
    softens = True

    def __post_init__(self) -> None:
        super().__post_init__()
        positive("gamma", self.gamma)
        if self.temperature is not None:
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
        temperature = choose_temperature(self.references) if self.temperature is None else self.temperature
        ratios = online_log_ratio(target, self.references, temperature)
        if self.population is None or population is None:
            return break_ties(ratios, ratios, self.gamma)
        of_population = online_log_ratio(population, self.population.references, temperature)
        return break_ties(ratios, of_population, self.gamma)


@final
@dataclass(frozen=True, eq=False)
class OfflineRMIA(ReferenceAttack):
    """RMIA with reference models that never saw the record; strong with one to four of them.

    *Adversary*: sees the confidence in every class; knows the record, its label, reference models trained
    without it, and public records; wants its membership. Where there are models that were trained on
    it, they help to choose the temperature and ``a`` (``crossfit``), and give no score.

    p(x) = ½ ((1 + a) p̄_out + (1 − a)): training on a record is assumed to leave a share a of 1 − p. ``a``
    and ``temperature`` are chosen by attacking the reference models unless they are given; ``tune`` says
    which.

    *Reference*: Zarifzadeh et al. 2024, its approximation of p(x) for offline attacks; see this module for
    deviations; the paper tunes a on a reference model too.
    """

    references: References
    a: float | None = None
    population: Population | None = None
    gamma: float = 2.0
    queries: Sequence[QueryTransform] = (identity,)
    temperature: float | None = None

    name = "RMIA offline"
    adversary = OFFLINE
    softens = True

    def __post_init__(self) -> None:
        super().__post_init__()
        positive("gamma", self.gamma)
        if self.temperature is not None:
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
        temperature, share = self._settle()
        (ratios,) = _offline_ratios(*at_temperature(target, self.references, temperature), [share])
        if self.population is None or population is None:
            return break_ties(ratios, ratios, self.gamma)
        of_population = at_temperature(population, self.population.references, temperature)
        return break_ties(ratios, _offline_ratios(*of_population, [share])[0], self.gamma)

    def tune(self) -> "OfflineRMIA":
        """The same attack with the ``a`` and the ``temperature`` that it uses, written out."""
        temperature, share = self._settle()
        return replace(self, a=share, temperature=temperature)

    def _settle(self) -> tuple[float, float]:
        return _choose_offline(self.references, self.temperature, self.a, _offline_ratios)


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
    temperature: float | None = None

    name = "BASE"
    adversary = ONLINE
    softens = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.temperature is not None:
            check_temperature(self.temperature)

    def judge(self, target: Numbers | TargetSignals) -> Numbers:
        temperature = choose_temperature(self.references) if self.temperature is None else self.temperature
        phi, references = at_temperature(target, self.references, temperature)
        return _ratio(phi, *_means(references, np.ones_like(references.members)))


@final
@dataclass(frozen=True, eq=False)
class OfflineBASE(ReferenceAttack):
    """BASE with reference models that never saw the record; the threshold is scaled for the missing half.

    *Adversary*: sees the confidence in every class; knows the record, its label, and reference models trained
    without it; wants its membership. Where there are models that were trained on it, they help to choose the
    temperature and ``s`` (``crossfit``), and give no score.

    The score is ln p(x | target) − s ln p̄_out(x). A record that is hard for models without it is less hard
    for models with it; s < 1 accounts for that. The ``scale`` s and the ``temperature`` are chosen by
    attacking the reference models unless they are given.

    *Reference*: Lassila et al. 2025, BASE offline; see this module for deviations.
    """

    references: References
    scale: float | None = None
    queries: Sequence[QueryTransform] = (identity,)
    temperature: float | None = None

    name = "BASE offline"
    adversary = OFFLINE
    softens = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.temperature is not None:
            check_temperature(self.temperature)
        if self.scale is not None:
            finite("scale", self.scale)

    def judge(self, target: Numbers | TargetSignals) -> Numbers:
        temperature, scale = _choose_offline(
            self.references, self.temperature, self.scale, _offline_differences
        )
        return _offline_differences(*at_temperature(target, self.references, temperature), [scale])[0]


def choose_temperature(references: References) -> float:
    """The temperature that is best against the reference models online, or 2."""

    def settings(target: TargetSignals, rest: References) -> list[Numbers]:
        return [online_log_ratio(target, rest, each) for each in _TEMPERATURES]

    return _TEMPERATURES[choose_setting(references, settings, published=2) or 0]


def _choose_offline(
    references: References,
    temperature: float | None,
    constant: float | None,
    formula: Callable[[Numbers, References, Sequence[float]], list[Numbers]],
) -> tuple[float, float]:
    """The temperature and the constant (a or s) of an offline attack, where they are not given."""
    temperatures = _TEMPERATURES if temperature is None else (temperature,)
    constants = _CONSTANTS if constant is None else (constant,)
    both = [(each, value) for value in constants for each in temperatures]  # published ones first
    if len(both) == 1:
        return both[0]

    def settings(target: TargetSignals, rest: References) -> list[Numbers]:
        found = [formula(*at_temperature(target, rest, each), constants) for each in temperatures]
        return [of_one for together in zip(*found, strict=True) for of_one in together]  # in that order

    return both[choose_setting(references, settings, published=min(2, len(temperatures))) or 0]


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


def _offline_ratios(phi: Numbers, references: References, shares: Sequence[float]) -> list[Numbers]:
    """The log ratio with each value of a."""
    require_out_models(references)
    sure, rest = _means(references, ~references.members)
    return [_ratio(phi, ((1 + a) * sure + (1 - a)) / 2, (1 + a) * rest / 2) for a in shares]


def _share(rest_in: Numbers, rest_out: Numbers) -> float | None:
    """Σ (1 − p̄_in)/Σ (1 − p̄_out), at most 1, over the records that have both.

    None where there is no such record.
    """
    both = ~(np.isnan(rest_in) | np.isnan(rest_out))
    if not both.any():
        return None
    total = float(rest_out[both].sum())
    return min(1.0, float(rest_in[both].sum()) / total) if total > 0 else 1.0


def _offline_differences(phi: Numbers, references: References, scales: Sequence[float]) -> list[Numbers]:
    """The score of BASE offline with each value of s."""
    require_out_models(references)
    threshold = log_mean(*_means(references, ~references.members))
    own = log_confidence(phi)
    return [np.asarray((own - scale * threshold).mean(axis=0)) for scale in scales]


def _ratio(phi: Numbers, sure: Numbers, rest: Numbers) -> Numbers:
    """ln p(x | target) − ln p(x), averaged over queries."""
    answer: Numbers = (log_confidence(phi) - log_mean(sure, rest)).mean(axis=0)
    return answer


def _means(references: References, among: Bits) -> tuple[Numbers, Numbers]:
    """p̄ and 1 − p̄ of every query and record over some of the models."""
    return mean_confidence(references.signals, among[:, None, :].astype(np.float64))
