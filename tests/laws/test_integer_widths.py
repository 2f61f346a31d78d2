"""Whole numbers of every width: an engine's sums and products are those of Python's own whole numbers."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pl = pytest.importorskip("polars")
pytest.importorskip("duckdb")

from privet.adjacency import AddRemove  # noqa: E402
from privet.releasing import (  # noqa: E402
    Budget,
    Contribution,
    Count,
    Covariance,
    Mean,
    Quantile,
    ReleasePlan,
    Sum,
    Variance,
)
from privet.releasing.compiled_statistics import compile_question  # noqa: E402
from privet.releasing.engines import aggregates  # noqa: E402
from privet.releasing.engines.aggregates import (  # noqa: E402
    MOST_ROWS,
    SHARE_STEPS,
    WEIGHT,
    AggregateRequest,
    CellCountRequest,
    Cells,
    Grouping,
    KeyColumn,
    KeyKind,
    ValueSum,
    scale_to_row_limit,
)
from privet.releasing.engines.duckdb_engine import DuckDBEngine  # noqa: E402
from privet.releasing.engines.polars_engine import PolarsEngine  # noqa: E402
from privet.releasing.executor import _combine, _round_to_grid  # noqa: E402
from privet.releasing.quantiles import CellChooser  # noqa: E402
from privet.releasing.queries import (  # noqa: E402
    CellChoice,
    NoiseKind,
)

INT64 = 2**63 - 1
EDGES = [2**k + d for k in (1, 12, 20, 30, 31, 32, 45, 46, 52, 61) for d in (-1, 0, 1)]
GROUPINGS = (Grouping(), Grouping((KeyColumn("key", KeyKind.TEXT),), (("a",), ("b",))))


def both(frame):
    return PolarsEngine.over(frame), DuckDBEngine(frame.to_arrow())


@pytest.mark.parametrize("grouping", GROUPINGS, ids=["one group", "two groups"])
@pytest.mark.parametrize("unit", [None, "unit"])
@pytest.mark.parametrize("rows", [4_095, 4_096, 4_097, 70_000])
def test_cells_hold_more_weight_than_32_bits(rows, unit, grouping):
    """2³² is 4,096 rows of weight 2²⁰ in one cell."""
    frame = pl.DataFrame({"unit": range(rows), "key": ["a"] * rows, "value": [1.0] * rows})
    request = CellCountRequest(unit, grouping, Cells("value", 0.0, 4.0, 4), Contribution(), 1)
    for engine in both(frame):
        counts = engine.cells(request)
        assert counts.dtype == np.int64
        assert counts[0].tolist() == [0, rows * WEIGHT, 0, 0]


def test_a_median_of_many_rows_is_the_median():
    """Ages in whole years: 600,000 rows in a hundred cells. Without a unit column their weights wrapped around."""
    ages = np.floor(np.random.default_rng(1).gamma(4.0, 9.0, 600_000))
    frame = pl.DataFrame({"age": ages})
    plan = ReleasePlan(
        statistics=(("median", Quantile("age", 0.5, 0.0, 120.0)),), unit=None, budget=Budget(epsilon=1.0)
    )
    for source in both(frame):
        answer = plan.run(source)["median"]
        year = np.floor(answer.value)
        # The error bar holds with 95 %; four times as far is beyond 1e-4.
        assert (ages < year).sum() - 4 * answer.error <= 300_000 <= (ages <= year).sum() + 4 * answer.error


@given(
    total=st.integers(-(2**62), 2**62),
    rows=st.one_of(st.sampled_from(EDGES), st.integers(1, MOST_ROWS)),
    most=st.integers(1, 10**6),
)
@settings(max_examples=300)
def test_weighing_down_is_exact(total, rows, most):
    rows = min(rows, MOST_ROWS)
    total = max(min(total, rows * 2**30), -rows * 2**30)  # what so many rows can add up to
    (found,) = scale_to_row_limit(np.array([total]), np.array([rows]), most)
    assert int(found) == total * min(rows, most) // rows


@given(
    exact=st.lists(
        st.one_of(st.integers(-(2**62), 2**62), st.sampled_from([2**62, -(2**62), 2**61 + 1])),
        min_size=1,
        max_size=3,
    ),
    epsilon=st.one_of(st.floats(-4, 12), st.floats(6, 8)).map(lambda e: 10.0**e),
    statistic=st.sampled_from(
        [
            Sum("v", 0, 1),
            Sum("v", -1e200, 1e3),
            Mean("v", 0, 1),
            Variance("v", 0, 1),
            Covariance("v", 0, 1, "w", 0, 1),
        ]
    ),
)
@settings(max_examples=300)
def test_rounding_to_the_grid_is_exact_at_every_epsilon(exact, epsilon, statistic):
    """⌊exact · grid/distance + ½⌋; at a huge ε the grid is so fine that steps leave 64 bits."""
    plan = ReleasePlan(statistics=(("s", statistic),), unit=None, budget=Budget(epsilon=epsilon))
    (one,) = plan._calibrated
    for noisy in one.queries:
        distance, grid = noisy.query.sensitivity.distance, noisy.grid
        found = _round_to_grid(np.array(exact, dtype=np.int64), noisy)
        assert [int(x) for x in found] == [(2 * x * grid + distance) // (2 * distance) for x in exact]


@given(sums=st.lists(st.integers(0, 2**62), min_size=4, max_size=4))
@settings(max_examples=200)
def test_combinations_of_sums_are_exact(sums):
    statistics = (("v", Covariance("v", 0, 1, "w", 0, 1)),)
    plan = ReleasePlan(statistics=statistics, unit=None, budget=Budget(epsilon=1.0))
    for kind in NoiseKind:
        for query in compile_question(plan.questions[0], kind).queries.sums:
            for linear in query.numbers:
                named = {measure: np.array([x]) for (measure, _), x in zip(linear.terms, sums, strict=False)}
                (found,) = _combine(linear, named)
                assert int(found) == sum(factor * int(named[m][0]) for m, factor in linear.terms)


@given(
    counts=st.lists(st.sampled_from([0, 1, *EDGES[:24]]), min_size=2, max_size=6), steps=st.integers(1, 99)
)
@settings(max_examples=200)
def test_utilities_of_a_quantile_are_exact(counts, steps):
    chooser = CellChooser(CellChoice(Cells("v", 0, 1, len(counts)), steps / 100, 1, exchanged=False), 1, 1.0)
    found = chooser._log_weights(np.array(counts, dtype=np.int64))
    total, ends, away = sum(counts), 0, []
    for count in counts:
        below, ends = ends, ends + count
        target = chooser._target * total
        away.append(max(below * 2**16 - target, target - ends * 2**16, 0) // chooser._grain)
    expected = [min(a - min(away), 2**40) * -chooser._rate for a in away]
    assert found.tolist() == expected


def test_no_value_of_a_row_leaves_its_bound():
    """What the proof at ``MOST_ROWS`` rests on: a row adds at most 2³⁰ steps, whatever bounds are asked for."""
    for lower, upper in ((0.0, 1.0), (-1e290, 0.0), (1e-290, 2e-290), (-5.0, 2.0**40), (0.1, 1 / 3)):
        low, high = ValueSum.fitting("v", lower, upper).bounds
        assert max(abs(low), abs(high)) <= 2**30
    assert MOST_ROWS * max(2**30, SHARE_STEPS, WEIGHT) <= INT64
    assert (
        10**6 * max(2**30, MOST_ROWS) <= INT64
    )  # weight · quotient, and weight · rest, with at most 10⁶ rows of a unit


@pytest.mark.parametrize("unit", [None, "unit"])
@pytest.mark.parametrize("key", [None, "key"])
@pytest.mark.parametrize("rows", [6, 7])
def test_more_rows_than_the_proof_covers_are_an_error_and_no_wrapped_sum(rows, unit, key, monkeypatch):
    monkeypatch.setattr(aggregates, "MOST_ROWS", 6)
    frame = pl.DataFrame({"unit": range(rows), "key": ["a"] * rows, "value": [1.0] * rows})
    grouping = GROUPINGS[0 if key is None else 1]
    asked = (ValueSum.fitting("value", 0.0, 1.0),)
    totals = AggregateRequest(unit, grouping, asked, Contribution(), 1)
    cells = CellCountRequest(unit, grouping, Cells("value", 0.0, 4.0, 4), Contribution(), 1)
    for engine in both(frame):
        for ask, request in ((engine.totals, totals), (engine.cells, cells)):
            if rows <= 6:
                ask(request)
            else:
                with pytest.raises(OverflowError):
                    ask(request)


def test_a_huge_epsilon_gives_the_truth():
    """Up to 10⁶ rows, as fine as the grid goes; each answer is within the rounding of its steps."""
    values = np.random.default_rng(2).normal(40.0, 30.0, 200_000)
    frame, clamped = pl.DataFrame({"v": values}), np.clip(values, 0.0, 100.0)
    for epsilon in (1e5, 1e9, 1e12):
        plan = ReleasePlan(
            statistics=(
                ("count", Count()),
                ("sum", Sum("v", 0.0, 100.0)),
                ("mean", Mean("v", 0.0, 100.0)),
                ("variance", Variance("v", 0.0, 100.0)),
            ),
            unit=None,
            budget=Budget(epsilon=epsilon),
            adjacency=AddRemove(),
        )
        for source in both(frame):
            found = plan.run(source)
            assert found["count"].value == 200_000
            assert found["sum"].value == pytest.approx(clamped.sum(), rel=1e-6)
            assert found["mean"].value == pytest.approx(clamped.mean(), rel=1e-6)
            assert found["variance"].value == pytest.approx(clamped.var(), rel=1e-5)
