"""Sparse vector: ask as many questions as you like; only the answers "above" are paid for.

Each query is compared with a threshold. An answer "below" costs nothing. After ``positives`` answers "above",
the session ends.
"""

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from threading import Lock
from typing import final

from privet import events
from privet.adjacency import Adjacency
from privet.arguments import finite, open_fraction, positive, whole
from privet.errors import BudgetExceeded, InvalidArgument
from privet.mechanisms.additive import coordinate_query
from privet.mechanisms.grids import StepGrid, grid_below
from privet.mechanisms.mechanism import SECURE, Mechanism, check_adjacency
from privet.mechanisms.noise_scales import check_scale, discrete_laplace_quantile, divide_up
from privet.mechanisms.queries import CoordinateQuery
from privet.mechanisms.sampling import discrete_laplace
from privet.randomness import NoiseSource

__all__ = ["AboveThreshold", "SparseVector"]

_BITS = 10
_MOST_POSITIVES = 10**6


@final
@dataclass(frozen=True)
class SparseVector(Mechanism["AboveThreshold"]):
    """A session that says for each query whether it is above ``threshold``, with noise on both.

    ``distance`` is the most by which one unit may move a query. A query whose bounds allow more is refused
    when it is asked. The threshold gets noise of scale distance/ε₁ once, and each query gets noise of scale
    2·positives·distance/ε₂. The split ε₁ : ε₂ = 1 : (2·positives)^⅔, with ε₁ + ε₂ = ε, makes the comparison
    most accurate.

    *Guarantee*: ε-DP under ``adjacency`` for the whole session, for any number of queries, also adaptively
    chosen ones. The noise is a whole number of grid steps, and the proof shifts it by whole steps only.

    *Leaks*: nothing but "above" and "below". The value of a query that is above is a new question.

    *Reference*: Dwork & Roth 2014, Theorem 3.25; Lyu, Su & Li 2017, Algorithm 7 and Theorem 4, for the split,
    and for a correction of variants that are not private.

    >>> from privet.adjacency import AddRemove
    >>> SparseVector(100.0, 1.0, AddRemove(), positives=3).event
    SparseVector(epsilon=1.0, positives=3)
    """

    threshold: float
    epsilon: float
    adjacency: Adjacency
    positives: int = 1
    distance: float = 1.0

    def __post_init__(self) -> None:
        finite("threshold", self.threshold)
        positive("epsilon", self.epsilon)
        check_adjacency(self.adjacency)
        whole("positives", self.positives, most=_MOST_POSITIVES)
        positive("distance", self.distance)
        for scale in self.scales:
            check_scale(scale)

    @property
    def event(self) -> events.Event:
        return events.SparseVector(epsilon=self.epsilon, positives=self.positives)

    @property
    def grid(self) -> StepGrid:
        """The grid of the threshold, the queries and the noise."""
        return grid_below(self.distance, _BITS)

    @property
    def steps(self) -> int:
        """The distance in whole steps."""
        return self.grid.distance(0.0, self.distance)

    @cached_property
    def scales(self) -> tuple[float, float]:
        """The noise of the threshold and of each query, in steps."""
        share = 1 / (1 + (2 * self.positives) ** (2 / 3))
        first = Fraction(self.epsilon) * Fraction(share)
        second = Fraction(self.epsilon) - first
        return divide_up(self.steps, first), divide_up(2 * self.positives * self.steps, second)

    def error(self, *, queries: int, confidence: float) -> float:
        """With this probability all comparisons are right, except of queries this close to the threshold.

        It is the sum of the quantiles of both noises, each at half of the failure probability. Dwork & Roth's
        8 (ln k + ln(2/β))/ε is larger.
        """
        failure = 0.5 * (1 - open_fraction("confidence", confidence))
        once, often = self.scales
        steps = discrete_laplace_quantile(once, failure) + discrete_laplace_quantile(
            often, failure / whole("queries", queries)
        )
        return (steps + 1) * self.grid.granularity

    def release(self, data: object, noise: NoiseSource = SECURE) -> "AboveThreshold":
        """A session over the data. It spends the whole event, even if it ends early."""
        return AboveThreshold(self, data, noise)


@final
class AboveThreshold:
    """A running session: it holds the data, the noisy threshold, and how many answers "above" are left."""

    def __init__(self, mechanism: SparseVector, data: object, noise: NoiseSource) -> None:
        self._mechanism, self._data, self._noise = mechanism, data, noise
        self._left = mechanism.positives
        self._one_at_a_time = Lock()
        grid = mechanism.grid
        exact = grid.coarse(math.floor(mechanism.threshold / grid.fine))
        self._threshold = exact + int(discrete_laplace(mechanism.scales[0], 1, noise)[0])

    @property
    def left(self) -> int:
        """How many answers "above" are left."""
        return self._left

    def ask(self, query: CoordinateQuery) -> bool:
        """Whether the noisy query is above the noisy threshold."""
        mechanism = self._mechanism
        with self._one_at_a_time:
            self._check(coordinate_query(query))
            exact = query.evaluate(self._data, mechanism.grid)[0]
            above = exact + int(discrete_laplace(mechanism.scales[1], 1, self._noise)[0]) >= self._threshold
            self._left -= above
        return above

    def _check(self, query: CoordinateQuery) -> None:
        mechanism = self._mechanism
        if not query.scalar:
            raise InvalidArgument(
                f"'query' must have one number as its answer, got {type(query).__name__}. Ask for one count "
                f"or sum."
            )
        if query.steps(mechanism.adjacency, mechanism.grid) > mechanism.steps:
            raise InvalidArgument(
                f"'query' must not move by more than the session's distance of {mechanism.distance:g}, and "
                f"one unit can move it by {query.distance(mechanism.adjacency):g}. Ask with tighter bounds, "
                f"or open a session with a larger distance."
            )
        if self._left <= 0:
            raise BudgetExceeded(
                f"The session has given its {mechanism.positives} answers above the threshold, and no more "
                f"were paid for. Open a new session, at a new cost."
            )
