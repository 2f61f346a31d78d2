"""The SQL that a request is to PostgreSQL: rows to lines.

A *line* stands for the rows that are equal in everything that decides how they count: it has the columns of
unit and key, the number of its rows, and the sums of the whole numbers that they add. If a number is in a
column that only this library can read as one, such as text, the lines are of rows that are equal in that
column, too. Lines come in the order of the unit, so that whoever reads them needs the lines of one unit in
memory, and no more.

All names are quoted, and no value of the table and no public key is ever a part of the SQL.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import final

from privet.releasing.engines.aggregates import AggregateRequest, CellCountRequest, list_row_aggregates
from privet.releasing.engines.postgres_types import PostgresColumn, quote_name
from privet.releasing.engines.postgres_values import cell_sql, row_value_sql
from privet.releasing.engines.rows import needed_columns, value_columns, value_names
from privet.releasing.tables.sources import pl

__all__ = ["ROWS", "LineQuery", "key_query", "line_query"]

ROWS = "\x00rows"
"""The name of the column with the number of rows of a line: no column of PostgreSQL can have it."""


@final
@dataclass(frozen=True)
class LineQuery:
    """A query, the columns that travel, and the whole numbers that follow them in each line."""

    sql: str
    columns: tuple[PostgresColumn, ...]
    numbers: tuple[str, ...]
    """``ROWS``, then the names of the whole numbers that the database computed; without these, rows of a line
    are equal, and the reader computes them."""

    @property
    def sent(self) -> dict[str, pl.DataType]:
        """Names and types of the fields of a line. All that is no whole number of the query is text."""
        fields: dict[str, pl.DataType] = {column.name: pl.String() for column in self.columns}
        return fields | dict.fromkeys(self.numbers, pl.Int64())

    def read(self, fields: pl.DataFrame) -> pl.DataFrame:
        """The fields of lines as values."""
        return fields.with_columns(column.read(pl.col(column.name)) for column in self.columns)


def line_query(
    request: AggregateRequest | CellCountRequest, columns: Mapping[str, PostgresColumn], table: str
) -> LineQuery:
    """The lines of a request."""
    keys = _key_columns(request, columns)
    needed = [columns[name] for name in needed_columns(request)]
    valued = [columns[name] for name in value_columns(request)]
    if any(column.number is None for column in valued):
        return _query(request, needed, (), table, columns)
    numbers = {column.name: f"x{place}" for place, column in enumerate(valued)}
    if isinstance(request, CellCountRequest):
        values = [cell_sql(request.cells, numbers[request.cells.column])]
    else:
        summed = list_row_aggregates(request.aggregates)
        values = [row_value_sql(aggregate, numbers) for aggregate in summed]
    filtered = () if request.where is None else request.where.columns()
    grouped = list(dict.fromkeys([*keys, *(columns[name] for name in filtered)]))
    return _query(request, grouped, tuple(zip(value_names(request), values, strict=True)), table, columns)


def key_query(
    request: AggregateRequest | CellCountRequest, columns: Mapping[str, PostgresColumn], table: str
) -> LineQuery:
    """The keys in the table, of rows that have a unit."""
    keys = [columns[name] for name in dict.fromkeys(key.column for key in request.grouping.columns)]
    own = ", ".join(f"{column.own_form} AS g{place}" for place, column in enumerate(keys))
    sent = ", ".join(column.sent_form(f"g{place}") for place, column in enumerate(keys))
    present = _present(_key_columns(request, columns))
    groups = ", ".join(f"g{place}" for place, _ in enumerate(keys))
    inner = f"SELECT {own} FROM {table} WHERE {present}"
    sql = f"SELECT {sent}, 1 FROM (SELECT {groups} FROM ({inner}) AS r GROUP BY {groups}) AS k"
    return LineQuery(sql, tuple(keys), (ROWS,))


def _query(
    request: AggregateRequest | CellCountRequest,
    grouped: list[PostgresColumn],
    values: tuple[tuple[str, str], ...],
    table: str,
    columns: Mapping[str, PostgresColumn],
) -> LineQuery:
    own = [f"{column.own_form} AS g{place}" for place, column in enumerate(grouped)]
    valued = value_columns(request) if values else []
    own += [f"{columns[name].number} AS x{place}" for place, name in enumerate(valued)]
    rows = f"SELECT {', '.join(own) or '1'} FROM {table}"
    required = _key_columns(request, columns)
    if required:
        rows += f" WHERE {_present(required)}"
    groups = [f"g{place}" for place, _ in enumerate(grouped)]
    if isinstance(request, CellCountRequest) and values:
        rows = f"SELECT {', '.join([*groups, f'{values[0][1]} AS v0'])} FROM ({rows}) AS r"
        rows = f"SELECT * FROM ({rows}) AS c WHERE v0 IS NOT NULL"
        sums, by = ["v0"], [*groups, "v0"]
    else:
        sums, by = (
            [f"coalesce(sum({sql}), 0)::int8 AS v{place}" for place, (_, sql) in enumerate(values)],
            groups,
        )
    lines = f"SELECT {', '.join([*groups, 'count(*) AS n', *sums])} FROM ({rows}) AS t"
    if by:
        lines += f" GROUP BY {', '.join(by)}"
    sent = [column.sent_form(f"g{place}") for place, column in enumerate(grouped)]
    sent += ["n", *(f"v{place}" for place, _ in enumerate(values))]
    order = "" if request.unit is None else " ORDER BY g0"
    return LineQuery(
        f"SELECT {', '.join(sent)} FROM ({lines}) AS l{order}",
        tuple(grouped),
        (ROWS, *(_carry_name(name) for name, _ in values)),
    )


def _carry_name(name: str) -> str:
    """The name of a whole number that the database computed, which no column can have."""
    return f"\x00{name}"


def _key_columns(
    request: AggregateRequest | CellCountRequest, columns: Mapping[str, PostgresColumn]
) -> list[PostgresColumn]:
    """The columns of the unit, which comes first, and of the key."""
    names = [] if request.unit is None else [request.unit]
    names += [key.column for key in request.grouping.columns]
    return [columns[name] for name in dict.fromkeys(names)]


def _present(columns: list[PostgresColumn]) -> str:
    return " AND ".join(f"{quote_name(column.name)} IS NOT NULL" for column in columns)
