"""CPU time of a release over a CSV file, by how the file is written and by what is asked.

    python bench/release/csv_files.py [--rows 1e6] [--runs 5]

Set PYTHONPATH to the ``src`` of another version to compare two versions. CPU time of all threads, the least of the runs: the
wall clock depends on what else the machine does.
"""

import argparse
import tempfile
import time
from pathlib import Path

import numpy as np
import polars as pl

from privet.releasing import Budget, Contribution, Count, GroupBy, Mean, ReleasePlan, Sum

KEYS = tuple(range(1_000))
QUESTIONS = {
    "sum": ReleasePlan(statistics=(("s", Sum("value", 0.0, 100.0)),), unit=None, budget=Budget(epsilon=1.0)),
    "mean of people": ReleasePlan(
        statistics=(("m", Mean("value", 0.0, 100.0)),), unit="person", budget=Budget(epsilon=1.0)
    ),
    "counts and sums by key": ReleasePlan(
        statistics=(
            ("n", GroupBy("key", Count(), KEYS)),
            ("s", GroupBy("key", Sum("value", 0.0, 100.0), KEYS)),
        ),
        unit="person",
        budget=Budget(epsilon=1.0),
        contribution=Contribution(rows=2, groups=5),
    ),
}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=float, default=1e6, help="of the table (default: 1e6)")
    parser.add_argument("--runs", type=int, default=5, help="of each release (default: 5)")
    options = parser.parse_args()
    print("| file | " + " | ".join(QUESTIONS) + " |")
    print("| --- |" + " --- |" * len(QUESTIONS))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "t.csv"
        for name, content in _files(int(options.rows)).items():
            path.write_bytes(content)
            times = [_least_cpu_time(plan, path, options.runs) for plan in QUESTIONS.values()]
            print(f"| {name} | " + " | ".join(f"{seconds:.2f} s" for seconds in times) + " |", flush=True)


def _least_cpu_time(plan: ReleasePlan, path: Path, runs: int) -> float:
    plan.run(path)
    times = []
    for _ in range(runs):
        start = time.process_time()
        plan.run(path)
        times.append(time.process_time() - start)
    return min(times)


def _files(rows: int) -> dict[str, bytes]:
    generator = np.random.default_rng(20)
    people = pl.Series(generator.integers(0, max(rows // 20, 1), rows))
    frame = pl.DataFrame(
        {
            "person": people,
            "key": generator.integers(0, len(KEYS), rows),
            "value": generator.gamma(2.0, 15.0, rows),
        }
    )
    more = {f"c{number}": pl.Series(generator.integers(0, 10**6, rows)) for number in range(12)}
    names = people.cast(pl.String)
    return {
        "three columns": frame.write_csv().encode(),
        "fifteen columns": frame.with_columns(**more).write_csv().encode(),
        "a quoted field in each line": frame.with_columns(person="user, " + names).write_csv().encode(),
        "lines that end with CRLF": frame.write_csv(line_terminator="\r\n").encode(),
        "names that are not ASCII": frame.with_columns(person="üser " + names).write_csv().encode(),
    }


if __name__ == "__main__":
    main()
