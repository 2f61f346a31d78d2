"""Numbers of rows: in all, by category, by combination of categories, and for the largest categories."""

from dataclasses import dataclass
from itertools import product
from math import prod
from typing import ClassVar, Self, final

import numpy as np
from numpy.typing import NDArray

from privet.arguments import format_value, whole
from privet.errors import InvalidArgument
from privet.releasing.engines.aggregates import Grouping, KeyColumn, KeyKind, RowCount
from privet.releasing.keys import Category, Number, Values
from privet.releasing.queries import LinearCombination, NoiseKind, StatisticQueries, SumQuery
from privet.releasing.sensitivity import UnitBounds
from privet.releasing.statistics.option_words import (
    read_categories,
    read_columns,
    read_whole,
    require_categories,
    require_parts,
)
from privet.releasing.statistics.statistic import NamedStatistic, RequiredColumn, Scalar
from privet.releasing.validation import (
    MOST_CELLS,
    check_categories,
    check_column,
    check_distinct,
)

__all__ = ["Count", "Histogram", "Marginal", "TopK"]

_Keys = tuple[tuple[Category, ...], ...]


@final
@dataclass(frozen=True)
class Count(Scalar):
    """The number of rows."""

    option: ClassVar[str] = "count"

    def required_columns(self) -> tuple[RequiredColumn, ...]:
        return ()

    def queries(self, bounds: UnitBounds, kind: NoiseKind) -> StatisticQueries:
        del kind
        return _row_counts(bounds)

    @property
    def counts_rows(self) -> bool:
        return True

    @classmethod
    def from_words(cls, option: str, words: str) -> Self:
        del option, words
        return cls()

    @property
    def subject(self) -> str:
        return ""


@dataclass(frozen=True)
class KeyedCount(NamedStatistic):
    """The number of rows for each of several keys."""

    def queries(self, bounds: UnitBounds, kind: NoiseKind) -> StatisticQueries:
        del kind
        return _row_counts(bounds)

    @property
    def counts_rows(self) -> bool:
        return True


@final
@dataclass(frozen=True)
class Histogram(KeyedCount):
    """The number of rows in each of the listed categories of a column."""

    option: ClassVar[str] = "histogram"

    column: str
    categories: tuple[Category, ...]

    def __post_init__(self) -> None:
        check_column("column", self.column)
        check_categories("categories", self.categories)

    def required_columns(self) -> tuple[RequiredColumn, ...]:
        return (RequiredColumn(self.column, numeric=False),)

    @property
    def grouping(self) -> Grouping:
        return _by_categories(self.column, self.categories)

    def arrange(self, keys: _Keys, numbers: list[Number], answers: NDArray[np.float64]) -> Values:
        del answers
        return tuple((key, number) for (key,), number in zip(keys, numbers, strict=True))

    @classmethod
    def from_words(cls, option: str, words: str) -> Self:
        column, categories = require_parts(
            option, words, words.split(":", 1), 2, "COL:A,B,…, as in city:a,b,c"
        )
        return cls(column, read_categories(option, categories))

    @property
    def subject(self) -> str:
        return self.column


@final
@dataclass(frozen=True)
class Marginal(KeyedCount):
    """The number of rows in each combination of the listed categories of several columns.

    >>> Marginal((("sex", ("f", "m")), ("smokes", (True, False)))).cells
    4
    """

    option: ClassVar[str] = "marginal"

    columns: tuple[tuple[str, tuple[Category, ...]], ...]

    def __post_init__(self) -> None:
        if not isinstance(self.columns, tuple) or not self.columns:
            raise InvalidArgument(
                f"'columns' must be a tuple of pairs (column, categories), got {format_value(self.columns)}. "
                f'Write (("sex", ("f", "m")), …).'
            )
        for pair in self.columns:
            if not isinstance(pair, tuple) or len(pair) != 2:
                raise InvalidArgument(
                    f"'columns' must hold pairs (column, categories), got {format_value(pair)}. "
                    f'Write (("sex", ("f", "m")), …).'
                )
            check_column("columns", pair[0])
            check_categories("columns", pair[1])
        check_distinct("columns", tuple(name for name, _ in self.columns))
        if self.cells > MOST_CELLS:
            raise InvalidArgument(
                f"'columns' must have at most {MOST_CELLS:.0e} combinations, got {self.cells:.0e}. "
                f"Ask for a marginal of fewer columns."
            )

    @property
    def cells(self) -> int:
        """How many combinations there are."""
        return prod(len(categories) for _, categories in self.columns)

    @property
    def keys(self) -> tuple[tuple[Category, ...], ...]:
        """Every combination."""
        return tuple(product(*(categories for _, categories in self.columns)))

    def required_columns(self) -> tuple[RequiredColumn, ...]:
        return tuple(RequiredColumn(name, numeric=False) for name, _ in self.columns)

    @property
    def grouping(self) -> Grouping:
        columns = tuple(KeyColumn(name, KeyKind.of(categories[0])) for name, categories in self.columns)
        return Grouping(columns, self.keys)

    def arrange(self, keys: _Keys, numbers: list[Number], answers: NDArray[np.float64]) -> Values:
        del answers
        return tuple(zip(keys, numbers, strict=True))

    @classmethod
    def from_words(cls, option: str, words: str) -> Self:
        columns = read_columns(option, words)
        return cls(tuple((name, require_categories(option, name, values)) for name, values in columns))

    @property
    def subject(self) -> str:
        return " ".join(name for name, _ in self.columns)


@final
@dataclass(frozen=True)
class TopK(KeyedCount):
    """The ``k`` listed categories of a column with the most rows, largest first, and their numbers of rows.

    Without ``categories`` the categories of the table are private, as the keys of a ``GroupBy`` are.
    """

    option: ClassVar[str] = "top-k"

    column: str
    k: int
    categories: tuple[Category, ...] | None = None

    def __post_init__(self) -> None:
        check_column("column", self.column)
        whole("k", self.k)
        if self.categories is None:
            return
        check_categories("categories", self.categories)
        if self.k > len(self.categories):
            raise InvalidArgument(
                f"'k' must be at most the number of categories, {len(self.categories)}, got {self.k}. "
                f"Ask for a histogram to see all of them."
            )

    def required_columns(self) -> tuple[RequiredColumn, ...]:
        return (RequiredColumn(self.column, numeric=False),)

    @property
    def grouping(self) -> Grouping:
        if self.categories is None:
            return Grouping((KeyColumn(self.column),), None)
        return _by_categories(self.column, self.categories)

    def simultaneous_noises(self, numbers: int) -> int:
        """All categories have noise, and the noise helps to choose the winners."""
        return super().simultaneous_noises(numbers) if self.categories is None else len(self.categories)

    def arrange(self, keys: _Keys, numbers: list[Number], answers: NDArray[np.float64]) -> Values:
        largest = np.argsort(-answers, kind="stable")[: self.k]
        return tuple((keys[index][0], numbers[index]) for index in largest)

    @classmethod
    def from_words(cls, option: str, words: str) -> Self:
        parts = words.split(":", 2)
        if len(parts) < 2:
            require_parts(option, words, parts, 3, "COL:K:A,B,… or COL:K, as in city:3:a,b,c,d,e")
        categories = read_categories(option, parts[2]) if len(parts) == 3 else None
        return cls(parts[0], read_whole(option, parts[1]), categories)

    @property
    def subject(self) -> str:
        return self.column


def _row_counts(bounds: UnitBounds) -> StatisticQueries:
    sensitivity = bounds.one_number(0, bounds.contribution.rows)
    return StatisticQueries((SumQuery((LinearCombination.of(RowCount()),), sensitivity, 1.0),))


def _by_categories(column: str, categories: tuple[Category, ...]) -> Grouping:
    key_column = KeyColumn(column, KeyKind.of(categories[0]))
    return Grouping((key_column,), tuple((category,) for category in categories))
