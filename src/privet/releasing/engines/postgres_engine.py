"""Bounded aggregation of a table of PostgreSQL, most of it in the database.

The database groups rows to lines of a unit and a key, and adds up their whole numbers (``postgres_queries``);
its sums are exact. The lines come sorted by unit. Here they get their groups' numbers and the order of the
keyed hash, as rows do for every engine (``rows``), and the pairs of each unit are bounded and added up, some
units at a time. So the memory that is needed here is that of a batch of lines and of the answer, however
large the table is.

The bounding is here and not in the database, because the hash is Polars's. All queries of a request see one
state of the table: they run in one transaction, which only reads.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from itertools import compress
from threading import Lock
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from privet.errors import InvalidArgument, MissingPackage
from privet.releasing.engines.aggregates import (
    WEIGHT,
    Aggregate,
    AggregateRequest,
    CellCountRequest,
    Sums,
    Totals,
    bound_contributions,
    check_rows,
    list_row_aggregates,
)
from privet.releasing.engines.engine import TableEngine
from privet.releasing.engines.packing import UnitGroupPairs, bound_pairs
from privet.releasing.engines.postgres_queries import ROWS, LineQuery, key_query, line_query
from privet.releasing.engines.postgres_types import LineSource, PostgresColumn, find_column, quote_name
from privet.releasing.engines.rows import (
    Keys,
    RowSource,
    number_groups,
    row_values,
    sort_codes,
    tabulate_keys,
    value_names,
)
from privet.releasing.tables.column_kind import ColumnKind
from privet.releasing.tables.postgres_table import PostgresTable
from privet.releasing.tables.sources import pl

try:
    import psycopg
except ImportError as missing:
    raise MissingPackage(
        "Tables of PostgreSQL need the package 'psycopg', and it is not installed. "
        "Run: pip install 'privet[postgres]'."
    ) from missing

__all__ = ["PostgresEngine"]

_BATCH = 1 << 24  # bytes of lines that are read together
_CANCEL = 5.0  # seconds to reach the server
_NULL = "N"  # no digit of base 16
_Request = AggregateRequest | CellCountRequest


@final
class PostgresEngine(TableEngine):
    """Over a table or a view of a PostgreSQL server, from version 13."""

    def __init__(self, table: PostgresTable) -> None:
        self._connections = _Connections(table.address)
        names = [table.table] if table.schema is None else [table.schema, table.table]
        self._table = ".".join(quote_name(name) for name in names)
        self._columns = {column.name: column for column in self._connections.describe(self._table)}
        self._source = RowSource(LineSource(self._columns.values(), pl.DataFrame()))

    @property
    def schema(self) -> Mapping[str, ColumnKind]:
        return self._source.schema

    def totals(self, request: AggregateRequest) -> Totals:
        with self._connections.transaction() as connection:
            codes, keys = self._keys(request, connection)
            sums = {aggregate: np.zeros(len(keys), dtype=np.int64) for aggregate in request.aggregates}
            counts = np.zeros(len(keys), dtype=bool)
            for lines in self._lines(request, codes, connection):
                groups, contributions = _bound_lines(request, lines)
                counts[groups] = True
                for aggregate, contribution in contributions.items():
                    np.add.at(sums[aggregate], groups, contribution)
        if request.grouping.keys is not None:
            return Totals(keys, sums)
        # A key that no unit counts in is left out: with noise alone it would show that a unit has it.
        return Totals(
            tuple(compress(keys, counts)), {aggregate: total[counts] for aggregate, total in sums.items()}
        )

    def cells(self, request: CellCountRequest) -> NDArray[np.int64]:
        counts = np.zeros((len(request.grouping.keys or ()), request.cells.count), dtype=np.int64)
        with self._connections.transaction() as connection:
            codes, _ = self._keys(request, connection)
            for lines in self._lines(request, codes, connection):
                rows, cells = lines["rows"].to_numpy(), lines["cell"].to_numpy()
                if request.unit is None:
                    np.add.at(counts, (lines["group"].to_numpy(), cells), rows * WEIGHT)
                    continue
                pairs, places = _pair_lines(request, lines)
                sizes = pairs.sums(rows)
                weights = np.minimum(sizes, request.contribution.rows) * WEIGHT // np.maximum(sizes, 1)
                where = (np.repeat(pairs.groups, pairs.sizes), cells[places])
                np.add.at(counts, where, np.repeat(weights, pairs.sizes) * rows[places])
        return counts

    def cancel(self) -> None:
        self._connections.cancel()

    def _keys(self, request: _Request, connection: "_Transaction") -> tuple[pl.DataFrame | None, Keys]:
        """The codes of the keys, in the order of their numbers, and the keys."""
        grouping = request.grouping
        if grouping.single:
            return None, ((),)
        codecs = self._source.key_codecs(grouping)
        if grouping.keys is not None:
            return tabulate_keys(grouping.keys, codecs), grouping.keys
        query = key_query(request, self._columns, self._table)
        names = [codec.expression.alias(f"key{place}") for place, codec in enumerate(codecs)]
        found = [
            LineSource(query.columns, lines)
            .scan(dict.fromkeys(root for one in names for root in one.meta.root_names()))
            .select(*names)
            .drop_nulls()
            .collect()
            for lines in connection.lines(query)
        ]
        return sort_codes(pl.concat(found).unique(), codecs)

    def _lines(
        self, request: _Request, codes: pl.DataFrame | None, connection: "_Transaction"
    ) -> Iterator[pl.DataFrame]:
        """Batches of lines with ``group``, ``rows``, whole numbers, and, with a unit, ``unit`` and perhaps
        ``order``. All lines of a unit are in one batch."""
        query = line_query(request, self._columns, self._table)
        held, total = None, 0
        for batch in connection.lines(query):
            lines = self._prepare(request, query, batch)
            total += int(lines["rows"].sum())
            lines = _number(lines, codes)
            if request.unit is None:
                yield lines
                continue
            lines = lines if held is None else pl.concat([held, lines])
            if lines.height:
                held = lines.filter(pl.col("unit") == pl.lit(lines["unit"][-1], dtype=lines["unit"].dtype))
                yield lines.head(lines.height - held.height)
        if held is not None:
            yield held
        check_rows(total)

    def _prepare(self, request: _Request, query: LineQuery, batch: pl.DataFrame) -> pl.DataFrame:
        """Lines with the codes of unit and key, and the sums of the whole numbers of their rows."""
        source = RowSource(LineSource(self._columns.values(), batch))
        values, required = row_values(source.columns, request)
        names, rows = value_names(request), pl.col(ROWS)
        if len(query.numbers) > 1:
            values = [pl.col(f"\x00{name}").alias(name) for name in names]
        elif isinstance(request, AggregateRequest):  # the rows of a line are equal
            values = [value * rows for value in values]
        return source.select(request, [rows.alias("rows"), *values], required).collect()


@final
class _Connections:
    """Connections to one database, one for each request, which another thread can cancel."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._open: set[_Transaction] = set()
        self._lock = Lock()

    def describe(self, table: str) -> list[PostgresColumn]:
        """The columns of a table. No row is read, and nothing that the server says is shown: it may quote
        the address."""
        try:
            with self._connect() as connection, connection.cursor() as cursor:
                cursor.execute("SHOW server_encoding")
                encoding = (cursor.fetchone() or ("",))[0]
                cursor.execute(f"SELECT * FROM {table} LIMIT 0".encode())
                described = cursor.description or []
                cursor.execute(
                    "SELECT oid, CASE typtype WHEN 'e' THEN 'enum' ELSE typname END FROM pg_type "
                    "WHERE oid = ANY(%s::oid[])",
                    [[one.type_code for one in described]],
                )
                names = dict(cursor.fetchall())
                columns = [
                    find_column(one.name, one.type_code, names.get(one.type_code), one.precision, one.scale)
                    for one in described
                ]
        except (psycopg.Error, UnicodeError) as error:
            reason = _REASONS.get(type(error), "the server did not accept the connection")
        else:
            if encoding == "SQL_ASCII":
                reason = "the database has no encoding of text (SQL_ASCII)"
            elif len({column.name for column in columns}) == len(columns):
                return columns
            else:
                reason = "two of its columns have one name"
        raise InvalidArgument(
            f"'data' must be a table of a PostgreSQL server that can be read, and {reason}. "
            f"Check the address, the names of schema and table, and the rights of the user."
        )

    @contextmanager
    def transaction(self) -> Iterator["_Transaction"]:
        """One state of the database, for reading."""
        try:
            connection = self._connect()
        except psycopg.Error:
            connection = None
        if connection is None:
            raise RuntimeError("PostgreSQL did not accept the connection")
        with connection:
            transaction = _Transaction(connection)
            with self._lock:
                self._open.add(transaction)
            try:
                yield transaction
            finally:
                with self._lock:
                    self._open.discard(transaction)
            transaction.check()

    def cancel(self) -> None:
        with self._lock:
            running = tuple(self._open)
        for transaction in running:
            transaction.cancel()

    def _connect(self) -> "psycopg.Connection[tuple[Any, ...]]":
        connection = psycopg.connect(self._address, client_encoding="UTF8")
        connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        connection.read_only = True
        return connection


_REASONS: Mapping[type[Exception], str] = {
    psycopg.errors.UndefinedTable: "there is no such table",
    psycopg.errors.InvalidSchemaName: "there is no such schema",
    psycopg.errors.InsufficientPrivilege: "the user may not read it",
}


@final
class _Transaction:
    def __init__(self, connection: "psycopg.Connection[tuple[Any, ...]]") -> None:
        self._connection = connection
        self._cancelled = False

    def lines(self, query: LineQuery) -> Iterator[pl.DataFrame]:
        """Batches of lines, at least one."""
        self.check()
        statement = f"COPY ({query.sql}) TO STDOUT (DELIMITER ',', NULL '{_NULL}')"
        blocks: list[bytes] = []
        size, read, failed = 0, False, False
        try:
            with self._connection.cursor() as cursor, cursor.copy(statement.encode()) as copy:
                for block in copy:
                    blocks.append(bytes(block))
                    size += len(block)
                    if size >= _BATCH:
                        self.check()
                        yield _parse(query, b"".join(blocks))
                        blocks, size, read = [], 0, True
        except psycopg.Error:
            failed = True
        if failed:  # raised here, so that the server's error, which may quote a row, is not its context
            raise RuntimeError("PostgreSQL could not aggregate the table")
        if blocks or not read:
            yield _parse(query, b"".join(blocks))

    def check(self) -> None:
        """Fail if the request was cancelled."""
        if self._cancelled:
            raise RuntimeError("the query was cancelled")

    def cancel(self) -> None:
        self._cancelled = True
        with suppress(psycopg.Error):  # it may have ended meanwhile
            self._connection.cancel_safe(timeout=_CANCEL)


def _parse(query: LineQuery, fields: bytes) -> pl.DataFrame:
    if not fields:
        return query.read(pl.DataFrame(schema=query.sent))
    read = pl.read_csv(fields, has_header=False, schema=query.sent, null_values=_NULL, quote_char=None)
    return query.read(read)


def _number(lines: pl.DataFrame, codes: pl.DataFrame | None) -> pl.DataFrame:
    if codes is None:
        return lines.with_columns(pl.lit(0, dtype=pl.UInt32).alias("group"))
    # In the order of the lines, which is that of the units.
    return number_groups(lines.lazy(), codes, keep_order=True).collect()


def _pair_lines(request: _Request, lines: pl.DataFrame) -> tuple[UnitGroupPairs, NDArray[np.int64]]:
    """The pairs of a unit and a group that count, and the places of their lines."""
    pairs = bound_pairs(
        lines["unit"].rle_id().to_numpy().astype(np.uint64),
        lines["group"].to_numpy(),
        lines["order"].to_numpy() if "order" in lines.columns else None,
        most=request.contribution.groups,
        keep_rows=True,
    )
    places = pairs.rows
    if places is None:
        raise AssertionError("rows were asked for")
    return pairs, places


def _bound_lines(
    request: AggregateRequest, lines: pl.DataFrame
) -> tuple[NDArray[np.int64], Mapping[Aggregate, NDArray[np.int64]]]:
    """Groups, and what the pairs of a unit and each of them add to each aggregate; lines instead of pairs, if
    every row is a unit."""
    summed = list_row_aggregates(request.aggregates)
    rows = lines["rows"].to_numpy()
    per_line: Sums = {
        aggregate: lines[name].to_numpy()
        for aggregate, name in zip(summed, value_names(request), strict=True)
    }
    if request.unit is None:
        groups = lines["group"].to_numpy().astype(np.int64)
        return groups, {aggregate: per_line.get(aggregate, rows) for aggregate in request.aggregates}
    pairs, _ = _pair_lines(request, lines)
    sizes = pairs.sums(rows)
    per_pair: Sums = {aggregate: pairs.sums(values) for aggregate, values in per_line.items()}
    most = request.contribution.rows
    return pairs.groups, {
        aggregate: bound_contributions(aggregate, per_pair, sizes, most) for aggregate in request.aggregates
    }
