"""How many runs a search makes: a random number, whose law is public and whose value is secret."""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import final

from scipy.optimize import brentq

from privet.arguments import finite
from privet.errors import InvalidArgument
from privet.events import BestOfNegativeBinomial, BestOfPoisson, Event
from privet.mechanisms.sampling import uniform_integers
from privet.randomness import NoiseSource

__all__ = ["NegativeBinomialCount", "PoissonCount", "RunCount"]

_BITS = 62  # of the uniform number from which a count follows
_LARGEST_MEAN = 500
_MOST = 10**6


class RunCount(ABC):
    """The law of the number of runs."""

    mean: float

    @abstractmethod
    def best_of(self, candidates: tuple[Event, ...]) -> Event:
        """The event of the best of that many runs."""

    @abstractmethod
    def first_mass(self) -> tuple[int, float]:
        """The least number of runs, and its probability."""

    @abstractmethod
    def mass_ratio(self, runs: int) -> float:
        """P[runs + 1]/P[runs]."""

    @abstractmethod
    def chance_to_miss(self, share: float) -> float:
        """The probability that no run has a recipe among the given share of all recipes: E[(1 − share)^K]."""

    def draw(self, noise: NoiseSource) -> int:
        """A secret number of runs, by inversion of its law, which is exact up to 2⁻⁵⁰ in total."""
        uniform = int(uniform_integers(2**_BITS, 1, noise)[0]) / 2**_BITS
        runs, mass = self.first_mass()
        total = mass
        while total <= uniform and runs < _MOST and mass > 1e-18:
            mass *= self.mass_ratio(runs)
            runs += 1
            total += mass
        return runs


@final
@dataclass(frozen=True)
class PoissonCount(RunCount):
    """A Poisson number of runs: concentrated around its mean, and dearer than the others. It may be 0."""

    mean: float

    def __post_init__(self) -> None:
        _check_mean(self.mean, least=1.0)

    def best_of(self, candidates: tuple[Event, ...]) -> Event:
        return BestOfPoisson(candidates, self.mean)

    def first_mass(self) -> tuple[int, float]:
        return 0, math.exp(-self.mean)

    def mass_ratio(self, runs: int) -> float:
        return self.mean / (runs + 1)

    def chance_to_miss(self, share: float) -> float:
        return math.exp(-self.mean * share)


@final
@dataclass(frozen=True)
class NegativeBinomialCount(RunCount):
    """A truncated negative binomial number of runs, at least 1. ``shape`` 1 is the geometric law, 0 the
    logarithmic law; a larger shape is more concentrated and dearer.

    >>> round(NegativeBinomialCount(10, shape=1).stop, 6)
    0.1
    """

    mean: float
    shape: float = 1.0

    def __post_init__(self) -> None:
        _check_mean(self.mean, least=1.01)
        if not -0.9 <= finite("shape", self.shape) <= 100:
            raise InvalidArgument(
                f"'shape' must be between -0.9 and 100, got {self.shape!r}. 1 is the geometric law."
            )

    @cached_property
    def stop(self) -> float:
        """γ, for which the mean is the given one."""

        def excess(log_stop: float) -> float:
            return _mean_at(self.shape, math.exp(log_stop)) - self.mean

        return math.exp(float(brentq(excess, math.log(1e-14), math.log1p(-1e-9), xtol=1e-13)))

    def best_of(self, candidates: tuple[Event, ...]) -> Event:
        return BestOfNegativeBinomial(candidates, self.shape, self.stop)

    def first_mass(self) -> tuple[int, float]:
        if abs(self.shape) < 1e-9:
            return 1, (1 - self.stop) / math.log(1 / self.stop)
        return 1, (1 - self.stop) * self.shape / math.expm1(-self.shape * math.log(self.stop))

    def mass_ratio(self, runs: int) -> float:
        return (1 - self.stop) * (runs + self.shape) / (runs + 1)

    def chance_to_miss(self, share: float) -> float:
        left, whole = math.log(self.stop + (1 - self.stop) * share), math.log(self.stop)
        if abs(self.shape * whole) < 1e-12:
            return left / whole
        return math.expm1(-self.shape * left) / math.expm1(-self.shape * whole)


def _mean_at(shape: float, stop: float) -> float:
    growth, odds = -shape * math.log(stop), 1 / stop - 1
    return odds / -math.log(stop) if abs(growth) < 1e-12 else shape * odds / -math.expm1(-growth)


def _check_mean(mean: float, *, least: float) -> None:
    if not least <= finite("mean", mean) <= _LARGEST_MEAN:
        raise InvalidArgument(
            f"'mean' must be a number of runs between {least:g} and {_LARGEST_MEAN}, got {mean!r}. "
            f"10 to 30 runs are common."
        )
