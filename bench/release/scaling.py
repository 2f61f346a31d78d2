"""The same question to every engine on tables that grow: 10⁵ to 10⁸ rows, one core, a fresh process each time.

    python bench/release/scaling.py [--rows 1e5,1e6,1e7,1e8] [--engines polars,duckdb,spark,postgres] [--folder /tmp/privet-scaling]
                                    [--most spark=1e7,postgres=1e7] [--gigabytes 3] [--core 0] [--markdown docs/scaling.md]

The question is that of ``run.py``: for each of 1,000 public keys the number of rows and the sum of a clamped value, where a person
counts in at most 5 keys and for at most 2 rows in each. Shown are the seconds of the second of two answers (so that a JVM is warm;
an answer that took longer than five minutes is not asked for again), the processor seconds of all processes that work on it, also of
the server, and the peak memory of the process that asks. The coins are the same, and all answers must be. It needs Java for
Spark, and PostgreSQL; an engine that is missing is left out, with the reason. What was measured is kept in the folder, so that
sizes and engines can be asked one after the other; a size and an engine that are asked again replace what was there. ``--gigabytes``
limits the memory of DuckDB and of Spark's JVM; without it DuckDB takes what it likes, and the JVM 3.
"""

import argparse
import datetime
import importlib.util
import json
import os
import platform
import resource
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path

import numpy as np
from data import GROUPS_PER_PERSON, KEYS, LOWER, ROWS_PER_PERSON, UPPER

HERE = Path(__file__).resolve().parent
ENGINES = ("polars", "duckdb", "spark", "postgres")
BEGIN, END = "<!-- results: begin -->", "<!-- results: end -->"
CHUNK, PART = 5_000_000, 10_000_000
LONG = 300.0  # seconds


def make_table(rows, folder):
    """The table of so many rows. One of more than 10⁷ has the rows of the smaller one again and again, each time of other people."""
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    path = folder / f"scaling-{rows}.parquet"
    if path.exists():
        return path
    folder.mkdir(parents=True, exist_ok=True)
    people = max(min(rows, PART) // 20, 1)
    begun = path.with_suffix(".part")
    with ExitStack() as held:
        writer = None
        for place in range(-(-rows // PART)):
            table = pq.read_table(make_table(PART, folder)) if rows > PART else draw_table(rows, people)
            table = table.slice(0, min(PART, rows - place * PART))
            table = table.set_column(0, "user_id", pc.add(table["user_id"], pa.scalar(place * people)))
            writer = writer or held.enter_context(pq.ParquetWriter(begun, table.schema))
            writer.write_table(table, 1_000_000)
    begun.rename(path)
    return path


def draw_table(rows, people):
    """People who are very unequally active, and keys that are very unequally popular, from a fixed seed."""
    import pyarrow as pa

    draw = np.random.default_rng(20)
    activity = np.cumsum(draw.pareto(1.2, people) + 1)
    popularity = np.cumsum(1 / np.arange(1, KEYS + 1) ** 0.8)
    parts = []
    for start in range(0, rows, CHUNK):
        count = min(CHUNK, rows - start)
        users = np.searchsorted(activity, draw.uniform(0, activity[-1], count)).astype(np.int64)
        keys = np.searchsorted(popularity, draw.uniform(0, popularity[-1], count)).astype(np.int64)
        parts.append(pa.table({"user_id": users, "key": keys, "value": draw.gamma(2.0, 15.0, count)}))
    return pa.concat_tables(parts)


def make_plan():
    from privet.releasing import Budget, Contribution, Count, GroupBy, ReleasePlan, Sum

    keys = tuple(range(KEYS))
    return ReleasePlan(
        statistics=(
            ("rows", GroupBy("key", Count(), keys)),
            ("sum", GroupBy("key", Sum("value", LOWER, UPPER), keys)),
        ),
        unit="user_id",
        budget=Budget(epsilon=1.0),
        contribution=Contribution(rows=ROWS_PER_PERSON, groups=GROUPS_PER_PERSON),
    )


def load_servers():
    path = HERE.parents[1] / "tests" / "laws" / "table_servers.py"
    spec = importlib.util.spec_from_file_location("table_servers", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def limit_duckdb(gigabytes):
    """Every connection of this process keeps to so much memory, and spills what is more to disk."""
    import duckdb

    connect = duckdb.connect

    def connect_within(database, config):
        return connect(database, config={**config, "memory_limit": f"{gigabytes:g}GB"})

    duckdb.connect = connect_within


def open_table(engine, path, held, gigabytes):
    """The data that a plan takes, and the process of a server that is no child of this one."""
    if engine == "polars":
        from privet.releasing.engines.polars_engine import PolarsEngine

        return PolarsEngine.of_path(path), None
    if engine == "duckdb":
        from privet.releasing.engines.duckdb_engine import DuckDBEngine

        if gigabytes:
            limit_duckdb(gigabytes)
        return DuckDBEngine(path), None
    servers = load_servers()
    if engine == "spark":
        session = held.enter_context(
            servers.open_spark(threads=1, memory=f"{gigabytes or 3:g}g", short=False)
        )
        return session.read.parquet(str(path)), None
    address = held.enter_context(
        servers.open_postgres(shared_buffers="512MB", work_mem="256MB", max_wal_size="4GB")
    )
    return fill_postgres(address, path)


def fill_postgres(address, path):
    import psycopg
    import pyarrow.parquet as pq

    from privet.releasing import PostgresTable

    with psycopg.connect(address) as connection:
        connection.execute("CREATE UNLOGGED TABLE visits (user_id int8, key int8, value float8)")
        with connection.cursor() as cursor, cursor.copy("COPY visits FROM STDIN (FORMAT csv)") as copy:
            for batch in pq.ParquetFile(path).iter_batches(500_000):
                import polars as pl

                copy.write(pl.DataFrame(batch).write_csv(include_header=False))
        connection.commit()
        connection.autocommit = True
        connection.execute("ANALYZE visits")
        folder = connection.execute("SHOW data_directory").fetchone()[0]
    return PostgresTable(address, "visits"), int(Path(folder, "postmaster.pid").read_text().splitlines()[0])


def processor_seconds(*roots):
    """Of these processes, of those that they started, and of those that ended meanwhile."""
    fields = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                text = (folder / "stat").read_text()
            except OSError:
                continue
            fields[int(folder.name)] = text.rpartition(") ")[2].split()
    total, open_ids = 0, [root for root in roots if root]
    while open_ids:
        own = open_ids.pop()
        total += sum(map(int, fields[own][11:15])) if own in fields else 0
        open_ids += [child for child, words in fields.items() if int(words[1]) == own]
    return total / os.sysconf("SC_CLK_TCK")


def answer_once(engine, path, core, gigabytes):
    """One engine on one table: what the child process does."""
    from privet.randomness import SeededNoise

    os.sched_setaffinity(0, {core})
    plan = make_plan()
    plan.quote()
    with ExitStack() as held:
        data, server = open_table(engine, path, held, gigabytes)
        seconds, work = [], []
        while len(seconds) < 2 and (not seconds or seconds[0] < LONG):
            begun, spent = time.monotonic(), processor_seconds(os.getpid(), server)
            answers = plan.run(data, noise=SeededNoise(1)).answers
            seconds.append(time.monotonic() - begun)
            work.append(processor_seconds(os.getpid(), server) - spent)
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    check = float(sum(number for answer in answers for _, number in answer.value))
    print(json.dumps({"seconds": seconds[-1], "work": work[-1], "memory": memory, "check": check.hex()}))


def ask(engine, path, core, gigabytes):
    words = [sys.executable, "-W", "ignore", __file__, "--core", str(core), "--one", engine, str(path)]
    words += ["--gigabytes", str(gigabytes)] if gigabytes else []
    limits = {"POLARS_MAX_THREADS": "1", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(words, capture_output=True, text=True, check=False, env={**os.environ, **limits})
    if done.returncode:
        return {"failure": (done.stderr.strip().splitlines() or ["no reason given"])[-1][:200]}
    return json.loads(done.stdout.strip().splitlines()[-1])


def write_results(found, sizes, engines):
    lines = [
        f"- Date: {datetime.date.today().isoformat()}; one core of {os.cpu_count()} ({platform.machine()}), "
        f"load average up to {max(one.get('load', 0) for one in found.values()):.0f}; one thread each.",
        "- Processor seconds of all processes, peak memory of the process that asks; in brackets the seconds until the answer came, which "
        "say as much of the machine's other work.",
        "",
        "| rows | " + " | ".join(engines) + " |",
        "|---|" + "---|" * len(engines),
    ]
    for rows in sizes:
        cells = []
        for engine in engines:
            one = found.get((engine, rows))
            if one is None:
                cells.append("not asked")
            elif "failure" in one:
                cells.append(f"failed: {one['failure']}")
            else:
                cells.append(f"{one['work']:.2f} s, {one['memory']:,.0f} MB ({one['seconds']:.0f} s)")
        lines.append(f"| {rows:.0e} | ".replace("e+0", "e") + " | ".join(cells) + " |")
    equal = all(
        len({one["check"] for (_, n), one in found.items() if n == rows and "check" in one}) <= 1
        for rows in sizes
    )
    lines += [
        "",
        f"- {'PASS' if equal else 'FAIL'}  the same coins give the same answers on all engines, at every size",
    ]
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", default="1e5,1e6,1e7,1e8")
    parser.add_argument("--engines", default=",".join(ENGINES))
    parser.add_argument("--most", default="spark=1e7,postgres=1e7", help="the largest table of an engine")
    parser.add_argument("--folder", type=Path, default=Path("/tmp/privet-scaling"))
    parser.add_argument("--markdown", type=Path)
    parser.add_argument("--gigabytes", type=float, help="memory of DuckDB and of Spark's JVM")
    parser.add_argument("--core", type=int, default=0)
    parser.add_argument("--one", nargs=2)
    options = parser.parse_args()
    if options.one:
        answer_once(options.one[0], Path(options.one[1]), options.core, options.gigabytes)
        return
    sizes = [int(float(word)) for word in options.rows.split(",")]
    engines = options.engines.split(",")
    most = {
        name: float(count) for name, _, count in (word.partition("=") for word in options.most.split(","))
    }
    for rows in sizes:
        path = make_table(rows, options.folder)
        for engine in engines:
            if rows <= most.get(engine, 1e12):
                one = {**ask(engine, path, options.core, options.gigabytes), "load": os.getloadavg()[0]}
                print(engine, rows, one, flush=True)
                (options.folder / f"{engine}-{rows}.json").write_text(json.dumps(one))
    found = {}
    for path in options.folder.glob("*-*.json"):
        engine, _, rows = path.stem.partition("-")
        found[engine, int(rows)] = json.loads(path.read_text())
    results = write_results(found, sorted({rows for _, rows in found}), ENGINES)
    print(results)
    if options.markdown:
        text = options.markdown.read_text(encoding="utf-8")
        before, after = text.partition(BEGIN)[0], text.partition(END)[2]
        options.markdown.write_text(f"{before}{BEGIN}\n\n{results}\n\n{END}{after}", encoding="utf-8")


if __name__ == "__main__":
    main()
