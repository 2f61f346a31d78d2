"""Columns of a table as Polars expressions: numbers, keys, units, steps. A value of another type is missing.

Each expression looks at one row, and all engines use these. So a value has one meaning, and an odd value
changes what its own row counts and nothing else. ``values`` has the same rules for a single value, and tests
compare the two.

No library writes dates and times as text here: some lose digits, and some panic beyond their calendar. They
are compared as the whole numbers that store them, and public keys, which are text, are converted to these
numbers.
"""

from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from functools import partial, reduce
from operator import mul
from typing import Any, final

from privet.releasing.engines.aggregates import (
    SHARE_STEPS,
    Aggregate,
    Cells,
    KeyColumn,
    KeyKind,
    ShareFactor,
    ShareSum,
    ValueCount,
    ValueSum,
)
from privet.releasing.keys import Category
from privet.releasing.tables.column_kind import ColumnKind
from privet.releasing.tables.sources import TableSource, part_name, pl
from privet.releasing.tables.values import (
    ValuePart,
    decode_key,
    format_clock,
    format_date,
    format_instant,
    format_number,
    parse_date,
    parse_instant,
    read_part,
)

__all__ = ["ColumnExpressions", "KeyCodec", "cell", "kind_of", "row_value"]

_BLANKS = " \t\n\r\x0b\x0c"  # those of ASCII; other blanks are ordinary characters
_WORDS = {"true": 1.0, "false": 0.0}
_REPLACED = "\ufffd"
_SMALL = (pl.Int8, pl.Int16, pl.Int32, pl.Int64, pl.UInt8, pl.UInt16, pl.UInt32)
_RANGES = {
    pl.UInt64: (0, 2**64),
    pl.Int128: (-(2**127), 2**127),
    getattr(pl, "UInt128", pl.Null): (0, 2**128),
}
_NANOSECONDS = {"ns": 1, "us": 1_000, "ms": 1_000_000}
_LONGEST_NUMBER = 50  # characters


@final
@dataclass(frozen=True)
class KeyCodec:
    """How the values of a column are compared with keys: an expression of one type, and keys as values of
    that type.

    ``encode`` gives None for a key that no value of the column can be. Different keys have different codes.
    """

    expression: pl.Expr
    type: pl.DataType
    encode: Callable[[Any], Any]
    decode: Callable[[Any], Category]


def kind_of(kind: pl.DataType) -> ColumnKind:
    """The kind of a column, from its type in the schema."""
    if kind.is_numeric() or kind == pl.Null:
        return ColumnKind.NUMBER
    if kind == pl.Boolean:
        return ColumnKind.BOOLEAN
    if kind in (pl.String, pl.Categorical, pl.Enum):
        return ColumnKind.TEXT
    return ColumnKind.OTHER if kind in (pl.Date, pl.Time, pl.Datetime) else ColumnKind.NESTED


@final
class ColumnExpressions:
    """Expressions over a table."""

    def __init__(self, table: TableSource) -> None:
        self._types, self._mixed, self._of_text = table.types, table.mixed, table.of_text

    def number(self, column: str) -> pl.Expr:
        """The value as a float. NaN and other values are missing; true and false are 1 and 0."""
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
        """Equal for two rows exactly if they have the same unit: a whole number, a float, a truth value, or
        text."""
        if column in self._mixed:
            return _part(column, ValuePart.NAME)
        if self._of_text:  # two names that are no UTF-8 may have become one name, so neither counts
            text = self._text(column)
            return pl.when(~text.str.contains(_REPLACED, literal=True)).then(text)
        expression, kind = self._own(column), self._types[column]
        if kind == pl.UInt64:
            return expression.reinterpret(signed=True)
        if kind.is_decimal() or kind in _RANGES:
            return expression.cast(pl.String)
        return expression

    def key(self, key: KeyColumn) -> KeyCodec:
        """The column as the kind of its public keys, or in its own type."""
        column = key.column
        match key.kind:
            case None:
                return self._own_key(column)
            case KeyKind.TEXT:
                return self._text_key(column)
            case KeyKind.REAL:
                return KeyCodec(
                    _drop_zero_sign(self.number(column)), pl.Float64(), lambda k: k + 0.0, _float_key
                )
            case KeyKind.WHOLE:
                return KeyCodec(self._whole(column), pl.Int64(), lambda k: k, int)
        return KeyCodec(self._truth(column), pl.Boolean(), lambda k: k, bool)

    def _own_key(self, column: str) -> KeyCodec:
        """Keys that are not listed: each value is a number, a truth value or text, by its own type."""
        if column in self._mixed:
            name = _part(column, ValuePart.NAME)
            return KeyCodec(name, pl.String(), lambda k: read_part(ValuePart.NAME, k), decode_key)
        own, kind = self._own(column), self._types[column]
        if kind.is_decimal():
            scale = kind.scale  # type: ignore[attr-defined]
            return KeyCodec(
                own,
                pl.Int128(),
                lambda k: _parse_decimal(format_number(k) if not isinstance(k, str) else k, scale),
                lambda code: decode_key(f"n{_decimal_text(code, scale)}"),
            )
        if kind.is_float():
            return KeyCodec(own, pl.Float64(), float, _float_key)
        if kind_of(kind) is ColumnKind.OTHER or kind_of(kind) is ColumnKind.TEXT:
            return self._text_key(column)
        return KeyCodec(own, _own_type(kind), lambda k: k, lambda code: code)

    def _text_key(self, column: str) -> KeyCodec:
        """Keys that are text: a value is compared by its text."""
        if column in self._mixed:
            return KeyCodec(_part(column, ValuePart.WRITTEN), pl.String(), _unicode_text, str)
        kind = self._types[column]
        if kind_of(kind) is ColumnKind.TEXT:
            return KeyCodec(self._text(column), pl.String(), _unicode_text, str)
        own, to_code, to_text = self._own(column), *_text_codec(kind)
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
        """The value in the type that stores it: dates, times and decimals are whole numbers."""
        kind, value = self._types[column], pl.col(column)
        if kind_of(kind) is ColumnKind.TEXT:
            return self._text(column)
        if kind.is_float():
            return _drop_zero_sign(value.cast(pl.Float64).fill_nan(None))
        if kind.is_decimal():
            return value.to_physical()
        if kind_of(kind) is ColumnKind.OTHER:
            return value.to_physical().cast(pl.Int64)
        return value.cast(_own_type(kind))


def row_value(columns: ColumnExpressions, aggregate: Aggregate) -> pl.Expr:
    """What one row adds to a aggregate, as a whole number; 0 where it has no value."""
    match aggregate:
        case ValueCount(names):
            return _all_present(columns, names).cast(pl.Int64)
        case ValueSum(column, lower, upper, _):
            steps = columns.number(column).clip(float(lower), float(upper)) * aggregate.per_unit
        case ShareSum(factors):
            steps = _share_product(columns, factors) * float(SHARE_STEPS)
        case _:
            raise AssertionError(f"{type(aggregate).__name__} is counted, not summed")
    return (steps + 0.5).floor().cast(pl.Int64).fill_null(0)


def _all_present(columns: ColumnExpressions, names: tuple[str, ...]) -> pl.Expr:
    return pl.all_horizontal(*(columns.number(name).is_not_null() for name in names))


def _share_product(columns: ColumnExpressions, factors: tuple[ShareFactor, ...]) -> pl.Expr:
    """The product of the shares; null where the column of any factor has no value, whatever its power."""
    shares = [
        _share(columns.number(factor.column), factor.lower, factor.upper)
        for factor in factors
        for _ in range(factor.power)
    ]
    product = reduce(mul, shares)
    unused = tuple(factor.column for factor in factors if factor.power == 0)
    return pl.when(_all_present(columns, unused)).then(product) if unused else product


def cell(columns: ColumnExpressions, cells: Cells) -> pl.Expr:
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
    """Numbers that texts are. Only a text that is no number is searched for blanks around it and for
    words."""
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


def _drop_zero_sign(number: pl.Expr) -> pl.Expr:
    """0 for −0. Adding 0 is not enough: an optimiser removes that."""
    return pl.when(number == 0.0).then(0.0).otherwise(number)


def _own_type(kind: pl.DataType) -> pl.DataType:
    if kind_of(kind) is ColumnKind.TEXT:
        return pl.String()
    if kind.is_float():
        return pl.Float64()
    if kind in _SMALL or kind == pl.Null or kind_of(kind) is ColumnKind.OTHER:
        return pl.Int64()
    return kind


def _float_key(number: float) -> Category:
    return decode_key(f"n{format_number(number)}")


def _unicode_text(key: str) -> str | None:
    text: str | None = read_part(ValuePart.TEXT, key)
    return text


def _text_codec(kind: pl.DataType) -> tuple[Callable[[str], Any], Callable[[Any], str]]:
    """From text to the stored value of a type, or None; and from the stored value to its text."""
    if kind == pl.Boolean:
        return {"true": True, "false": False}.get, lambda code: "true" if code else "false"
    if kind == pl.Date:
        return parse_date, format_date
    if kind == pl.Time:
        return lambda text: parse_instant(text, utc=None), format_clock
    if isinstance(kind, pl.Datetime):
        step, utc = _NANOSECONDS[kind.time_unit], kind.time_zone is not None

        def parse(text: str) -> int | None:
            nanoseconds = parse_instant(text, utc=utc)
            if nanoseconds is None or nanoseconds % step:
                return None
            return _in_range(nanoseconds // step, -(2**63), 2**63)

        return parse, lambda code: format_instant(code * step, utc=utc)
    if kind.is_decimal():
        scale = kind.scale  # type: ignore[attr-defined]
        return partial(_parse_decimal, scale=scale), partial(_decimal_text, scale=scale)
    if kind.is_float():
        return _parse_float, format_number
    least, beyond = _RANGES.get(type(kind), (-(2**63), 2**63))
    return lambda text: _in_range(_parse_int(text), least, beyond), format_number


def _in_range(code: int | None, least: int, beyond: int) -> int | None:
    return code if code is not None and least <= code < beyond else None


def _parse_int(text: str) -> int | None:
    number = decode_key(f"n{text}") if len(text) < _LONGEST_NUMBER else None
    return number if type(number) is int and format_number(number) == text else None


def _parse_float(text: str) -> float | None:
    key = decode_key(f"n{text}") if len(text) < _LONGEST_NUMBER else None
    number = float(key) if isinstance(key, (int, float)) else None
    return number if number is not None and format_number(number) == text else None


def _decimal_text(code: int, scale: int) -> str:
    return format_number(Decimal(code).scaleb(-scale))


def _parse_decimal(text: str, scale: int) -> int | None:
    try:
        number = Decimal(text)
        code = number.scaleb(scale)
        whole = (
            int(code) if number.is_finite() and abs(number.adjusted()) < 60 and code == int(code) else None
        )
    except (InvalidOperation, ValueError, OverflowError):
        return None
    return whole if whole is not None and format_number(number) == text and abs(whole) < 2**127 else None
