"""One unit moves the sums before noise by no more than what the events say. Exactly, in both engines."""

import functools
import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pl = pytest.importorskip("polars")
pytest.importorskip("duckdb")

from privet.adjacency import AddRemove, ReplaceOne, Unit, ZeroOut  # noqa: E402
from privet.events import DiscreteGaussian, DiscreteLaplace, Repeat  # noqa: E402
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
    Sum,
    Variance,
)
from privet.releasing.budget_split import split_budget  # noqa: E402
from privet.releasing.compiled_statistics import compile_question  # noqa: E402
from privet.releasing.engines import (  # noqa: E402
    aggregates,
    columns,
)
from privet.releasing.engines import polars_engine as engine_polars  # noqa: E402
from privet.releasing.engines.aggregates import (  # noqa: E402
    AggregateRequest,
    CellCountRequest,
    Cells,
    Grouping,
    KeyColumn,
    RowCount,
    ShareFactor,
    ShareSum,
    UnitCount,
    ValueCount,
    ValueSum,
)
from privet.releasing.engines.duckdb_engine import DuckDBEngine  # noqa: E402
from privet.releasing.engines.polars_engine import PolarsEngine  # noqa: E402
from privet.releasing.executor import _aggregates, _combine, _round_to_grid  # noqa: E402
from privet.releasing.noise_distributions import DiscreteLaplaceNoise  # noqa: E402
from privet.releasing.queries import NoiseKind  # noqa: E402
from privet.releasing.questions import Question  # noqa: E402

KEYS = ("a", "b", "c", "d")
SCHEMA = {"unit": pl.Int64, "key": pl.String, "value": pl.Float64, "flag": pl.Boolean}
SALT = 0x9E3779B97F4A7C15
ADJACENCIES = (AddRemove(Unit.USER), ReplaceOne(Unit.USER), ZeroOut(Unit.USER))
ODD = st.sampled_from([None, math.nan, math.inf, -math.inf, 0.0, -0.0, 1e300, -7.3, 100.0, 12.5])
ROWS = st.tuples(
    st.one_of(ODD, st.floats(-20, 120)),
    st.sampled_from([None, *KEYS, "e", ""]),
    st.sampled_from([None, True, False]),
)
STATISTICS = (
    Count(),
    Sum("value", -7.3, 100.0),
    Sum("value", 3.0, 10.0),
    Mean("value", -7.3, 100.0),
    Variance("value", 0.0, 90.0),
    Covariance("value", -7.3, 100.0, "flag", 0.0, 1.0),
    Covariance("flag", -0.3, 1.1, "value", 0.0, 90.0),
    Histogram("key", KEYS),
    Marginal((("key", KEYS[:2]), ("flag", (True, False)))),
    GroupBy("key", Sum("value", -50.0, 100.0), KEYS),
    GroupBy("key", Mean("value", 0.0, 100.0), KEYS),
    GroupBy("key", Covariance("value", 0.0, 100.0, "flag", 0.0, 3.0), KEYS),
    GroupBy(
        ("flag", "key"), Variance("value", 0.0, 100.0), tuple((f, k) for f in (True, False) for k in KEYS)
    ),
)


@st.composite
def neighbours(draw):
    """The others' rows, and two versions of one unit's rows, of which some are many."""
    others = draw(st.lists(st.tuples(st.sampled_from([None, 2, 3, 4]), ROWS), max_size=25))
    first = draw(st.lists(ROWS, max_size=12)) * draw(st.sampled_from([1, 1, 7]))
    second = draw(st.lists(ROWS, max_size=12))
    return [(unit, *row) for unit, row in others], [(1, *row) for row in first], [(9, *row) for row in second]


def frame(rows):
    columns = list(zip(*[(u, k, v, f) for u, v, k, f in rows], strict=True)) or [(), (), (), ()]
    return pl.DataFrame(dict(zip(SCHEMA, map(list, columns), strict=True)), schema=SCHEMA, strict=False)


def engines(rows):
    table = frame(rows)
    return PolarsEngine.over(table), DuckDBEngine(table.to_arrow())


def moves(noisy, before, after):
    """How far a query moves in each group that it moves in, in the sum over its numbers, on the noise's grid."""
    lines = []
    for linear in noisy.query.numbers:
        old, new = (_round_to_grid(_combine(linear, totals.sums), noisy) for totals in (before, after))
        lines.append(np.abs(new - old))
    distances = np.sum(lines, axis=0)
    return sorted(int(distance) for distance in distances if distance)


def covered(distances, noisy, adjacency):
    """Whether the event speaks of at least as many moves, each at least as far.

    Of Laplace noise, one move of a + b covers two of a and b: see DiscreteLaplaceNoise.
    """
    distance, coordinates = claimed(noisy.event(adjacency), adjacency)
    found = list(distances)
    while len(found) > coordinates and isinstance(noisy.noise, DiscreteLaplaceNoise):
        found = sorted([found[0] + found[1], *found[2:]])
    return len(found) <= coordinates and max(found, default=0) <= distance


def claimed(event, adjacency):
    """The distance between neighbours and the number of coordinates that an event claims."""
    times = event.times if isinstance(event, Repeat) else 1
    leaf = event.inner if isinstance(event, Repeat) else event
    assert isinstance(leaf, (DiscreteLaplace, DiscreteGaussian))
    return leaf.contribution * adjacency.contribution_distance, times


@functools.cache
def calibrated_statistic(statistic, rows, groups, adjacency, kind):
    question = Question("x", statistic, "unit", Contribution(rows, groups), adjacency)
    (found,) = calibrate_as(
        kind, question, Budget(epsilon=1.0, delta=0.0 if kind is NoiseKind.LAPLACE else 1e-6)
    )
    return found


@pytest.mark.parametrize("kind", NoiseKind)
@given(
    tables=neighbours(),
    adjacency=st.sampled_from(ADJACENCIES),
    rows=st.integers(1, 3),
    groups=st.integers(1, 2),
)
@settings(max_examples=settings().max_examples // 4)
def test_neighbours_are_as_close_as_the_events_say(kind, tables, adjacency, rows, groups):
    others, first, second = tables
    without = second if isinstance(adjacency, ReplaceOne) else []
    here, there = engines(others + first), engines(others + without)
    for statistic in STATISTICS:
        one = calibrated_statistic(statistic, rows, groups, adjacency, kind)
        grouping, measures = one.compiled.grouping, _aggregates(one.compiled.queries.sums)
        request = AggregateRequest("unit", grouping, measures, Contribution(rows, groups), SALT)
        for engine, other in zip(here, there, strict=True):
            before, after = engine.totals(request), other.totals(request)
            for noisy in one.queries:
                distances = moves(noisy, before, after)
                assert covered(distances, noisy, adjacency), (statistic, distances)


def calibrate_as(kind, question, budget):
    """The statistic with this noise, whichever the plan itself would take."""
    from privet.releasing import budget_split

    if kind is NoiseKind.LAPLACE:
        return budget_split._with_laplace((compile_question(question, kind),), (1.0,), budget)
    found = budget_split._with_gaussian(
        (compile_question(question, kind),), (1.0,), budget, question.adjacency
    )
    assert found is not None
    return found


@given(tables=neighbours(), rows=st.integers(1, 3))
@settings(max_examples=settings().max_examples // 3)
def test_both_engines_add_up_to_the_same(tables, rows):
    """Where every group of a unit counts, nothing is left to the choice, and the sums are equal to the last step."""
    others, first, second = tables
    polars, duck = engines(others + first + second)
    wanted = (
        UnitCount(),
        RowCount(),
        ValueCount(("value",)),
        ValueSum.fitting("value", -7.3, 100.0),
        ShareSum((ShareFactor("value", 0.0, 100.0),)),
        ShareSum((ShareFactor("value", -3.0, 10.0, 2),)),
        ValueCount(("value", "flag")),
        ShareSum((ShareFactor("value", 0.0, 100.0), ShareFactor("flag", 0.0, 2.0, 0))),
        ShareSum((ShareFactor("value", 0.0, 100.0), ShareFactor("flag", 0.0, 2.0))),
    )
    text = Grouping((KeyColumn("key"),), None)
    for unit, contribution in (("unit", Contribution(rows, 10)), (None, Contribution())):
        for grouping in (Grouping(), text, _listed(KEYS)):
            request = AggregateRequest(unit, grouping, wanted, contribution, SALT)
            left, right = polars.totals(request), duck.totals(request)
            assert left.keys == right.keys
            for aggregate in wanted:
                assert left.sums[aggregate].tolist() == right.sums[aggregate].tolist(), aggregate
        for grouping in (Grouping(), _listed(KEYS)):
            request = CellCountRequest(unit, grouping, Cells("value", 0.0, 100.0, 16), contribution, SALT)
            assert polars.cells(request).tolist() == duck.cells(request).tolist()


def _listed(keys):
    return Grouping((KeyColumn("key", aggregates.KeyKind.TEXT),), tuple((key,) for key in keys))


@given(tables=neighbours(), rows=st.integers(1, 3), groups=st.just(2))
@settings(max_examples=8)
def test_a_quantile_tells_neighbours_apart_by_no_more_than_its_epsilon(tables, rows, groups):
    """The probabilities themselves are compared, cell by cell."""
    others, first, second = tables
    for adjacency in ADJACENCIES:
        without = second if isinstance(adjacency, ReplaceOne) else []
        for engine, other in zip(engines(others + first), engines(others + without), strict=True):
            statistic = GroupBy("key", Quantile("value", 0.8, 0.0, 100.0, 16), KEYS)
            question = Question("q", statistic, "unit", Contribution(rows, groups), adjacency)
            (one,) = split_budget((question,), (1.0,), Budget(epsilon=2.0))
            request = CellCountRequest(
                "unit", one.compiled.grouping, one.chooser.choice.cells, question.contribution, SALT
            )
            losses = [
                np.abs(_log_law(one.chooser._log_weights(a)) - _log_law(one.chooser._log_weights(b))).max()
                for a, b in zip(engine.cells(request), other.cells(request), strict=True)
            ]
            assert max(losses) <= one.event.inner.epsilon * (1 + 1e-9)
            assert sum(loss > 1e-12 for loss in losses) <= one.event.times
            assert sum(losses) <= 2.0 * (1 + 1e-9)


def _log_law(weights):
    return weights - np.logaddexp.reduce(weights)


@pytest.mark.parametrize("build", [PolarsEngine.over, lambda f: DuckDBEngine(f.to_arrow())])
def test_a_person_with_a_million_rows_counts_as_one(build):
    many = 10**6
    rng = np.random.default_rng(3)
    crowd = pl.DataFrame({"unit": np.arange(500), "key": ["a"] * 500, "value": rng.uniform(0, 100, 500)})
    heavy = pl.DataFrame(
        {"unit": np.full(many, 10**9), "key": ["a", "b"] * (many // 2), "value": np.full(many, 99.0)}
    )
    here, there = build(pl.concat([crowd, heavy])), build(crowd)
    steps = ValueSum.fitting("value", 0.0, 100.0)
    for contribution in (Contribution(), Contribution(3, 2)):
        for grouping, groups in ((Grouping(), 1), (_listed(KEYS), contribution.groups)):
            request = AggregateRequest("unit", grouping, (UnitCount(), RowCount(), steps), contribution, SALT)
            left, right = here.totals(request), there.totals(request)
            moves = {m: left.sums[m] - right.sums[m] for m in request.aggregates}
            assert moves[UnitCount()].sum() == groups
            assert moves[RowCount()].sum() == groups * contribution.rows
            assert moves[RowCount()].max() == contribution.rows
            assert moves[steps].max() == contribution.rows * 99 * 2**23
        cells = CellCountRequest("unit", Grouping(), Cells("value", 0.0, 100.0, 8), contribution, SALT)
        move = here.cells(cells) - there.cells(cells)
        assert 0 < move.sum() <= contribution.rows * aggregates.WEIGHT


def test_a_choice_of_groups_depends_on_its_own_unit_only():
    """Others come and go, with names and keys that change all numbers of units and groups; the choice stays."""
    rng = np.random.default_rng(5)
    mine = [(1, 1.0, key, True) for key in "qrstuvw"]
    sets = []
    for crowd in (0, 10, 3000):
        names = rng.integers(-(2**62), 2**62, crowd).tolist()
        rows = [(name, 1.0, f"z{rng.integers(0, 5000)}", True) for name in names] + mine
        for engine in engines(rows):
            request = AggregateRequest(
                "unit", Grouping((KeyColumn("key"),), None), (UnitCount(),), Contribution(1, 3), SALT
            )
            found = engine.totals(request)
            sets.append({key[0] for key in found.keys} & set("qrstuvw"))
    assert all(len(chosen) == 3 for chosen in sets)
    assert sets == [sets[0]] * 6  # of both engines, which have one hash


def test_choices_are_spread_over_the_groups():
    """Each unit is in ten groups and may count in two: every group keeps a fifth, within six standard deviations."""
    units = 4000
    table = pl.DataFrame(
        {"unit": np.repeat(np.arange(units), 10), "key": [f"k{i}" for i in range(10)] * units, "value": 1.0}
    )
    grouping = Grouping((KeyColumn("key"),), None)
    for engine in (PolarsEngine.over(table), DuckDBEngine(table.to_arrow())):
        counts = engine.totals(
            AggregateRequest("unit", grouping, (UnitCount(),), Contribution(1, 2), SALT)
        ).sums[UnitCount()]
        assert counts.sum() == 2 * units
        assert np.abs(counts - units / 5).max() < 6 * math.sqrt(units * 0.2 * 0.8)


# --- mutations: each mistake is put in on purpose, and the law above must see it --------------------------------


def _unclamped_polars(monkeypatch):
    monkeypatch.setattr(columns, "row_value", _free)
    monkeypatch.setattr(engine_polars, "row_value", _free)


def _free(columns, measure):
    name, *_ = measure.columns if isinstance(measure, ValueCount) else measure.present.columns
    value = columns.number(name)
    if isinstance(measure, ValueCount):
        return value.is_not_null().cast(pl.Int64)
    return (value.fill_null(0).clip(-1e12, 1e12) * 1024.0).floor().cast(pl.Int64)


def _no_weighing(monkeypatch):
    monkeypatch.setattr(aggregates, "scale_to_row_limit", lambda total, rows, most: total)


def _no_row_limit(monkeypatch):
    original = aggregates.bound_contributions
    monkeypatch.setattr(
        engine_polars, "bound_contributions", lambda m, sums, sizes, most: original(m, sums, sizes, 10**9)
    )


def _no_group_limit(monkeypatch):
    original = engine_polars.bound_pairs
    monkeypatch.setattr(
        engine_polars,
        "bound_pairs",
        lambda u, g, o, most, keep_rows: original(u, g, o, most=99, keep_rows=keep_rows),
    )


@pytest.mark.parametrize(
    "mutation", [_unclamped_polars, _no_weighing, _no_row_limit, _no_group_limit], ids=lambda m: m.__name__
)
def test_a_forgotten_bound_is_seen(monkeypatch, mutation):
    mutation(monkeypatch)
    with pytest.raises(AssertionError):
        _law_on_polars()


def test_without_a_mutation_the_law_holds():
    _law_on_polars()


def _law_on_polars():
    others = [(2, 5.0, "a", True), (3, 50.0, "b", False)]
    mine = [(1, 1e6, key, True) for key in "abcd" for _ in range(9)]
    adjacency = AddRemove(Unit.USER)
    here, there = PolarsEngine.over(frame(others + mine)), PolarsEngine.over(frame(others))
    for statistic in STATISTICS:
        one = calibrated_statistic(statistic, 2, 2, adjacency, NoiseKind.LAPLACE)
        measures = _aggregates(one.compiled.queries.sums)
        request = AggregateRequest("unit", one.compiled.grouping, measures, Contribution(2, 2), SALT)
        before, after = here.totals(request), there.totals(request)
        for noisy in one.queries:
            assert covered(moves(noisy, before, after), noisy, adjacency)


def test_rounding_to_the_noise_grid_never_stretches():
    question = Question("x", Sum("value", -3.3, 17.9), "unit", Contribution(3, 1), AddRemove(Unit.USER))
    (noisy,) = calibrate_as(NoiseKind.LAPLACE, question, Budget(epsilon=0.7))[0].queries
    distance = noisy.query.sensitivity.distance
    for start in (0, 1, -5, distance // 3, 10**15 + 7, -(10**15)):
        sums = np.array([start, start + 1, start + distance // 2, start + distance - 1, start + distance])
        steps = _round_to_grid(sums, noisy)
        assert steps[-1] - steps[0] == noisy.grid
        assert all(a <= b for a, b in pairwise(steps.tolist()))
