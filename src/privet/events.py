"""What was done to the data, as a frozen tree. An event is never removed and never re-meant.

Leaves describe one look at the data; ``Poisson`` and ``FixedSize`` say that it looked at a random
sample; ``Repeat``, ``Compose`` and ``Parallel`` say how looks add up. Noise is always relative to the
bound C on *one* unit's contribution, so one event can be read under every adjacency.

>>> step = Poisson(256 / 60_000, Gaussian(1.1))
>>> Repeat(step, 14_062) == dp_sgd(noise_multiplier=1.1, sampling_rate=256 / 60_000, steps=14_062)
True
"""

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar, final

from privet.arguments import at_least, finite, fraction, halves, open_fraction, positive, whole
from privet.errors import InvalidArgument
from privet.event_arguments import (
    MOST_COUNTED,
    Event,
    check_candidates,
    check_correlated,
    check_event,
    check_mean,
    check_parts,
    check_shape,
    check_shares,
)
from privet.public_calls import check_public_calls

__all__ = [
    "BandedNoise",
    "BestOfNegativeBinomial",
    "BestOfPoisson",
    "Compose",
    "DiscreteGaussian",
    "DiscreteGaussianShares",
    "DiscreteLaplace",
    "Event",
    "ExponentialMechanism",
    "FixedSize",
    "Gaussian",
    "Laplace",
    "Opaque",
    "Parallel",
    "Poisson",
    "RandomizedResponse",
    "Repeat",
    "ReportNoisyMax",
    "SparseVector",
    "TreeNoise",
    "banded_dp_sgd",
    "classic_gaussian",
    "dp_sgd",
]


@final
@dataclass(frozen=True)
class Gaussian(Event):
    """A sum plus N(0, (noise_multiplier · C)²) on each coordinate, C a bound on the ℓ₂ norm."""

    is_sum: ClassVar[bool] = True

    noise_multiplier: float

    def __post_init__(self) -> None:
        positive("noise_multiplier", self.noise_multiplier)


@final
@dataclass(frozen=True)
class Laplace(Event):
    """A sum plus Laplace noise of scale noise_multiplier · C, C a bound on the ℓ₁ norm."""

    is_sum: ClassVar[bool] = True

    noise_multiplier: float

    def __post_init__(self) -> None:
        positive("noise_multiplier", self.noise_multiplier)


@final
@dataclass(frozen=True)
class DiscreteGaussian(Event):
    """A whole number plus P[x] ∝ exp(−x²/2·scale²); one unit contributes at most ``contribution``.

    An odd number of halves is for replace-one adjacency, where only the distance of two contributions counts:
    that of a count, between 0 and 1, is 2 · ½.
    """

    is_sum: ClassVar[bool] = True

    scale: float
    contribution: float = 1

    def __post_init__(self) -> None:
        positive("scale", self.scale)
        halves("contribution", self.contribution, most=MOST_COUNTED)


@final
@dataclass(frozen=True)
class DiscreteLaplace(Event):
    """A whole number plus P[x] ∝ exp(−|x|/scale); one unit contributes at most ``contribution``.

    An odd number of halves is for replace-one adjacency, where only the distance of two contributions counts:
    that of a count, between 0 and 1, is 2 · ½.
    """

    is_sum: ClassVar[bool] = True

    scale: float
    contribution: float = 1

    def __post_init__(self) -> None:
        positive("scale", self.scale)
        halves("contribution", self.contribution, most=MOST_COUNTED)


@final
@dataclass(frozen=True)
class DiscreteGaussianShares(Event):
    """Whole numbers plus ``shares`` independent discrete Gaussians of ``scale`` on each coordinate.

    One unit moves them by at most ``contribution`` in ℓ₂ norm. A share is one party's, and it is seen whose.
    """

    scale: float
    shares: int
    contribution: float
    coordinates: int

    def __post_init__(self) -> None:
        check_shares(self.scale, self.shares, self.contribution, self.coordinates)


@final
@dataclass(frozen=True)
class RandomizedResponse(Event):
    """Each person tells the truth with probability ``truth``, else one of the other answers at random.

    A coin flip that asks for the truth on heads and for a second coin on tails has ``truth`` = ¾.
    """

    truth: float
    categories: int = 2

    def __post_init__(self) -> None:
        open_fraction("truth", self.truth)
        whole("categories", self.categories, least=2, most=MOST_COUNTED)
        if self.truth * self.categories < 1:
            raise InvalidArgument(
                f"'truth' must be at least 1/categories = {1 / self.categories:.4g}, got {self.truth!r}. "
                f"An answer that is true less often than chance is told the other way round."
            )


@final
@dataclass(frozen=True, kw_only=True)
class ExponentialMechanism(Event):
    """One choice out of public candidates with P ∝ exp(ε · utility / 2Δ), or by Gumbel noise.

    ``epsilon`` is also the length of the interval that the privacy loss lies in (its bounded range,
    Dong, Durfee & Rogers 2020), under the adjacency of the ledger.
    """

    epsilon: float

    def __post_init__(self) -> None:
        positive("epsilon", self.epsilon)


@final
@dataclass(frozen=True, kw_only=True)
class ReportNoisyMax(Event):
    """The index of the largest noisy score (Laplace or exponential noise; permute-and-flip): ε-DP."""

    epsilon: float

    def __post_init__(self) -> None:
        positive("epsilon", self.epsilon)


@final
@dataclass(frozen=True, kw_only=True)
class SparseVector(Event):
    """Above-threshold answers until ``positives`` of them were given: ``epsilon`` for all together."""

    epsilon: float
    positives: int = 1

    def __post_init__(self) -> None:
        positive("epsilon", self.epsilon)
        whole("positives", self.positives, most=MOST_COUNTED)


@final
@dataclass(frozen=True, kw_only=True)
class Opaque(Event):
    """Anything that is (ε, δ)-DP under the adjacency of the ledger and of which no more is known."""

    epsilon: float
    delta: float = 0.0

    def __post_init__(self) -> None:
        at_least("epsilon", self.epsilon, 0)
        if not 0 <= finite("delta", self.delta) < 1:
            raise InvalidArgument(
                f"'delta' must be at least 0 and below 1, got {self.delta!r}. Give a probability."
            )


@final
@dataclass(frozen=True)
class TreeNoise(Event):
    """Running sums of ``steps`` contributions, from a binary tree with Gaussian noise on every node.

    A unit contributes at most ``participations`` times, at least ``separation`` steps apart.
    Reference: Kairouz et al. 2021 (DP-FTRL).
    """

    is_sum: ClassVar[bool] = True

    noise_multiplier: float
    steps: int
    separation: int = 1
    participations: int = 1

    def __post_init__(self) -> None:
        check_correlated(self.noise_multiplier, self.steps, self.separation, self.participations)


@final
@dataclass(frozen=True)
class BandedNoise(Event):
    """Noise C⁻¹z added to the gradients of ``steps`` steps, C lower-triangular Toeplitz.

    ``coefficients`` is C's first column without its zeros: non-negative, not increasing.
    A unit contributes at most ``participations`` times, at least ``separation`` steps apart.
    Reference: Choquette-Choo et al. 2023; Kalinin & Lampert 2024.
    """

    is_sum: ClassVar[bool] = True

    noise_multiplier: float
    coefficients: tuple[float, ...]
    steps: int
    separation: int = 1
    participations: int = 1

    def __post_init__(self) -> None:
        check_correlated(self.noise_multiplier, self.steps, self.separation, self.participations)
        column = self.coefficients
        if not column or not isinstance(column, tuple):
            raise InvalidArgument(
                f"'coefficients' must be a tuple with at least one number, got {column!r}. "
                f"(1.0,) is independent noise."
            )
        for value in column:
            at_least("coefficients", value, 0)
        if positive("coefficients[0]", column[0]) and any(
            later > earlier for earlier, later in pairwise(column)
        ):
            raise InvalidArgument(
                "'coefficients' must not increase, because the sensitivity theorem needs it. "
                "Give the first column of a factor whose entries fall along the band."
            )
        if len(column) > self.steps:
            raise InvalidArgument(
                f"'coefficients' must not be longer than 'steps' = {self.steps}, got {len(column)}. "
                f"Cut the column off at the number of steps."
            )


@final
@dataclass(frozen=True)
class Poisson(Event):
    """``inner`` saw a Poisson sample: every unit is in it with probability ``rate``, independently."""

    rate: float
    inner: Event

    def __post_init__(self) -> None:
        fraction("rate", self.rate)
        check_event("inner", self.inner)


@final
@dataclass(frozen=True)
class FixedSize(Event):
    """``inner`` saw ``size`` of ``population`` units, drawn afresh, uniformly, without replacement.

    Under add-remove adjacency ``population`` is the size of the larger of the two neighbours.
    """

    size: int
    population: int
    inner: Event

    def __post_init__(self) -> None:
        whole("size", self.size, most=MOST_COUNTED)
        whole("population", self.population, most=MOST_COUNTED)
        if self.size > self.population:
            raise InvalidArgument(
                f"'size' must not exceed 'population' = {self.population}, got {self.size}. "
                f"A sample without replacement is at most everybody."
            )
        check_event("inner", self.inner)


@final
@dataclass(frozen=True)
class Repeat(Event):
    """``inner``, ``times`` times over on the same data."""

    inner: Event
    times: int

    def __post_init__(self) -> None:
        whole("times", self.times, most=MOST_COUNTED)
        check_event("inner", self.inner)


@final
@dataclass(frozen=True)
class Compose(Event):
    """All the parts on the same data, each chosen in view of the answers of those before it."""

    parts: tuple[Event, ...]

    def __post_init__(self) -> None:
        check_parts(self.parts)


@final
@dataclass(frozen=True)
class Parallel(Event):
    """The parts on disjoint sets of units, split by a rule that does not look at the other units."""

    parts: tuple[Event, ...]

    def __post_init__(self) -> None:
        check_parts(self.parts)
        if not self.parts:
            raise InvalidArgument("'parts' must not be empty, got (). Give the parts that ran.")


@final
@dataclass(frozen=True)
class BestOfPoisson(Event):
    """The best of K runs, K ~ Poisson(``mean``); nothing is shown if K = 0.

    Each run is one of the ``candidates``, drawn by public probabilities, and gives a result with a score. A
    candidate's event must cover both. Of all results only the one with the highest score is shown; K and the
    other results stay secret. Equal scores are told apart at random, or by who came first. All runs are
    fixed beforehand: no run depends on an earlier one.
    """

    candidates: tuple[Event, ...]
    mean: float

    def __post_init__(self) -> None:
        check_candidates(self.candidates)
        check_mean(self.mean)


@final
@dataclass(frozen=True)
class BestOfNegativeBinomial(Event):
    """The best of K ≥ 1 runs, K truncated negative binomial: P[K = k] ∝ (1 − γ)ᵏ Γ(k + η)/(k! Γ(η)).

    ``shape`` is η > −1, and ``stop`` is γ, strictly between 0 and 1. η = 1 is the geometric law: after each
    run a coin of probability γ ends the search. η = 0 is the logarithmic law. For the rest see
    ``BestOfPoisson``.

    >>> round(BestOfNegativeBinomial((Gaussian(2.0),), shape=1, stop=0.1).mean, 6)
    10.0
    """

    candidates: tuple[Event, ...]
    shape: float
    stop: float

    def __post_init__(self) -> None:
        check_candidates(self.candidates)
        check_shape(self.shape)
        open_fraction("stop", self.stop)
        check_mean(self.mean)

    @property
    def mean(self) -> float:
        """E[K] = η (1 − γ)/(γ (1 − γ^η)); for η = 0 (1/γ − 1)/ln(1/γ)."""
        growth = -self.shape * math.log(self.stop)  # −ln γ^η; near 0 the quotient below is its limit
        odds = 1 / self.stop - 1
        if abs(growth) < 1e-12:
            return odds / -math.log(self.stop)
        return self.shape * odds / -math.expm1(-growth)


def dp_sgd(*, noise_multiplier: float, sampling_rate: float, steps: int) -> Event:
    """DP-SGD (Abadi et al. 2016): ``steps`` noisy sums of clipped gradients over Poisson lots."""
    whole("steps", steps)
    return Repeat(Poisson(sampling_rate, Gaussian(noise_multiplier)), steps)


def banded_dp_sgd(
    *, noise_multiplier: float, coefficients: tuple[float, ...], sampling_rate: float, steps: int
) -> Event:
    """Correlated-noise training with amplification by sampling.

    The units are split into b = len(coefficients) fixed parts of equal size, known before training;
    step i draws a Poisson lot at rate b · sampling_rate from part i mod b alone. A unit then meets
    noise that is independent between its ⌈steps/b⌉ turns, each scaled by the norm of C's column.

    Reference: Choquette-Choo et al. 2023, "(Amplified) Banded Matrix Factorization", Theorem 4.
    """
    whole("steps", steps, most=MOST_COUNTED)
    bands = len(BandedNoise(noise_multiplier, coefficients, steps).coefficients)
    norm = sum(value * value for value in coefficients) ** 0.5
    rate = bands * fraction("sampling_rate", sampling_rate)
    if rate > 1:
        raise InvalidArgument(
            f"'sampling_rate' times the number of bands must be at most 1, got {sampling_rate!r} x {bands}. "
            f"Use fewer bands or smaller lots."
        )
    turns = -(-steps // bands)
    return Repeat(Poisson(rate, Gaussian(noise_multiplier / norm)), turns)


def classic_gaussian(*, epsilon: float, delta: float) -> Event:
    """The Gaussian mechanism with σ/Δ₂ = √(2 ln(1.25/δ))/ε, whose proof needs ε < 1.

    The event is that of the noise itself, so an accountant reports its true ε, which is smaller.

    Reference: Dwork & Roth 2014, Theorem A.1.
    """
    positive("epsilon", epsilon)
    open_fraction("delta", delta)
    if epsilon >= 1:
        raise InvalidArgument(
            f"'epsilon' must be below 1 for the classic Gaussian mechanism, got {epsilon!r}, because its "
            f"theorem does not hold there. Use privet.calibrate with Gaussian, which is exact for every ε."
        )
    return Gaussian(math.sqrt(2 * math.log(1.25 / delta)) / epsilon)


check_public_calls(__name__)
