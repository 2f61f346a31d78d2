"""Noise, thresholds, packing, grids and error bars, each by itself."""

import math
from fractions import Fraction

import numpy as np
import pytest

from privet.accounting import account
from privet.adjacency import AddRemove, ReplaceOne
from privet.events import Compose, DiscreteGaussian, DiscreteLaplace, Repeat
from privet.releasing.engines.aggregates import ValueSum, scale_to_row_limit
from privet.releasing.engines.packing import _bound_by_columns, bound_pairs
from privet.releasing.noise_distributions import DiscreteGaussianNoise, DiscreteLaplaceNoise
from privet.releasing.postprocessing import NoisySum
from privet.releasing.statistics.mean import MeanOfMoments, MeanOfParts
from privet.releasing.statistics.variance import VarianceOfMoments, VarianceOfParts
from privet.releasing.thresholds import find_threshold


def mass(noise, reach):
    x = np.arange(-reach, reach + 1, dtype=np.longdouble)
    heights = (
        np.exp(-np.abs(x) / noise.scale)
        if isinstance(noise, DiscreteLaplaceNoise)
        else np.exp(-np.square(x / noise.scale) / 2)
    )
    return x, heights / heights.sum()


@pytest.mark.parametrize(
    "noise",
    [DiscreteLaplaceNoise(s) for s in (0.3, 1.0, 17.7)]
    + [DiscreteGaussianNoise(s) for s in (0.4, 1.0, 17.7)],
)
def test_tails_and_quantiles_are_those_of_the_distribution(noise):
    x, p = mass(noise, 2000)
    for distance in (1, 2, 5, 40):
        true = float(p[x >= distance].sum())
        assert true <= noise.above(distance) <= true * (1 + 1e-6) + 1e-300
    for confidence in (0.5, 0.95, 0.999):
        half = noise.half_width(confidence)
        assert float(p[np.abs(x) <= half].sum()) >= confidence - 1e-12
        assert half == 0 or float(p[np.abs(x) <= half - 1].sum()) < confidence + 1e-9


def test_a_wide_gaussian_uses_a_bound_that_is_nearly_exact():
    assert DiscreteGaussianNoise(2e4).above(40_000) == pytest.approx(0.02275, rel=1e-3)
    assert DiscreteGaussianNoise(2e4).half_width(0.95) == pytest.approx(1.96 * 2e4, rel=1e-3)


def test_events_hold_half_the_distance_of_an_exchange():
    assert DiscreteLaplaceNoise(2.0).event(3, 1, AddRemove()) == DiscreteLaplace(2.0, 3)
    assert DiscreteLaplaceNoise(2.0).event(3, 4, ReplaceOne()) == Repeat(DiscreteLaplace(2.0, 1.5), 4)
    assert DiscreteGaussianNoise(2.0).event(4, 1, ReplaceOne()) == DiscreteGaussian(2.0, 2)


@pytest.mark.parametrize("scale", [0.7, 3.0, 20.0])
@pytest.mark.parametrize(("first", "second"), [(1, 1), (1, 4), (3, 5)])
def test_one_move_dominates_two_of_the_same_length(scale, first, second):
    """The lemma of DiscreteLaplaceNoise, by exact profiles: δ(ε) of one number that moves by a + b is never the smaller."""
    two = account(
        Compose((DiscreteLaplace(scale, first), DiscreteLaplace(scale, second))), adjacency=AddRemove()
    )
    one = account(DiscreteLaplace(scale, first + second), adjacency=AddRemove())
    for share in (0.0, 0.2, 0.5, 0.8, 0.95, 1.0):
        epsilon = share * (first + second) / scale
        assert two.delta_bounds(epsilon=epsilon).lower <= one.delta_bounds(epsilon=epsilon).upper * (1 + 1e-9)


@pytest.mark.parametrize("noise", [DiscreteLaplaceNoise(3.0), DiscreteGaussianNoise(5.0)])
@pytest.mark.parametrize("groups", [1, 7])
def test_a_threshold_is_the_smallest_that_holds(noise, groups):
    delta = 1e-5
    least = find_threshold(noise, groups=groups, delta=delta)
    x, p = mass(noise, 1000)

    def shown(distance):
        return 1 - (1 - float(p[x >= distance].sum())) ** groups

    assert shown(least) <= delta * (1 + 1e-6)
    assert shown(least - 1) > delta


def test_bounds_of_steps_bound_every_step():
    for lower, upper in ((-7.3, 100.0), (0.1, 0.3), (-1e-9, 1e200), (5, 6)):
        steps = ValueSum.fitting("x", lower, upper)
        low, high = steps.bounds
        assert max(abs(low), abs(high)) <= 2**30
        assert max(abs(low), abs(high)) > 2**28
        for value in np.linspace(lower, upper, 101):
            assert low <= math.floor(value * steps.per_unit + 0.5) <= high


def test_whole_numbers_lie_on_the_grid():
    steps = ValueSum.fitting("x", 0, 1000)
    assert steps.bounds == (0, 1000 * 2**-steps.exponent)


def test_weighing_is_exact_and_never_beyond():
    rng = np.random.default_rng(1)
    rows = rng.integers(0, 50, 500)
    totals = rng.integers(-(2**30), 2**30, 500) * rows
    for most in (1, 3, 60):
        found = scale_to_row_limit(totals, rows, most)
        for total, count, value in zip(totals.tolist(), rows.tolist(), found.tolist(), strict=True):
            assert value == (math.floor(Fraction(total * min(count, most), count)) if count else 0)


def test_weighing_a_person_with_very_many_rows_does_not_overflow():
    rows, total = np.array([10**9]), np.array([10**9 * 2**30])
    assert scale_to_row_limit(total, rows, 1000).tolist() == [1000 * 2**30]


# --- packing -----------------------------------------------------------------------------------------------------


def pairs_of(pairs, values):
    return sorted(zip(pairs.groups.tolist(), pairs.sizes.tolist(), pairs.sums(values).tolist(), strict=True))


@pytest.mark.parametrize("most", [1, 2, 5])
@pytest.mark.parametrize("wide", [False, True])
def test_packing_keeps_the_first_groups_of_each_unit(most, wide):
    rng = np.random.default_rng(2)
    units = rng.integers(0, 40, 800).astype(np.uint64)
    if wide:
        units = units * np.uint64(2**57 + 1)
    groups = rng.integers(0, 9, 800).astype(np.uint64)
    order = (units * np.uint64(0x9E3779B97F4A7C15) ^ groups * np.uint64(0xC2B2AE3D27D4EB4F)) * np.uint64(
        0x165667B19E3779F9
    )
    values = rng.integers(0, 100, 800)
    found = bound_pairs(units, groups, order, most=most, keep_rows=True)
    expected = []
    for unit in set(units.tolist()):
        here = units == unit
        chosen = sorted({(int(o) >> 44, int(g)) for o, g in zip(order[here], groups[here], strict=True)})[
            :most
        ]
        for _, group in chosen:
            rows = here & (groups == group)
            expected.append((group, int(rows.sum()), int(values[rows].sum())))
    assert pairs_of(found, values) == sorted(expected)
    slow = _bound_by_columns(units, groups, order, most=most)
    assert pairs_of(slow, values) == sorted(expected)


def test_packing_without_a_bound_and_without_rows():
    units, groups = np.array([5, 5, 9], dtype=np.uint64), np.array([1, 0, 0], dtype=np.uint64)
    found = bound_pairs(units, groups, None, most=1, keep_rows=False)
    assert (found.groups.tolist(), found.sizes.tolist(), found.rows) == ([0, 1, 0], [1, 1, 1], None)
    nothing = bound_pairs(units[:0], groups[:0], None, most=1, keep_rows=True)
    assert nothing.sums(np.zeros(0, dtype=np.int64)).size == 0


# --- error bars of ratios: no noise within the stated widths leads out of them -----------------------------------


@pytest.mark.parametrize("rows", [3.0, 40.0, 1000.0])
@pytest.mark.parametrize("shape", [(2, 5), (0.1, 0.1), (50, 1)])
def test_no_noise_within_the_widths_leads_out_of_the_bar(rows, shape):
    rng = np.random.default_rng(3)
    a = rng.beta(*shape, int(rows))
    parts = np.array([np.square(1 - a).sum(), (2 * a * (1 - a)).sum(), np.square(a).sum()])
    moments = np.array([rows, (2 * a - 1).sum(), (1 - 8 * a * (1 - a)).sum()])
    half = 2.5
    for _ in range(300):
        draws = rng.uniform(-half, half, 3) if rng.random() < 0.5 else rng.choice([-half, half], 3)
        for processing, truth, sums in (
            (MeanOfParts(-1.0, 3.0), -1 + 4 * a.mean(), [(1 - a).sum(), a.sum()]),
            (MeanOfMoments(-1.0, 3.0), -1 + 4 * a.mean(), moments[:2]),
            (VarianceOfParts(-1.0, 3.0), 16 * a.var(), parts),
            (VarianceOfMoments(-1.0, 3.0), 16 * a.var(), moments),
        ):
            found = processing.estimate(
                tuple(NoisySum(np.array([s + n]), half) for s, n in zip(sums, draws, strict=False))
            )
            assert abs(found.values[0] - truth) <= found.errors[0] + 1e-9, type(processing).__name__
            assert np.isfinite(found.errors).all()


def test_quotes_are_at_least_the_errors_of_large_tables():
    halves = (4.0, 4.0, 4.0)
    rows = 1e6
    for processing, sums in (
        (MeanOfParts(0.0, 1.0), (0.4 * rows, 0.6 * rows)),
        (MeanOfMoments(0.0, 1.0), (rows, 0.2 * rows)),
        (VarianceOfParts(0.0, 1.0), (0.4 * rows, 0.3 * rows, 0.3 * rows)),
        (VarianceOfMoments(0.0, 1.0), (rows, 0.2 * rows, -0.1 * rows)),
    ):
        found = processing.estimate(
            tuple(NoisySum(np.array([s]), h) for s, h in zip(sums, halves, strict=False))
        )
        quote, _ = processing.expected_error(halves[: len(sums)])
        assert found.errors[0] <= quote / rows * 1.001
