"""Gaussian noise of a scale relative to Δ₂: (ε, δ)-differential privacy, for a whole curve of ε and δ."""

from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import NDArray

from privet import events
from privet.adjacency import Adjacency
from privet.arguments import open_fraction, positive
from privet.errors import OutOfReach
from privet.mechanisms.additive import check_counts, check_grid, coordinate_query, event_of, grid_for
from privet.mechanisms.grids import ONE, StepGrid, grid_below
from privet.mechanisms.mechanism import SECURE, Mechanism, check_adjacency
from privet.mechanisms.noise_scales import (
    analytic_noise_multiplier,
    check_scale,
    classic_noise_multiplier,
    discrete_gaussian_quantile,
    discrete_gaussian_scale,
    split_failure,
)
from privet.mechanisms.queries import CoordinateQuery, Query, check_query
from privet.mechanisms.records import Floats
from privet.mechanisms.rounded import rounded_gaussian
from privet.mechanisms.sampling import discrete_gaussian
from privet.randomness import NoiseSource

__all__ = ["DiscreteGaussian", "Gaussian"]

_MOST_STEPS = 2.0**14  # of the scale of discrete noise, so that accounting is quick
_NORM_BITS = 30  # the bound of a norm is cut into 2³⁰ steps


@final
@dataclass(frozen=True)
class Gaussian(Mechanism[float | Floats]):
    """A bounded query plus Gaussian noise on each coordinate, on a public grid.

    *Guarantee*: what the event says, exactly, under ``adjacency``. A query that bounds each coordinate gets
    discrete Gaussian noise, in whole steps, on each; its event is ``DiscreteGaussian``, repeated for the
    coordinates that one unit touches. A query that bounds the Euclidean norm alone (``VectorSum``) gets real
    Gaussian noise that is rounded to the grid, which is post-processing; its event is ``Gaussian``. Both are
    drawn exactly, and neither is a float.

    ``classic`` and ``analytic`` find the scale for an (ε, δ). A discrete Gaussian differs a little from the
    continuous one, so ``analytic`` solves for the discrete distribution and adds a millionth. The accountant
    then finds at most ε at δ.

    *Reference*: Dwork & Roth 2014, Theorem A.1 (classic); Balle & Wang 2018, Theorem 8 (analytic); Canonne,
    Kamath & Steinke 2020 (discrete).

    >>> from privet.adjacency import AddRemove
    >>> from privet.mechanisms import Sum
    >>> ages = Gaussian.analytic(Sum(0.0, 128.0), epsilon=1.0, delta=1e-6, adjacency=AddRemove())
    >>> f"{ages.scale / 128:.4f}"
    '4.2247'
    """

    query: Query
    scale: float
    adjacency: Adjacency
    granularity: float | None = None

    def __post_init__(self) -> None:
        check_query(self.query)
        positive("scale", self.scale)
        bound = self.query.l2(check_adjacency(self.adjacency))
        if self.granularity is not None and isinstance(self.query, CoordinateQuery):
            check_grid(self.granularity, self.query.distance(self.adjacency))
        if (
            not isinstance(self.query, CoordinateQuery)
            and not 2.0**24 <= bound / self.grid.granularity <= 2.0**45
        ):
            raise OutOfReach(
                f"Noise on a vector must have a scale of at least a millionth of its norm, and the norm "
                f"between 2^24 and 2^45 grid steps, got {bound / self.scale:.3g} times the scale and "
                f"{bound / self.grid.granularity:.3g} steps. Add noise, and leave 'granularity' out."
            )
        self.event  # noqa: B018 - refuse now what no event describes, before there is data

    @staticmethod
    def classic(query: Query, *, epsilon: float, delta: float, adjacency: Adjacency) -> "Gaussian":
        """σ = Δ₂√(2 ln(1.25/δ))/ε: refused for ε ≥ 1, where its theorem does not hold.

        It is more than needed.
        """
        check_query(query)
        bound = query.l2(check_adjacency(adjacency))
        return Gaussian(query, bound * classic_noise_multiplier(epsilon, delta), adjacency)

    @staticmethod
    def analytic(query: Query, *, epsilon: float, delta: float, adjacency: Adjacency) -> "Gaussian":
        """The least noise that is (ε, δ)-DP, for every ε."""
        check_query(query)
        scale = query.l2(check_adjacency(adjacency)) * analytic_noise_multiplier(epsilon, delta)
        if not isinstance(query, CoordinateQuery):
            return Gaussian(query, scale, adjacency)
        grid = grid_for(query.distance(adjacency), scale, _MOST_STEPS)
        steps, touched = query.steps(adjacency, grid), query.touched_coordinates(adjacency)
        scale = discrete_gaussian_scale(epsilon, delta, steps, touched) * grid.granularity
        return Gaussian(query, scale, adjacency, grid.granularity)

    @property
    def grid(self) -> StepGrid:
        """The grid that answers lie on."""
        if self.granularity is not None:
            return StepGrid(self.granularity)
        if isinstance(self.query, CoordinateQuery):
            return grid_for(self.query.distance(self.adjacency), self.scale, _MOST_STEPS)
        return grid_below(min(self.query.l2(self.adjacency), 2.0**5 * self.scale), _NORM_BITS)

    @property
    def event(self) -> events.Event:
        if isinstance(self.query, CoordinateQuery):
            steps = self.scale / self.grid.granularity
            return event_of(events.DiscreteGaussian, steps, self.query, self.adjacency, self.grid)
        bound = self.query.l2(self.adjacency) / self.adjacency.contribution_distance
        check_scale(self.scale / self.grid.granularity)
        return events.Gaussian(self.scale / bound)

    def error(self, *, confidence: float) -> float:
        """With this probability no coordinate is further from the clamped answer: a quantile of the noise."""
        failure = split_failure(1 - open_fraction("confidence", confidence), self.query.dimension)
        steps = discrete_gaussian_quantile(self.scale / self.grid.granularity, failure)
        whole = isinstance(self.query, CoordinateQuery) and self.query.counts
        return (steps + 0.5 * (not whole)) * self.grid.granularity

    def release(self, data: object, noise: NoiseSource = SECURE) -> float | Floats:
        grid = self.grid
        exact = self.query.evaluate(data, grid)
        sampler = discrete_gaussian if isinstance(self.query, CoordinateQuery) else rounded_gaussian
        draws = sampler(self.scale / grid.granularity, self.query.dimension, noise)
        values = grid.values([step + int(draw) for step, draw in zip(exact, draws, strict=True)])
        return float(values[0]) if self.query.scalar else values


@final
@dataclass(frozen=True)
class DiscreteGaussian(Mechanism[int | NDArray[np.int64]]):
    """Counts plus whole-number noise with P[x] ∝ exp(−x²/2·scale²), so that the answer has whole numbers.

    *Guarantee*: what the event says, exactly, under ``adjacency``; and ½(Δ₂/scale)²-concentrated DP.

    *Reference*: Canonne, Kamath & Steinke 2020, Theorems 4 and 7.

    >>> from privet.adjacency import AddRemove
    >>> from privet.mechanisms import Count
    >>> DiscreteGaussian(Count(), 4.0, AddRemove()).event
    DiscreteGaussian(scale=4.0, contribution=1)
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
    def calibrated(
        query: CoordinateQuery, *, epsilon: float, delta: float, adjacency: Adjacency
    ) -> "DiscreteGaussian":
        """The least noise that is (ε, δ)-DP, for every ε."""
        check_counts(coordinate_query(query))
        touched = query.touched_coordinates(check_adjacency(adjacency))
        scale = discrete_gaussian_scale(epsilon, delta, query.steps(adjacency, ONE), touched)
        return DiscreteGaussian(query, scale, adjacency)

    @property
    def event(self) -> events.Event:
        return event_of(events.DiscreteGaussian, self.scale, self.query, self.adjacency, ONE)

    def error(self, *, confidence: float) -> int:
        """With this probability no coordinate is further off: a quantile of the noise."""
        failure = split_failure(1 - open_fraction("confidence", confidence), self.query.dimension)
        return discrete_gaussian_quantile(self.scale, failure)

    def release(self, data: object, noise: NoiseSource = SECURE) -> int | NDArray[np.int64]:
        exact = np.array(self.query.evaluate(data, ONE), dtype=np.int64)
        noisy = exact + discrete_gaussian(self.scale, self.query.dimension, noise)
        return int(noisy[0]) if self.query.scalar else noisy
