"""Columns of a table as SQL of DuckDB, to the letter what ``columns_polars`` says in Polars.

Each expression looks at one row. ``TRY_CAST`` gives NULL where a value does not fit, and never an error.
"""

from collections.abc import Mapping
from typing import final

from privet.releasing.aggregates import SHARE_STEPS, Cells, KeyColumn, KeyKind, Present, Share, Steps, Summed
from privet.releasing.engine import ColumnKind

__all__ = ["Columns", "cell", "kind_of", "quoted", "row_value", "text"]

_SMALL = {"TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER"}
_LARGE = {"UBIGINT", "HUGEINT", "UHUGEINT"}
_FLOATS = {"FLOAT", "DOUBLE"}
_BLANKS = "' ' || chr(9) || chr(10) || chr(13)"


def kind_of(kind: str) -> ColumnKind:
    """What the schema says of a column."""
    if kind in _SMALL | _LARGE | _FLOATS or kind.startswith("DECIMAL") or kind == '"NULL"':
        return ColumnKind.NUMBER
    if kind == "BOOLEAN":
        return ColumnKind.BOOLEAN
    if kind.endswith("]") or kind.startswith(("STRUCT", "MAP", "UNION", "BLOB", "BIT", "VARIANT")):
        return ColumnKind.NESTED
    if kind == "VARCHAR" or kind.startswith("ENUM"):
        return ColumnKind.TEXT
    return ColumnKind.OTHER


def quoted(name: str) -> str:
    """An identifier."""
    return '"' + name.replace('"', '""') + '"'


def text(value: str) -> str:
    """A text literal."""
    return "'" + value.replace("'", "''") + "'"


def _real(value: float) -> str:
    """A DOUBLE literal with every digit; without an exponent it would be a DECIMAL."""
    return f"({value:.17e})"


@final
class Columns:
    """Expressions over a table with this schema."""

    def __init__(self, types: Mapping[str, str], *, empty_is_missing: bool) -> None:
        self._types = types
        self._empty_is_missing = empty_is_missing

    def number(self, column: str) -> str:
        """A DOUBLE; NaN and what is no number are NULL."""
        value = quoted(column)
        if kind_of(self._types[column]) is ColumnKind.TEXT:
            value = f"trim(CAST({value} AS VARCHAR), {_BLANKS})"
        return _without_nan(f"TRY_CAST({value} AS DOUBLE)")

    def unit(self, column: str) -> str:
        """Something that is equal for the rows of one unit, and different for two."""
        return self._plain(column)

    def key(self, key: KeyColumn) -> str:
        """The value as the kind of the public keys, or as the column has it."""
        value, kind = self._plain(key.column), kind_of(self._types[key.column])
        written = f"trim({value}, {_BLANKS})"
        match key.kind:
            case None:
                return value
            case KeyKind.TEXT:
                return f"CAST({value} AS VARCHAR)"
            case KeyKind.REAL:
                return f"({self.number(key.column)} + 0e0)"
            case KeyKind.WHOLE:
                if kind is ColumnKind.TEXT:
                    whole = f"regexp_full_match({written}, '[+-]?[0-9]+')"
                    return f"CASE WHEN {whole} THEN TRY_CAST({written} AS BIGINT) END"
                if self._types[key.column] in _FLOATS or self._types[key.column].startswith("DECIMAL"):
                    number = self.number(key.column)
                    return f"CASE WHEN {number} = floor({number}) THEN TRY_CAST({number} AS BIGINT) END"
                return f"TRY_CAST({value} AS BIGINT)"
        if kind is ColumnKind.TEXT:
            return f"CASE lower({written}) WHEN 'true' THEN true WHEN 'false' THEN false END"
        if kind is ColumnKind.BOOLEAN:
            return value
        return f"CASE {self.number(key.column)} WHEN 1 THEN true WHEN 0 THEN false END"

    def _plain(self, column: str) -> str:
        kind, value = self._types[column], quoted(column)
        match kind_of(kind):
            case ColumnKind.TEXT:
                value = f"CAST({value} AS VARCHAR)"
                return f"nullif({value}, '')" if self._empty_is_missing else value
            case ColumnKind.BOOLEAN:
                return value
            case ColumnKind.NUMBER:
                if kind in _FLOATS:
                    return f"({_without_nan(f'CAST({value} AS DOUBLE)')} + 0e0)"
                if kind in _SMALL:
                    return f"CAST({value} AS BIGINT)"
        return f"CAST({value} AS VARCHAR)"


def row_value(measure: Summed, number: str) -> str:
    """What one row adds to a measure, as a whole number; ``number`` names its value. 0 where it has none."""
    match measure:
        case Present():
            return f"CAST({number} IS NOT NULL AS BIGINT)"
        case Steps(_, lower, upper, _):
            clamped = f"least(greatest({number}, {_real(lower)}), {_real(upper)})"
            steps = f"{clamped} * {_real(measure.per_unit)}"
        case Share(_, lower, upper, power):
            share = _share(number, lower, upper)
            steps = f"{' * '.join([share] * power)} * {_real(SHARE_STEPS)}"
    return f"CASE WHEN {number} IS NULL THEN 0 ELSE CAST(floor({steps} + 5e-1) AS BIGINT) END"


def cell(cells: Cells, number: str) -> str:
    """The cell that a row's value falls into; a value at the upper bound is in the last one."""
    place = f"CAST(floor({_share(number, cells.lower, cells.upper)} * {_real(cells.count)}) AS BIGINT)"
    return f"CASE WHEN {number} IS NOT NULL THEN least(greatest({place}, 0), {cells.count - 1}) END"


def _share(number: str, lower: float, upper: float) -> str:
    clamped = f"least(greatest({number}, {_real(lower)}), {_real(upper)})"
    share = f"(({clamped} - {_real(lower)}) * {_real(1.0 / (float(upper) - float(lower)))})"
    return f"least(greatest({share}, 0e0), 1e0)"


def _without_nan(value: str) -> str:
    return f"CASE WHEN isnan({value}) THEN NULL ELSE {value} END"
