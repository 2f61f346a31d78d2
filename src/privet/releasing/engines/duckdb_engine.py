"""Bounded aggregation of files that do not fit into memory, by DuckDB, which spills to disk.

DuckDB gets whole numbers and units, batch by batch, as ``rows`` makes them for every engine. It reads no file
and interprets no value. One query has two groupings and a window: rows to pairs of a unit and a group; the
first pairs of each unit in the order of a keyed hash; pairs to groups. Any engine with GROUP BY and
ROW_NUMBER can run the same plan.
"""

from collections.abc import Iterator, Mapping
from itertools import compress
from pathlib import Path
from threading import Event
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from privet.errors import MissingPackage
from privet.private_folders import private_folder
from privet.releasing.engines.aggregates import (
    WEIGHT,
    Aggregate,
    AggregateRequest,
    CellCountRequest,
    RowAggregate,
    RowCount,
    ShareSum,
    Totals,
    UnitCount,
    ValueCount,
    ValueSum,
    check_rows,
    list_row_aggregates,
)
from privet.releasing.engines.columns import cell, row_value
from privet.releasing.engines.engine import TableEngine
from privet.releasing.engines.packing import ORDER_BITS
from privet.releasing.engines.rows import RowSource
from privet.releasing.tables.column_kind import ColumnKind
from privet.releasing.tables.sources import TableSource, open_data, open_file, pl

try:
    import duckdb
    import pyarrow as pa  # type: ignore[import-untyped]
except ImportError as missing:
    raise MissingPackage(
        "Tables beyond memory need the packages 'duckdb' and 'pyarrow', and one is not installed. "
        "Run: pip install 'privet[tables]'."
    ) from missing

__all__ = ["DuckDBEngine"]

_BATCH = 1 << 17  # rows


@final
class DuckDBEngine(TableEngine):
    """Over a ``.csv`` or ``.parquet`` file, a frame, or an Arrow table."""

    def __init__(self, data: Path | TableSource | Any) -> None:  # noqa: ANN401 - a frame of any library
        if isinstance(data, Path):
            data = open_file(data)
        self._source = RowSource(data if isinstance(data, TableSource) else open_data(data))
        self._cancelled = Event()

    @property
    def schema(self) -> Mapping[str, ColumnKind]:
        return self._source.schema

    def totals(self, request: AggregateRequest) -> Totals:
        summed = list_row_aggregates(request.aggregates)
        names: dict[RowAggregate, str] = {
            aggregate: f"value{number}" for number, aggregate in enumerate(summed)
        }
        values = [row_value(self._source.columns, aggregate).alias(name) for aggregate, name in names.items()]
        frame, keys = self._source.rows(request, values, in_memory=False)
        over_rows = [f"CAST(sum({name}) AS BIGINT) AS {name}" for name in names.values()]
        if request.unit is None:
            given = f'SELECT "group", {", ".join(["count(*) AS n", *over_rows])} FROM given GROUP BY "group"'
            parts = [names[m] if isinstance(m, RowAggregate) else "n" for m in request.aggregates]
        else:
            given = _pair_query(request, over_rows, bounded="order" in frame.collect_schema())
            most = request.contribution.rows
            parts = [_contribution_sql(aggregate, names, most) for aggregate in request.aggregates]
        sums = ", ".join(f"CAST(sum({part}) AS BIGINT)" for part in parts)
        lines = _query(frame, f'SELECT "group", {sums} FROM ({given}) GROUP BY "group"', self._cancelled)
        totals = {aggregate: np.zeros(len(keys), dtype=np.int64) for aggregate in request.aggregates}
        for group, *line in lines:
            for aggregate, total in zip(request.aggregates, line, strict=True):
                totals[aggregate][group] = total
        if request.grouping.keys is not None:
            return Totals(keys, totals)
        # A key that no unit counts in is left out: with noise alone it would show that a unit has it.
        counts = np.zeros(len(keys), dtype=bool)
        counts[[group for group, *_ in lines]] = True
        return Totals(
            tuple(compress(keys, counts)), {aggregate: total[counts] for aggregate, total in totals.items()}
        )

    def cells(self, request: CellCountRequest) -> NDArray[np.int64]:
        cell_number = cell(self._source.columns, request.cells).alias("cell")
        counts = np.zeros((len(request.grouping.keys or ()), request.cells.count), dtype=np.int64)
        frame, _ = self._source.rows(request, [cell_number], ("cell",), in_memory=False)
        if request.unit is None:
            query = f'SELECT "group", cell, count(*) * {WEIGHT} FROM given GROUP BY 1, 2'
        else:
            query = _cell_query(request, bounded="order" in frame.collect_schema())
        for group, column, weight in _query(frame, query, self._cancelled):
            counts[group, column] = weight
        return counts

    def cancel(self) -> None:
        self._source.cancel()
        self._cancelled.set()
        self._cancelled = Event()


def _query(frame: pl.LazyFrame, query: str, cancelled: Event) -> list[tuple[Any, ...]]:
    """The answer to a query over the rows, which DuckDB calls ``given`` and reads once."""
    schema = pl.DataFrame(schema=frame.collect_schema()).to_arrow().schema
    read = 0

    def batches() -> Iterator[Any]:
        nonlocal read
        for batch in frame.collect_batches(chunk_size=_BATCH, maintain_order=False, engine="streaming"):
            if cancelled.is_set():
                raise RuntimeError("the query was cancelled")
            read += batch.height
            yield from batch.to_arrow().cast(schema).to_batches()

    # DuckDB spills to this folder. Its own choice would stay on the disk after a kill, and others could read
    # it.
    with (
        private_folder() as folder,
        duckdb.connect(":memory:", config={"temp_directory": str(folder)}) as connection,
    ):
        connection.execute("SET preserve_insertion_order = false")
        connection.execute("SET enable_progress_bar = false")
        connection.register("given", pa.RecordBatchReader.from_batches(schema, batches()))
        lines = connection.execute(query).fetchall()
    check_rows(read)
    return lines


def _rank_condition(request: AggregateRequest | CellCountRequest, rank: str) -> str:
    """The condition for a group of a unit to count: the first groups in the order of the hash, as in
    ``packing``."""
    order = f'"order" >> {64 - ORDER_BITS}, "group"'
    return f"QUALIFY {rank}() OVER (PARTITION BY unit ORDER BY {order}) <= {request.contribution.groups}"


def _pair_query(request: AggregateRequest, over_rows: list[str], *, bounded: bool) -> str:
    """A query: one line for each pair of a unit and a group that counts."""
    order = ['any_value("order") AS "order"'] if bounded else []
    columns = ", ".join(['unit, "group", count(*) AS n', *order, *over_rows])
    pairs = f'SELECT {columns} FROM given GROUP BY unit, "group"'
    return f"SELECT * FROM ({pairs}) {_rank_condition(request, 'row_number')}" if bounded else pairs


def _cell_query(request: CellCountRequest, *, bounded: bool) -> str:
    """A query: the rows in each cell, each with the weight of its pair of a unit and a group."""
    order = ', any_value("order") AS "order"' if bounded else ""
    lines = f'SELECT unit, "group", cell, count(*) AS c{order} FROM given GROUP BY unit, "group", cell'
    sized = f'SELECT *, CAST(sum(c) OVER (PARTITION BY unit, "group") AS BIGINT) AS n FROM ({lines})'
    chosen = f"SELECT * FROM ({sized}) {_rank_condition(request, 'dense_rank') if bounded else ''}"
    weight = f"least(n, {request.contribution.rows}) * {WEIGHT} // n"
    return f'SELECT "group", cell, CAST(sum(c * ({weight})) AS BIGINT) FROM ({chosen}) GROUP BY 1, 2'


def _contribution_sql(aggregate: Aggregate, values: Mapping[RowAggregate, str], most: int) -> str:
    """What each pair of a unit and a group adds, as an SQL expression."""
    match aggregate:
        case UnitCount():
            return "1"
        case RowCount():
            return f"least(n, {most})"
        case ValueCount():
            return f"least({values[aggregate]}, {most})"
        case ValueSum() | ShareSum():
            present, total = values[aggregate.present], values[aggregate]
            # Division of whole numbers rounds towards zero, so the sum is made non-negative before. Quotient
            # and rest
            # are scale_to_row_limit apart, because an overflow would be an error that depends on a row.
            least = aggregate.bounds[0] if isinstance(aggregate, ValueSum) else 0
            above, weight = f"({total} - ({least}) * {present})", f"least({present}, {most})"
            remainder = f"{weight} * ({above} % {present}) // {present}"
            whole = f"{weight} * ({above} // {present} + ({least})) + {remainder}"
            return f"CASE WHEN {present} = 0 THEN 0 ELSE {whole} END"
    raise AssertionError(f"{type(aggregate).__name__} is no aggregate")
