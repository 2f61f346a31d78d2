"""What a synthetic table may hold: public columns, public categories, public bin edges.

Nothing here is learned from the data. A fixed rule treats a value that is not in the domain: it goes to the
last category if the column says so, a number beyond the edges goes to the outermost bin, and otherwise the
whole row is left out. So one row is in exactly one cell of every marginal, or in none, and moves a marginal
by at most one in one cell.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, final

import numpy as np

from privet.arguments import finite, format_value
from privet.errors import InvalidArgument
from privet.mechanisms.records import list_records

__all__ = ["OUTSIDE", "Bins", "Categories", "Column", "Domain"]

OUTSIDE = -1  # the code of a value that is not in the domain


class Column(ABC):
    """A column with finitely many cells, all of them public."""

    name: str

    @property
    @abstractmethod
    def size(self) -> int:
        """The number of cells."""

    @property
    @abstractmethod
    def labels(self) -> tuple[Hashable, ...]:
        """The category or the interval of each cell."""

    @abstractmethod
    def codes(self, values: np.ndarray) -> np.ndarray:
        """The cell of each value, or ``OUTSIDE``."""

    @abstractmethod
    def values(self, codes: np.ndarray, generator: np.random.Generator | None) -> np.ndarray:
        """A value in each cell."""


@final
@dataclass(frozen=True)
class Categories(Column):
    """A column of listed values.

    A row with a value that is not listed is left out; with ``others_to_last`` the value counts as the last
    category. A missing value (None, NaN) is the category None, if that is listed.

    >>> column = Categories("sex", ("female", "male", "other"), others_to_last=True)
    >>> column.codes(np.array(["male", "?"], dtype=object)).tolist()
    [1, 2]
    """

    name: str
    categories: tuple[Hashable, ...]
    others_to_last: bool = False

    def __post_init__(self) -> None:
        _check_name(self.name)
        if not isinstance(self.categories, tuple) or not self.categories:
            raise InvalidArgument(
                f"'categories' of column '{self.name}' must be a tuple with at least one value, got "
                f"{format_value(self.categories)}. List every value that may occur, from public knowledge."
            )
        try:
            distinct = len({_native(value) for value in self.categories})
        except TypeError:
            raise InvalidArgument(
                f"'categories' of column '{self.name}' must be hashable, and one is not. Give texts or "
                f"numbers."
            ) from None
        if distinct < len(self.categories):
            raise InvalidArgument(
                f"'categories' of column '{self.name}' must differ from each other, got "
                f"{format_value(self.categories)}. Remove duplicates (1, 1.0 and True are one value)."
            )

    @property
    def size(self) -> int:
        return len(self.categories)

    @property
    def labels(self) -> tuple[Hashable, ...]:
        return self.categories

    def codes(self, values: np.ndarray) -> np.ndarray:
        code_of = {_native(value): code for code, value in enumerate(self.categories)}
        outside = self.size - 1 if self.others_to_last else OUTSIDE
        if values.dtype == object:
            return _look_up(values.tolist(), code_of, outside)
        distinct, inverse = np.unique(
            values, return_inverse=True
        )  # so that each distinct value is looked up once
        return _look_up(distinct.tolist(), code_of, outside)[inverse.reshape(-1)]

    def values(self, codes: np.ndarray, generator: np.random.Generator | None) -> np.ndarray:
        labels = np.empty(self.size, dtype=object)
        labels[:] = self.categories
        kinds = {type(value) for value in self.categories}
        for kind in (bool, int, float, str):
            if kinds == {kind}:
                labels = labels.astype(kind)
        return np.asarray(labels[codes])


@final
@dataclass(frozen=True)
class Bins(Column):
    """A numeric column in bins [e₀, e₁), [e₁, e₂), …, the last one closed.

    A number below the first edge counts in the first bin, a number above the last edge in the last bin. A row
    whose value is missing or no number is left out.

    >>> Bins("age", (0.0, 18.0, 65.0, 120.0)).codes(np.array([17.0, 18.0, 900.0, np.nan])).tolist()
    [0, 1, 2, -1]
    """

    name: str
    edges: tuple[float, ...]

    def __post_init__(self) -> None:
        _check_name(self.name)
        if not isinstance(self.edges, tuple) or len(self.edges) < 2:
            raise InvalidArgument(
                f"'edges' of column '{self.name}' must be a tuple of at least two numbers, got "
                f"{format_value(self.edges)}. Give the edges of the bins, from public knowledge."
            )
        for edge in self.edges:
            finite("edges", edge)
        if any(low >= high for low, high in pairwise(self.edges)):
            raise InvalidArgument(
                f"'edges' of column '{self.name}' must rise, got {format_value(self.edges)}. Sort them."
            )

    @property
    def size(self) -> int:
        return len(self.edges) - 1

    @property
    def labels(self) -> tuple[Hashable, ...]:
        return tuple(pairwise(self.edges))

    def codes(self, values: np.ndarray) -> np.ndarray:
        numbers = _as_numbers(values)
        codes = np.searchsorted(np.asarray(self.edges[1:-1], dtype=float), numbers, side="right")
        return np.where(np.isnan(numbers), OUTSIDE, codes)

    def values(self, codes: np.ndarray, generator: np.random.Generator | None) -> np.ndarray:
        """The middle of the bin; with a generator, a uniform draw from it."""
        edges = np.asarray(self.edges, dtype=float)
        share = np.full(codes.size, 0.5) if generator is None else generator.random(codes.size)
        return np.asarray(edges[codes] + share * (edges[codes + 1] - edges[codes]))


@final
@dataclass(frozen=True)
class Domain:
    """The columns of a table; other columns of the data are ignored.

    >>> domain = Domain((Categories("sex", ("f", "m")), Bins("age", (0.0, 50.0, 100.0))))
    >>> domain.shape, domain.cells
    ((2, 2), 4)
    >>> domain.encode({"sex": ["f", "m", "x"], "age": [30, 70, 20]}).tolist()
    [[0, 0], [1, 1]]
    """

    columns: tuple[Column, ...]

    def __post_init__(self) -> None:
        if not isinstance(self.columns, tuple) or not all(isinstance(c, Column) for c in self.columns):
            raise InvalidArgument(
                f"'columns' must be a tuple of columns, got {format_value(self.columns)}. "
                f"Write (Categories(…), Bins(…), …)."
            )
        if not self.columns or len(set(self.names)) < len(self.names):
            raise InvalidArgument(
                "'columns' must have at least one column and each name once, got "
                f"{format_value(self.names)}. Name each column once."
            )

    @property
    def names(self) -> tuple[str, ...]:
        """The names, in order."""
        return tuple(column.name for column in self.columns)

    @property
    def shape(self) -> tuple[int, ...]:
        """The number of cells of each column."""
        return tuple(column.size for column in self.columns)

    @property
    def cells(self) -> int:
        """The number of cells of the whole domain."""
        return math.prod(self.shape)

    def axes(self, columns: Sequence[str]) -> tuple[int, ...]:
        """The positions of the named columns."""
        if isinstance(columns, str) or not columns or len(set(columns)) < len(columns):
            raise InvalidArgument(
                f"A marginal must be a tuple of different column names, got {format_value(columns)}. "
                f"Write ('age',) or ('age', 'sex')."
            )
        positions = {name: axis for axis, name in enumerate(self.names)}
        for name in columns:
            if name not in positions:
                raise InvalidArgument(
                    f"A marginal must be over columns of the domain, got {format_value(name)}. "
                    f"The domain has {', '.join(self.names)}."
                )
        return tuple(positions[name] for name in columns)

    def encode(self, table: Any, *, unit: str | None = None) -> np.ndarray:  # noqa: ANN401 - any table
        """The rows as cells, without the rows that are not in the domain.

        ``table`` is a Polars or pandas data frame, an Arrow table, or a mapping of names to arrays. ``unit``
        is the column that says whose row it is. With it, only the first row of each unit counts, and no row
        without a unit.
        """
        columns = [_take_column(table, name) for name in (*self.names, *([] if unit is None else [unit]))]
        if len({values.shape for values in columns}) > 1:
            raise InvalidArgument(
                "The columns of a table must be equally long, and are not. Give one value per row and column."
            )
        keep = np.ones(columns[0].size, dtype=bool) if unit is None else _first_rows(columns.pop())
        codes = np.stack([c.codes(v) for c, v in zip(self.columns, columns, strict=True)], axis=1)
        return np.asarray(codes[keep & (codes != OUTSIDE).all(axis=1)], dtype=np.int64)

    def decode(
        self, codes: np.ndarray, generator: np.random.Generator | None = None
    ) -> dict[str, np.ndarray]:
        """A table with a value for each cell; with a generator, numbers are spread over their bins."""
        return {column.name: column.values(codes[:, k], generator) for k, column in enumerate(self.columns)}


def _check_name(name: object) -> None:
    if not isinstance(name, str) or not name:
        raise InvalidArgument(f"'name' must be the name of a column, got {format_value(name)}. Give a text.")


def _native(value: Any) -> Hashable:  # noqa: ANN401 - any value
    """A value as a key: numpy's scalars become Python's, and every kind of missing value becomes None."""
    if isinstance(value, np.generic):
        value = value.item()
    try:
        missing = value is None or bool(value != value)  # noqa: PLR0124 - NaN differs from itself
    except Exception:  # pandas.NA has no truth value; an error would tell something of a record
        missing = True
    key: Hashable = None if missing else value
    return key


def _look_up(values: list[Any], codes: dict[Hashable, int], outside: int) -> np.ndarray:
    return np.fromiter(
        (_code_of(value, codes, outside) for value in values), dtype=np.int64, count=len(values)
    )


def _code_of(value: Any, codes: dict[Hashable, int], outside: int) -> int:  # noqa: ANN401 - any value
    try:
        return codes.get(_native(value), outside)
    except Exception:  # unhashable, so no category
        return outside


def _as_numbers(values: np.ndarray) -> np.ndarray:
    if values.dtype != object and np.issubdtype(values.dtype, np.number):
        return np.asarray(values.real, dtype=float)
    return np.fromiter((_number(value) for value in values.tolist()), dtype=float, count=values.size)


def _number(value: Any) -> float:  # noqa: ANN401 - any value
    """A value as a number; a text is no number, even if it spells one."""
    if isinstance(value, (str, bytes)):
        return math.nan
    try:
        return float(value)
    except OverflowError:  # a whole number beyond float64
        return math.inf if value > 0 else -math.inf
    except Exception:  # an error would tell something of a record
        return math.nan


def _take_column(table: Any, name: str) -> np.ndarray:  # noqa: ANN401 - any table
    try:
        column = table[name]
    except Exception:  # every kind of table has its own error for this
        raise InvalidArgument(
            f"The table must have a column '{name}', and a {type(table).__name__} did not give it. "
            f"Give a data frame that was collected, an Arrow table, or a mapping of names to arrays."
        ) from None
    if isinstance(column, np.ndarray):
        values = column
    else:  # value by value: with numpy's common type one row could change another
        try:
            rows = list_records(column)
        except Exception:  # a number, or a container that fails
            raise InvalidArgument(
                f"Column '{name}' must hold one value for each row, got {type(column).__name__}. "
                f"Give a list or an array."
            ) from None
        values = np.empty(len(rows), dtype=object)
        for index, value in enumerate(rows):
            values[index] = value
    if values.ndim != 1:
        raise InvalidArgument(
            f"Column '{name}' must have one value per row, and has another shape. Give a one-dimensional "
            f"column."
        )
    return values


def _first_rows(units: np.ndarray) -> np.ndarray:
    """Which rows are the first row of a unit."""
    keep = np.zeros(units.size, dtype=bool)
    seen: set[Hashable] = {None}
    for row, value in enumerate(units.tolist()):
        key = _native(value)
        try:
            if key in seen:
                continue
            seen.add(key)
        except Exception:  # unhashable, so no unit
            continue
        keep[row] = True
    return keep
