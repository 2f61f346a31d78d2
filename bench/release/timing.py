"""Does the time of a release tell whether one person with many rows is in the table?

    python bench/release/timing.py [--rows 1e5] [--person 20000] [--runs 300] [--answer-after 2]

Two neighbouring tables, with the person and without, are released in random order. An attacker sees how long each release
takes and guesses the table. Shown are the attacker's AUC and its 95 % interval (Hanley and McNeil 1982): once for "longer means
with the person", and once for "further from the median means with the person". 0.5 is guessing. Each release is measured
without and with ``answer_after``.
"""

import argparse
import math
import random
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

import numpy as np
import polars as pl

from privet.releasing import Budget, Contribution, Count, GroupBy, ReleaseFailed, ReleasePlan, Sum

KEYS = 100


def main() -> None:
    options = _options()
    with_person, without = _tables(int(options.rows), options.person)
    plan = ReleasePlan(
        statistics=(
            ("count", GroupBy("key", Count(), tuple(range(KEYS)))),
            ("sum", GroupBy("key", Sum("value", 0.0, 100.0), tuple(range(KEYS)))),
        ),
        unit="person",
        budget=Budget(epsilon=1.0),
        contribution=Contribution(rows=2, groups=5),
    )
    with tempfile.TemporaryDirectory() as folder:
        files = []
        for name, table in (("with", with_person), ("without", without)):
            files.append(Path(folder) / f"{name}.csv")
            table.write_csv(files[-1])
        for title, sides in (("frame", (with_person, without)), ("CSV file", tuple(files))):
            for answer_after in (None, options.answer_after):
                times, failures = _measure(sides, options.runs, _releasing(plan, answer_after))
                _report(title, answer_after, times, failures)


def _releasing(plan: ReleasePlan, answer_after: float | None) -> Callable[[object], bool]:
    """Whether a release of the data was answered."""

    def release(data: object) -> bool:
        try:
            plan.run(data, answer_after=answer_after)
        except ReleaseFailed:
            return False
        return True

    return release


def _measure(
    sides: tuple[object, ...], runs: int, release: Callable[[object], bool]
) -> tuple[list[list[float]], int]:
    """Seconds of the releases of each side, and how many failed."""
    order = [0, 1] * runs
    random.Random(1).shuffle(order)
    for side in (0, 1, 0, 1):  # warm up
        release(sides[side])
    times: list[list[float]] = [[], []]
    failures = 0
    for side in order:
        start = time.perf_counter()
        answered = release(sides[side])
        times[side].append(time.perf_counter() - start)
        failures += not answered
    return times, failures


def _report(title: str, answer_after: float | None, times: list[list[float]], failures: int) -> None:
    middle = median([*times[0], *times[1]])
    far = [[abs(seconds - middle) for seconds in side] for side in times]
    padded = "no answer_after" if answer_after is None else f"answer_after={answer_after:g}"
    latest = max(max(side) for side in times)
    print(
        f"{title}, {padded}: {len(times[0])} releases a side, {failures} failed; medians {median(times[0]):.6f} s with the person, "
        f"{median(times[1]):.6f} s without, latest {latest:.6f} s; AUC {_interval(times)} by length, "
        f"{_interval(far)} by distance from the median",
        flush=True,
    )


def _interval(times: list[list[float]]) -> str:
    first, second = np.array(times[0]), np.array(times[1])
    auc = float(np.mean((first[:, None] > second) + 0.5 * (first[:, None] == second)))
    m, n = first.size, second.size
    one, two = auc / (2 - auc), 2 * auc**2 / (1 + auc)
    variance = (auc * (1 - auc) + (m - 1) * (one - auc**2) + (n - 1) * (two - auc**2)) / (m * n)
    half = 1.96 * math.sqrt(max(variance, 0.0))
    return f"{auc:.3f} [{auc - half:.3f}, {auc + half:.3f}]"


def _tables(rows: int, person: int) -> tuple[pl.DataFrame, pl.DataFrame]:
    generator = np.random.default_rng(7)
    people = max(rows // 20, 1)
    without = pl.DataFrame(
        {
            "person": generator.integers(0, people, rows),
            "key": generator.integers(0, KEYS, rows),
            "value": generator.gamma(2.0, 15.0, rows).round(2),
        }
    )
    own = pl.DataFrame(
        {
            "person": np.full(person, people),
            "key": generator.integers(0, KEYS, person),
            "value": generator.gamma(2.0, 15.0, person).round(2),
        }
    )
    return pl.concat([without, own]).sample(fraction=1.0, shuffle=True, seed=7), without


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=float, default=1e5, help="of all other people (default: 1e5)")
    parser.add_argument("--person", type=int, default=20_000, help="rows of the person (default: 20000)")
    parser.add_argument("--runs", type=int, default=300, help="releases of each table (default: 300)")
    parser.add_argument("--answer-after", type=float, default=2.0, help="seconds (default: 2)")
    return parser.parse_args()


if __name__ == "__main__":
    main()
