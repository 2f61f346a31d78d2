"""The table: 10⁷ rows of people who are very unequally active, over 1,000 keys that are very unequally popular.

Made from a fixed seed, so that everybody has the same one. Half of the people have one row, the busiest hundreds
of thousands, so that bounding has something to do.
"""

from pathlib import Path

import numpy as np
import polars as pl

KEYS = 1_000
LOWER, UPPER = 0.0, 100.0
ROWS_PER_PERSON, GROUPS_PER_PERSON = 2, 5


def table(rows: int, folder: Path) -> Path:
    """Where the table of so many rows is; it is made when it is missing."""
    path = folder / f"release-{rows}.parquet"
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        random = np.random.default_rng(20)
        people = max(rows // 20, 1)
        activity = np.cumsum(random.pareto(1.2, people) + 1)
        users = np.searchsorted(activity, random.uniform(0, activity[-1], rows)).astype(np.int64)
        popularity = np.cumsum(1 / np.arange(1, KEYS + 1) ** 0.8)
        keys = np.searchsorted(popularity, random.uniform(0, popularity[-1], rows)).astype(np.int64)
        values = random.gamma(2.0, 15.0, rows)  # some are beyond the upper bound
        frame = pl.DataFrame({"user_id": users, "key": keys, "value": values})
        frame.write_parquet(path)
    return path
