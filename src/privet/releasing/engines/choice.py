"""Which engine a table gets. Engines are imported here when they are needed, because their packages are
optional."""

import os
from pathlib import Path

from privet.arguments import format_value
from privet.errors import InvalidArgument
from privet.paths import is_file
from privet.releasing.engines.engine import TableEngine
from privet.releasing.tables.postgres_table import PostgresTable

__all__ = ["choose_engine"]

# Columns of a compressed file are several times larger in memory, and sorting needs them a second time.
_EXPANSION = {".parquet": 8, ".csv": 3}
_SHARE_OF_MEMORY = 0.5


def choose_engine(data: object) -> TableEngine:
    """Polars for a table that fits into memory, DuckDB for a larger file; Spark and PostgreSQL for theirs.

    ``data`` is a Polars frame, a pandas frame, an Arrow table, the path of a ``.csv`` or ``.parquet`` file,
    a DataFrame of Spark, a ``PostgresTable``, or an engine. The choice depends on the type, and on the size
    of a file, alone. All engines give the same sums.
    """
    if isinstance(data, TableEngine):
        return data
    if isinstance(data, (str, Path)):
        return _engine_for_path(Path(data))
    if isinstance(data, PostgresTable):
        from privet.releasing.engines.postgres_engine import PostgresEngine

        return PostgresEngine(data)
    module = type(data).__module__.partition(".")[0]
    if module in ("polars", "pandas", "pyarrow"):
        from privet.releasing.engines.polars_engine import PolarsEngine

        return PolarsEngine.over(data)
    if module == "pyspark" and type(data).__name__ == "DataFrame":
        from privet.releasing.engines.spark_engine import SparkEngine

        return SparkEngine(data)
    raise InvalidArgument(
        f"'data' must be a Polars, pandas or Spark frame, an Arrow table, a PostgresTable, or the path of a "
        f".csv or .parquet file, got a value of type {type(data).__name__}. Load the table first."
    )


def _engine_for_path(path: Path) -> TableEngine:
    suffix = path.suffix.lower()
    if suffix not in _EXPANSION:
        raise InvalidArgument(
            f"'data' must be the path of a .csv or .parquet file, got {format_value(str(path))}. "
            f"Name the file by its format."
        )
    if not is_file(path):
        raise InvalidArgument(
            f"'data' must be the path of a file, got {format_value(str(path))}. Check the path."
        )
    if path.stat().st_size * _EXPANSION[suffix] > _SHARE_OF_MEMORY * _memory_bytes():
        from privet.releasing.engines.duckdb_engine import DuckDBEngine

        return DuckDBEngine(path)
    from privet.releasing.engines.polars_engine import PolarsEngine

    return PolarsEngine.of_path(path)


def _memory_bytes() -> float:
    try:
        return float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    except (AttributeError, ValueError, OSError):  # the system does not say
        return 4e9
