"""What an engine must do, and which one a table gets."""

import os
from abc import ABC, abstractmethod
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import final

import numpy as np
from numpy.typing import NDArray

from privet.arguments import shown
from privet.errors import InvalidArgument
from privet.paths import is_file
from privet.releasing.engines.aggregates import Aggregation, CellCounts, Totals

__all__ = ["ColumnKind", "Engine", "engine_for"]

# Columns of a compressed file are several times larger in memory, and sorting needs them again.
_EXPANSION = {".parquet": 8, ".csv": 3}
_SHARE_OF_MEMORY = 0.5


@final
class ColumnKind(StrEnum):
    """What the schema, which is public, says of a column."""

    NUMBER = "number"
    BOOLEAN = "boolean"
    TEXT = "text"
    OTHER = "other"
    """Dates, times and the like: keys and units as text, and no numbers."""
    NESTED = "nested"
    """Lists, records, bytes: of no use here."""


class Engine(ABC):
    """Runs bounded aggregations over one table. Its answers are private, and so are its error messages."""

    @property
    @abstractmethod
    def schema(self) -> Mapping[str, ColumnKind]:
        """Names and kinds of the columns; no row is read for it."""

    @abstractmethod
    def totals(self, request: Aggregation) -> Totals:
        """The sums that were asked for. Public keys come in their order; others sorted."""

    @abstractmethod
    def cells(self, request: CellCounts) -> NDArray[np.int64]:
        """One line of weighted counts for each public key, one column for each cell."""

    def cancel(self) -> None:  # noqa: B027 - an engine without batches has nothing to do
        """Let what runs now, in another thread, fail at its next batch of rows. What starts later is not affected."""


def engine_for(data: object) -> Engine:
    """The engine for a table: Polars for what fits into memory, DuckDB for larger files.

    ``data`` is a Polars frame, a pandas frame, an Arrow table, a path to a ``.csv`` or ``.parquet`` file, or an
    engine. Which engine it is depends on the size of a file, and no more; all give the same sums.
    """
    if isinstance(data, Engine):
        return data
    if isinstance(data, (str, Path)):
        return _for_path(Path(data))
    module = type(data).__module__.partition(".")[0]
    if module in ("polars", "pandas", "pyarrow"):
        from privet.releasing.engines.polars_engine import PolarsEngine

        return PolarsEngine.over(data)
    raise InvalidArgument(
        f"'data' must be a Polars or pandas frame, an Arrow table, or the path of a .csv or .parquet file, got a "
        f"value of type {type(data).__name__}. Load the table first."
    )


def _for_path(path: Path) -> Engine:
    suffix = path.suffix.lower()
    if suffix not in _EXPANSION:
        raise InvalidArgument(
            f"'data' must be the path of a .csv or .parquet file, got {shown(str(path))}. Name the file by its format."
        )
    if not is_file(path):
        raise InvalidArgument(f"'data' must be the path of a file, got {shown(str(path))}. Check the path.")
    if path.stat().st_size * _EXPANSION[suffix] > _SHARE_OF_MEMORY * _memory():
        from privet.releasing.engines.duckdb_engine import DuckDBEngine

        return DuckDBEngine(path)
    from privet.releasing.engines.polars_engine import PolarsEngine

    return PolarsEngine.of_path(path)


def _memory() -> float:
    try:
        return float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    except (AttributeError, ValueError, OSError):  # a system that does not say
        return 4e9
