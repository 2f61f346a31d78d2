"""A small clinic for the tests of questions: a steward's file, its tables, and neighbours of these."""

from pathlib import Path

import numpy as np
import polars as pl

STEWARD = """
version = 1

[datasets.visits]
description = "Visits to the clinic"
path = "visits.parquet"
unit = "patient"
rows = 2
groups = 2
budget = { epsilon = 5.0, delta = 1e-5 }
limits = { epsilon = 2.0, delta = 1e-6, statistics = 5, keys = 50, synthetic_rows = 20 }

[datasets.visits.columns]
age = { type = "whole", lower = 0, upper = 120 }
cost = { type = "number" }
ward = { type = "text", keys = ["surgery", "medicine", "children"], discover = true }
urgent = { type = "truth" }
day = { type = "date" }
note = { type = "text", filter = false }

[datasets.visits.tables.patients]
path = "patients.parquet"
unit = "id"
columns = { sex = { type = "text", keys = ["f", "m"] }, smokes = { type = "truth" } }

[datasets.rows]
path = "rows.csv"
each_row_is_a_person = true
budget = { epsilon = 1.0, delta = 0.0 }
kinds = ["count", "mean"]
columns = { x = { type = "number", lower = -1, upper = 1 }, "a key" = { type = "text", keys = ["p", "q"] } }
"""

EMPTY = {
    "patient": pl.Int64,
    "age": pl.Float64,
    "cost": pl.Float64,
    "ward": pl.String,
    "urgent": pl.Boolean,
    "day": pl.Date,
    "note": pl.String,
}


def visits(rows=200, people=80, seed=0):
    """Visits of so many people, with values that are missing or odd."""
    generator = np.random.default_rng(seed)
    age = generator.integers(0, 100, rows).astype(float)
    age[::17] = np.nan
    ward = generator.choice(["surgery", "medicine", "children", "elsewhere"], rows).astype(object)
    ward[::13] = None
    days = np.datetime64("2024-01-01") + generator.integers(0, 90, rows)
    return pl.DataFrame(
        {
            "patient": generator.integers(0, people, rows),
            "age": age,
            "cost": generator.exponential(100, rows),
            "ward": pl.Series(ward.tolist(), dtype=pl.String),
            "urgent": generator.random(rows) < 0.3,
            "day": pl.Series(days.astype("datetime64[ms]")).cast(pl.Date),
            "note": ["x"] * rows,
        }
    )


def patients(people=80, seed=1):
    """One row for each."""
    generator = np.random.default_rng(seed)
    return pl.DataFrame(
        {
            "id": np.arange(people),
            "sex": generator.choice(["f", "m"], people),
            "smokes": generator.random(people) < 0.4,
        }
    )


def write_clinic(folder: Path, frame=None, people=None) -> Path:
    """The steward's file, with its tables beside it."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "steward.toml").write_text(STEWARD)
    (visits() if frame is None else frame).write_parquet(folder / "visits.parquet")
    (patients() if people is None else people).write_parquet(folder / "patients.parquet")
    (folder / "rows.csv").write_text("x,a key\n0.5,p\n-0.5,q\n,p\n")
    return folder / "steward.toml"
