"""The exponential mechanism over an interval: a density ∝ exp(ε·utility/R), on a public grid of cells.

The continuous mechanism's answer is a real number, which no computer can draw or print. So the interval is
cut into ``cells`` of equal width, and one of their midpoints is drawn, exactly. That is the exponential
mechanism over these candidates. Its ε needs no approximation, and its distribution is the continuous one up
to the width of a cell.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from privet import events
from privet.adjacency import Adjacency, ReplaceOne
from privet.arguments import format_value, open_fraction, positive, whole
from privet.errors import InvalidArgument, NotProved
from privet.mechanisms.grids import BLOCK, StepGrid, grid_below
from privet.mechanisms.mechanism import SECURE, Mechanism, check_adjacency
from privet.mechanisms.noise_scales import check_scale
from privet.mechanisms.queries import box_distance, check_bounds
from privet.mechanisms.records import Floats, numbers, records
from privet.mechanisms.sampling import choose
from privet.mechanisms.scores import Steps
from privet.mechanisms.selection import exact_log_weights
from privet.randomness import NoiseSource

__all__ = ["BernoulliLikelihood", "IntervalExponential", "QuantileRank", "SumUtility", "Utility"]

_BITS = 10
_MOST_CELLS = 1 << 20
_IN_64_BITS = 1 << 30  # tosses whose fine steps, below 2³² each, can be added in 64 bits


class Utility(ABC):
    """How good each number between two public bounds is, as a bounded sum over the records."""

    lower: float
    upper: float

    @property
    @abstractmethod
    def grid(self) -> StepGrid:
        """The grid of the utilities."""

    @abstractmethod
    def sensitivity(self, adjacency: Adjacency) -> float:
        """Δ: the most by which one unit can move the utility of a number."""

    @abstractmethod
    def swing_steps(self, adjacency: Adjacency) -> int:
        """R in whole steps: the most by which one unit can move two numbers apart."""

    @abstractmethod
    def evaluate(self, data: object, points: Floats) -> Steps:
        """The exact utility of each point in whole steps, which is secret."""

    def swing(self, adjacency: Adjacency) -> float:
        """R: the most by which one unit can move two numbers apart."""
        return self.swing_steps(adjacency) * self.grid.granularity


@final
@dataclass(frozen=True)
class BernoulliLikelihood(Utility):
    """ln of the probability of N_H heads and N_T tails of a coin with parameter θ, lower ≤ θ ≤ upper.

    Its exponential mechanism is a Beta distribution truncated at the bounds. Without them, at θ = 0, one head
    moves ln θ by −∞, which no noise hides. So the bounds must lie strictly inside (0, 1). True and 1 are
    heads, False and 0 tails; any other record does not count.
    """

    lower: float
    upper: float

    def __post_init__(self) -> None:
        check_bounds(self.lower, self.upper)
        if self.lower <= 0 or self.upper >= 1:
            raise NotProved(
                f"'lower' and 'upper' must lie strictly between 0 and 1, got {self.lower!r} and "
                f"{self.upper!r}, because the likelihood of one toss is unbounded at 0 and at 1, and so is "
                f"its sensitivity. Restrict the parameter, for example to (0.1, 0.9)."
            )

    @property
    def grid(self) -> StepGrid:
        return grid_below(max(-math.log(self.lower), -math.log1p(-self.upper)), _BITS)

    def sensitivity(self, adjacency: Adjacency) -> float:
        if isinstance(adjacency, ReplaceOne):
            return max(abs(_log_odds(self.lower)), abs(_log_odds(self.upper)))
        return max(-math.log(self.lower), -math.log1p(-self.upper))

    def swing_steps(self, adjacency: Adjacency) -> int:
        head = self._fine(math.log(self.lower), math.log(self.upper))
        tail = self._fine(math.log1p(-self.upper), math.log1p(-self.lower))
        added = max(self.grid.span(*head), self.grid.span(*tail))
        if isinstance(adjacency, ReplaceOne):  # a head becomes a tail, or either becomes no toss
            return max(added, self.grid.span(head[0] - tail[1], head[1] - tail[0]))
        return added

    def _fine(self, lower: float, upper: float) -> tuple[int, int]:
        return self.grid.fine_floor(lower), self.grid.fine_ceil(upper)

    def evaluate(self, data: object, points: Floats) -> Steps:
        tosses = numbers(data)
        heads, tails = int((tosses == 1).sum()), int((tosses == 0).sum())
        head = self.grid.fine_steps(np.log(points), math.log(self.lower), math.log(self.upper))
        tail = self.grid.fine_steps(np.log1p(-points), math.log1p(-self.upper), math.log1p(-self.lower))
        kind = np.int64 if heads + tails <= _IN_64_BITS else object
        return self.grid.coarse_all(heads * head.astype(kind) + tails * tail.astype(kind))


@final
@dataclass(frozen=True)
class QuantileRank(Utility):
    """How close to the p-quantile a number is: −|(1 − p)·#below − p·#above|. A median has p = ½.

    A record moves it by at most max(p, 1 − p) if it is added or removed and by 1 if it is exchanged, in
    either direction. It is constant between records. Records outside the bounds count at the bounds; missing
    ones do not count.
    """

    probability: float
    lower: float
    upper: float

    def __post_init__(self) -> None:
        open_fraction("probability", self.probability)
        check_bounds(self.lower, self.upper)

    @property
    def grid(self) -> StepGrid:
        return grid_below(1.0, _BITS)

    def sensitivity(self, adjacency: Adjacency) -> float:
        if isinstance(adjacency, ReplaceOne):
            return 1.0
        return max(self.probability, 1 - self.probability)

    def swing_steps(self, adjacency: Adjacency) -> int:
        return 2 * self.grid.distance(0.0, self.sensitivity(adjacency))

    def evaluate(self, data: object, points: Floats) -> Steps:
        values = numbers(data)
        values = np.sort(np.clip(values[~np.isnan(values)], self.lower, self.upper))
        below = np.searchsorted(values, points, side="left")
        above = values.size - np.searchsorted(values, points, side="right")
        share = round(self.probability / self.grid.fine)
        rest = round(1 / self.grid.fine) - share
        return self.grid.coarse_all(-np.abs(rest * below.astype(np.int64) - share * above.astype(np.int64)))


@final
@dataclass(frozen=True)
class SumUtility(Utility):
    """Σ over the records of score(record, points), each clamped to [least, most].

    ``score`` takes all points at once.
    A record on which ``score`` fails, or does not give one number for each point, does not count.
    """

    lower: float
    upper: float
    score: Callable[[Any, Floats], Floats]
    least: float
    most: float

    def __post_init__(self) -> None:
        if not callable(self.score):
            raise InvalidArgument(
                "'score' must be a function of a record and an array of points, got "
                f"{format_value(self.score)}. Write lambda record, points: …"
            )
        check_bounds(self.least, self.most)
        check_bounds(self.lower, self.upper)
        self.grid.check(self.least, self.most)

    @property
    def grid(self) -> StepGrid:
        return grid_below(self.most - self.least, _BITS)

    def sensitivity(self, adjacency: Adjacency) -> float:
        return box_distance(self.least, self.most, adjacency)

    def swing_steps(self, adjacency: Adjacency) -> int:
        if isinstance(adjacency, ReplaceOne):  # each score moves by at most the distance, up or down
            return adjacency.contribution_distance * self.grid.distance(self.least, self.most)
        return self.grid.span(self.grid.fine_floor(self.least), self.grid.fine_ceil(self.most))

    def evaluate(self, data: object, points: Floats) -> Steps:
        totals, rows = np.zeros(points.size, dtype=object), records(data)
        for start in range(0, len(rows), BLOCK):
            part = np.zeros(points.size, dtype=np.int64)
            for record in rows[start : start + BLOCK]:
                part += self.grid.fine_steps(self._scores(record, points), self.least, self.most)
            totals += part.astype(object)
        return self.grid.coarse_all(totals)

    def _scores(self, record: object, points: Floats) -> Floats:
        try:
            with np.errstate(all="ignore"):  # a warning would tell something of a record
                scores = np.asarray(self.score(record, points), dtype=np.float64)
        except Exception:  # an error would tell something of a record
            return np.full(points.size, np.nan)
        return scores if scores.shape == points.shape else np.full(points.size, np.nan)


@final
@dataclass(frozen=True)
class IntervalExponential(Mechanism[float]):
    """One number between public bounds, with a density ∝ exp(ε·utility/R), or ε/2Δ by ``classic``.

    *Guarantee*: ε-DP under ``adjacency``, of bounded range ε, exactly.

    *Utility*: the best cell's utility is missed by at most (R/ε) ln(cells/β) with probability 1 − β.

    *Reference*: McSherry & Talwar 2007, Theorem 6; the cells are the deviation.

    >>> from privet.adjacency import AddRemove
    >>> coin = IntervalExponential.classic(BernoulliLikelihood(0.1, 0.9), epsilon=0.1, adjacency=AddRemove())
    >>> f"{coin.weight:.4f}"
    '0.0217'
    """

    utility: Utility
    epsilon: float
    adjacency: Adjacency
    cells: int = 4096

    def __post_init__(self) -> None:
        _check_utility(self.utility)
        positive("epsilon", self.epsilon)
        check_scale(self.utility.swing_steps(check_adjacency(self.adjacency)) / self.epsilon)
        whole("cells", self.cells, least=2, most=_MOST_CELLS)

    @staticmethod
    def classic(
        utility: Utility, *, epsilon: float, adjacency: Adjacency, cells: int = 4096
    ) -> "IntervalExponential":
        """The textbook's density ∝ exp(ε·utility/2Δ); it costs ε·R/2Δ."""
        _check_utility(utility)
        positive("epsilon", epsilon)
        swing, sensitivity = utility.swing(check_adjacency(adjacency)), utility.sensitivity(adjacency)
        return IntervalExponential(
            utility, min(epsilon, epsilon * swing / (2 * sensitivity)), adjacency, cells
        )

    @property
    def weight(self) -> float:
        """ε/R: the log-probability of one unit of utility."""
        return self.epsilon / self.utility.swing(self.adjacency)

    @property
    def points(self) -> Floats:
        """The midpoints of the cells: everything that can be answered."""
        width = (self.utility.upper - self.utility.lower) / self.cells
        return np.asarray(self.utility.lower + width * (np.arange(self.cells) + 0.5))

    @property
    def event(self) -> events.Event:
        return events.ExponentialMechanism(epsilon=self.epsilon)

    def error(self, *, confidence: float) -> float:
        """With this probability the answer's utility is no further below that of the best cell (a bound)."""
        failure = 1 - open_fraction("confidence", confidence)
        return math.log(self.cells / failure) / self.weight + self.utility.grid.granularity

    def probabilities(self, data: object) -> Floats:
        """The probability of each cell, which is secret and for study only.

        Publish what ``release`` returns.
        """
        weights = np.exp(self._log_weights(data))
        return np.asarray(weights / weights.sum())

    def release(self, data: object, noise: NoiseSource = SECURE) -> float:
        return float(self.points[choose(self._log_weights(data), noise)])

    def _log_weights(self, data: object) -> Floats:
        steps = self.utility.evaluate(data, self.points)
        return exact_log_weights(steps, self.epsilon, self.utility.swing_steps(self.adjacency))


def _check_utility(value: object) -> None:
    if not isinstance(value, Utility):
        raise InvalidArgument(
            f"'utility' must be a bounded utility, got {type(value).__name__}, because a bound is needed "
            f"for the sensitivity. Use BernoulliLikelihood, QuantileRank or SumUtility."
        )


def _log_odds(probability: float) -> float:
    return math.log(probability) - math.log1p(-probability)
