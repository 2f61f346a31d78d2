"""Laplace noise of scale Δ₁/ε: pure ε-differential privacy."""

from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import NDArray

from privet import events
from privet.adjacency import Adjacency
from privet.arguments import open_fraction, positive
from privet.mechanisms.additive import check_counts, check_grid, coordinate_query, event_of, grid_for
from privet.mechanisms.grids import ONE, StepGrid
from privet.mechanisms.mechanism import SECURE, Mechanism, check_adjacency
from privet.mechanisms.noise_scales import discrete_laplace_quantile, divide_up, split_failure
from privet.mechanisms.queries import CoordinateQuery
from privet.mechanisms.records import Floats
from privet.mechanisms.sampling import discrete_laplace
from privet.randomness import NoiseSource

__all__ = ["DiscreteLaplace", "Laplace"]


@final
@dataclass(frozen=True)
class Laplace(Mechanism[float | Floats]):
    """A bounded query plus Laplace noise on each coordinate, on a public grid.

    *Guarantee*: ε-DP with ε = Δ₁/scale, under ``adjacency``. The noise is a whole number of grid steps with
    P[x] ∝ exp(−|x|/scale in steps), drawn exactly. So the event is that of discrete Laplace noise, and
    nothing is idealised. The grid is a power of two: at least 2¹⁰ steps in the distance that one unit moves,
    or 2⁶ in the scale. A distance that is no multiple of it is rounded up, by less than 0.1 %, and the event
    has the larger distance.

    *Reference*: Dwork, McSherry, Nissim & Smith 2006, Theorem 1; Ghosh, Roughgarden & Sundararajan 2012 for
    the discrete noise; Mironov 2012 for why floats are not safe.

    >>> from privet.adjacency import AddRemove
    >>> from privet.mechanisms import CountWhere
    >>> blue = CountWhere(lambda eyes: eyes == "blue")
    >>> Laplace.calibrated(blue, epsilon=0.1, adjacency=AddRemove()).scale
    10.0
    """

    query: CoordinateQuery
    scale: float
    adjacency: Adjacency
    granularity: float | None = None

    def __post_init__(self) -> None:
        coordinate_query(self.query)
        positive("scale", self.scale)
        distance = self.query.distance(check_adjacency(self.adjacency))
        if self.granularity is not None:
            check_grid(self.granularity, distance)
        self.event  # noqa: B018 - refuse now what no event describes, before there is data

    @staticmethod
    def calibrated(query: CoordinateQuery, *, epsilon: float, adjacency: Adjacency) -> "Laplace":
        """The least noise that is ε-DP: scale Δ₁/ε."""
        coordinate_query(query)
        scale = query.l1(check_adjacency(adjacency)) / positive("epsilon", epsilon)
        grid = grid_for(query.distance(adjacency), scale)
        steps = query.touched_coordinates(adjacency) * query.steps(adjacency, grid)
        return Laplace(query, divide_up(steps, epsilon) * grid.granularity, adjacency, grid.granularity)

    @property
    def grid(self) -> StepGrid:
        """The grid that answers lie on."""
        if self.granularity is not None:
            return StepGrid(self.granularity)
        return grid_for(self.query.distance(self.adjacency), self.scale)

    @property
    def event(self) -> events.Event:
        steps = self.scale / self.grid.granularity
        return event_of(events.DiscreteLaplace, steps, self.query, self.adjacency, self.grid)

    def error(self, *, confidence: float) -> float:
        """With this probability no coordinate is further from the clamped answer: the exact quantile."""
        failure = split_failure(1 - open_fraction("confidence", confidence), self.query.dimension)
        steps = discrete_laplace_quantile(self.scale / self.grid.granularity, failure)
        return (steps + 0.5 * (not self.query.counts)) * self.grid.granularity

    def release(self, data: object, noise: NoiseSource = SECURE) -> float | Floats:
        grid = self.grid
        exact = self.query.evaluate(data, grid)
        draws = discrete_laplace(self.scale / grid.granularity, self.query.dimension, noise)
        values = grid.values([step + int(draw) for step, draw in zip(exact, draws, strict=True)])
        return float(values[0]) if self.query.scalar else values


@final
@dataclass(frozen=True)
class DiscreteLaplace(Mechanism[int | NDArray[np.int64]]):
    """Counts plus whole-number noise with P[x] ∝ exp(−|x|/scale), so that the answer has whole numbers.

    *Guarantee*: ε-DP with ε = Δ₁/scale, under ``adjacency``, without any rounding.

    *Reference*: Ghosh, Roughgarden & Sundararajan 2012 (the geometric mechanism).

    >>> from privet.adjacency import ReplaceOne
    >>> from privet.mechanisms import HistogramOf
    >>> hair = DiscreteLaplace.calibrated(HistogramOf(("dark", "fair")), epsilon=1.0, adjacency=ReplaceOne())
    >>> hair.event
    Repeat(inner=DiscreteLaplace(scale=2.0, contribution=0.5), times=2)
    """

    query: CoordinateQuery
    scale: float
    adjacency: Adjacency

    def __post_init__(self) -> None:
        check_counts(coordinate_query(self.query))
        positive("scale", self.scale)
        check_adjacency(self.adjacency)
        self.event  # noqa: B018 - refuse now what no event describes, before there is data

    @staticmethod
    def calibrated(query: CoordinateQuery, *, epsilon: float, adjacency: Adjacency) -> "DiscreteLaplace":
        """The least noise that is ε-DP: scale Δ₁/ε."""
        check_counts(coordinate_query(query))
        positive("epsilon", epsilon)
        total = query.touched_coordinates(check_adjacency(adjacency)) * query.steps(adjacency, ONE)
        return DiscreteLaplace(query, divide_up(total, epsilon), adjacency)

    @property
    def event(self) -> events.Event:
        return event_of(events.DiscreteLaplace, self.scale, self.query, self.adjacency, ONE)

    def error(self, *, confidence: float) -> int:
        """With this probability no coordinate is further off: the exact quantile of the noise."""
        failure = split_failure(1 - open_fraction("confidence", confidence), self.query.dimension)
        return discrete_laplace_quantile(self.scale, failure)

    def release(self, data: object, noise: NoiseSource = SECURE) -> int | NDArray[np.int64]:
        exact = np.array(self.query.evaluate(data, ONE), dtype=np.int64)
        noisy = exact + discrete_laplace(self.scale, self.query.dimension, noise)
        return int(noisy[0]) if self.query.scalar else noisy
