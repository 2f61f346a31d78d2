"""Statistics that are asked together: each pair and triple is answered, as each would be by itself.

Statistics of one grouping share one aggregation. What one needs must not change what another gets: a count whose keys
were found has its answer already, whether or not a mean beside it asks for the same keys again.
"""

from functools import cache
from itertools import combinations, combinations_with_replacement

import numpy as np
import pytest

pl = pytest.importorskip("polars")
pytest.importorskip("duckdb")

from privet.randomness import SeededNoise  # noqa: E402
from privet.releasing import (  # noqa: E402
    Budget,
    Contribution,
    Count,
    Covariance,
    GroupBy,
    Histogram,
    Marginal,
    Mean,
    Quantile,
    ReleasePlan,
    Sum,
    TopK,
    Variance,
    budget_split,
)
from privet.releasing.engines.duckdb_engine import DuckDBEngine  # noqa: E402
from privet.releasing.engines.polars_engine import PolarsEngine  # noqa: E402

KEYS = ("a", "b", "c")
SCALARS = (
    Count(),
    Sum("x", 0.0, 10.0),
    Mean("x", 0.0, 10.0),
    Variance("x", 0.0, 10.0),
    Covariance("x", 0.0, 10.0, "y", 0.0, 1.0),
    Quantile("x", 0.37, 0.0, 10.0, candidates=8),
)
EVERY = (
    *SCALARS,
    Histogram("k", KEYS),
    Marginal((("k", KEYS), ("f", (True, False)))),
    TopK("k", 2, KEYS),
    TopK("k", 2),
    *(GroupBy("k", scalar, KEYS) for scalar in SCALARS),
    *(GroupBy("k", scalar) for scalar in SCALARS),
    GroupBy(("k", "f"), Sum("x", 0.0, 10.0)),
    GroupBy(("k", "f"), Count()),
)
FEW = (
    GroupBy("k", Count()),
    GroupBy("k", Mean("x", 0.0, 10.0)),
    GroupBy("k", Covariance("x", 0.0, 10.0, "y", 0.0, 1.0)),
    GroupBy("k", Quantile("x", 0.37, 0.0, 10.0, candidates=8)),
    TopK("k", 2),
    GroupBy("k", Sum("x", 0.0, 10.0), KEYS),
    Count(),
    Histogram("k", KEYS),
)


def table():
    random = np.random.default_rng(8)
    return pl.DataFrame(
        {
            "u": np.arange(240) // 2,
            "k": np.repeat(random.choice(KEYS, 120), 2),  # one key for each unit, so that no hash decides
            "f": np.repeat(random.random(120) < 0.5, 2),
            "x": random.uniform(0, 10, 240),
            "y": np.where(random.random(240) < 0.1, np.nan, random.random(240)),
        }
    )


FRAME = table()
SOURCES = {"polars": PolarsEngine.over(FRAME), "duckdb": DuckDBEngine(FRAME.to_arrow())}


@pytest.fixture
def laplace(monkeypatch):
    """Laplace noise alone: the proof of the Gaussian's takes a second, and the aggregation is the same."""
    monkeypatch.setattr(budget_split, "_with_gaussian", lambda *_: None)


@cache
def answers(statistics, name, unit, rows):
    plan = ReleasePlan(
        statistics=tuple((f"s{place}", statistic) for place, statistic in enumerate(statistics)),
        unit=unit,
        budget=Budget(epsilon=1e4 * len(statistics), delta=1e-6),
        contribution=Contribution(rows=rows, groups=2) if unit else Contribution(),
    )
    return [answer.value for answer in plan.run(SOURCES[name], noise=SeededNoise(3)).answers]


def same(found, alone):
    if isinstance(found, tuple):
        return [key for key, _ in found] == [key for key, _ in alone] and all(
            same(a, b) for (_, a), (_, b) in zip(found, alone, strict=True)
        )
    return found == pytest.approx(alone, abs=0.2, rel=0.01)  # of noise at this ε next to nothing is left


def check(statistics, unit, rows, engines=tuple(SOURCES)):
    for name in engines:
        together = answers(statistics, name, unit, rows)
        for statistic, found in zip(statistics, together, strict=True):
            (alone,) = answers((statistic,), name, unit, rows)
            assert same(found, alone), (name, statistic)


@pytest.mark.parametrize(("unit", "rows"), [(None, 1), ("u", 1), ("u", 2)])
@pytest.mark.parametrize("pair", list(combinations_with_replacement(FEW, 2)), ids=str)
@pytest.mark.usefixtures("laplace")
def test_a_pair_is_answered_as_each_by_itself(pair, unit, rows):
    check(pair, unit, rows, ("polars",))


@pytest.mark.usefixtures("laplace")
@pytest.mark.parametrize("unit", [None, "u"])
def test_both_engines_answer_pairs_with_keys_that_were_found(unit):
    for pair in combinations(FEW[:5], 2):
        check(pair, unit, 1)


@pytest.mark.slow
@pytest.mark.usefixtures("laplace")
@pytest.mark.parametrize(("unit", "rows"), [(None, 1), ("u", 1), ("u", 2)])
def test_every_pair_is_answered(unit, rows):
    for pair in combinations_with_replacement(EVERY, 2):
        check(pair, unit, rows)


@pytest.mark.slow
@pytest.mark.parametrize(("unit", "rows"), [(None, 1), ("u", 1), ("u", 2)])
def test_triples_are_answered(unit, rows):
    random = np.random.default_rng(5)
    triples = list(combinations(EVERY, 3))
    for place in random.choice(len(triples), 50, replace=False):
        check(triples[place], unit, rows)


@pytest.mark.usefixtures("laplace")
def test_triples_of_a_few_are_answered():
    for triple in combinations(FEW, 3):
        check(triple, None, 1, ("polars",))
