"""Columns of a table as Polars expressions: numbers, keys, units, steps. What cannot be cast is missing.

Each expression looks at one row. So a value that is odd changes what its own row counts, and nothing else.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from datetime import date
from decimal import Decimal
from typing import Any, final
from uuid import UUID

import numpy as np

from privet.errors import InvalidArgument, MissingPackage
from privet.releasing.aggregates import SHARE_STEPS, Cells, KeyColumn, KeyKind, Measure, Present, Share, Steps
from privet.releasing.engine import ColumnKind

try:
    import polars as pl
except ImportError as missing:
    raise MissingPackage(
        "Tables need the package 'polars', and it is not installed. Run: pip install 'privet[tables]'."
    ) from missing

__all__ = ["Columns", "FrameTable", "PandasTable", "Table", "cell", "kind_of", "pl", "row_value"]

_TYPES = {
    KeyKind.TEXT: pl.String(),
    KeyKind.WHOLE: pl.Int64(),
    KeyKind.REAL: pl.Float64(),
    KeyKind.BOOLEAN: pl.Boolean(),
}
_WRITABLE = (str, int, float, bool, Decimal, date, UUID, np.generic)


class Table(ABC):
    """Where rows come from: the columns that are asked for, when they are asked for."""

    @property
    @abstractmethod
    def types(self) -> Mapping[str, pl.DataType]:
        """The schema."""

    @abstractmethod
    def scan(self, columns: Iterable[str]) -> pl.LazyFrame:
        """These columns."""


@final
class FrameTable(Table):
    """A Polars frame, lazy or not."""

    def __init__(self, frame: pl.LazyFrame) -> None:
        self._frame = frame
        self._types = dict(frame.collect_schema())

    @property
    def types(self) -> Mapping[str, pl.DataType]:
        return self._types

    def scan(self, columns: Iterable[str]) -> pl.LazyFrame:
        return self._frame.select(*columns)


@final
class PandasTable(Table):
    """A pandas frame. A column of mixed types is read as text, value by value."""

    def __init__(self, frame: Any) -> None:  # noqa: ANN401 - pandas is not imported here
        names = [name for name in frame.columns if isinstance(name, str)]
        if len(set(names)) < len(names):
            raise InvalidArgument(
                "'data' must have different names for all columns, and has not. Rename them."
            )
        self._frame = frame
        self._types = {name: self._type(name) for name in names}

    @property
    def types(self) -> Mapping[str, pl.DataType]:
        return self._types

    def scan(self, columns: Iterable[str]) -> pl.LazyFrame:
        names = list(columns)
        frame = self._converted([name for name in names if not self._mixed(name)], None)
        texts = [
            pl.Series(name, _texts(self._frame[name]), pl.String()) for name in names if self._mixed(name)
        ]
        if not texts:
            return frame.lazy()
        return (pl.DataFrame(texts) if frame.width == 0 else frame.with_columns(texts)).lazy()

    def _type(self, name: str) -> pl.DataType:
        """The type that a column is read as, without a look at its rows; an object where Polars has none."""
        if self._mixed(name):
            return pl.String()
        try:
            return self._converted([name], 0).schema[name]
        except Exception:  # whatever pandas or Arrow raise for a type that they cannot convert
            return pl.Object()

    def _mixed(self, name: str) -> bool:
        return str(self._frame[name].dtype) == "object"

    def _converted(self, names: list[str], rows: int | None) -> pl.DataFrame:
        if not names:
            return pl.DataFrame()
        frame = self._frame[names]
        converted: pl.DataFrame = pl.from_pandas(
            frame if rows is None else frame.iloc[:rows], include_index=False
        )
        return converted


def _texts(values: Iterable[object]) -> list[str | None]:
    return [_text(value) for value in values]


def _text(value: object) -> str | None:
    """A value as text; what is no plain value, NaN and "not a time" are missing."""
    if not isinstance(value, _WRITABLE):
        return None
    undefined = isinstance(value, (float, np.generic, date)) and bool(value != value)  # noqa: PLR0124
    return None if undefined else str(value)


def kind_of(kind: pl.DataType) -> ColumnKind:
    """What the schema says of a column."""
    if kind.is_numeric() or kind == pl.Null:
        return ColumnKind.NUMBER
    if kind == pl.Boolean:
        return ColumnKind.BOOLEAN
    if kind in (pl.String, pl.Categorical, pl.Enum):
        return ColumnKind.TEXT
    return (
        ColumnKind.NESTED
        if kind.is_nested() or kind in (pl.Object, pl.Binary, pl.Duration)
        else ColumnKind.OTHER
    )


@final
class Columns:
    """Expressions over a table with this schema."""

    def __init__(self, types: Mapping[str, pl.DataType], *, empty_is_missing: bool) -> None:
        self._types = types
        self._empty_is_missing = empty_is_missing

    def number(self, column: str) -> pl.Expr:
        """A float; NaN and what is no number are missing."""
        value = pl.col(column)
        if kind_of(self._types[column]) is ColumnKind.TEXT:
            value = value.cast(pl.String).str.strip_chars()
        return value.cast(pl.Float64, strict=False).fill_nan(None)

    def unit(self, column: str) -> pl.Expr:
        """Something that is equal for the rows of one unit, and different for two."""
        return self._plain(column)

    def key(self, key: KeyColumn) -> pl.Expr:
        """The value as the kind of the public keys, or as the column has it."""
        value, kind = self._plain(key.column), kind_of(self._types[key.column])
        match key.kind:
            case None:
                return value
            case KeyKind.TEXT:
                return value.cast(pl.String, strict=False)
            case KeyKind.REAL:
                return self.number(key.column) + 0.0  # which makes −0 and 0 one
            case KeyKind.WHOLE:
                if self._types[key.column].is_float() or self._types[key.column].is_decimal():
                    number = self.number(key.column)
                    value = pl.when(number == number.floor()).then(number)
                return (value.str.strip_chars() if kind is ColumnKind.TEXT else value).cast(
                    pl.Int64, strict=False
                )
        if kind is ColumnKind.TEXT:
            written = value.str.strip_chars().str.to_lowercase()
            return pl.when(written.is_in(["true", "false"])).then(written == "true")
        if kind is ColumnKind.BOOLEAN:
            return value
        number = self.number(key.column)
        return pl.when(number.is_in([0.0, 1.0])).then(number == 1.0)

    def key_type(self, key: KeyColumn) -> pl.DataType:
        """The type of the expression of a key with a kind."""
        return _TYPES[key.kind] if key.kind is not None else pl.Null()

    def _plain(self, column: str) -> pl.Expr:
        kind, value = self._types[column], pl.col(column)
        match kind_of(kind):
            case ColumnKind.TEXT:
                value = value.cast(pl.String)
                return pl.when(value != "").then(value) if self._empty_is_missing else value
            case ColumnKind.BOOLEAN:
                return value
            case ColumnKind.NUMBER:
                if kind.is_float():
                    return value.cast(pl.Float64).fill_nan(None) + 0.0
                if kind.is_integer() and kind not in (pl.UInt64, pl.Int128, pl.UInt128):
                    return value.cast(pl.Int64)
        return value.cast(pl.String, strict=False)


def row_value(columns: Columns, measure: Measure) -> pl.Expr:
    """What one row adds to a measure, as a whole number; 0 where it has no value."""
    match measure:
        case Present(column):
            return columns.number(column).is_not_null().cast(pl.Int64)
        case Steps(column, lower, upper, _):
            steps = columns.number(column).clip(lower, upper) * measure.per_unit
        case Share(column, lower, upper, power):
            share = _share(columns.number(column), lower, upper)
            steps = (share if power == 1 else share * share) * float(SHARE_STEPS)
        case _:
            raise AssertionError(f"{type(measure).__name__} is counted, not summed")
    return (steps + 0.5).floor().cast(pl.Int64).fill_null(0)


def cell(columns: Columns, cells: Cells) -> pl.Expr:
    """The cell that a row's value falls into; a value at the upper bound is in the last one."""
    share = _share(columns.number(cells.column), cells.lower, cells.upper)
    return (share * float(cells.count)).floor().clip(0, cells.count - 1).cast(pl.Int64)


def _share(value: pl.Expr, lower: float, upper: float) -> pl.Expr:
    # By a product and not by a quotient, so that every engine rounds in the same way.
    share = (value.clip(lower, upper) - float(lower)) * (1.0 / (float(upper) - float(lower)))
    return share.clip(0.0, 1.0)
