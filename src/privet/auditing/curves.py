"""Families of trade-off curves.

A bound refutes curves of a family one after the other, until the data allow one.

A mechanism is f-DP if no test of one unit has a false-negative rate below f(false-positive rate). A family
orders such curves by one parameter, the larger the less private. A bound over a family says "the parameter is
at least this"; it is a bound on ε if the true curve is in the family. For ``ApproximateCurves`` it always is,
because that family *is* (ε, δ)-DP.

Reference: Dong, Roth & Su 2022 (numbers of arXiv 1905.02383), Definition 2.3, Proposition 2.5 (approximate)
and Corollary 2.13 (Gaussian).
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias, final

import numpy as np
from numpy.typing import NDArray
from scipy.special import erfcx, log_ndtr, ndtr, ndtri

from privet.auditing.audits import check_delta
from privet.errors import InvalidArgument

__all__ = [
    "NEAR_NOTHING",
    "ApproximateCurves",
    "Curves",
    "GaussianCurves",
    "OneCurve",
    "SwapCurves",
    "gaussian_epsilon",
]

FloatArray: TypeAlias = NDArray[Any]  # of float64; scipy's functions do not say so

NEAR_NOTHING = 1e-4  # the smallest parameter that is tested: at 0 some families are degenerate
_HALVINGS = 60
_LARGEST_MU = 1e4
_FEWER_HALVINGS = 40  # of 45 standard deviations; the rounding makes the share smaller, so less is refuted
_FARTHEST = 45.0  # standard deviations; Φ(−45) is 0 in float64


class Curves(ABC):
    """A family of trade-off curves with one parameter, from 0 (perfect privacy) up to ``largest``."""

    largest: float = 200.0  # the search for a parameter ends here
    is_symmetric: bool = True  # whether "in against out" and "out against in" have the same curve

    @property
    @abstractmethod
    def shape(self) -> str:
        """The assumption of the family, as a clause."""

    @abstractmethod
    def least_false(self, parameter: float, true: float) -> float:
        """The least false-positive rate at which this true-positive rate is possible: f̄⁻¹ for f̄ = 1 − f."""

    @abstractmethod
    def false_share(self, parameter: float, mass: FloatArray) -> FloatArray:
        """x with x + f̄(x) = mass, for masses in (0, 1].

        Among n records, take the share ``mass`` that is easiest to guess: x/mass of these guesses are wrong.
        At x the likelihood ratio has fallen to its value at the edge of that share, and by symmetry "in" and
        "out" are half of it each. (A family whose pairs are not symmetric gives the wrong guesses directly.)
        """

    @abstractmethod
    def members_below(self, parameter: float, others: FloatArray) -> FloatArray:
        """The least share of members below the threshold that has these shares of others below it: f itself.

        It is f(1 − others), the false-negative rate at the false-positive rate 1 − ``others``.
        """

    @abstractmethod
    def epsilon(self, parameter: float, delta: float) -> float:
        """ε at this δ of this member of the family."""


@final
@dataclass(frozen=True)
class GaussianCurves(Curves):
    """μ-GDP: as hard as telling N(0, 1) from N(μ, 1).

    It holds for Gaussian noise, and in the limit of many small steps.
    """

    @property
    def shape(self) -> str:
        return "the mechanism's trade-off curve is Gaussian"

    def least_false(self, parameter: float, true: float) -> float:
        return float(ndtr(ndtri(true) - parameter))

    def false_share(self, parameter: float, mass: FloatArray) -> FloatArray:
        half = parameter / 2
        if (mass >= 1).all():
            return np.full_like(mass, ndtr(-half))
        low, high = np.zeros_like(mass), np.full_like(mass, half + _FARTHEST)
        for _ in range(_FEWER_HALVINGS):  # the threshold t with Φ(μ/2 − t) + Φ(−μ/2 − t) = mass
            middle = 0.5 * (low + high)
            beyond = ndtr(half - middle) + ndtr(-half - middle) > mass
            low, high = np.where(beyond, middle, low), np.where(beyond, high, middle)
        return np.where(mass >= 1, ndtr(-half), ndtr(-half - high))

    def members_below(self, parameter: float, others: FloatArray) -> FloatArray:
        return np.asarray(ndtr(ndtri(others) - parameter))

    def epsilon(self, parameter: float, delta: float) -> float:
        return gaussian_epsilon(parameter, delta)


@final
@dataclass(frozen=True)
class ApproximateCurves(Curves):
    """(ε, δ)-DP at one δ, without any assumption on the shape."""

    delta: float

    def __post_init__(self) -> None:
        check_delta(self.delta)

    @property
    def shape(self) -> str:
        return "nothing is assumed of the mechanism's trade-off curve"

    def least_false(self, parameter: float, true: float) -> float:
        first = (true - self.delta) * math.exp(-parameter)
        second = 1 - self.delta - math.exp(min(parameter, 700.0)) * (1 - true)
        return max(first, second, 0.0)

    def false_share(self, parameter: float, mass: FloatArray) -> FloatArray:
        return np.maximum(mass - self.delta, 0.0) / (1 + math.exp(min(parameter, 700.0)))

    def members_below(self, parameter: float, others: FloatArray) -> FloatArray:
        first = 1 - self.delta - math.exp(min(parameter, 700.0)) * (1 - others)
        return np.maximum(np.maximum(first, math.exp(-parameter) * (others - self.delta)), 0.0)

    def epsilon(self, parameter: float, delta: float) -> float:
        if delta != self.delta:
            raise InvalidArgument(
                f"'delta' must be that of the curves, {self.delta!r}, got {delta!r}. Make the curves for "
                f"this δ."
            )
        return parameter


@final
@dataclass(frozen=True)
class SwapCurves(Curves):
    """Two steps of a family: a unit is taken out, and another one is put in.

    A claim about adding or removing a unit bounds an exchange through the dataset between the two: f̄(f̄(x)).

    Reference: Dong, Roth & Su 2022, Theorem 2.14 of arXiv 1905.02383 (groups of two).
    """

    steps: Curves

    @property
    def shape(self) -> str:
        return self.steps.shape

    def least_false(self, parameter: float, true: float) -> float:
        return self.steps.least_false(parameter, self.steps.least_false(parameter, true))

    def false_share(self, parameter: float, mass: FloatArray) -> FloatArray:
        def share(mass: float) -> float:
            return _first(lambda fpr: self.least_false(parameter, mass - fpr) <= fpr)

        return np.array([share(value) for value in np.asarray(mass).ravel()])

    def members_below(self, parameter: float, others: FloatArray) -> FloatArray:
        return self.steps.members_below(parameter, self.steps.members_below(parameter, others))

    def epsilon(self, parameter: float, delta: float) -> float:
        return self.steps.epsilon(parameter, delta)


@final
@dataclass(frozen=True)
class OneCurve(Curves):
    """A single symmetric trade-off curve: ``tradeoff(fpr)`` is the least false-negative rate.

    It has no parameter.
    """

    tradeoff: Callable[[float], float]

    @property
    def shape(self) -> str:
        return "the curve is the one that was given"

    def least_false(self, parameter: float, true: float) -> float:
        del parameter
        return _first(lambda fpr: 1 - self._rate(fpr) >= true)

    def false_share(self, parameter: float, mass: FloatArray) -> FloatArray:
        del parameter

        def share(mass: float) -> float:
            return _first(lambda fpr: fpr + 1 - self._rate(fpr) >= mass)

        return np.array([share(value) for value in mass.ravel()])

    def members_below(self, parameter: float, others: FloatArray) -> FloatArray:
        del parameter
        return np.array([self._rate(1 - float(share)) for share in others.ravel()]).reshape(others.shape)

    def _rate(self, fpr: float) -> float:
        found = self.tradeoff(fpr)
        if not isinstance(found, (int, float, np.number)):
            raise InvalidArgument(
                f"'tradeoff' must give a false-negative rate for every rate, got {type(found).__name__}. "
                "Return a number."
            )
        return float(found)

    def epsilon(self, parameter: float, delta: float) -> float:
        raise InvalidArgument(
            "'curves' must be a family for a bound on ε, got one curve. Call 'refutes' with it, or give a "
            "family of curves."
        )


def gaussian_epsilon(mu: float, delta: float) -> float:
    """ε of μ-GDP at a δ above 0, rounded down: δ(ε) = Φ(μ/2 − ε/μ) − exp(ε) Φ(−μ/2 − ε/μ).

    Written as φ(a)(R(a) − R(a + μ)) with a = ε/μ − μ/2 and Mills' ratio R where both tails are small. It
    shares no code with the accountants on purpose.

    A μ above 10⁴ counts as 10⁴: there ε is about 5 · 10⁷, above it the digits of float64 are lost in
    ε + log Φ, and ε grows with μ, so that the answer is still rounded down.

    Reference: Dong, Roth & Su 2022, Corollary 2.13 of arXiv 1905.02383; Balle & Wang 2018, Theorem 8.

    >>> round(gaussian_epsilon(1.0, 1e-5), 3)
    4.377
    """
    if delta == 0:
        raise InvalidArgument(
            "'delta' must be above 0 for Gaussian curves, got 0, because at δ = 0 their ε is infinite. "
            "Give the δ of the claim."
        )
    if not 0 < delta < 1:
        raise InvalidArgument(
            f"'delta' must lie strictly between 0 and 1, got {delta!r}. Give the δ of the claim."
        )
    mu = min(mu, _LARGEST_MU)
    if mu <= 0 or _gaussian_delta(mu, 0.0) <= delta:
        return 0.0
    low, high = 0.0, mu * (mu / 2 + math.sqrt(2 * math.log(1 / delta)) + 1)
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if _gaussian_delta(mu, middle) > delta else (low, middle)
    return low


def _gaussian_delta(mu: float, epsilon: float) -> float:
    start = epsilon / mu - mu / 2
    if start < 0:
        return float(ndtr(-start) - math.exp(epsilon + float(log_ndtr(-start - mu))))
    scale = math.sqrt(0.5)
    ratios = float(erfcx(scale * start) - erfcx(scale * (start + mu)))
    return 0.5 * math.exp(-0.5 * start * start) * ratios


def _first(reached: Callable[[float], bool]) -> float:
    """The smallest rate at which ``reached`` is true, rounded down, so that less is refuted."""
    low, high = 0.0, 1.0
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        low, high = (low, middle) if reached(middle) else (middle, high)
    return low
