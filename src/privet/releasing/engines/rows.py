"""Rows as every engine gets them: unit, number of the group, order, and whole numbers to be added.

The meaning of a value is decided here, before an engine sees it. So engines differ in how they add, and in
nothing else.
"""

from collections.abc import Mapping
from typing import Literal, final

from privet.releasing.engines.aggregates import (
    AggregateRequest,
    CellCountRequest,
    Grouping,
    ValueCount,
    list_row_aggregates,
)
from privet.releasing.engines.columns import ColumnExpressions, KeyCodec, cell, kind_of, row_value
from privet.releasing.engines.conditions import row_condition
from privet.releasing.keys import Category
from privet.releasing.tables.column_kind import ColumnKind
from privet.releasing.tables.sources import TableSource, pl

__all__ = [
    "Keys",
    "RowSource",
    "key_names",
    "needed_columns",
    "needs_order",
    "number_groups",
    "row_values",
    "sort_codes",
    "tabulate_keys",
    "value_columns",
    "value_names",
]

Keys = tuple[tuple[Category, ...], ...]


@final
class RowSource:
    """The rows of a table, as a request needs them."""

    def __init__(self, table: TableSource) -> None:
        self._table = table
        self.columns = ColumnExpressions(table)

    @property
    def schema(self) -> Mapping[str, ColumnKind]:
        """Names and kinds of the columns."""
        return {name: kind_of(kind) for name, kind in self._table.types.items()}

    def cancel(self) -> None:
        """Let the scans that run now fail at their next batch of rows."""
        self._table.cancel()

    def rows(
        self,
        request: AggregateRequest | CellCountRequest,
        values: list[pl.Expr],
        required: tuple[str, ...] = (),
        *,
        in_memory: bool,
    ) -> tuple[pl.LazyFrame, Keys]:
        """The rows that have a unit, a group and the required values; and the keys.

        Their columns are the values, ``group``, ``unit`` if the request has one, and ``order`` if a unit may
        be in more groups than count. Keys that are not listed are discovered first; with ``in_memory``, the
        rows that this reads stay in memory.
        """
        grouping = request.grouping
        codecs = self.key_codecs(grouping)
        frame = self.select(request, values, required)
        if grouping.single:
            return frame.with_columns(pl.lit(0, dtype=pl.UInt32).alias("group")), ((),)
        if grouping.keys is not None:
            return number_groups(frame, tabulate_keys(grouping.keys, codecs)), grouping.keys
        if in_memory:
            frame = frame.collect(engine="streaming").lazy()
        codes = frame.select(*key_names(codecs)).unique().collect(engine="streaming")
        codes, keys = sort_codes(codes, codecs)
        return number_groups(frame, codes), keys

    def key_codecs(self, grouping: Grouping) -> list[KeyCodec]:
        """How the key of each column of a grouping is read."""
        return [self.columns.key(column) for column in grouping.columns]

    def select(
        self,
        request: AggregateRequest | CellCountRequest,
        values: list[pl.Expr],
        required: tuple[str, ...] = (),
    ) -> pl.LazyFrame:
        """The rows that have a unit, a key and the required values, before groups have numbers.

        Their columns are the values, the codes of the key (``key_names``), ``unit`` if the request has one,
        and ``order`` if a unit may be in more groups than count. Each row is made from itself alone. So an
        engine may do this in many places at once.
        """
        grouping = request.grouping
        codecs = self.key_codecs(grouping)
        frame = self._select(request, codecs, values, required)
        if needs_order(request):
            pair = pl.struct("unit", *key_names(codecs))
            frame = frame.with_columns(pair.hash(seed=request.salt).alias("order"))
        return frame

    def _select(
        self,
        request: AggregateRequest | CellCountRequest,
        codecs: list[KeyCodec],
        values: list[pl.Expr],
        required: tuple[str, ...],
    ) -> pl.LazyFrame:
        expressions = [
            codec.expression.alias(name) for name, codec in zip(key_names(codecs), codecs, strict=True)
        ]
        if request.unit is not None:
            expressions.append(self.columns.unit(request.unit).alias("unit"))
        expressions += values
        roots = _roots(expressions)
        passes = None if request.where is None else row_condition(self.columns, request.where)
        tested = [] if passes is None else _roots([passes])
        if roots or tested:
            frame = self._table.scan(dict.fromkeys([*roots, *tested]))
        else:
            frame = self._table.row_marks()
        if passes is not None:
            frame = frame.filter(passes)
        if roots:
            frame = frame.select(*expressions)
        else:  # expressions without a column would make one row of the table
            frame = frame.select(pl.first().is_null().alias("row")).with_columns(*expressions)
        needed = [*key_names(codecs), *(["unit"] if request.unit is not None else []), *required]
        return frame.filter(pl.all_horizontal(pl.col(*needed).is_not_null())) if needed else frame


def _roots(expressions: list[pl.Expr]) -> list[str]:
    """The columns that expressions read."""
    return list(dict.fromkeys(name for one in expressions for name in one.meta.root_names()))


def value_columns(request: AggregateRequest | CellCountRequest) -> list[str]:
    """The columns of the table whose numbers a request adds up."""
    if isinstance(request, CellCountRequest):
        return [request.cells.column]
    names: list[str] = []
    for aggregate in list_row_aggregates(request.aggregates):
        names += aggregate.columns if isinstance(aggregate, ValueCount) else aggregate.present.columns
    return list(dict.fromkeys(names))


def needed_columns(request: AggregateRequest | CellCountRequest) -> list[str]:
    """All columns of the table that a request names: unit, key, numbers."""
    names = [] if request.unit is None else [request.unit]
    names += [key.column for key in request.grouping.columns]
    names += [] if request.where is None else request.where.columns()
    return list(dict.fromkeys([*names, *value_columns(request)]))


def value_names(request: AggregateRequest | CellCountRequest) -> list[str]:
    """The names of the whole numbers of each row."""
    if isinstance(request, CellCountRequest):
        return ["cell"]
    return [f"value{number}" for number, _ in enumerate(list_row_aggregates(request.aggregates))]


def row_values(
    columns: ColumnExpressions, request: AggregateRequest | CellCountRequest
) -> tuple[list[pl.Expr], tuple[str, ...]]:
    """The whole numbers of each row as expressions, and the names of those without which a row is left
    out."""
    if isinstance(request, CellCountRequest):
        return [cell(columns, request.cells).alias("cell")], ("cell",)
    summed = list_row_aggregates(request.aggregates)
    named = zip(value_names(request), summed, strict=True)
    return [row_value(columns, aggregate).alias(name) for name, aggregate in named], ()


def needs_order(request: AggregateRequest | CellCountRequest) -> bool:
    """Whether a unit may be in more groups than count, so that some must be chosen."""
    grouping = request.grouping
    return request.unit is not None and not grouping.single and grouping.bounding(request.contribution)


def key_names(codecs: list[KeyCodec]) -> list[str]:
    """The names of the columns that hold the codes of a key."""
    return [f"key{number}" for number in range(len(codecs))]


def tabulate_keys(keys: Keys, codecs: list[KeyCodec]) -> pl.DataFrame:
    """The codes of public keys as a table. The position of a key in the list is its number."""
    return pl.DataFrame(
        [
            pl.Series(name, [codec.encode(key[part]) for key in keys], codec.type)
            for part, (name, codec) in enumerate(zip(key_names(codecs), codecs, strict=True))
        ]
    )


def sort_codes(codes: pl.DataFrame, codecs: list[KeyCodec]) -> tuple[pl.DataFrame, Keys]:
    """The codes of discovered keys in the order of their values, and the keys that they are.

    The order is that of Polars (text by its bytes), whatever engine found the codes. So the number of a group
    depends on no other group but those before it, and on no collation.
    """
    codes = codes.sort(key_names(codecs))
    keys = tuple(
        tuple(codec.decode(code) for codec, code in zip(codecs, row, strict=True)) for row in codes.rows()
    )
    return codes, keys


def number_groups(frame: pl.LazyFrame, keys: pl.DataFrame, *, keep_order: bool = False) -> pl.LazyFrame:
    """The rows of these groups, with the number of the group instead of its key; in any order, or in the one
    that they have."""
    names = keys.columns
    numbered = keys.lazy().with_row_index("group")
    order: Literal["left", "none"] = "left" if keep_order else "none"
    return frame.join(numbered, on=names, how="inner", maintain_order=order).drop(names)
