"""Bounded queries whose answers are vectors."""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, final

import numpy as np

from privet.adjacency import Adjacency
from privet.arguments import format_value, positive, whole
from privet.errors import InvalidArgument
from privet.mechanisms.grids import BLOCK, StepGrid
from privet.mechanisms.queries import (
    CoordinateQuery,
    Query,
    TallyQuery,
    box_distance,
    box_steps,
    check_bounds,
    check_categories,
)
from privet.mechanisms.records import Floats, indices, number_rows, records

__all__ = ["BinaryAttributes", "BoxSum", "HistogramOf", "Histograms", "VectorSum"]

_MOST_COORDINATES = 10**7


@final
@dataclass(frozen=True)
class BinaryAttributes(TallyQuery):
    """The number of records with each of d yes/no attributes: Δ₁ = d, Δ₂ = √d, because a record may have all.

    >>> from privet.adjacency import AddRemove
    >>> BinaryAttributes(4).l1(AddRemove()), BinaryAttributes(4).l2(AddRemove())
    (4.0, 2.0)
    """

    attributes: int

    def __post_init__(self) -> None:
        whole("attributes", self.attributes, most=_MOST_COORDINATES)

    @property
    def dimension(self) -> int:
        return self.attributes

    @property
    def scalar(self) -> bool:
        return False

    def touched_coordinates(self, adjacency: Adjacency) -> int:
        return self.attributes

    def tallies(self, data: object) -> list[int]:
        rows = number_rows(data, self.attributes)
        return [int(count) for count in (np.nan_to_num(rows, nan=0.0) != 0).sum(axis=0)]


@final
@dataclass(frozen=True)
class BoxSum(CoordinateQuery):
    """The sum of vectors whose coordinates are each clamped to the same public bounds."""

    coordinates: int
    lower: float
    upper: float

    def __post_init__(self) -> None:
        whole("coordinates", self.coordinates, most=_MOST_COORDINATES)
        check_bounds(self.lower, self.upper)

    @property
    def dimension(self) -> int:
        return self.coordinates

    @property
    def scalar(self) -> bool:
        return False

    def touched_coordinates(self, adjacency: Adjacency) -> int:
        return self.coordinates

    def distance(self, adjacency: Adjacency) -> float:
        return box_distance(self.lower, self.upper, adjacency)

    def steps(self, adjacency: Adjacency, grid: StepGrid) -> int:
        return box_steps(self.lower, self.upper, adjacency, grid)

    def evaluate(self, data: object, grid: StepGrid) -> list[int]:
        rows = number_rows(data, self.coordinates)
        return [grid.total_steps(column, self.lower, self.upper) for column in rows.T]


@final
@dataclass(frozen=True)
class Histograms(TallyQuery):
    """One histogram for each of D attributes, over public categories; a record counts once in each.

    A unit that is added or removed touches D cells, so Δ₁ = D: the counts of a naive Bayes classifier with D
    features need a scale of D/ε. A unit that is exchanged leaves D cells and enters D others. A value that is
    not among the categories does not count.
    """

    tables: tuple[tuple[Any, ...], ...]

    def __post_init__(self) -> None:
        if not isinstance(self.tables, tuple) or not self.tables:
            raise InvalidArgument(
                "'tables' must be a tuple with the categories of each attribute, got "
                f"{format_value(self.tables)}. Write (('yes', 'no'), ('red', 'green', 'blue'))."
            )
        for categories in self.tables:
            check_categories("tables", categories)

    @property
    def dimension(self) -> int:
        return sum(len(categories) for categories in self.tables)

    @property
    def scalar(self) -> bool:
        return False

    def touched_coordinates(self, adjacency: Adjacency) -> int:
        return len(self.tables) * adjacency.contribution_distance

    def tallies(self, data: object) -> list[int]:
        rows = [_fields(record, len(self.tables)) for record in records(data)]
        tallies: list[int] = []
        for attribute, known in enumerate(self._positions):
            cells = indices([row[attribute] for row in rows], known)
            tallies.extend(np.bincount(cells[cells >= 0], minlength=len(known)).tolist())
        return tallies

    @cached_property
    def _positions(self) -> tuple[dict[Any, int], ...]:
        return tuple({value: position for position, value in enumerate(table)} for table in self.tables)


@final
@dataclass(frozen=True)
class HistogramOf(TallyQuery):
    """The number of records in each of the public categories; other values do not count.

    >>> from privet.mechanisms.grids import ONE
    >>> HistogramOf(("dark", "fair")).evaluate(["fair", "dark", "green", "fair"], ONE)
    [1, 2]
    """

    categories: tuple[Any, ...]

    def __post_init__(self) -> None:
        check_categories("categories", self.categories)

    @property
    def dimension(self) -> int:
        return len(self.categories)

    @property
    def scalar(self) -> bool:
        return False

    def touched_coordinates(self, adjacency: Adjacency) -> int:
        return adjacency.contribution_distance

    def tallies(self, data: object) -> list[int]:
        cells = indices(data, self._positions)
        return [int(count) for count in np.bincount(cells[cells >= 0], minlength=self.dimension)]

    @cached_property
    def _positions(self) -> dict[Any, int]:
        return {value: position for position, value in enumerate(self.categories)}


@final
@dataclass(frozen=True)
class VectorSum(Query):
    """The sum of vectors, each shortened to a Euclidean norm of at most ``l2_bound``: for Gaussian noise.

    Clipping leaves room for the rounding to the grid, so that a rounded vector is within the bound as well. A
    missing coordinate counts as 0. A vector of another length does not count.
    """

    coordinates: int
    l2_bound: float

    def __post_init__(self) -> None:
        whole("coordinates", self.coordinates, most=_MOST_COORDINATES)
        positive("l2_bound", self.l2_bound)

    @property
    def dimension(self) -> int:
        return self.coordinates

    @property
    def scalar(self) -> bool:
        return False

    def l1(self, adjacency: Adjacency) -> float:
        return math.sqrt(self.coordinates) * self.l2(adjacency)

    def l2(self, adjacency: Adjacency) -> float:
        return self.l2_bound * adjacency.contribution_distance

    def evaluate(self, data: object, grid: StepGrid) -> list[int]:
        totals = [0] * self.coordinates
        rows = number_rows(data, self.coordinates)
        for start in range(0, len(rows), BLOCK):
            clipped = np.rint(self._clip(rows[start : start + BLOCK], grid) / grid.granularity)
            for coordinate, total in enumerate(clipped.astype(np.int64).sum(axis=0)):
                totals[coordinate] += int(total)
        return totals

    def _clip(self, rows: Floats, grid: StepGrid) -> Floats:
        """Rows no longer than the bound, less what round-off and the grid can add to a norm."""
        room = self.l2_bound * (1 - 2.0**-48 * (self.coordinates + 8))
        room -= math.sqrt(self.coordinates) * grid.granularity
        known = np.clip(np.nan_to_num(rows, nan=0.0), -1e300, 1e300)
        largest = np.maximum(np.abs(known).max(axis=1, initial=0.0), self.l2_bound * 2.0**-60)[:, None]
        lengths = largest * np.sqrt(((known / largest) ** 2).sum(axis=1))[:, None]  # without overflow
        return np.asarray(known * (room / np.maximum(lengths, room)))


def _fields(record: object, length: int) -> tuple[Any, ...]:
    if isinstance(record, (tuple, list)) and len(record) == length:
        return tuple(record)
    return (_Missing,) * length


class _Missing:
    """Stands for an attribute that a record lacks; it is never among the categories."""
