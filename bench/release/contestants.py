"""One contestant in a process of its own: it loads the table once, and answers once for each line that it reads.

    python contestants.py NAME TABLE.parquet memory|file

All answer the same question: for each of 1,000 public keys the number of rows and the sum of a value clamped to
[0, 100], where a person counts in at most 5 keys and for at most 2 rows in each. The DP contestants add Laplace
noise for ε = 1. Each prints its seconds and its total count, by which it is seen that it did the work.
"""

import json
import resource
import sys
import time
import warnings
from abc import ABC, abstractmethod
from importlib import metadata
from itertools import pairwise
from pathlib import Path
from typing import Any

from data import GROUPS_PER_PERSON, KEYS, LOWER, ROWS_PER_PERSON, UPPER


class Contestant(ABC):
    """Something that answers the question."""

    package: str

    def __init__(self, table: Path, *, in_memory: bool) -> None:
        self.table, self.in_memory = table, in_memory
        self.load()

    @abstractmethod
    def load(self) -> None:
        """Import what is needed, and read the table where it is to be in memory."""

    @abstractmethod
    def answer(self) -> float:
        """Answer, and return the total count."""


class Privet(Contestant):
    """``privet.releasing`` on a Polars frame, or on the file."""

    package = "privet"

    def load(self) -> None:
        import polars as pl

        from privet.releasing import Budget, Contribution, Count, GroupBy, ReleasePlan, Sum

        self.data: Any = pl.read_parquet(self.table) if self.in_memory else self.table
        keys = tuple(range(KEYS))
        self.plan = ReleasePlan(
            statistics=(
                ("count", GroupBy("key", Count(), keys)),
                ("sum", GroupBy("key", Sum("value", LOWER, UPPER), keys)),
            ),
            unit="user_id",
            budget=Budget(epsilon=1.0),
            contribution=Contribution(rows=ROWS_PER_PERSON, groups=GROUPS_PER_PERSON),
        )

    def answer(self) -> float:
        return float(sum(number for _, number in self.plan.run(self.data).answers[0].value))


class PrivetOnDuckDB(Privet):
    """The same plan on the engine for tables that are larger than memory, which reads the file again and again."""

    def load(self) -> None:
        super().load()
        from privet.releasing.engines.duckdb_engine import DuckDBEngine

        self.data = DuckDBEngine(self.table)


class PlainPolars(Contestant):
    """The bounding and the sums by hand, without noise."""

    package = "polars"
    engine: Any = "in-memory"

    def load(self) -> None:
        import polars as pl

        self.pl = pl
        self.data = pl.read_parquet(self.table).lazy() if self.in_memory else pl.scan_parquet(self.table)

    def bounded(self) -> Any:
        """One row for each person and key that count."""
        pl = self.pl
        weight = pl.min_horizontal(pl.col("n"), ROWS_PER_PERSON)
        return (
            self.data.group_by("user_id", "key")
            .agg(pl.len().cast(pl.Int64).alias("n"), pl.col("value").clip(LOWER, UPPER).sum())
            .with_columns(pl.struct("user_id", "key").hash(seed=7).alias("order"))
            .filter(pl.col("order").rank("ordinal").over("user_id") <= GROUPS_PER_PERSON)
            .select("key", weight.alias("n"), (pl.col("value") * weight / pl.col("n")).alias("value"))
        )

    def answer(self) -> float:
        sums = self.bounded().group_by("key").agg(self.pl.col("n").sum(), self.pl.col("value").sum())
        return float(sums.collect(engine=self.engine)["n"].sum())


class StreamingPolars(PlainPolars):
    """The same on the other of Polars' two engines, often the faster one."""

    engine = "streaming"


class PlainDuckDB(Contestant):
    """The bounding and the sums in SQL, without noise."""

    package = "duckdb"

    def load(self) -> None:
        import duckdb

        self.connection = duckdb.connect()
        source = f"read_parquet('{self.table}')"
        if self.in_memory:
            self.connection.execute(f"create table people as select * from {source}")
            source = "people"
        self.query = f"""
            select key, sum(least(n, {ROWS_PER_PERSON})), sum(value * least(n, {ROWS_PER_PERSON}) / n) from (
                select *, row_number() over (partition by user_id order by hash(user_id, key)) as place from (
                    select user_id, key, count(*) as n, sum(greatest({LOWER}, least({UPPER}, value))) as value
                    from {source} group by user_id, key))
            where place <= {GROUPS_PER_PERSON} group by key"""

    def answer(self) -> float:
        return float(sum(row[1] for row in self.connection.execute(self.query).fetchall()))


class OpenDP(Contestant):
    """OpenDP on Polars, with its own truncation. 'sample' fails for one key column, so 'first' keys are kept."""

    package = "opendp"

    def load(self) -> None:
        import opendp.prelude as dp
        import polars as pl

        dp.enable_features("contrib", "honest-but-curious")
        self.dp, self.pl = dp, pl
        self.data = pl.read_parquet(self.table).lazy() if self.in_memory else pl.scan_parquet(self.table)
        self.keys = pl.LazyFrame({"key": list(range(KEYS))}, schema={"key": pl.Int64})

    def answer(self) -> float:
        dp, pl = self.dp, self.pl
        context = dp.Context.compositor(
            data=self.data,
            privacy_unit=dp.unit_of(contributions=1, identifier=pl.col("user_id")),
            privacy_loss=dp.loss_of(epsilon=1.0),
            split_evenly_over=1,
            margins=[dp.polars.Margin(by=["key"], max_length=10**7)],
        )
        value = pl.col("value").fill_nan(0.0).fill_null(0.0)
        query = (
            context.query()
            .truncate_per_group(ROWS_PER_PERSON, by=["key"])
            .truncate_num_groups(GROUPS_PER_PERSON, by=["key"], keep="first")
            .group_by("key")
            .agg(dp.len(signed=True), value.dp.sum((LOWER, UPPER)))
            .with_keys(self.keys)
        )
        return float(query.release().collect()["len"].sum())


class DiffPrivLib(StreamingPolars):
    """It knows neither people nor groups: Polars bounds, and it answers for each key's values in turn."""

    package = "diffprivlib"

    def load(self) -> None:
        super().load()
        import diffprivlib.tools
        import numpy as np

        self.tools, self.np = diffprivlib.tools, np

    def answer(self) -> float:
        np = self.np
        parts = self.bounded().sort("key").collect(engine=self.engine)
        keys, counts, values = (parts[name].to_numpy() for name in ("key", "n", "value"))
        ends = np.searchsorted(keys, np.arange(KEYS + 1))
        most, share = float(ROWS_PER_PERSON), 0.5 / GROUPS_PER_PERSON
        total = 0.0
        for start, stop in pairwise(ends):
            count = self.tools.sum(counts[start:stop].astype(float), bounds=(0.0, most), epsilon=share)
            self.tools.sum(values[start:stop], bounds=(most * LOWER, most * UPPER), epsilon=share)
            total += float(count)
        return total


CONTESTANTS: dict[str, type[Contestant]] = {
    "Privet": Privet,
    "Privet on DuckDB": PrivetOnDuckDB,
    "plain Polars": PlainPolars,
    "plain Polars, streaming": StreamingPolars,
    "plain DuckDB": PlainDuckDB,
    "OpenDP": OpenDP,
    "diffprivlib": DiffPrivLib,
}


def main() -> None:
    name, table, source = sys.argv[1:]
    warnings.simplefilter("ignore")
    kind = CONTESTANTS[name]
    contestant = kind(Path(table), in_memory=source == "memory")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(json.dumps({"version": f"{kind.package} {metadata.version(kind.package)}"}), flush=True)
    for _ in sys.stdin:
        start, worked = time.perf_counter(), time.process_time()
        total = contestant.answer()
        seconds, work = time.perf_counter() - start, time.process_time() - worked
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        said = {"seconds": seconds, "work": work, "total": total, "peak": peak, "loaded": before}
        print(json.dumps(said), flush=True)


if __name__ == "__main__":
    main()
