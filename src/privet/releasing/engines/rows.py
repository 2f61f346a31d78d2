"""Rows as every engine gets them: unit, number of the group, order, and whole numbers to be added.

What a value means is settled here, before an engine sees it. So engines can differ in how they add, and in nothing else.
"""

from collections.abc import Mapping
from typing import final

from privet.releasing.engines.aggregates import Aggregation, CellCounts
from privet.releasing.engines.columns import Columns, KeyCodec, kind_of
from privet.releasing.statistics import Category
from privet.releasing.tables.column_kind import ColumnKind
from privet.releasing.tables.sources import Table, pl

__all__ = ["Keys", "RowSource"]

Keys = tuple[tuple[Category, ...], ...]


@final
class RowSource:
    """The rows of a table, for requests."""

    def __init__(self, table: Table) -> None:
        self._table = table
        self.columns = Columns(table)

    @property
    def schema(self) -> Mapping[str, ColumnKind]:
        """Names and kinds of the columns."""
        return {name: kind_of(kind) for name, kind in self._table.types.items()}

    def cancel(self) -> None:
        """Let the scans that run now fail at their next batch of rows."""
        self._table.cancel()

    def rows(
        self,
        request: Aggregation | CellCounts,
        values: list[pl.Expr],
        required: tuple[str, ...] = (),
        *,
        in_memory: bool,
    ) -> tuple[pl.LazyFrame, Keys]:
        """Rows that have a unit, a group and what else is required: ``unit``, ``group``, ``order`` and values; and the keys.

        ``unit`` is there where the request has one; ``order`` where a unit may be in more groups than count. Keys that
        were not listed are sought first; with ``in_memory`` the rows that this reads are kept.
        """
        grouping = request.grouping
        codecs = [self.columns.key(column) for column in grouping.columns]
        frame = self._selected(request.unit, codecs, values, required)
        if request.unit is not None and not grouping.single and grouping.bounding(request.contribution):
            pair = pl.struct("unit", *_names(codecs))
            frame = frame.with_columns(pair.hash(seed=request.salt).alias("order"))
        if grouping.single:
            return frame.with_columns(pl.lit(0, dtype=pl.UInt32).alias("group")), ((),)
        if grouping.keys is not None:
            return _numbered(frame, _listed(grouping.keys, codecs)), grouping.keys
        if in_memory:
            frame = frame.collect(engine="streaming").lazy()
        found = frame.select(*_names(codecs)).unique().collect(engine="streaming").sort(_names(codecs))
        keys = tuple(
            tuple(codec.decode(code) for codec, code in zip(codecs, row, strict=True)) for row in found.rows()
        )
        return _numbered(frame, found), keys

    def _selected(
        self, unit: str | None, codecs: list[KeyCodec], values: list[pl.Expr], required: tuple[str, ...]
    ) -> pl.LazyFrame:
        kept = [codec.expression.alias(name) for name, codec in zip(_names(codecs), codecs, strict=True)]
        if unit is not None:
            kept.append(self.columns.unit(unit).alias("unit"))
        chosen = [*kept, *values]
        roots = dict.fromkeys(name for expression in chosen for name in expression.meta.root_names())
        if roots:
            frame = self._table.scan(roots).select(*chosen)
        else:
            frame = self._table.row_marks().with_columns(*chosen)
        needed = [*_names(codecs), *(["unit"] if unit is not None else []), *required]
        return frame.filter(pl.all_horizontal(pl.col(*needed).is_not_null())) if needed else frame


def _names(codecs: list[KeyCodec]) -> list[str]:
    return [f"key{place}" for place in range(len(codecs))]


def _listed(keys: Keys, codecs: list[KeyCodec]) -> pl.DataFrame:
    """The public keys as a table; the place of a key in the list is its number."""
    return pl.DataFrame(
        [
            pl.Series(f"key{place}", [codec.encode(key[place]) for key in keys], codec.type)
            for place, codec in enumerate(codecs)
        ]
    )


def _numbered(frame: pl.LazyFrame, keys: pl.DataFrame) -> pl.LazyFrame:
    """The rows of the listed groups, with the group's number instead of its key."""
    names = keys.columns
    return frame.join(keys.lazy().with_row_index("group"), on=names, how="inner").drop(names)
