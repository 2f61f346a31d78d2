"""Bounded aggregation of files that do not fit into memory, by DuckDB, which spills to disk.

Two groupings and a window, in one query: rows to pairs of a unit and a group; the first so many pairs of each
unit in the order of a keyed hash; pairs to groups. Any engine with GROUP BY and ROW_NUMBER runs the same plan.
"""

import csv
from collections.abc import Mapping
from pathlib import Path
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from privet.errors import InvalidArgument, MissingPackage
from privet.releasing.aggregates import (
    WEIGHT,
    Aggregation,
    CellCounts,
    Grouping,
    KeyKind,
    Measure,
    Present,
    Rows,
    Share,
    Steps,
    Summed,
    Totals,
    Units,
    summed_by_row,
)
from privet.releasing.columns_duckdb import Columns, cell, kind_of, row_value, text
from privet.releasing.engine import ColumnKind, Engine
from privet.releasing.statistics import Category

try:
    import duckdb
    import pyarrow as pa  # type: ignore[import-untyped]
except ImportError as missing:
    raise MissingPackage(
        "Tables beyond memory need the packages 'duckdb' and 'pyarrow', and one is not installed. "
        "Run: pip install 'privet[tables]'."
    ) from missing

__all__ = ["DuckDBEngine"]

_KEY_TYPES = {
    KeyKind.TEXT: pa.string(),
    KeyKind.WHOLE: pa.int64(),
    KeyKind.REAL: pa.float64(),
    KeyKind.BOOLEAN: pa.bool_(),
}


@final
class DuckDBEngine(Engine):
    """Over a ``.csv`` or ``.parquet`` file, or an Arrow table."""

    def __init__(self, data: Path | pa.Table) -> None:
        self._connection = duckdb.connect(":memory:")
        self._connection.execute("SET preserve_insertion_order = false")
        self._connection.execute("SET enable_progress_bar = false")
        is_csv = False
        if isinstance(data, pa.Table):
            self._connection.register("given", data)
            self._source = "given"
        else:
            is_csv = data.suffix.lower() != ".parquet"
            self._source = _csv_source(data) if is_csv else f"read_parquet({text(str(data))})"
        self._types = self._described()
        self._columns = Columns(self._types, empty_is_missing=is_csv)

    @property
    def schema(self) -> Mapping[str, ColumnKind]:
        return {name: kind_of(kind) for name, kind in self._types.items()}

    def totals(self, request: Aggregation) -> Totals:
        summed = summed_by_row(request.measures)
        numbers = {column: f"x{i}" for i, column in enumerate(dict.fromkeys(m.column for m in summed))}
        values: dict[Summed, str] = {
            measure: f"v{i}" for i, measure in enumerate(summed) if not isinstance(measure, Present)
        }
        counts: dict[Summed, str] = {Present(column): f"p{name}" for column, name in numbers.items()}
        rows = self._rows(
            request,
            numbers,
            [f"{row_value(measure, numbers[measure.column])} AS {name}" for measure, name in values.items()]
            + list(numbers.values()),
        )
        over_rows = {name: f"CAST(sum({name}) AS BIGINT)" for name in values.values()}
        over_rows |= {f"p{name}": f"count({name})" for name in numbers.values()}
        names = values | counts
        if request.unit is None:
            parts = [over_rows[names[m]] if isinstance(m, Summed) else "count(*)" for m in request.measures]
            source = f"WITH bounded AS ({rows})"
        else:
            most = request.contribution.rows
            parts = [f"sum({_contributed(measure, names, most)})" for measure in request.measures]
            source = f"WITH bounded AS ({_pairs(rows, request, over_rows)})"
        sums = [f"CAST(coalesce({part}, 0) AS BIGINT)" for part in parts]
        group = _group_columns(request.grouping)
        query = f"{source} SELECT {', '.join([*group, *sums])} FROM bounded"
        if group:
            query += f" GROUP BY {', '.join(group)} ORDER BY {', '.join(group)}"
        return _totals(request, self._connection.execute(query).fetchall())

    def cells(self, request: CellCounts) -> NDArray[np.int64]:
        keys = request.grouping.keys or ()
        counts = np.zeros((len(keys), request.cells.count), dtype=np.int64)
        rows = self._rows(
            request,
            {request.cells.column: "x0"},
            [f"{cell(request.cells, 'x0')} AS cell"],
            required=("x0",),
        )
        place = "0" if request.grouping.single else "place"
        if request.unit is None:
            query = f"SELECT {place}, cell, count(*) * {WEIGHT} FROM ({rows}) GROUP BY 1, 2"
        else:
            joined = ["unit", *([] if request.grouping.single else ["place"])]
            weight = f"CAST(sum(least(n, {request.contribution.rows}) * {WEIGHT} // n) AS BIGINT)"
            query = (
                f"WITH given_rows AS ({rows}), bounded AS ({_pairs('SELECT * FROM given_rows', request, {})}) "
                f"SELECT {place}, cell, {weight} FROM given_rows JOIN bounded USING ({', '.join(joined)}) "
                f"GROUP BY 1, 2"
            )
        for group, column, weight_sum in self._connection.execute(query).fetchall():
            counts[group, column] = weight_sum
        return counts

    def _rows(
        self,
        request: Aggregation | CellCounts,
        numbers: Mapping[str, str],
        values: list[str],
        required: tuple[str, ...] = (),
    ) -> str:
        """Unit, keys and values of the rows that have a unit, all keys, and what else is required."""
        grouping, names = request.grouping, _names(request.grouping)
        inner = [f"{self._columns.key(c)} AS {name}" for c, name in zip(grouping.columns, names, strict=True)]
        inner += [f"{self._columns.number(column)} AS {name}" for column, name in numbers.items()]
        needed = [*names, *required]
        outer = [*names, *values]
        if request.unit is not None:
            inner.append(f"{self._columns.unit(request.unit)} AS unit")
            needed.append("unit")
            outer.append("unit")
        query = (
            f"SELECT {', '.join(outer) or '1'} FROM (SELECT {', '.join(inner) or '1'} FROM {self._source})"
        )
        if needed:
            query += " WHERE " + " AND ".join(f"{name} IS NOT NULL" for name in needed)
        if names and grouping.keys is not None:
            self._register(grouping)
            query = f"SELECT * FROM ({query}) JOIN listed USING ({', '.join(names)})"
        return query

    def _register(self, grouping: Grouping) -> None:
        """The public keys as a table; the place of a key in the list is its number."""
        keys = grouping.keys or ()
        columns: dict[str, Any] = {
            name: pa.array([key[i] for key in keys], _KEY_TYPES[column.kind or KeyKind.TEXT])
            for i, (name, column) in enumerate(zip(_names(grouping), grouping.columns, strict=True))
        }
        self._connection.register(
            "listed", pa.table({**columns, "place": pa.array(range(len(keys)), pa.int64())})
        )

    def _described(self) -> dict[str, str]:
        try:
            rows = self._connection.execute(f"DESCRIBE SELECT * FROM {self._source}").fetchall()
        except duckdb.Error:
            raise InvalidArgument(
                "'data' must be a readable file in the format that its name says, and is not. Check the file."
            ) from None
        return {name: kind for name, kind, *_ in rows}


def _csv_source(path: Path) -> str:
    """All columns as text, and nothing guessed, because a guess would look at the rows."""
    with path.open(encoding="utf-8", errors="replace", newline="") as file:
        names = next(csv.reader(file), [])
    if not names or len(set(names)) < len(names):
        raise InvalidArgument(
            "'data' must start with a line that names its columns, each differently, and does not. Add a header."
        )
    names[0] = names[0].removeprefix("\ufeff")
    columns = ", ".join(f"{text(name)}: 'VARCHAR'" for name in names)
    return (
        f"read_csv({text(str(path))}, columns = {{{columns}}}, header = true, auto_detect = false, delim = ',', "
        f"quote = '\"', escape = '\"', nullstr = '', ignore_errors = true, null_padding = true, "
        f"parallel = false, strict_mode = false)"
    )


def _names(grouping: Grouping) -> list[str]:
    return [f"key{place}" for place in range(len(grouping.columns))]


def _group_columns(grouping: Grouping) -> list[str]:
    if grouping.single:
        return []
    return _names(grouping) if grouping.keys is None else ["place"]


def _pairs(rows: str, request: Aggregation | CellCounts, sums_of_rows: Mapping[str, str]) -> str:
    """One line for each unit and group, and of each unit no more lines than may count."""
    names = _names(request.grouping)
    group = ["unit", *dict.fromkeys([*_group_columns(request.grouping), *names])]
    sums = [f"{total} AS {name}" for name, total in sums_of_rows.items()]
    query = f"SELECT {', '.join([*group, 'count(*) AS n', *sums])} FROM ({rows}) GROUP BY {', '.join(group)}"
    if not request.grouping.bounding(request.contribution):
        return query
    order = f"hash({', '.join(['unit', *names])}, {request.salt}::UBIGINT), {', '.join(names)}"
    window = f"row_number() OVER (PARTITION BY unit ORDER BY {order})"
    return f"{query} QUALIFY {window} <= {request.contribution.groups}"


def _contributed(measure: Measure, values: Mapping[Summed, str], most: int) -> str:
    """What each pair of a unit and a group adds, from the sums over its rows and its number of rows."""
    match measure:
        case Units():
            return "1"
        case Rows():
            return f"least(n, {most})"
        case Present():
            return f"least({values[measure]}, {most})"
        case Steps(column) | Share(column):
            present, total = values[Present(column)], values[measure]
            # Division of whole numbers rounds towards zero, so the sum is made non-negative before. Quotient and rest
            # are weighed apart, because an overflow would be an error that depends on a row.
            least = measure.bounds[0] if isinstance(measure, Steps) else 0
            above, weight = f"({total} - {least} * {present})", f"least({present}, {most})"
            rest = f"{weight} * ({above} % {present}) // {present}"
            whole = f"{weight} * ({above} // {present} + {least}) + {rest}"
            return f"CASE WHEN {present} = 0 THEN 0 ELSE {whole} END"
    raise AssertionError(f"{type(measure).__name__} is no measure")


def _totals(request: Aggregation, rows: list[tuple[Any, ...]]) -> Totals:
    width = len(_group_columns(request.grouping))
    keys = request.grouping.keys
    found: list[tuple[Category, ...]] | None = None
    if keys is None:
        found = [row[:width] for row in rows]
        places = list(range(len(rows)))
    else:
        places = [int(row[0]) if width else 0 for row in rows]
    count = len(found if found is not None else keys or ())
    sums = {}
    for i, measure in enumerate(request.measures):
        sums[measure] = np.zeros(count, dtype=np.int64)
        sums[measure][places] = [row[width + i] for row in rows]
    return Totals(tuple(found) if found is not None else keys or (), sums)
