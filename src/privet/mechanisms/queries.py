"""Bounded queries. A query clamps the data itself, so its sensitivity is known.

Nobody types in a sensitivity. Under each adjacency a query says how many coordinates of its answer one unit
can touch (``touched_coordinates``) and how far each moves (``distance``); ℓ₁ and ℓ₂ follow. Its answer is in
whole steps of a public grid.

A record that is missing or makes no sense does not count, and raises no error, because an error would tell of
it.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, final

from privet.adjacency import AddRemove, Adjacency, ReplaceOne
from privet.arguments import finite, format_value
from privet.errors import InvalidArgument, NotProved
from privet.mechanisms.grids import StepGrid
from privet.mechanisms.records import numbers, records

__all__ = [
    "CoordinateQuery",
    "Count",
    "CountWhere",
    "Query",
    "Sum",
    "TallyQuery",
    "box_distance",
    "box_steps",
    "check_bounds",
    "check_categories",
    "check_query",
]


class Query(ABC):
    """A question whose answer one unit can move by a bounded distance."""

    @property
    def dimension(self) -> int:
        """How many numbers the answer has."""
        return 1

    @property
    def scalar(self) -> bool:
        """Whether the answer is one number instead of a vector."""
        return True

    @abstractmethod
    def l1(self, adjacency: Adjacency) -> float:
        """Δ₁: how far apart the answers for neighbours can be, in the sum over coordinates."""

    @abstractmethod
    def l2(self, adjacency: Adjacency) -> float:
        """Δ₂: how far apart the answers for neighbours can be, in the Euclidean norm."""

    @abstractmethod
    def evaluate(self, data: object, grid: StepGrid) -> list[int]:
        """The exact answer in whole steps, which is secret until noise is added."""


class CoordinateQuery(Query):
    """A query with bounds for each coordinate: how many one unit moves, and how far each moves."""

    @property
    def counts(self) -> bool:
        """Whether the exact answer consists of whole numbers."""
        return False

    @abstractmethod
    def touched_coordinates(self, adjacency: Adjacency) -> int:
        """How many coordinates one unit can move."""

    @abstractmethod
    def distance(self, adjacency: Adjacency) -> float:
        """How far each of them can move."""

    @abstractmethod
    def steps(self, adjacency: Adjacency, grid: StepGrid) -> int:
        """How many whole steps of the grid each of them can move."""

    def l1(self, adjacency: Adjacency) -> float:
        return self.touched_coordinates(adjacency) * self.distance(adjacency)

    def l2(self, adjacency: Adjacency) -> float:
        return math.sqrt(self.touched_coordinates(adjacency)) * self.distance(adjacency)


class TallyQuery(CoordinateQuery):
    """A query that adds 1 to some coordinates for each record."""

    @property
    def counts(self) -> bool:
        return True

    def distance(self, adjacency: Adjacency) -> float:
        return 1.0

    def steps(self, adjacency: Adjacency, grid: StepGrid) -> int:
        return grid.distance(0.0, 1.0)

    def evaluate(self, data: object, grid: StepGrid) -> list[int]:
        unit = grid.fine_ceil(1.0)
        return [grid.coarse(unit * tally) for tally in self.tallies(data)]

    @abstractmethod
    def tallies(self, data: object) -> list[int]:
        """The counts."""


@final
@dataclass(frozen=True)
class Count(TallyQuery):
    """The number of records, which is secret under add-remove adjacency only.

    >>> from privet.mechanisms.grids import ONE
    >>> Count().evaluate(["Anna", "Patrick"], ONE)
    [2]
    """

    def touched_coordinates(self, adjacency: Adjacency) -> int:
        if not isinstance(adjacency, AddRemove):
            raise NotProved(
                f"The number of records is public under {adjacency}, so there is nothing to protect in "
                f"Count. Publish it as it is, or use CountWhere."
            )
        return 1

    def tallies(self, data: object) -> list[int]:
        return [len(records(data))]


@final
@dataclass(frozen=True)
class CountWhere(TallyQuery):
    """The number of records that satisfy a public predicate. A record on which it fails does not count.

    >>> from privet.mechanisms.grids import ONE
    >>> CountWhere(lambda eyes: eyes == "blue").evaluate(["blue", "brown", "blue"], ONE)
    [2]
    """

    predicate: Callable[[Any], object]

    def __post_init__(self) -> None:
        if not callable(self.predicate):
            raise InvalidArgument(
                f"'predicate' must be a function of one record, got {format_value(self.predicate)}. Write "
                f"lambda record: …"
            )

    def touched_coordinates(self, adjacency: Adjacency) -> int:
        return 1

    def tallies(self, data: object) -> list[int]:
        return [sum(_holds(self.predicate, record) for record in records(data))]


@final
@dataclass(frozen=True)
class Sum(CoordinateQuery):
    """The sum of numbers, each clamped to public bounds.

    A unit moves it by max(|lower|, |upper|) if it is added or removed, and by upper − lower if it is
    exchanged.

    >>> from privet.adjacency import AddRemove
    >>> Sum(-1.0, 3.0).l1(AddRemove()), Sum(-1.0, 3.0).l1(ReplaceOne())
    (3.0, 4.0)
    """

    lower: float
    upper: float

    def __post_init__(self) -> None:
        check_bounds(self.lower, self.upper)

    def touched_coordinates(self, adjacency: Adjacency) -> int:
        return 1

    def distance(self, adjacency: Adjacency) -> float:
        return box_distance(self.lower, self.upper, adjacency)

    def steps(self, adjacency: Adjacency, grid: StepGrid) -> int:
        return box_steps(self.lower, self.upper, adjacency, grid)

    def evaluate(self, data: object, grid: StepGrid) -> list[int]:
        return [grid.total_steps(numbers(data), self.lower, self.upper)]


def check_bounds(lower: float, upper: float) -> None:
    """Public clamping bounds, in order."""
    if finite("lower", lower) >= finite("upper", upper):
        raise InvalidArgument(
            f"'lower' must be below 'upper', got {lower!r} and {upper!r}. Give the smallest value first."
        )


def check_categories(name: str, value: object) -> None:
    """Public categories: a tuple of distinct values that was fixed before the data was seen."""
    if not isinstance(value, tuple) or not value:
        raise InvalidArgument(
            f"'{name}' must be a tuple that is fixed before the data is seen, got {type(value).__name__}, "
            f"because values from the data tell who is in it. Write out every value that can occur."
        )
    try:
        distinct = len(set(value)) == len(value)
    except TypeError:
        raise InvalidArgument(
            f"'{name}' must hold values that can be hashed, and one cannot. Use strings, numbers or tuples."
        ) from None
    if not distinct:
        raise InvalidArgument(f"'{name}' must not name a value twice, and does. Drop the repetition.")


def check_query(value: object) -> None:
    """A bounded query."""
    if not isinstance(value, Query):
        raise InvalidArgument(
            f"'query' must be a bounded query, got {type(value).__name__}, because a bound is needed for the "
            f"sensitivity. Use Count, CountWhere, Sum, HistogramOf or another of privet.mechanisms."
        )


def box_distance(lower: float, upper: float, adjacency: Adjacency) -> float:
    """How far one unit moves a sum of values between the bounds."""
    if isinstance(adjacency, ReplaceOne):
        return upper - lower
    return max(abs(lower), abs(upper))


def box_steps(lower: float, upper: float, adjacency: Adjacency, grid: StepGrid) -> int:
    """The same in whole steps, rounded up."""
    grid.check(lower, upper)
    if isinstance(adjacency, ReplaceOne):
        return grid.distance(lower, upper)
    return max(grid.distance(0.0, max(upper, 0.0)), grid.distance(min(lower, 0.0), 0.0))


def _holds(predicate: Callable[[Any], object], record: object) -> bool:
    try:
        return bool(predicate(record))
    except Exception:  # an error would tell something of a record
        return False
