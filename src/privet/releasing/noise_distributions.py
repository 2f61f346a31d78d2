"""Noise on whole numbers, of two distributions: how it is drawn, what event it is, and how far it reaches."""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from privet.adjacency import Adjacency
from privet.events import DiscreteGaussian, DiscreteLaplace, Event, Repeat
from privet.mechanisms import sampling
from privet.randomness import NoiseSource

__all__ = ["DiscreteGaussianNoise", "DiscreteLaplaceNoise", "IntegerNoise"]

_TABULATED = 1e4  # scale up to which a discrete Gaussian is summed term by term


@dataclass(frozen=True)
class IntegerNoise(ABC):
    """Noise that is added to a whole number."""

    scale: float

    @abstractmethod
    def draw(self, size: int, source: NoiseSource) -> NDArray[np.int64]:
        """So many independent draws, exactly of this distribution."""

    @abstractmethod
    def above(self, distance: int) -> float:
        """An upper bound on P[noise ≥ distance], for a distance of at least 1."""

    @abstractmethod
    def event(self, distance: int, coordinates: int, adjacency: Adjacency) -> Event:
        """The event of noise on a vector; one unit moves ``coordinates`` numbers by ``distance`` each."""

    @property
    @abstractmethod
    def variance(self) -> float:
        """The variance of the continuous distribution, which is nearly that of the discrete one."""

    def half_width(self, confidence: float) -> int:
        """The smallest number that the noise's absolute value does not exceed, with this probability."""
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
class DiscreteLaplaceNoise(IntegerNoise):
    """P[x] ∝ exp(−|x|/scale).

    *Guarantee*: a vector of whole numbers that one unit moves by at most c in the sum of absolute values,
    with this noise on each number, is dominated by one number that moves by c. So one event with the ℓ₁
    distance describes it.

    *Proof* for two numbers that move by a and b, c = a + b; the rest is induction. Let α = exp(−1/scale).
    Only T₁ and T₂ matter: how far, between 0 and a, or 0 and b, the two answers went. The loss is (c − 2(T₁ +
    T₂))/scale. T₁ has mass 1/(1+α) at 0, α^a/(1+α) at a, and (1−α)α^t/(1+α) between. Compare U = T₁ + T₂ with
    one number that moves by c, in multiples of α^u/(1+α). At u = 0 and u = c, U has less mass (1/(1+α) of
    it). At every u between, it has no less: each term of the sum is at least (1−α)/(1+α), and there are at
    least two terms, or one of 1/(1+α). So the two distribution functions cross once. So the distribution of
    exp(−loss), which has mean 1 in both cases, is smaller in convex order, which is what domination means.

    >>> DiscreteLaplaceNoise(10.0).half_width(0.95)
    30
    """

    def draw(self, size: int, source: NoiseSource) -> NDArray[np.int64]:
        return sampling.discrete_laplace(self.scale, size, source)

    def above(self, distance: int) -> float:
        ratio = 1 / self.scale
        return min(math.exp(-distance * ratio) / (1 + math.exp(-ratio)) * (1 + 1e-12), 1.0)

    def event(self, distance: int, coordinates: int, adjacency: Adjacency) -> Event:
        single = DiscreteLaplace(self.scale, _contribution(distance, adjacency))
        return single if coordinates == 1 else Repeat(single, coordinates)

    @property
    def variance(self) -> float:
        return 2 * self.scale**2


@final
@dataclass(frozen=True)
class DiscreteGaussianNoise(IntegerNoise):
    """P[x] ∝ exp(−x²/2·scale²).

    >>> DiscreteGaussianNoise(10.0).half_width(0.95)
    20
    """

    def draw(self, size: int, source: NoiseSource) -> NDArray[np.int64]:
        return sampling.discrete_gaussian(self.scale, size, source)

    def above(self, distance: int) -> float:
        if self.scale <= _TABULATED:
            points = np.arange(distance, distance + math.ceil(14 * self.scale) + 2, dtype=np.float64)
            # The terms beyond add up to less than a geometric series that starts at the last one.
            terms = np.exp(-0.5 * np.square(points / self.scale))
            return min(float(terms.sum()) / self._least_total() * (1 + 1e-9), 1.0)
        # The sum of a falling function is at most its integral from one step before.
        return min(float(ndtr(-(distance - 1) / self.scale)) * (1 + 1e-9), 1.0)

    def _least_total(self) -> float:
        """A lower bound on the sum over all whole numbers: by Poisson summation it exceeds both of these."""
        if self.scale >= 1:
            return math.sqrt(2 * math.pi) * self.scale
        points = np.arange(1, 16, dtype=np.float64)
        return 1 + 2 * float(np.exp(-0.5 * np.square(points / self.scale)).sum())

    def event(self, distance: int, coordinates: int, adjacency: Adjacency) -> Event:
        single = DiscreteGaussian(self.scale, _contribution(distance, adjacency))
        return single if coordinates == 1 else Repeat(single, coordinates)

    @property
    def variance(self) -> float:
        return self.scale**2


def _contribution(distance: int, adjacency: Adjacency) -> float:
    """One unit's share of the distance between neighbours; whole where it can be."""
    share = distance / adjacency.contribution_distance
    return int(share) if share == int(share) else share
