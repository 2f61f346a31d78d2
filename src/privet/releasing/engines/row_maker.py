"""Rows made where the batches of a table are: in a worker of a cluster.

The meaning of a value is decided by ``rows``, as for every engine. Here that code is a function from Arrow
batches to Arrow batches, which can be sent to another process. A worker needs Privet, Polars and pyarrow, in
the versions of the process that asks: the order of a unit's groups is a hash of Polars, and another version
may hash differently. Then a unit counts in other groups, and never in more than it may.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any, final

from privet.errors import MissingPackage
from privet.releasing.engines.aggregates import AggregateRequest, CellCountRequest
from privet.releasing.engines.packing import ORDER_BITS
from privet.releasing.engines.rows import (
    RowSource,
    key_names,
    needs_order,
    number_groups,
    row_values,
    value_names,
)
from privet.releasing.tables.sources import ArrowSource, pl

try:
    import pyarrow as pa  # type: ignore[import-untyped]
except ImportError as missing:
    raise MissingPackage(
        "Batches of a table need the package 'pyarrow', and it is not installed. "
        "Run: pip install 'privet[tables]'."
    ) from missing

__all__ = ["RowMaker", "report_versions"]

_ROWS, _BYTES = 1 << 17, 1 << 26  # of the batches that are read together


@final
@dataclass(frozen=True, eq=False)
class RowMaker:
    """From batches with the columns ``names`` to batches of ``unit``, ``grp``, ``ord`` and whole numbers.

    ``unit`` and ``ord`` are there if the request needs them. ``ord`` holds the bits of the hash that count.
    Without ``keys`` the batches hold the codes of the keys in the table, each once a batch, and nothing else.
    Decimals have codes of 128 bits, which travel as text.
    """

    names: tuple[str, ...]
    request: AggregateRequest | CellCountRequest
    keys: pl.DataFrame | None

    def __call__(self, batches: Iterator[Any]) -> Iterator[Any]:
        """The rows of each group of batches."""
        try:
            for table in _join_batches(batches):
                yield from _plain_arrow(self.rows(table)).to_batches()
        except GeneratorExit:
            raise
        except BaseException:  # a panic of Polars is no Exception, and its text may quote a row
            failed = True
        else:
            failed = False
        if failed:
            raise RuntimeError("the rows of a batch could not be made")

    def rows(self, table: Any) -> pl.DataFrame:  # noqa: ANN401 - pyarrow has no types
        """The rows of one Arrow table."""
        source = RowSource(ArrowSource(table.rename_columns(list(self.names))))
        values, required = row_values(source.columns, self.request)
        frame = source.select(self.request, values, required)
        names = key_names(source.key_codecs(self.request.grouping))
        if self.keys is None:
            return frame.select(*names).unique().collect().cast({pl.Int128: pl.String})
        columns: list[pl.Expr | str] = [
            pl.col("group").cast(pl.Int64).alias("grp"),
            *value_names(self.request),
        ]
        if self.request.unit is not None:
            columns.append("unit")
        if needs_order(self.request):
            columns.append((pl.col("order") // 2 ** (64 - ORDER_BITS)).cast(pl.Int64).alias("ord"))
        if self.request.grouping.single:
            frame = frame.with_columns(pl.lit(0, dtype=pl.UInt32).alias("group"))
        else:
            frame = number_groups(frame, self.keys)
        return frame.select(*columns).collect()


def report_versions(_batches: Iterator[Any]) -> Iterator[Any]:
    """The versions of what makes rows, where this runs, as one line of text."""
    versions = f"Privet {version('privet')}, Polars {pl.__version__}"
    yield pa.RecordBatch.from_pydict({"versions": [versions]})


def _join_batches(batches: Iterator[Any]) -> Iterator[Any]:
    """Tables of many rows: each has a cost of its own."""
    held: list[Any] = []
    for batch in batches:
        held.append(batch)
        if sum(one.num_rows for one in held) >= _ROWS or sum(one.nbytes for one in held) >= _BYTES:
            yield pa.Table.from_batches(held)
            held = []
    if held:
        yield pa.Table.from_batches(held)


def _plain_arrow(frame: pl.DataFrame) -> Any:  # noqa: ANN401 - pyarrow has no types
    """With text in the form of Arrow that every reader has."""
    table = frame.to_arrow()
    text = (pa.large_string(), pa.string_view())
    return table.cast(
        pa.schema([(field.name, pa.string() if field.type in text else field.type) for field in table.schema])
    )
