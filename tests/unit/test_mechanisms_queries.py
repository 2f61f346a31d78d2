"""What a query, a score or a utility says of its own sensitivity holds for every two neighbours."""

import math
import random
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from privet.adjacency import AddRemove, ReplaceOne, ZeroOut
from privet.errors import InvalidArgument, NotProved
from privet.mechanisms import (
    BernoulliLikelihood,
    BinaryAttributes,
    BoxSum,
    Count,
    CountWhere,
    HistogramOf,
    Histograms,
    QuantileRank,
    Sum,
    SumOfScores,
    SumUtility,
    TallyOf,
    VectorSum,
    interval,
)
from privet.mechanisms.grids import ONE, StepGrid, grid_below

ADJACENCIES = [AddRemove(), ReplaceOne(), ZeroOut()]
_WILD = st.one_of(
    st.floats(allow_nan=True, allow_infinity=True),
    st.integers(-(10**400), 10**400),
    st.sampled_from([None, "x", True, False, 0, 1, b"", [], {}, (1,), object()]),
)
_ROWS = st.lists(st.one_of(_WILD, st.lists(_WILD, max_size=4), st.tuples(_WILD, _WILD, _WILD)), max_size=6)


def neighbours(data, record, other, adjacency):
    """A dataset with ``record`` in it, and one in which it is missing or is another one."""
    with_it = [*data, record]
    return (with_it, [*data, other]) if isinstance(adjacency, ReplaceOne) else (with_it, list(data))


_COORDINATE_QUERIES = [
    CountWhere(lambda record: record > 0),
    Sum(0.0, 1.0),
    Sum(-3.7, 0.1),
    Sum(2.0, 2.5),
    Sum(-5.0, -4.9),
    BinaryAttributes(3),
    BoxSum(3, -0.3, 0.7),
    HistogramOf((True, "x", 0.5)),
    Histograms(((0, 1), ("x", None), (1.5, 2.5, -1.0))),
]
_GRIDS = [ONE, StepGrid(2.0**-10), StepGrid(0.0625)]


@pytest.mark.parametrize("adjacency", ADJACENCIES, ids=str)
@pytest.mark.parametrize("query", _COORDINATE_QUERIES, ids=lambda q: type(q).__name__)
@given(data=_ROWS, record=_WILD | st.lists(_WILD, min_size=3, max_size=3), other=_WILD)
def test_a_query_moves_as_it_says(query, adjacency, data, record, other):
    for grid in _GRIDS:
        first, second = neighbours(data, record, other, adjacency)
        moves = np.array(
            [a - b for a, b in zip(query.evaluate(first, grid), query.evaluate(second, grid), strict=True)]
        )
        assert len(moves) == query.dimension
        assert np.count_nonzero(moves) <= query.touched_coordinates(adjacency)
        assert np.abs(moves).max() <= query.steps(adjacency, grid)


@pytest.mark.parametrize("query", _COORDINATE_QUERIES, ids=lambda q: type(q).__name__)
def test_the_steps_are_the_distance_rounded_up(query):
    for adjacency in ADJACENCIES:
        for grid in _GRIDS:
            exact = query.distance(adjacency) / grid.granularity
            assert math.ceil(exact * (1 - 1e-12)) <= query.steps(adjacency, grid) <= math.ceil(exact) + 1


@pytest.mark.parametrize("adjacency", ADJACENCIES, ids=str)
@given(
    data=_ROWS, record=st.lists(_WILD, min_size=3, max_size=3), other=st.lists(_WILD, min_size=3, max_size=3)
)
def test_a_clipped_vector_moves_within_its_norm(adjacency, data, record, other):
    query = VectorSum(3, 0.7)
    grid = grid_below(0.7, 30)
    first, second = neighbours(data, record, other, adjacency)
    moves = [a - b for a, b in zip(query.evaluate(first, grid), query.evaluate(second, grid), strict=True)]
    assert math.isqrt(sum(move * move for move in moves)) * grid.granularity <= query.l2(adjacency)


@pytest.mark.parametrize("size", [1e-300, 1e-3, 1.0, 1e8, 1e200, 1e308])
@pytest.mark.parametrize("coordinates", [1, 7, 2000])
def test_a_clipped_vector_is_as_long_as_the_bound_allows(size, coordinates):
    query, grid = VectorSum(coordinates, 3.0), grid_below(3.0, 30)
    row = size * np.random.default_rng(coordinates).normal(size=(1, coordinates)).clip(-1, 1)
    steps = query.evaluate(row, grid)
    exact = sum(step * step for step in steps)
    assert exact <= round(3.0 / grid.granularity) ** 2
    if size > 100:
        assert math.sqrt(exact) * grid.granularity == pytest.approx(3.0, rel=1e-6)


_SCORES = [
    TallyOf((True, "x", 0.5)),
    SumOfScores((1.0, 2.0, 3.0), lambda record, candidate: candidate * record, 0.0, 5.0),
    SumOfScores((1.0, 2.0, 3.0), lambda record, candidate: candidate - record, -0.37, 0.11),
    SumOfScores((1.0, 2.0, 3.0), lambda record, candidate: candidate**record, 2.3, 2.9),
]


@pytest.mark.parametrize("adjacency", ADJACENCIES, ids=str)
@pytest.mark.parametrize("score", _SCORES, ids=lambda s: type(s).__name__)
@given(data=_ROWS, record=_WILD, other=_WILD)
def test_a_score_moves_as_it_says(score, adjacency, data, record, other):
    first, second = neighbours(data, record, other, adjacency)
    moves = score.evaluate(first) - score.evaluate(second)
    assert np.ptp(moves) <= score.swing_steps(adjacency)
    assert np.abs(moves).max() <= math.ceil(score.sensitivity(adjacency) / score.grid.granularity) + 1
    assert score.swing(adjacency) <= 2 * score.sensitivity(adjacency) + 2 * score.grid.granularity


_POINTS = np.linspace(0.1, 0.9, 33)
_UTILITIES = [
    BernoulliLikelihood(0.05, 0.95),
    BernoulliLikelihood(0.3, 0.97),
    QuantileRank(0.5, 0.0, 1.0),
    QuantileRank(0.9, 0.0, 1.0),
    SumUtility(0.0, 1.0, lambda record, points: record * points, -0.3, 0.77),
]


@pytest.mark.parametrize("adjacency", ADJACENCIES, ids=str)
@pytest.mark.parametrize("utility", _UTILITIES, ids=lambda u: type(u).__name__)
@given(
    data=st.lists(st.floats(0, 1) | _WILD, max_size=20),
    record=st.floats(0, 1) | _WILD,
    other=st.booleans() | _WILD,
)
def test_a_utility_moves_as_it_says(utility, adjacency, data, record, other):
    first, second = neighbours(data, record, other, adjacency)
    moves = utility.evaluate(first, _POINTS) - utility.evaluate(second, _POINTS)
    assert np.ptp(moves) <= utility.swing_steps(adjacency)
    assert utility.swing(adjacency) <= 2 * utility.sensitivity(adjacency) + 2 * utility.grid.granularity


def test_likelihoods_are_the_same_beyond_64_bits(monkeypatch):
    utility, tosses = BernoulliLikelihood(0.05, 0.95), [True] * 70 + [False] * 30
    short = utility.evaluate(tosses, _POINTS)
    monkeypatch.setattr(interval, "_IN_64_BITS", 0)
    assert (utility.evaluate(tosses, _POINTS) == short).all()


@pytest.mark.parametrize(
    ("query", "data", "answer"),
    [
        (Count(), [None, math.nan, "x"], [3]),
        (Sum(0.0, 1.0), [0.25, math.nan, "x", None, math.inf, -math.inf, 7], [2.25]),
        (Sum(2.0, 3.0), [None], [2.0]),
        (Sum(-3.0, -2.0), [None], [-2.0]),
        (BoxSum(2, 0.0, 1.0), [(0.5, 5), (math.nan, 1), (1, 1, 1), "no"], [0.5, 2.0]),
        (BinaryAttributes(2), [(1, 0), (True, True), (math.nan, 3), 7], [2.0, 2.0]),
        (HistogramOf(("a", "b")), ["a", "c", ["a"], None, "a"], [2.0, 0.0]),
        (Histograms((("a", "b"), (0, 1))), [("a", 1), ("b", 7), ("a",), None], [1.0, 1.0, 0.0, 1.0]),
        (CountWhere(lambda record: record["age"] > 3), [{"age": 4}, {"age": "x"}, None, {}], [1.0]),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_makes_no_sense_counts_as_nothing(query, data, answer):
    grid = StepGrid(2.0**-10)
    assert grid.values(query.evaluate(data, grid)).tolist() == answer


def test_the_order_of_the_records_does_not_matter():
    """A float sum would: 1e16 + 1 − 1e16 depends on the order."""
    values = [1e16, 1.0, -1e16] * 50 + [0.1] * 1000
    grid, query = StepGrid(2.0**-10), Sum(-1e3, 1e3)
    shuffled = random.Random(7).sample(values, len(values))
    assert query.evaluate(values, grid) == query.evaluate(shuffled, grid)


def test_many_rows_are_added_exactly():
    """More rows than one block, each close to the most that a block can hold."""
    grid = StepGrid(2.0**-10)
    values = np.full(100_000, 1e5)
    assert Sum(-1e5, 1e5).evaluate(values, grid) == [100_000 * 10**5 * 1024]


@pytest.mark.parametrize("kind", [list, np.array, tuple, iter])
def test_lists_and_arrays_are_the_same(kind):
    assert Sum(0.0, 10.0).evaluate(kind([1.0, 2.0, 30.0]), ONE) == [13]


def test_columns_of_data_frames_are_taken():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"a": [1.0, 2.0, None], "b": [0, 1, 1]})
    assert Sum(0.0, 10.0).evaluate(frame["a"], ONE) == [3]
    assert BinaryAttributes(2).evaluate(frame, ONE) == [2, 2]
    with pytest.raises(InvalidArgument, match="Select one column"):
        Sum(0.0, 10.0).evaluate(frame, ONE)


@pytest.mark.parametrize("data", [None, 7, "text", b"bytes", {"a": 1}, {1, 2}, np.float64(3)])
def test_what_holds_no_records_is_refused(data):
    for query in (Count(), Sum(0.0, 1.0), HistogramOf(("a",)), BoxSum(2, 0.0, 1.0)):
        with pytest.raises(InvalidArgument, match="Give a list or an array"):
            query.evaluate(data, ONE)


@pytest.mark.parametrize(
    ("make", "fix"),
    [
        (lambda: Sum(1.0, 0.0), "smallest value first"),
        (lambda: Sum(1.0, 1.0), "smallest value first"),
        (lambda: Sum(0.0, math.inf), "ordinary number"),
        (lambda: Sum(math.nan, 1.0), "ordinary number"),
        (lambda: Sum("0", 1.0), "int or float"),
        (lambda: BoxSum(0, 0.0, 1.0), "from 1 upwards"),
        (lambda: BinaryAttributes(2.0), "Python int"),
        (lambda: VectorSum(2, 0.0), "positive number"),
        (lambda: HistogramOf("ab"), "Write out every value"),
        (lambda: HistogramOf(()), "Write out every value"),
        (lambda: HistogramOf(("a", "a")), "Drop the repetition"),
        (lambda: HistogramOf(([],)), "strings, numbers or tuples"),
        (lambda: Histograms((("a",), "b")), "Write out every value"),
        (lambda: Histograms("ab"), "'red', 'green', 'blue'"),
        (lambda: CountWhere("blue"), "lambda record"),
        (lambda: TallyOf(lambda data: data), "Write out every answer"),
        (lambda: TallyOf(("a", "a")), "Drop the repetition"),
        (lambda: SumOfScores((1,), 3, 0.0, 1.0), "lambda record, candidate"),
        (lambda: SumOfScores((1,), max, 1.0, 0.0), "smallest value first"),
        (lambda: SumUtility(0.0, 1.0, 3, 0.0, 1.0), "lambda record, points"),
        (lambda: QuantileRank(1.0, 0.0, 1.0), "probability inside"),
        (lambda: StepGrid(0.3), "power of two|such as"),
        (lambda: Sum(1e15, 1e15 + 1).steps(ReplaceOne(), grid_below(1.0, 10)), "Subtract a public constant"),
        (lambda: Sum(0.0, 1e-280).steps(AddRemove(), grid_below(1e-280, 10)), "another unit"),
    ],
)
def test_bad_bounds_are_refused_with_a_fix(make, fix):
    with pytest.raises(InvalidArgument, match=fix):
        make()


@pytest.mark.parametrize("adjacency", [ReplaceOne(), ZeroOut()], ids=str)
def test_the_number_of_records_is_public_when_nobody_comes_or_goes(adjacency):
    with pytest.raises(NotProved, match="CountWhere"):
        Count().touched_coordinates(adjacency)


class _Spiteful:
    """A record that raises whatever is asked of it."""

    def __bool__(self):
        raise ArithmeticError

    __hash__ = __eq__ = __float__ = __iter__ = __len__ = __lt__ = __gt__ = __mul__ = __rmul__ = __bool__


def test_a_record_that_raises_counts_as_nothing():
    data = [_Spiteful(), Fraction(1, 2), Decimal("0.25")]
    grid = StepGrid(2.0**-10)
    assert Sum(0.0, 1.0).evaluate(data, grid) == [768]
    for query in (CountWhere(bool), HistogramOf(("a",)), BoxSum(2, 0.0, 1.0), Histograms((("a",),))):
        query.evaluate(data, grid)
    TallyOf(("a",)).evaluate(data)
    SumOfScores((1.0,), lambda record, candidate: record * candidate, 0.0, 1.0).evaluate(data)
    SumUtility(0.0, 1.0, lambda record, points: record * points, 0.0, 1.0).evaluate(data, _POINTS)
