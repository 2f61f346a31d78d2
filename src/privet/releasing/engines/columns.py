"""Columns of a table as expressions: numbers, keys, units, steps. What a value is not, is missing.

Each expression looks at one row, and all engines take theirs from here. So a value has one meaning, and an odd one
changes what its own row counts and nothing else. ``values`` says the same of a single value, and tests compare the two.

Dates and times are never written by a library: some lose digits, and some panic beyond their calendar. They are
compared as the whole numbers that they are stored as, and public keys, which are text, are turned into those.
"""

from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Any, final

from privet.releasing.engines.aggregates import (
    SHARE_STEPS,
    Cells,
    KeyColumn,
    KeyKind,
    Measure,
    Present,
    Share,
    Steps,
)
from privet.releasing.statistics import Category
from privet.releasing.tables.column_kind import ColumnKind
from privet.releasing.tables.sources import Table, part_name, pl
from privet.releasing.tables.values import (
    ValuePart,
    category_of,
    clock_text,
    date_text,
    days_of,
    instant_text,
    nanoseconds_of,
    part_of,
    text_of_number,
)

__all__ = ["Columns", "KeyCodec", "cell", "kind_of", "row_value"]

_BLANKS = " \t\n\r\x0b\x0c"  # of ASCII; other blanks are characters
_WORDS = {"true": 1.0, "false": 0.0}
_REPLACED = "\ufffd"
_SMALL = (pl.Int8, pl.Int16, pl.Int32, pl.Int64, pl.UInt8, pl.UInt16, pl.UInt32)
_RANGES = {
    pl.UInt64: (0, 2**64),
    pl.Int128: (-(2**127), 2**127),
    getattr(pl, "UInt128", pl.Null): (0, 2**128),
}
_PER_NANOSECOND = {"ns": 1, "us": 1_000, "ms": 1_000_000}


@final
@dataclass(frozen=True)
class KeyCodec:
    """How the values of a column are compared with keys: an expression of one type, and keys as values of that type.

    ``encode`` gives None for a key that no value of the column is; different keys have different codes.
    """

    expression: pl.Expr
    type: pl.DataType
    encode: Callable[[Any], Any]
    decode: Callable[[Any], Category]


def kind_of(kind: pl.DataType) -> ColumnKind:
    """What the schema says of a column."""
    if kind.is_numeric() or kind == pl.Null:
        return ColumnKind.NUMBER
    if kind == pl.Boolean:
        return ColumnKind.BOOLEAN
    if kind in (pl.String, pl.Categorical, pl.Enum):
        return ColumnKind.TEXT
    return ColumnKind.OTHER if kind in (pl.Date, pl.Time, pl.Datetime) else ColumnKind.NESTED


@final
class Columns:
    """Expressions over a table."""

    def __init__(self, table: Table) -> None:
        self._types, self._mixed, self._of_text = table.types, table.mixed, table.of_text

    def number(self, column: str) -> pl.Expr:
        """A float; NaN and what is no number are missing, and true and false are 1 and 0."""
        if column in self._mixed:
            text = _number_in(_part(column, ValuePart.TEXT))
            return pl.coalesce(_part(column, ValuePart.NUMBER), text)
        match kind_of(self._types[column]):
            case ColumnKind.TEXT:
                return _number_in(pl.col(column).cast(pl.String))
            case ColumnKind.NUMBER | ColumnKind.BOOLEAN:
                return pl.col(column).cast(pl.Float64, strict=False).fill_nan(None)
        return pl.lit(None, dtype=pl.Float64)

    def unit(self, column: str) -> pl.Expr:
        """Equal for the rows of one unit, and different for two; a whole number, a float, a truth value, or text."""
        if column in self._mixed:
            return _part(column, ValuePart.NAME)
        if self._of_text:  # two names that are no UTF-8 may have become one, so neither is a name
            text = self._text(column)
            return pl.when(~text.str.contains(_REPLACED, literal=True)).then(text)
        expression, kind = self._own(column), self._types[column]
        if kind == pl.UInt64:
            return expression.reinterpret(signed=True)
        if kind.is_decimal() or kind in _RANGES:
            return expression.cast(pl.String)
        return expression

    def key(self, key: KeyColumn) -> KeyCodec:
        """The column as the kind of its public keys, or as its values are."""
        column = key.column
        match key.kind:
            case None:
                return self._found(column)
            case KeyKind.TEXT:
                return self._written(column)
            case KeyKind.REAL:
                return KeyCodec(_without_sign(self.number(column)), pl.Float64(), lambda k: k + 0.0, _shown)
            case KeyKind.WHOLE:
                return KeyCodec(self._whole(column), pl.Int64(), lambda k: k, int)
        return KeyCodec(self._truth(column), pl.Boolean(), lambda k: k, bool)

    def _found(self, column: str) -> KeyCodec:
        """Keys that are not listed: each value as the number, truth value or text that it is."""
        if column in self._mixed:
            name = _part(column, ValuePart.NAME)
            return KeyCodec(name, pl.String(), lambda k: part_of(ValuePart.NAME, k), category_of)
        own, kind = self._own(column), self._types[column]
        if kind.is_decimal():
            scale = kind.scale  # type: ignore[attr-defined]
            return KeyCodec(
                own,
                pl.Int128(),
                lambda k: _scaled(text_of_number(k) if not isinstance(k, str) else k, scale),
                lambda code: category_of(f"n{text_of_number(Decimal(code).scaleb(-scale))}"),
            )
        if kind.is_float():
            return KeyCodec(own, pl.Float64(), float, _shown)
        if kind_of(kind) is ColumnKind.OTHER or kind_of(kind) is ColumnKind.TEXT:
            return self._written(column)
        return KeyCodec(own, _own_type(kind), lambda k: k, lambda code: code)

    def _written(self, column: str) -> KeyCodec:
        """Keys that are text: a value is compared as it is written."""
        if column in self._mixed:
            return KeyCodec(_part(column, ValuePart.WRITTEN), pl.String(), _plain_text, str)
        kind = self._types[column]
        if kind_of(kind) is ColumnKind.TEXT:
            return KeyCodec(self._text(column), pl.String(), _plain_text, str)
        own, to_code, to_text = self._own(column), *_writing(kind)
        own_type = pl.Int128() if kind.is_decimal() else _own_type(kind)
        return KeyCodec(own, own_type, to_code, to_text)

    def _whole(self, column: str) -> pl.Expr:
        if column in self._mixed:
            return pl.coalesce(_part(column, ValuePart.WHOLE), _whole_in(_part(column, ValuePart.TEXT)))
        kind = self._types[column]
        if kind_of(kind) is ColumnKind.TEXT:
            return _whole_in(pl.col(column).cast(pl.String))
        if kind.is_float() or kind.is_decimal():
            number = self.number(column)
            return pl.when(number == number.floor()).then(number).cast(pl.Int64, strict=False)
        if kind_of(kind) is ColumnKind.OTHER:
            return pl.lit(None, dtype=pl.Int64)
        return pl.col(column).cast(pl.Int64, strict=False)

    def _truth(self, column: str) -> pl.Expr:
        if column in self._mixed:
            number = _part(column, ValuePart.NUMBER)
            return pl.coalesce(_truth_of(number), _truth_in(_part(column, ValuePart.TEXT)))
        kind = kind_of(self._types[column])
        if kind is ColumnKind.TEXT:
            return _truth_in(pl.col(column).cast(pl.String))
        return pl.col(column) if kind is ColumnKind.BOOLEAN else _truth_of(self.number(column))

    def _text(self, column: str) -> pl.Expr:
        text = pl.col(column).cast(pl.String)
        return pl.when(text != "").then(text) if self._of_text else text

    def _own(self, column: str) -> pl.Expr:
        """The value as it is stored: dates, times and decimals as whole numbers."""
        kind, value = self._types[column], pl.col(column)
        if kind_of(kind) is ColumnKind.TEXT:
            return self._text(column)
        if kind.is_float():
            return _without_sign(value.cast(pl.Float64).fill_nan(None))
        if kind.is_decimal():
            return value.to_physical()
        if kind_of(kind) is ColumnKind.OTHER:
            return value.to_physical().cast(pl.Int64)
        return value.cast(_own_type(kind))


def row_value(columns: Columns, measure: Measure) -> pl.Expr:
    """What one row adds to a measure, as a whole number; 0 where it has no value."""
    match measure:
        case Present(column):
            return columns.number(column).is_not_null().cast(pl.Int64)
        case Steps(column, lower, upper, _):
            steps = columns.number(column).clip(float(lower), float(upper)) * measure.per_unit
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
    share = (value.clip(float(lower), float(upper)) - float(lower)) * (1.0 / (float(upper) - float(lower)))
    return share.clip(0.0, 1.0)


def _part(column: str, part: ValuePart) -> pl.Expr:
    return pl.col(part_name(column, part))


def _number_in(text: pl.Expr) -> pl.Expr:
    return text.map_batches(_read_numbers, return_dtype=pl.Float64(), is_elementwise=True)


def _read_numbers(text: pl.Series) -> pl.Series:
    """Numbers that are written in a text. Blanks around them and words are looked for only where there is no number."""
    numbers = text.cast(pl.Float64, strict=False)
    unread = (numbers.is_null() & text.is_not_null()).arg_true()
    if unread.len():
        written = text.gather(unread).str.strip_chars(_BLANKS)
        words = written.str.to_lowercase().replace_strict(_WORDS, default=None, return_dtype=pl.Float64)
        numbers = numbers.scatter(unread, written.cast(pl.Float64, strict=False).fill_null(words))
    return numbers.fill_nan(None)


def _whole_in(text: pl.Expr) -> pl.Expr:
    return text.str.strip_chars(_BLANKS).cast(pl.Int64, strict=False)


def _truth_in(text: pl.Expr) -> pl.Expr:
    written = text.str.strip_chars(_BLANKS).str.to_lowercase()
    return pl.when(written.is_in(["true", "false"])).then(written == "true")


def _truth_of(number: pl.Expr) -> pl.Expr:
    return pl.when(number.is_in([0.0, 1.0])).then(number == 1.0)


def _without_sign(number: pl.Expr) -> pl.Expr:
    """−0 is 0. Adding 0 would not do: an optimiser takes that away."""
    return pl.when(number == 0.0).then(0.0).otherwise(number)


def _own_type(kind: pl.DataType) -> pl.DataType:
    if kind_of(kind) is ColumnKind.TEXT:
        return pl.String()
    if kind.is_float():
        return pl.Float64()
    if kind in _SMALL or kind == pl.Null or kind_of(kind) is ColumnKind.OTHER:
        return pl.Int64()
    return kind


def _shown(number: float) -> Category:
    return category_of(f"n{text_of_number(number)}")


def _plain_text(key: str) -> str | None:
    found: str | None = part_of(ValuePart.TEXT, key)
    return found


def _writing(kind: pl.DataType) -> tuple[Callable[[str], Any], Callable[[Any], str]]:
    """How values of a type are written, and which value a text is written for, if it is."""
    if kind == pl.Boolean:
        return {"true": True, "false": False}.get, lambda code: "true" if code else "false"
    if kind == pl.Date:
        return days_of, date_text
    if kind == pl.Time:
        return lambda text: nanoseconds_of(text, utc=None), clock_text
    if isinstance(kind, pl.Datetime):
        step, utc = _PER_NANOSECOND[kind.time_unit], kind.time_zone is not None

        def instant(text: str) -> int | None:
            found = nanoseconds_of(text, utc=utc)
            return None if found is None or found % step else _within(found // step, -(2**63), 2**63)

        return instant, lambda code: instant_text(code * step, utc=utc)
    if kind.is_decimal():
        scale = kind.scale  # type: ignore[attr-defined]
        return lambda text: _scaled(text, scale), lambda code: text_of_number(Decimal(code).scaleb(-scale))
    if kind.is_float():
        return _float_written, text_of_number
    least, beyond = _RANGES.get(type(kind), (-(2**63), 2**63))
    return lambda text: _within(_int_written(text), least, beyond), text_of_number


def _within(code: int | None, least: int, beyond: int) -> int | None:
    return code if code is not None and least <= code < beyond else None


def _int_written(text: str) -> int | None:
    found = category_of(f"n{text}") if len(text) < 50 else None
    return found if type(found) is int and text_of_number(found) == text else None


def _float_written(text: str) -> float | None:
    found = category_of(f"n{text}") if len(text) < 50 else None
    number = float(found) if isinstance(found, (int, float)) else None
    return number if number is not None and text_of_number(number) == text else None


def _scaled(text: str, scale: int) -> int | None:
    try:
        number = Decimal(text)
        code = number.scaleb(scale)
        whole = (
            int(code) if number.is_finite() and abs(number.adjusted()) < 60 and code == int(code) else None
        )
    except (InvalidOperation, ValueError, OverflowError):
        return None
    return whole if whole is not None and text_of_number(number) == text and abs(whole) < 2**127 else None
