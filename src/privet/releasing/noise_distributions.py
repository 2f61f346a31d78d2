"""The two laws of noise on whole numbers: how they are drawn, described, and how far they reach."""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from privet.adjacency import Adjacency
from privet.events import DiscreteGaussian, DiscreteLaplace, Event, Repeat
from privet.randomness import NoiseSource

__all__ = ["GaussianLaw", "LaplaceLaw", "Law"]

_TABULATED = 1e4  # scale up to which a discrete Gaussian is summed term by term


@dataclass(frozen=True)
class Law(ABC):
    """Noise that is added to a whole number."""

    scale: float

    @abstractmethod
    def draw(self, size: int, source: NoiseSource) -> NDArray[np.int64]:
        """That many independent draws, exact."""

    @abstractmethod
    def above(self, distance: int) -> float:
        """An upper bound on P[noise ≥ distance], for a distance of at least 1."""

    @abstractmethod
    def event(self, distance: int, coordinates: int, adjacency: Adjacency) -> Event:
        """The event of a vector of which one unit moves ``coordinates`` numbers, each by ``distance`` at most."""

    @property
    @abstractmethod
    def variance(self) -> float:
        """The variance, of which the discrete and the continuous law differ by next to nothing."""

    def half_width(self, confidence: float) -> int:
        """The smallest number that the noise stays within, on either side, with this probability."""
        outside = 1 - confidence
        low, high = 0, 1
        while 2 * self.above(high + 1) > outside:
            low, high = high, 2 * high
        while low < high:
            middle = (low + high) // 2
            low, high = (low, middle) if 2 * self.above(middle + 1) <= outside else (middle + 1, high)
        return high


@final
@dataclass(frozen=True)
class LaplaceLaw(Law):
    """P[x] ∝ exp(−|x|/scale).

    *Guarantee*: a vector of whole numbers that one unit moves by at most c in the sum of absolute values, with
    this noise on each number, is dominated by one number that moves by c. So one event with the ℓ₁ distance
    describes it. Proof for two numbers that move by a and b, c = a + b; the rest is induction. With
    α = exp(−1/scale), all that counts is how far, between 0 and a, the first answer went, T₁, likewise T₂, and
    the loss is (c − 2(T₁ + T₂))/scale. T₁ has mass 1/(1+α) at 0, α^a/(1+α) at a, and (1−α)α^t/(1+α) between.
    U = T₁ + T₂ has, in multiples of α^u/(1+α), less mass at u = 0 and u = c than one number that moves by c (there
    1/(1+α) of it), and no less at every u between (there each term of the sum is at least (1−α)/(1+α), and there
    are at least two, or one of 1/(1+α)). So the two distribution functions cross once, and the law of exp(−loss),
    of mean 1 in both cases, is smaller in convex order, which is what domination means.

    >>> LaplaceLaw(10.0).half_width(0.95)
    30
    """

    def draw(self, size: int, source: NoiseSource) -> NDArray[np.int64]:
        from privet.mechanisms import sampling

        return sampling.discrete_laplace(self.scale, size, source)

    def above(self, distance: int) -> float:
        ratio = 1 / self.scale
        return min(math.exp(-distance * ratio) / (1 + math.exp(-ratio)) * (1 + 1e-12), 1.0)

    def event(self, distance: int, coordinates: int, adjacency: Adjacency) -> Event:
        one = DiscreteLaplace(self.scale, _contribution(distance, adjacency))
        return one if coordinates == 1 else Repeat(one, coordinates)

    @property
    def variance(self) -> float:
        return 2 * self.scale**2


@final
@dataclass(frozen=True)
class GaussianLaw(Law):
    """P[x] ∝ exp(−x²/2·scale²).

    >>> GaussianLaw(10.0).half_width(0.95)
    20
    """

    def draw(self, size: int, source: NoiseSource) -> NDArray[np.int64]:
        from privet.mechanisms import sampling

        return sampling.discrete_gaussian(self.scale, size, source)

    def above(self, distance: int) -> float:
        if self.scale <= _TABULATED:
            reach = np.arange(distance, distance + math.ceil(14 * self.scale) + 2, dtype=np.float64)
            # the terms that are left out are below the last one's share of a geometric series
            terms = np.exp(-0.5 * np.square(reach / self.scale))
            return min(float(terms.sum()) / self._whole() * (1 + 1e-9), 1.0)
        # A falling function's sum is at most its integral from one step before.
        return min(float(ndtr(-(distance - 1) / self.scale)) * (1 + 1e-9), 1.0)

    def _whole(self) -> float:
        """The sum over all whole numbers, from below: by Poisson summation it exceeds both of these."""
        if self.scale >= 1:
            return math.sqrt(2 * math.pi) * self.scale
        reach = np.arange(1, 16, dtype=np.float64)
        return 1 + 2 * float(np.exp(-0.5 * np.square(reach / self.scale)).sum())

    def event(self, distance: int, coordinates: int, adjacency: Adjacency) -> Event:
        one = DiscreteGaussian(self.scale, _contribution(distance, adjacency))
        return one if coordinates == 1 else Repeat(one, coordinates)

    @property
    def variance(self) -> float:
        return self.scale**2


def _contribution(distance: int, adjacency: Adjacency) -> float:
    """One unit's share of the distance between neighbours; whole where it can be."""
    share = distance / adjacency.contribution_distance
    return int(share) if share == int(share) else share
