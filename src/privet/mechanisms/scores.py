"""How good each public candidate is, as a bounded sum over the records.

A score has two bounds under each adjacency. ``sensitivity`` Δ is the most by which one unit can move the
score of any candidate. ``swing`` R is the most by which one unit can move two candidates *apart*. R is at
most 2Δ, hence the 2 in the textbook's exp(ε·score/2Δ). But if a new unit can only raise scores, each by 0 to
Δ, then R = Δ.

The candidates are a field, and a tuple: they must not come from the data.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from privet.adjacency import Adjacency, ReplaceOne
from privet.arguments import format_value
from privet.errors import InvalidArgument
from privet.mechanisms.grids import BLOCK, ONE, StepGrid, grid_below
from privet.mechanisms.queries import box_distance, check_bounds
from privet.mechanisms.records import Floats, indices, records

__all__ = ["Score", "SumOfScores", "TallyOf", "check_candidates", "safe_score"]

_BITS = 10  # what one unit can add to a score is cut into at least 2¹⁰ steps
Steps = NDArray[np.int64]


class Score(ABC):
    """A bounded score of every candidate."""

    candidates: tuple[Any, ...]

    @property
    @abstractmethod
    def grid(self) -> StepGrid:
        """The grid of the scores."""

    @abstractmethod
    def sensitivity(self, adjacency: Adjacency) -> float:
        """Δ: the most by which one unit can move the score of a candidate."""

    @abstractmethod
    def swing_steps(self, adjacency: Adjacency) -> int:
        """R in whole steps: the most by which one unit can move two candidates apart."""

    @abstractmethod
    def evaluate(self, data: object) -> Steps:
        """The exact scores in whole steps, which are secret."""

    def swing(self, adjacency: Adjacency) -> float:
        """R: the most by which one unit can move two candidates apart."""
        return self.swing_steps(adjacency) * self.grid.granularity


@final
@dataclass(frozen=True)
class TallyOf(Score):
    """The number of records equal to each candidate: Δ = 1, and R = 1 under add-remove, 2 under replace-one.

    >>> TallyOf(("dark", "fair")).evaluate(["fair", "dark", "green", "fair"]).tolist()
    [1, 2]
    """

    candidates: tuple[Any, ...]

    def __post_init__(self) -> None:
        check_candidates(self.candidates)

    @property
    def grid(self) -> StepGrid:
        return ONE

    def sensitivity(self, adjacency: Adjacency) -> float:
        return 1.0

    def swing_steps(self, adjacency: Adjacency) -> int:
        return adjacency.contribution_distance

    def evaluate(self, data: object) -> Steps:
        cells = indices(data, self._positions)
        return np.bincount(cells[cells >= 0], minlength=len(self.candidates)).astype(np.int64)

    @cached_property
    def _positions(self) -> dict[Any, int]:
        return {value: position for position, value in enumerate(self.candidates)}


@final
@dataclass(frozen=True)
class SumOfScores(Score):
    """Σ over the records of score(record, candidate), each clamped to public bounds.

    A unit that is added or removed moves every candidate's score by between ``lower`` and ``upper``: Δ is the
    larger of their sizes and R = upper − lower. A unit that is exchanged moves each by at most upper − lower,
    in either direction. A record on which ``score`` fails does not count.
    """

    candidates: tuple[Any, ...]
    score: Callable[[Any, Any], float]
    lower: float
    upper: float

    def __post_init__(self) -> None:
        check_candidates(self.candidates)
        check_bounds(self.lower, self.upper)
        if not callable(self.score):
            raise InvalidArgument(
                f"'score' must be a function of a record and a candidate, got {format_value(self.score)}. "
                f"Write lambda record, candidate: …"
            )
        self.grid.check(self.lower, self.upper)

    @property
    def grid(self) -> StepGrid:
        return grid_below(self.upper - self.lower, _BITS)

    def sensitivity(self, adjacency: Adjacency) -> float:
        return box_distance(self.lower, self.upper, adjacency)

    def swing_steps(self, adjacency: Adjacency) -> int:
        if isinstance(adjacency, ReplaceOne):  # each score moves by at most the distance, up or down
            return adjacency.contribution_distance * self.grid.distance(self.lower, self.upper)
        return self.grid.span(self.grid.fine_floor(self.lower), self.grid.fine_ceil(self.upper))

    def evaluate(self, data: object) -> Steps:
        rows, totals = records(data), np.zeros(len(self.candidates), dtype=object)
        for start in range(0, len(rows), BLOCK):
            values = self._values(rows[start : start + BLOCK])
            totals += self.grid.fine_steps(values, self.lower, self.upper).sum(axis=0).astype(object)
        return self.grid.coarse_all(totals)

    def _values(self, rows: list[Any]) -> Floats:
        """The score of every candidate by every record."""
        with np.errstate(all="ignore"):  # a warning would tell something of a record
            scores = (safe_score(self.score, row, candidate) for row in rows for candidate in self.candidates)
            flat = np.fromiter(scores, dtype=np.float64, count=len(rows) * len(self.candidates))
        return flat.reshape(len(rows), len(self.candidates))


def safe_score(score: Callable[[Any, Any], float], record: object, candidate: object) -> float:
    """A score, or NaN where there is none, because an exception would tell something of a record."""
    try:
        return float(score(record, candidate))
    except Exception:
        return float("nan")


def check_candidates(value: object) -> None:
    """Candidates that were fixed before the data was seen."""
    if not isinstance(value, tuple):
        kind = "a function" if callable(value) else type(value).__name__
        raise InvalidArgument(
            f"'candidates' must be a tuple that is fixed before the data is seen, got {kind}, because an "
            f"output that comes from the data tells who is in it. Write out every answer that can be given."
        )
    if not value:
        raise InvalidArgument(
            "'candidates' must not be empty, got (). Write out every answer that can be given."
        )
    try:
        distinct = len(set(value)) == len(value)
    except TypeError:
        raise InvalidArgument(
            "'candidates' must hold values that can be hashed, and one cannot. Use strings, numbers or "
            "tuples."
        ) from None
    if not distinct:
        raise InvalidArgument("'candidates' must not name a value twice, and does. Drop the repetition.")
