"""Uniqueness in the 2000 PUMS of Fulton county, Georgia: a public file of 25,766 people, a sample of 5 %.

The shares were counted by ``pandas.DataFrame.groupby(…).size()``.
"""

from pathlib import Path

import pytest

from privet.attacks.linkage import estimate_population_uniqueness, measure_uniqueness
from privet.published_tables import PublishedTable

PUMS = Path(__file__).resolve().parents[2].parent / "shared" / "data" / "pums5_fulton_ga.csv.gz"
SHARES = {
    ("puma", "age", "sex"): 16 / 25_766,
    ("puma", "age", "sex", "educ"): 3_261 / 25_766,
    ("puma", "age", "sex", "income"): 18_556 / 25_766,
}


@pytest.fixture(scope="module")
def people():
    if not PUMS.exists():
        pytest.skip("shared/data/pums5_fulton_ga.csv.gz is not here")
    pandas = pytest.importorskip("pandas")
    return PublishedTable.of(pandas.read_csv(PUMS))


@pytest.mark.parametrize("columns", SHARES)
def test_the_share_unique(people, columns):
    assert measure_uniqueness(people, columns).share == SHARES[columns]


def test_most_unique_rows_of_the_sample_are_not_unique_in_the_population(people):
    found = measure_uniqueness(people, ["puma", "age", "sex", "educ"])
    known = estimate_population_uniqueness(found.class_sizes, 0.05)
    assert known.share_between.upper < 0.09 < found.share
    assert known.of_unique < 0.1
