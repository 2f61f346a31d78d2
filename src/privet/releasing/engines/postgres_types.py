"""Columns of PostgreSQL: the type that each has here, how it is read, and how it travels.

The database groups by the *own form* of a column, which is a plain value whose equality is that of the
engines: text by its bytes (``COLLATE "C"``, so that no collation of the database counts). It sends
the bytes of that form in base 16, or whole numbers as digits. So no setting of the server, such as its style
of dates, changes a value, and no line needs quotes.

What the types of this library do not have is missing: infinite dates and times, 24:00, NaN.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from enum import StrEnum
from typing import final

from privet.releasing.tables.sources import TableSource, part_type, pl
from privet.releasing.tables.values import ValuePart, read_part

__all__ = ["LineSource", "PostgresColumn", "PostgresKind", "find_column", "quote_name"]

_EPOCH_DAYS = 10_957  # from 1970 to 2000, where PostgreSQL counts from
_EPOCH_MICROSECONDS = _EPOCH_DAYS * 86_400 * 10**6
_DAY_MICROSECONDS = 86_400 * 10**6
_FURTHEST_DATE, _FURTHEST_TIME = 2**31 - 1, 2**63 - 1  # these, and their opposites, are infinite
_MOST_DIGITS = 38


@final
class PostgresKind(StrEnum):
    """How a column is read."""

    WHOLE = "whole"
    REAL = "real"
    BOOLEAN = "boolean"
    TEXT = "text"
    DATE = "date"
    TIME = "time"
    INSTANT = "instant"
    INSTANT_UTC = "instant with time zone"
    DECIMAL = "decimal"
    NUMERIC = "numeric of any scale"
    OTHER = "other"


_KINDS = {
    16: PostgresKind.BOOLEAN,
    **dict.fromkeys((20, 21, 23, 26), PostgresKind.WHOLE),
    **dict.fromkeys((18, 19, 25, 1042, 1043, 2950), PostgresKind.TEXT),  # names, text, char, UUIDs
    **dict.fromkeys((700, 701), PostgresKind.REAL),
    1082: PostgresKind.DATE,
    1083: PostgresKind.TIME,
    1114: PostgresKind.INSTANT,
    1184: PostgresKind.INSTANT_UTC,
    1700: PostgresKind.NUMERIC,
}
_TYPES: Mapping[PostgresKind, pl.DataType] = {
    PostgresKind.WHOLE: pl.Int64(),
    PostgresKind.REAL: pl.Float64(),
    PostgresKind.BOOLEAN: pl.Boolean(),
    PostgresKind.TEXT: pl.String(),
    PostgresKind.DATE: pl.Date(),
    PostgresKind.TIME: pl.Time(),
    PostgresKind.INSTANT: pl.Datetime("us"),
    PostgresKind.INSTANT_UTC: pl.Datetime("us", "UTC"),
    PostgresKind.NUMERIC: pl.String(),
    PostgresKind.OTHER: pl.Object(),
}
_OWN_FORMS = {
    PostgresKind.WHOLE: "({0})::int8",
    PostgresKind.REAL: "({0})::float8",
    PostgresKind.BOOLEAN: "({0})::int4",
    PostgresKind.TEXT: '({0})::text COLLATE "C"',
    PostgresKind.NUMERIC: "trim_scale({0})",
}
_SENT_FORMS = {
    PostgresKind.REAL: "encode(float8send({0}), 'hex')",
    PostgresKind.TEXT: "'t' || encode(convert_to({0}, 'UTF8'), 'hex')",  # no line has an empty field
    PostgresKind.DATE: "encode(date_send({0}), 'hex')",
    PostgresKind.TIME: "encode(time_send({0}), 'hex')",
    PostgresKind.INSTANT: "encode(timestamp_send({0}), 'hex')",
    PostgresKind.INSTANT_UTC: "encode(timestamptz_send({0}), 'hex')",
}
_NUMBERS = {
    PostgresKind.WHOLE: "({0})::float8",
    PostgresKind.REAL: "NULLIF(({0})::float8, 'NaN'::float8)",
    PostgresKind.BOOLEAN: "({0})::int4::float8",
    PostgresKind.DECIMAL: "NULLIF({0}, 'NaN'::numeric)::float8",
}


@final
@dataclass(frozen=True)
class PostgresColumn:
    """A column: its name, how it is read, and its type here."""

    name: str
    kind: PostgresKind
    type: pl.DataType

    @property
    def mixed(self) -> bool:
        """Whether its values have no type in common, and are read one by one."""
        return self.kind is PostgresKind.NUMERIC

    @property
    def own_form(self) -> str:
        """The value that the database groups by, as SQL."""
        return _OWN_FORMS.get(self.kind, "{0}").format(quote_name(self.name))

    @property
    def number(self) -> str | None:
        """The value as a float, NULL for NaN, as SQL; None if only this library can read it as a number.

        PostgreSQL and Polars both round a whole number or a decimal to the nearest float.
        """
        form = _NUMBERS.get(self.kind)
        return None if form is None else form.format(quote_name(self.name))

    def sent_form(self, own: str) -> str:
        """The own form as it travels, as SQL."""
        return _SENT_FORMS.get(self.kind, "({0})::text").format(own)

    def read(self, sent: pl.Expr) -> pl.Expr:
        """What travelled, as a value of the type here."""
        match self.kind:
            case PostgresKind.WHOLE:
                return sent.cast(pl.Int64)
            case PostgresKind.BOOLEAN:
                return sent == "1"
            case PostgresKind.REAL:
                return _read_bytes(sent, pl.Float64())
            case PostgresKind.TEXT:
                return sent.str.slice(1).str.decode("hex").cast(pl.String)
            case PostgresKind.DATE:
                days = _read_bytes(sent, pl.Int32()).cast(pl.Int64)
                days = _finite(days, _FURTHEST_DATE) + _EPOCH_DAYS
                return days.cast(pl.Int32, strict=False).cast(pl.Date)
            case PostgresKind.TIME:
                clock = _read_bytes(sent, pl.Int64())
                return (pl.when(clock < _DAY_MICROSECONDS).then(clock) * 1000).cast(pl.Time)
            case PostgresKind.INSTANT | PostgresKind.INSTANT_UTC:
                instant = _finite(_read_bytes(sent, pl.Int64()), _FURTHEST_TIME)
                near = pl.when(instant <= _FURTHEST_TIME - _EPOCH_MICROSECONDS).then(instant)
                return (near + _EPOCH_MICROSECONDS).cast(self.type)
            case PostgresKind.DECIMAL:
                return sent.cast(self.type, strict=False)
        return sent


@final
class LineSource(TableSource):
    """Lines that the database sent, as a table with the types of ``columns``, and other columns beside."""

    def __init__(self, columns: Iterable[PostgresColumn], lines: pl.DataFrame) -> None:
        self._columns = {column.name: column for column in columns}
        self._lines = lines

    @property
    def types(self) -> Mapping[str, pl.DataType]:
        return {name: column.type for name, column in self._columns.items()}

    @property
    def mixed(self) -> frozenset[str]:
        return frozenset(name for name, column in self._columns.items() if column.mixed)

    def scan(self, names: Iterable[str]) -> pl.LazyFrame:
        parts, plain = [], []
        for name in names:
            column, _, part = name.rpartition("\x00")
            if column in self.mixed:
                values = [read_part(ValuePart(part), _parse_numeric(text)) for text in self._lines[column]]
                parts.append(pl.Series(name, values, part_type(ValuePart(part))))
            else:
                plain.append(name)
        return self._lines.select(*plain).with_columns(parts).lazy()


def find_column(
    name: str, code: int, typename: str | None, digits: int | None, scale: int | None
) -> PostgresColumn:
    """A column by the number of its type; by the type's name if its number differs between databases."""
    kind = _KINDS.get(code, PostgresKind.TEXT if typename in ("citext", "enum") else PostgresKind.OTHER)
    if (
        kind is PostgresKind.NUMERIC
        and 0 < (digits or 0) <= _MOST_DIGITS
        and 0 <= (scale or 0) <= (digits or 0)
    ):
        return PostgresColumn(name, PostgresKind.DECIMAL, pl.Decimal(digits, scale or 0))
    return PostgresColumn(name, kind, _TYPES[kind])


def quote_name(name: str) -> str:
    """A name as SQL, whatever characters it has."""
    return '"' + name.replace('"', '""') + '"'


def _read_bytes(sent: pl.Expr, kind: pl.DataType) -> pl.Expr:
    return sent.str.decode("hex").bin.reinterpret(dtype=kind, endianness="big")


def _finite(number: pl.Expr, furthest: int) -> pl.Expr:
    return pl.when((number < furthest) & (number > -furthest - 1)).then(number)


def _parse_numeric(text: str | None) -> Decimal | None:
    try:
        return None if text is None else Decimal(text)
    except InvalidOperation:
        return None
