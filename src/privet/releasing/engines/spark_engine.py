"""Bounded aggregation of tables on many machines, by Spark.

Spark sends the columns of each partition to a Python worker beside it, where ``row_maker`` makes rows of a
unit, the number of a group, an order and whole numbers, as for every engine. Spark then groups rows to pairs
of a unit and a group, ranks the pairs of each unit, and adds them up. Only the sums of groups, and the keys
of a grouping whose keys are not public, come to the process that asks.

No sum leaves 64 bits (proof at ``MOST_ROWS``), and Spark's own count says whether the proof holds for the
table. So a sum never wraps around unnoticed, whether the session is in ANSI mode or not.

Spark writes a log of its own, which Privet does not control. A plan that fails on a value, such as a cast,
is quoted there with the value. The log is as private as the table.
"""

import logging
import uuid
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import compress
from threading import Lock, get_ident
from typing import Any, final
from weakref import WeakSet

import numpy as np
from numpy.typing import NDArray

from privet.errors import InvalidArgument, MissingPackage
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
from privet.releasing.engines.engine import TableEngine
from privet.releasing.engines.row_maker import RowMaker, report_versions
from privet.releasing.engines.rows import (
    Keys,
    RowSource,
    needed_columns,
    needs_order,
    sort_codes,
    tabulate_keys,
    value_names,
)
from privet.releasing.tables.column_kind import ColumnKind
from privet.releasing.tables.sources import ArrowSource, pl

try:
    import pyarrow as pa  # type: ignore[import-untyped]
    from pyspark import SparkContext
    from pyspark.logger import PySparkLogger
    from pyspark.sql import Column, DataFrame, SparkSession, Window
    from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it
    from pyspark.sql.pandas.types import to_arrow_type
    from pyspark.sql.types import StringType, StructField, TimestampType
except ImportError as missing:
    raise MissingPackage(
        "Tables of Spark need the packages 'pyspark', 'pandas' and 'pyarrow', and one is not installed. "
        "Run: pip install 'privet[spark]'."
    ) from missing

__all__ = ["SparkEngine"]

_SPARK_TYPES = {pl.Int64: "bigint", pl.Float64: "double", pl.Boolean: "boolean", pl.String: "string"}
_MARK = "row"


@final
class SparkEngine(TableEngine):
    """Over a DataFrame of Spark, in a session of its own process or of a cluster."""

    def __init__(self, data: DataFrame | Any) -> None:  # noqa: ANN401 - pyspark may have no types
        _check_workers(data.sparkSession)
        fields = data.schema.fields
        if len({field.name for field in fields}) < len(fields):
            raise InvalidArgument(
                "'data' must have different names for all columns, and two columns have one name. "
                "Rename them."
            )
        # By position: Spark looks names up without case, and reads dots and backticks in them.
        self._data = data.toDF(*(f"c{place}" for place in range(len(fields))))
        self._fields = {field.name: field for field in fields}
        self._empty = pa.schema([(field.name, _arrow_type(field)) for field in fields]).empty_table()
        self._source = RowSource(ArrowSource(self._empty))
        self._jobs = _Jobs(data.sparkSession)

    @property
    def schema(self) -> Mapping[str, ColumnKind]:
        return self._source.schema

    def totals(self, request: AggregateRequest) -> Totals:
        with self._jobs.start() as jobs:
            given, keys = self._rows(request, jobs)
            pairs = _pairs(request, given)
            names = dict(zip(list_row_aggregates(request.aggregates), value_names(request), strict=True))
            sums = [
                F.sum(_contribution(aggregate, names, request)).alias(f"sum{place}")
                for place, aggregate in enumerate(request.aggregates)
            ]
            lines = jobs.collect(pairs.groupBy("grp").agg(F.sum("n").alias("n"), *sums))
        check_rows(int(lines["n"].sum() or 0))
        groups = lines["grp"].to_numpy()
        totals: dict[Aggregate, NDArray[np.int64]] = {}
        for place, aggregate in enumerate(request.aggregates):
            totals[aggregate] = np.zeros(len(keys), dtype=np.int64)
            totals[aggregate][groups] = lines[f"sum{place}"].to_numpy()
        if request.grouping.keys is not None:
            return Totals(keys, totals)
        # A key that no unit counts in is left out: with noise alone it would show that a unit has it.
        counts = np.zeros(len(keys), dtype=bool)
        counts[groups] = True
        return Totals(
            tuple(compress(keys, counts)), {aggregate: total[counts] for aggregate, total in totals.items()}
        )

    def cells(self, request: CellCountRequest) -> NDArray[np.int64]:
        counts = np.zeros((len(request.grouping.keys or ()), request.cells.count), dtype=np.int64)
        with self._jobs.start() as jobs:
            given, _ = self._rows(request, jobs)
            lines = jobs.collect(_cell_lines(request, given))
        check_rows(int(lines["c"].sum() or 0))
        counts[lines["grp"].to_numpy(), lines["cell"].to_numpy()] = lines["weight"].to_numpy()
        return counts

    def cancel(self) -> None:
        self._jobs.cancel()

    def _rows(
        self, request: AggregateRequest | CellCountRequest, jobs: "_StartedJobs"
    ) -> tuple[DataFrame, Keys]:
        """The rows as Spark adds them up, and the keys. Keys that are not listed are discovered first."""
        grouping = request.grouping
        codecs = self._source.key_codecs(grouping)
        if grouping.keys is not None:
            keys = pl.DataFrame() if grouping.single else tabulate_keys(grouping.keys, codecs)
            return self._make(request, keys), grouping.keys
        found = jobs.collect(self._make(request, None).distinct())
        # Decimals travel as text.
        codes, listed = sort_codes(
            found.cast(dict(zip(found.columns, (c.type for c in codecs), strict=True))), codecs
        )
        return self._make(request, codes), listed

    def _make(self, request: AggregateRequest | CellCountRequest, keys: pl.DataFrame | None) -> DataFrame:
        """The columns that a request needs, through the workers."""
        needed = needed_columns(request)
        maker = RowMaker(tuple(needed) or (_MARK,), request, keys)
        made = maker.rows(self._empty.select(list(maker.names)) if needed else pa.table({_MARK: [True]}))
        schema = ", ".join(f"{name} {_SPARK_TYPES[type(kind)]}" for name, kind in made.schema.items())
        columns = [self._column(name) for name in needed] or [F.lit(True).alias(_MARK)]
        selected = self._data.select(*columns)
        with _quiet():
            return selected.mapInArrow(maker, schema)

    def _column(self, name: str) -> Column:
        field = self._fields[name]
        column = F.col(f"c{list(self._fields).index(name)}")
        # Bytes that Spark calls text may be no Unicode. Such a value is missing.
        return F.try_validate_utf8(column) if isinstance(field.dataType, StringType) else column


@final
class _Jobs:
    """The jobs of one engine, which another thread can cancel."""

    def __init__(self, session: SparkSession) -> None:
        self._session = session
        try:
            self._context: SparkContext | None = session.sparkContext
        except Exception:  # a session of Spark Connect has none, and is asked by itself
            self._context = None
        self._running: set[_StartedJobs] = set()
        self._lock = Lock()

    @contextmanager
    def start(self) -> Iterator["_StartedJobs"]:
        """The jobs of one request, all with one tag. Tags belong to the thread that sets them.

        A tag of the context is inherited by the thread in which Spark serves a result, and one of the session
        is not.
        """
        jobs = _StartedJobs(f"privet-{uuid.uuid4().hex}")
        with self._lock:
            self._running.add(jobs)
        self._session.addTag(jobs.tag) if self._context is None else self._context.addJobTag(jobs.tag)
        try:
            yield jobs
        finally:
            with self._lock:
                self._running.discard(jobs)
            if self._context is None:
                self._session.removeTag(jobs.tag)
            else:
                self._context.removeJobTag(jobs.tag)

    def cancel(self) -> None:
        with self._lock:
            running = tuple(self._running)
        for jobs in running:
            jobs.cancelled = True
            if self._context is None:
                self._session.interruptTag(jobs.tag)
            else:
                self._context.cancelJobsWithTag(jobs.tag)


@final
class _StartedJobs:
    def __init__(self, tag: str) -> None:
        self.tag = tag
        self.cancelled = False

    def collect(self, data: DataFrame) -> pl.DataFrame:
        """The lines of a small result."""
        self._check()
        with _quiet():
            try:
                table = data.toArrow()
            except Exception:  # of Spark, or of what connects to it
                table = None
        self._check()
        if table is None:  # raised here, so that Spark's error, which may quote a row, is not its context
            raise RuntimeError("Spark could not aggregate the table")
        return pl.DataFrame(table)

    def _check(self) -> None:
        if self.cancelled:
            raise RuntimeError("the query was cancelled")


class _QuietThreads(logging.Filter):
    """Drops what threads log that ask for it."""

    def __init__(self) -> None:
        super().__init__()
        self.threads: set[int | None] = set()

    def filter(self, record: logging.LogRecord) -> bool:
        return record.thread not in self.threads


_quiet_threads = _QuietThreads()


@contextmanager
def _quiet() -> Iterator[None]:
    """No warning and no log of PySpark in this thread: it logs an error that quotes a value, also if the
    error is handled."""
    for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
        PySparkLogger.getLogger(name).addFilter(_quiet_threads)  # does nothing the second time
    own = get_ident()
    outermost = own not in _quiet_threads.threads
    _quiet_threads.threads.add(own)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # also Spark's about the version of pandas, which is not used
            yield
    finally:
        if outermost:
            _quiet_threads.threads.discard(own)


_checked: "WeakSet[SparkSession]" = WeakSet()


def _check_workers(session: SparkSession) -> None:
    """Refuse a session whose workers cannot make rows, before anything is spent. One worker is asked, once a
    session."""
    if session in _checked:
        return
    with _quiet():
        try:
            asked = session.range(1).mapInArrow(report_versions, "versions string").toArrow()
            found = str(asked["versions"][0])
        except Exception:  # of Spark, or of what connects to it
            found = "no Privet that can be loaded"
    own = str(next(report_versions(iter(())))["versions"][0])
    if found != own:
        raise InvalidArgument(
            f"'data' must be of a Spark session whose Python workers have {own}, and one has {found}. "
            f"Install privet[spark] on the workers, and name their Python in PYSPARK_PYTHON."
        )
    _checked.add(session)


def _arrow_type(field: StructField) -> Any:  # noqa: ANN401 - pyarrow has no types
    """The type in which Spark sends a column; for one that it cannot send, a type that is refused later."""
    if isinstance(field.dataType, TimestampType):
        return pa.timestamp("us", "UTC")
    try:
        return to_arrow_type(field.dataType)
    except Exception:  # Spark's errors about types that Arrow does not have
        return pa.list_(pa.null())


def _pairs(request: AggregateRequest, given: DataFrame) -> DataFrame:
    """One line for each pair of a unit and a group that counts; for each group if every row is a unit."""
    over_rows = [F.count(F.lit(1)).alias("n"), *(F.sum(name).alias(name) for name in value_names(request))]
    if request.unit is None:
        return given.groupBy("grp").agg(*over_rows)
    if not needs_order(request):
        return given.groupBy("unit", "grp").agg(*over_rows)
    pairs = given.groupBy("unit", "grp").agg(F.min("ord").alias("ord"), *over_rows)
    place = F.row_number().over(Window.partitionBy("unit").orderBy("ord", "grp"))
    return pairs.withColumn("place", place).filter(F.col("place") <= request.contribution.groups)


def _cell_lines(request: CellCountRequest, given: DataFrame) -> DataFrame:
    """The number of rows and their weight in each cell of each group."""
    count = F.count(F.lit(1)).alias("c")
    if request.unit is None:
        return given.groupBy("grp", "cell").agg(count, (F.count(F.lit(1)) * WEIGHT).alias("weight"))
    bounded = needs_order(request)
    order = [F.min("ord").alias("ord")] if bounded else []
    lines = given.groupBy("unit", "grp", "cell").agg(count, *order)
    lines = lines.withColumn("n", F.sum("c").over(Window.partitionBy("unit", "grp")))
    if bounded:
        place = F.dense_rank().over(Window.partitionBy("unit").orderBy("ord", "grp"))
        lines = lines.withColumn("place", place).filter(F.col("place") <= request.contribution.groups)
    weight = _divide(F.least(F.col("n"), _whole(request.contribution.rows)) * WEIGHT, F.col("n"))
    return lines.groupBy("grp", "cell").agg(F.sum("c").alias("c"), F.sum(F.col("c") * weight).alias("weight"))


def _contribution(
    aggregate: Aggregate, names: Mapping[RowAggregate, str], request: AggregateRequest
) -> Column:
    """What each pair of a unit and a group adds; each group, if every row is a unit."""
    if request.unit is None:
        return F.col(names[aggregate] if isinstance(aggregate, RowAggregate) else "n")
    most = _whole(request.contribution.rows)
    match aggregate:
        case UnitCount():
            return _whole(1)
        case RowCount():
            return F.least(F.col("n"), most)
        case ValueCount():
            return F.least(F.col(names[aggregate]), most)
        case ValueSum() | ShareSum():
            # ⌊total · weight / rows⌋ in parts, as in ``scale_to_row_limit``.
            total, rows = F.col(names[aggregate]), F.col(names[aggregate.present])
            weight, divisor = F.least(rows, most), F.greatest(rows, _whole(1))
            remainder = F.pmod(total, divisor)
            return weight * _divide(total - remainder, divisor) + _divide(weight * remainder, divisor)
    raise AssertionError(f"{type(aggregate).__name__} is no aggregate")


def _whole(number: int) -> Column:
    return F.lit(number).cast("bigint")


def _divide(dividend: Column, divisor: Column) -> Column:
    """The quotient of whole numbers, towards zero. Spark's ``/`` would make a float of it."""
    return F.call_function("div", dividend, divisor)
