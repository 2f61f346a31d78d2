"""A statistic for each group of rows."""

from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import NDArray

from privet.arguments import format_value
from privet.errors import InvalidArgument
from privet.releasing.engines.aggregates import Grouping, KeyColumn, KeyKind
from privet.releasing.keys import Category, Key, Number, Values
from privet.releasing.queries import NoiseKind, StatisticQueries
from privet.releasing.sensitivity import UnitBounds
from privet.releasing.statistics.statistic import RequiredColumn, Scalar, Statistic
from privet.releasing.validation import check_column, check_distinct, check_keys

__all__ = ["GroupBy"]


@final
@dataclass(frozen=True)
class GroupBy(Statistic):
    """A statistic for each group of rows with the same value of ``by``, a column or a tuple of columns.

    With ``keys`` these groups are answered, whether the table has them or not. Without ``keys`` the keys of
    the table are themselves private: a key is shown only if enough units have it, which needs δ > 0.
    """

    by: str | tuple[str, ...]
    statistic: Scalar
    keys: tuple[Key, ...] | None = None

    def __post_init__(self) -> None:
        columns = self.columns
        if not columns:
            raise InvalidArgument("'by' must name a column, got (). Leave the grouping out, or name one.")
        for column in columns:
            check_column("by", column)
        check_distinct("by", columns)
        if not isinstance(self.statistic, Scalar):
            raise InvalidArgument(
                f"'statistic' must be one whose answer is one number, such as Count or Mean, got "
                f"{format_value(self.statistic)}. Give several columns in 'by' for groups within groups."
            )
        if self.keys is not None:
            check_keys(self.keys, len(columns), single=isinstance(self.by, str))

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that make a group."""
        return (self.by,) if isinstance(self.by, str) else self.by

    def required_columns(self) -> tuple[RequiredColumn, ...]:
        keys = tuple(RequiredColumn(column, numeric=False) for column in self.columns)
        return keys + self.statistic.required_columns()

    @property
    def grouping(self) -> Grouping:
        if self.keys is None:
            return Grouping(tuple(KeyColumn(column) for column in self.columns), None)
        keys: tuple[tuple[Category, ...], ...] = tuple(
            key if isinstance(key, tuple) else (key,) for key in self.keys
        )
        kinds = [KeyKind.of(category) for category in keys[0]]
        return Grouping(tuple(map(KeyColumn, self.columns, kinds)), keys)

    def queries(self, bounds: UnitBounds, kind: NoiseKind) -> StatisticQueries:
        return self.statistic.queries(bounds, kind)

    @property
    def counts_rows(self) -> bool:
        return self.statistic.counts_rows

    def simultaneous_noises(self, numbers: int) -> int:
        return self.statistic.simultaneous_noises(numbers)

    def arrange(
        self, keys: tuple[tuple[Category, ...], ...], numbers: list[Number], answers: NDArray[np.float64]
    ) -> Values:
        del answers
        shown_keys: list[Key] = [key[0] for key in keys] if isinstance(self.by, str) else list(keys)
        return tuple(zip(shown_keys, numbers, strict=True))
