"""A filter is as if the table had no other rows: for every engine, and for values that are missing or odd."""

import datetime
import math

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privet.errors import InvalidArgument
from privet.randomness import SeededNoise
from privet.releasing import (
    Above,
    AllHold,
    AnyHold,
    AtLeast,
    AtMost,
    Below,
    Budget,
    Contribution,
    Count,
    GroupBy,
    IsIn,
    IsMissing,
    Mean,
    Negated,
    Quantile,
    ReleasePlan,
    Sum,
)
from privet.releasing.engines.duckdb_engine import DuckDBEngine
from privet.releasing.engines.polars_engine import PolarsEngine

NAMES = ("a", "b", "c")
ROWS = st.lists(
    st.tuples(
        st.integers(0, 5),
        st.one_of(st.none(), st.sampled_from(NAMES)),
        st.one_of(st.none(), st.floats(-5, 5), st.just(float("nan"))),
        st.one_of(st.none(), st.booleans()),
    ),
    max_size=25,
)
LEAVES = st.one_of(
    st.builds(IsIn, st.just("name"), st.lists(st.sampled_from(NAMES), min_size=1, unique=True).map(tuple)),
    st.builds(IsIn, st.just("truth"), st.just((True,))),
    *(st.builds(kind, st.just("x"), st.integers(-4, 4)) for kind in (AtLeast, Above, AtMost, Below)),
    st.builds(IsMissing, st.sampled_from(("name", "x", "truth"))),
)
CONDITIONS = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.builds(AllHold, st.lists(inner, min_size=1, max_size=3).map(tuple)),
        st.builds(AnyHold, st.lists(inner, min_size=1, max_size=3).map(tuple)),
        st.builds(Negated, inner),
    ),
    max_leaves=6,
)


def passes(condition, row):
    """True, False, or None for unknown: SQL's logic, written out."""
    match condition:
        case IsIn(column, listed):
            return None if row[column] is None else row[column] in listed
        case IsMissing(column):
            return row[column] is None
        case AllHold(parts):
            known = [passes(part, row) for part in parts]
            return False if False in known else None if None in known else True
        case AnyHold(parts):
            known = [passes(part, row) for part in parts]
            return True if True in known else None if None in known else False
        case Negated(inner):
            known = passes(inner, row)
            return None if known is None else not known
    value = row[condition.column]
    if value is None:
        return None
    return {
        AtLeast: value >= condition.bound,
        Above: value > condition.bound,
        AtMost: value <= condition.bound,
        Below: value < condition.bound,
    }[type(condition)]


def table(rows):
    schema = {"unit": pl.Int64, "name": pl.String, "x": pl.Float64, "truth": pl.Boolean}
    return pl.DataFrame(rows, schema=schema, orient="row")


def answers(engine, where, unit):
    plan = ReleasePlan(
        statistics=(
            ("rows", Count()),
            ("sum", Sum("x", -3, 3)),
            ("mean", Mean("x", -3, 3)),
            ("by", GroupBy("name", Count(), NAMES)),
            ("half", Quantile("x", 0.5, -3, 3, 8)),
        ),
        unit=unit,
        budget=Budget(epsilon=1e7),
        contribution=Contribution() if unit is None else Contribution(rows=2, groups=2),
        where=where,
    )
    released = plan.run(engine, noise=SeededNoise(3))
    return [answer.value for answer in released.answers]


@pytest.mark.parametrize("unit", [None, "unit"])
@given(rows=ROWS, where=CONDITIONS)
@settings(max_examples=25, deadline=None)
def test_filtered_is_as_if_the_other_rows_were_not_there(unit, rows, where):
    kept = [
        row
        for row in rows
        if passes(
            where,
            {
                "name": row[1],
                "x": None if row[2] is None or math.isnan(row[2]) else row[2],
                "truth": row[3],
            },
        )
    ]
    expected = answers(PolarsEngine.over(table(kept)), None, unit)
    assert answers(PolarsEngine.over(table(rows)), where, unit) == expected
    if len(rows) % 4 == 0:
        assert answers(DuckDBEngine(table(rows)), where, unit) == expected


@given(where=CONDITIONS, rows=ROWS)
@settings(max_examples=50, deadline=None)
def test_the_opposite_passes_what_is_known_not_to_pass(where, rows):
    for _, name, x, truth in rows:
        row = {"name": name, "x": None if x is None or math.isnan(x) else x, "truth": truth}
        known = passes(where, row)
        assert passes(where.negate(), row) is (None if known is None else not known)


def test_a_filter_changes_neither_cost_nor_noise():
    plans = [
        ReleasePlan(statistics=(("n", Count()),), unit=None, budget=Budget(epsilon=1.0), where=where)
        for where in (
            None,
            IsIn("name", ("a",)),
            AllHold((IsIn("name", ("b",)), Negated(IsIn("name", ("b",))))),
        )
    ]
    assert plans[0].quote() == plans[1].quote() == plans[2].quote()


def test_dates_are_compared_as_dates_whether_typed_or_text():
    days = [datetime.date(2024, 1, 31), datetime.date(2023, 12, 31), None, datetime.date(2024, 3, 1)]
    where = AllHold((AtLeast("day", "2024-01-01"), Below("day", "2024-03-01")))
    for frame in (pl.DataFrame({"day": days}), pl.DataFrame({"day": [d and d.isoformat() for d in days]})):
        plan = ReleasePlan(statistics=(("n", Count()),), unit=None, budget=Budget(epsilon=1e6), where=where)
        assert plan.run(frame)["n"].value == 1


def test_a_filtered_question_is_another_question():
    plan = ReleasePlan(
        statistics=(("n", Count()),), unit=None, budget=Budget(epsilon=1.0), where=IsIn("a", (1,))
    )
    from privet.releasing import question_key

    assert '"where":{"column":"a","in":[1]}' in question_key(plan.questions[0], "t")


@pytest.mark.parametrize(
    "make",
    [
        lambda: AtLeast("x", float("nan")),
        lambda: AtLeast("x", True),
        lambda: AtLeast("", 1),
        lambda: IsIn("x", ()),
        lambda: IsIn("x", (1, "a")),
        lambda: AllHold(()),
        lambda: AllHold(("x",)),
        lambda: Negated("x"),
        lambda: AllHold(tuple(IsMissing("x") for _ in range(1001))),
    ],
)
def test_conditions_that_make_no_sense_are_refused(make):
    with pytest.raises(InvalidArgument):
        make()


def test_a_filter_on_a_column_that_is_not_there_is_refused_before_spending():
    plan = ReleasePlan(
        statistics=(("n", Count()),), unit=None, budget=Budget(epsilon=1.0), where=IsIn("no", (1,))
    )
    with pytest.raises(InvalidArgument, match="'no'"):
        plan.run(pl.DataFrame({"x": [1]}))
