"""The covariance by itself: arguments, the command line's words, sensitivity to the last step, and error bars."""

import numpy as np
import pytest

from privet.adjacency import AddRemove, ReplaceOne
from privet.cli.parser import parse_arguments
from privet.cli.release_words import plan_of
from privet.errors import InvalidArgument
from privet.releasing import Contribution, Covariance, GroupBy
from privet.releasing.engines.aggregates import SHARE_STEPS, Grouping, ValueCount
from privet.releasing.postprocessing import NoisySum
from privet.releasing.queries import NoiseKind
from privet.releasing.sensitivity import UnitBounds
from privet.releasing.statistics.covariance import CovarianceOfMoments, CovarianceOfParts

AGE_INCOME = Covariance("age", 0, 100, "income", -5, 5)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("", 0, 1, "y", 0, 1), "'x' must name a column"),
        (("x", 0, 1, 3, 0, 1), "'y' must name a column"),
        (("x", 1, 0, "y", 0, 1), "'x_lower' must be below 'x_upper'.*Swap"),
        (("x", 0, 1, "y", 2, 2), "'y_lower' must be below 'y_upper'.*Swap"),
        (("x", 0, 1e200, "y", 0, 1), "'x_lower' and 'x_upper' must differ.*really have"),
        (("x", 0, 1, "y", 0, float("nan")), "finite"),
        (("x", 0, 1, "x", 0, 2), "two columns.*variance"),
    ],
)
def test_what_makes_no_sense_is_refused_with_its_fix(arguments, message):
    with pytest.raises(InvalidArgument, match=message):
        Covariance(*arguments)


def test_its_words_are_two_columns_with_bounds():
    words = ["release", "t.csv", "--covariance", "age:0:100;a:b:-5:5", "--epsilon", "1"]
    ((label, statistic),) = plan_of(parse_arguments(words)).statistics
    assert (label, statistic) == ("covariance age a:b", Covariance("age", 0, 100, "a:b", -5, 5))
    ((label, statistic),) = plan_of(parse_arguments([*words, "--group-by", "city:a,b"])).statistics
    assert label == "covariance age a:b by city"
    assert isinstance(statistic, GroupBy)


@pytest.mark.parametrize(
    "words", ["age:0:100", "age:0:100;income:0", "a:0:1;b:0:1;c:0:1", "age:0:100;:0:1", ";"]
)
def test_other_words_are_refused_as_they_were_written(words):
    with pytest.raises(InvalidArgument, match="--covariance must be .*LOW:HIGH, as in"):
        Covariance.from_words("--covariance", words)


# --- sensitivity ------------------------------------------------------------------------------------------------------


def rounded_sums(a, b, weights):
    """Sums of a unit's rows as engines make them: each share rounded, then each sum scale_to_row_limit down and rounded down."""

    def total(shares):
        steps = np.floor(shares * SHARE_STEPS + 0.5).astype(np.int64)
        return int(steps.sum()) * weights[0] // weights[1]

    return {(1, 0): total(a), (0, 1): total(b), (1, 1): total(a * b)}


def moves(statistic, kind, rows, a, b):
    """What a unit with these shares adds to each query, in the sum of absolute values."""
    bounds = UnitBounds(AddRemove(), Contribution(rows), Grouping())
    count = min(rows, len(a))
    sums = rounded_sums(a, b, (count, len(a)))
    found = []
    for query in statistic.queries(bounds, kind).sums:
        total = 0
        for combination in query.numbers:
            total += abs(
                sum(
                    factor
                    * (
                        count
                        if isinstance(measure, ValueCount)
                        else sums[tuple(share.power for share in measure.factors)]
                    )
                    for measure, factor in combination.terms
                )
            )
        found.append((total, query.sensitivity.distance))
    return found


def share_pairs(draws, size):
    """Random shares, of which many are ends of the interval or lie where rounding is worst: half a step off."""
    random = np.random.default_rng(7)
    for _ in range(draws):
        shares = random.random((2, size))
        shares = np.where(random.random((2, size)) < 0.3, random.integers(0, 2, (2, size)), shares)
        highest = random.choice([2, SHARE_STEPS])  # near 1, all of the first part can be a rounding error
        half = 1 - (random.integers(0, highest, (2, size)) + 0.5) / SHARE_STEPS
        yield np.where(random.random((2, size)) < 0.7, half, shares)


@pytest.mark.parametrize("kind", NoiseKind)
@pytest.mark.parametrize(("rows", "size"), [(1, 1), (2, 2), (2, 7), (3, 50)])
def test_no_unit_moves_the_sums_by_more_than_the_derived_sensitivity(kind, rows, size):
    beyond = 0
    for a, b in share_pairs(2000, size):
        for total, distance in moves(AGE_INCOME, kind, rows, a, b):
            assert total <= distance
            beyond = max(beyond, total - rows * SHARE_STEPS)
    if kind is NoiseKind.LAPLACE and size == rows:
        assert beyond > 0  # so that the slack for rounding is not idle


def test_an_exchange_moves_twice_as_far():
    for kind in NoiseKind:
        distances = [
            [query.sensitivity.distance for query in AGE_INCOME.queries(bounds, kind).sums]
            for bounds in (
                UnitBounds(AddRemove(), Contribution(), Grouping()),
                UnitBounds(ReplaceOne(), Contribution(), Grouping()),
            )
        ]
        one, two = distances
        expected = [2 * distance for distance in one]
        if kind is NoiseKind.GAUSSIAN:
            expected[0] = one[0]  # a number of rows does not change by more in an exchange
        assert two == expected


# --- error bars: no noise within the stated widths leads out of them -----------------------------------------------


def sums_of(a, b):
    parts = [((1 - a) * (1 - b)).sum(), ((1 - a) * b).sum(), (a * (1 - b)).sum(), (a * b).sum()]
    x, y = 2 * a - 1, 2 * b - 1
    return np.array(parts), np.array([len(a), x.sum(), y.sum(), (x * y).sum()])


TABLES = {
    "independent": lambda random, n: (random.beta(2, 5, n), random.beta(3, 1, n)),
    "equal": lambda random, n: (random.random(n),) * 2,
    "opposite": lambda random, n: (a := (random.random(n) < 0.3) * 1.0, 1 - a),
    "binary": lambda random, n: ((a := (random.random(n) < 0.25) * 1.0), a),
    "constant": lambda random, n: (np.ones(n), random.random(n)),
}


@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize("rows", [1, 3, 40, 1000])
def test_no_noise_within_the_widths_leads_out_of_the_bar(table, rows):
    random = np.random.default_rng(3)
    a, b = TABLES[table](random, rows)
    truth, half, draws = 8.0 * np.cov(a, b, ddof=0)[0, 1], 2.5, 2000
    noise = np.where(
        random.random((1, draws)) < 0.5,
        random.uniform(-half, half, (4, draws)),
        random.choice([-half, half], (4, draws)),
    )
    for processing, sums in zip(
        (CovarianceOfParts(8.0), CovarianceOfMoments(8.0)), sums_of(a, b), strict=True
    ):
        found = processing.estimate(tuple(NoisySum(s + n, half) for s, n in zip(sums, noise, strict=True)))
        assert (np.abs(found.values - truth) <= found.errors + 1e-9).all(), type(processing).__name__
        assert (np.abs(found.values) + found.errors <= 4.0 + 1e-9).all() or rows < 1000
        # The bar is not idle: it is within twice the furthest that the noise got to.
        if rows == 1000:
            assert found.errors.max() <= 3 * np.abs(found.values - truth).max()


def test_without_noise_the_answer_is_the_truth():
    random = np.random.default_rng(4)
    a, b = random.random((2, 50))
    for processing, sums in zip(
        (CovarianceOfParts(3.0), CovarianceOfMoments(3.0)), sums_of(a, b), strict=True
    ):
        found = processing.estimate(tuple(NoisySum(np.array([s]), 0.0) for s in sums))
        assert found.values[0] == pytest.approx(3.0 * np.cov(a, b, ddof=0)[0, 1])
        assert found.errors[0] == pytest.approx(0, abs=1e-12)


def test_a_table_without_rows_may_have_any_covariance():
    for processing in (CovarianceOfParts(1.0), CovarianceOfMoments(1.0)):
        for total in (-3.0, 0.0, 1.0):
            found = processing.estimate((NoisySum(np.array([total]), 2.0),) * 4)
            assert np.abs(found.values[0]) <= 0.25
            assert np.abs(found.values[0]) + found.errors[0] >= 0.25


@pytest.mark.parametrize("table", TABLES)
def test_quotes_are_at_least_the_errors_of_large_tables(table):
    a, b = TABLES[table](np.random.default_rng(5), 10**5)
    for processing, sums in zip(
        (CovarianceOfParts(2.0), CovarianceOfMoments(2.0)), sums_of(a, b), strict=True
    ):
        found = processing.estimate(tuple(NoisySum(np.array([s]), 4.0) for s in sums))
        quote, _ = processing.expected_error((4.0,) * 4)
        assert 0.1 * quote <= found.errors[0] * len(a) <= quote * 1.001


def test_the_quote_of_four_parts_is_reached():
    found = CovarianceOfParts(1.0).estimate(
        tuple(NoisySum(np.array([1e6 * share]), 1.0) for share in (0.25, 0.0, 0.0, 0.75))
    )
    assert found.errors[0] * 1e6 == pytest.approx(1.25, rel=1e-4)
