"""Who is unique in a table: ``python bench/published/uniqueness.py [pums | population | speed | audit]``.

- ``pums``: the 2000 PUMS of Fulton county, a sample of 5 %: the share unique by four sets of columns, and what that says about the population.
- ``population``: the same file as a population of 25,766 people, of which samples are drawn: how often the interval holds the truth, how wide it is,
  and how far the estimate is off.
- ``speed``: all 793 sets of up to 4 of 12 columns on 1e6 rows, for tables of four kinds, in seconds of the processor.
- ``audit``: ``privet.audit_release`` of 1e6 rows from the table in memory to the report.

The data are read from the folder that ``PRIVET_DATA`` names (default /work/shared/data).
"""

import os
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd

import privet
from privet.attacks.linkage import estimate_population_uniqueness, measure_uniqueness
from privet.published_tables import PublishedTable

DATA = Path(os.environ.get("PRIVET_DATA", "/work/shared/data"))
SETS = (
    ["puma", "age", "sex"],
    ["puma", "age", "sex", "educ"],
    ["puma", "age", "sex", "income"],
    ["puma", "age", "sex", "educ", "income"],
)
ROWS = 10**6


def read_pums():
    return pd.read_csv(DATA / "pums5_fulton_ga.csv.gz")


def show_pums():
    people = read_pums()
    table = PublishedTable.of(people)
    print(f"{len(people):,} rows, a sample of 5 %")
    for columns in SETS:
        found = measure_uniqueness(table, columns)
        known = estimate_population_uniqueness(found.class_sizes, 0.05)
        share, rows = known.share_between, known.of_unique_between
        print(
            f"{' + '.join(columns):32} unique {100 * found.share:6.2f} %; in the population {100 * known.share:6.3f} % "
            f"[{100 * share.lower:.2f}, {100 * share.upper:.2f}]; of unique rows {100 * (known.of_unique or 0):5.1f} % "
            f"[{100 * rows.lower:.1f}, {100 * rows.upper:.1f}]"
        )


def show_population(samples=100):
    people, coins = read_pums(), np.random.default_rng(0)
    for columns in SETS[:3]:
        codes = people.groupby(columns).ngroup().to_numpy()
        sizes = np.bincount(codes)
        truth = (sizes == 1).sum() / len(codes)
        for fraction in (0.05, 0.2, 0.5):
            found, truths = [], []
            for _ in range(samples):
                drawn = coins.choice(len(codes), round(fraction * len(codes)), replace=False)
                counts = np.bincount(codes[drawn], minlength=len(sizes))
                found.append(estimate_population_uniqueness(counts[counts > 0], len(drawn) / len(codes)))
                truths.append(((counts == 1) & (sizes == 1)).sum() / max((counts == 1).sum(), 1))
            held = np.mean([each.share_between.lower <= truth <= each.share_between.upper for each in found])
            rows = np.mean(
                [
                    each.of_unique_between is None
                    or each.of_unique_between.lower <= share <= each.of_unique_between.upper
                    for each, share in zip(found, truths, strict=True)
                ]
            )
            low, high, middle = (
                np.median([value(each) for each in found])
                for value in (
                    lambda each: each.share_between.lower,
                    lambda each: each.share_between.upper,
                    lambda each: each.share,
                )
            )
            print(
                f"{' + '.join(columns):28} {100 * fraction:3.0f} % drawn: truth {100 * truth:6.2f} %, median estimate "
                f"{100 * middle:6.2f} %, median interval [{100 * low:.2f}, {100 * high:.2f}]; holds the truth in "
                f"{100 * held:.0f} % of {samples} samples, of unique rows in {100 * rows:.0f} %"
            )


def make_tables():
    coins = np.random.default_rng(1)

    def people():
        wide = [
            coins.zipf(1.3, ROWS) % 5000,
            coins.integers(0, 25_000, ROWS),
            (coins.lognormal(10, 1, ROWS) // 100).astype(int),
        ]
        return wide + [coins.integers(0, width, ROWS) for width in (2, 5, 8, 16, 50, 12, 3, 300, 100)]

    return {
        "a register (zip, birth date, income, nine more)": people(),
        "100 even values each": [coins.integers(0, 100, ROWS) for _ in range(12)],
        "12 uneven values each": [np.minimum(coins.geometric(0.3, ROWS), 12) for _ in range(12)],
        "1,000 uneven values each": [(coins.random(ROWS) ** 3 * 1000).astype(int) for _ in range(12)],
    }


def show_speed():
    for name, columns in make_tables().items():
        table = PublishedTable.of({f"c{place}": column for place, column in enumerate(columns)})
        started = time.process_time()
        found = measure_uniqueness(table, list(table.names), largest=4)
        print(f"{name:50} {len(found.sets)} sets in {time.process_time() - started:5.1f} s", flush=True)


def show_audit():
    columns = next(iter(make_tables().values()))
    table = {f"c{place}": column for place, column in enumerate(columns)}
    started = time.process_time()
    report = privet.audit_release(table, quasi=[f"c{place}" for place in (0, 1, 3, 4)], secret="c8")
    print(f"{report.audits[0]!r}: {time.process_time() - started:.1f} s")


PARTS = {"pums": show_pums, "population": show_population, "speed": show_speed, "audit": show_audit}

if __name__ == "__main__":
    for part in sys.argv[1:] or PARTS:
        PARTS[part]()
