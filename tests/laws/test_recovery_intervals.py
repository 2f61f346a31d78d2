"""Intervals of success, baseline and leak: coverage and nulls by enumeration, without simulation.

For every number of hits the interval is computed, and the probabilities of all outcomes are summed. So there is no noise in these
tests and nothing to tune. The default form takes some sizes, ``slow`` takes more.
"""

import functools
import itertools

import numpy as np
import pytest
from scipy.stats import binom, hypergeom, multinomial

from privet.auditing import difference_of_shares, measure_recoveries, paired_difference
from privet.auditing import differences as module
from privet.auditing.proportions import rate
from privet.errors import InvalidArgument
from privet.recoveries import Recoveries
from privet.views import Adversary

ADVERSARY = Adversary(sees="", knows="", wants="")
SIZES = [(1, 1), (1, 6), (3, 3), (8, 5), (15, 15), (4, 25)]
MORE = [(a, b) for a in range(1, 13) for b in range(1, 13)] + [(40, 40), (60, 10)]
CONFIDENCES = (0.8, 0.95)
ROUND_OFF = 1e-9


def _either(some, more):
    return [pytest.param(some, id="some sizes"), pytest.param(more, id="more sizes", marks=pytest.mark.slow)]


@functools.cache
def unpaired(trials, others, confidence):
    """The limits for every outcome."""
    found = [
        [difference_of_shares(a, trials, b, others, confidence) for b in range(others + 1)]
        for a in range(trials + 1)
    ]
    return np.array([[r.lower for r in row] for row in found]), np.array(
        [[r.upper for r in row] for row in found]
    )


def least_coverage(lower, upper, trials, others, points):
    worst = 1.0
    for p, q in itertools.product(np.linspace(0, 1, points), repeat=2):
        weights = np.outer(binom.pmf(range(trials + 1), trials, p), binom.pmf(range(others + 1), others, q))
        covered = (lower <= p - q + ROUND_OFF) & (upper >= p - q - ROUND_OFF)
        worst = min(worst, float((weights * covered).sum()))
    return worst


@pytest.mark.parametrize("sizes", _either(SIZES, MORE))
def test_the_difference_of_independent_shares_is_covered_everywhere(sizes):
    for (trials, others), confidence in itertools.product(sizes, CONFIDENCES):
        lower, upper = unpaired(trials, others, confidence)
        assert least_coverage(lower, upper, trials, others, 21) >= confidence - ROUND_OFF, (trials, others)
        assert (lower <= upper).all()


def test_too_narrow_an_interval_is_caught(monkeypatch):
    """A product that is 3.3 times too large: the coverage falls below the confidence, and the test sees it."""
    original = module._log_product
    monkeypatch.setattr(module, "_log_product", lambda failure: original(failure) + 1.2)
    lower, upper = unpaired.__wrapped__(15, 15, 0.8)
    assert least_coverage(lower, upper, 15, 15, 21) < 0.8


@pytest.mark.parametrize("sizes", _either(SIZES, MORE))
def test_no_leak_is_claimed_where_coins_are_independent_of_hits(sizes):
    """Hits are fixed and coins fall at random: the hits that are in are hypergeometric. Every number of hits is tried."""
    for (trials, others), confidence in itertools.product(sizes, CONFIDENCES):
        lower, upper = unpaired(trials, others, confidence)
        for hits in range(trials + others + 1):
            inside = np.arange(max(0, hits - others), min(trials, hits) + 1)
            claimed = (lower[inside, hits - inside] > 0) | (upper[inside, hits - inside] < 0)
            alarm = hypergeom.pmf(inside, trials + others, hits, trials)[claimed].sum()
            assert alarm <= 1 - confidence + ROUND_OFF, (trials, others, hits)


def test_fair_coins_with_unequal_sides_claim_no_leak_either():
    """Every coin falls by itself, so that the sides have random sizes; the alarms are summed over all of them."""
    for targets, hits in [(6, 3), (11, 4), (16, 9)]:
        alarm = 0.0
        for a, b in itertools.product(range(hits + 1), range(targets - hits + 1)):
            inside, outside = a + b, targets - a - b
            if inside and outside:
                found = difference_of_shares(a, inside, hits - a, outside, 0.9)
                weight = binom.pmf(a, hits, 0.5) * binom.pmf(b, targets - hits, 0.5)
                alarm += 0.0 if found.lower <= 0 <= found.upper else weight
        assert alarm <= 0.1


@pytest.mark.parametrize("sizes", _either([1, 2, 5, 12], range(1, 21)))
def test_the_difference_of_pairs_is_covered_everywhere(sizes):
    """All laws of the four kinds of pair on a grid; which pairs are alike does not matter."""
    for pairs, confidence in itertools.product(sizes, CONFIDENCES):
        outcomes = [(b, c) for b in range(pairs + 1) for c in range(pairs + 1 - b)]
        found = [paired_difference(b, c, pairs, confidence) for b, c in outcomes]
        lower, upper = np.array([r.lower for r in found]), np.array([r.upper for r in found])
        counts = np.array([(b, c, pairs - b - c) for b, c in outcomes])
        for p, q in itertools.product(np.linspace(0, 1, 11), repeat=2):
            if p + q > 1 + ROUND_OFF:
                continue
            weights = multinomial.pmf(counts, pairs, [p, q, max(1 - p - q, 0)])
            covered = (lower <= p - q + ROUND_OFF) & (upper >= p - q - ROUND_OFF)
            assert weights[covered].sum() >= confidence - ROUND_OFF, (pairs, p, q)
            if p == q:
                claimed = (lower > 0) | (upper < 0)
                assert weights[claimed].sum() <= 1 - confidence + ROUND_OFF


def test_exchanged_sides_give_exchanged_limits():
    for a, b in itertools.product(range(0, 21, 4), range(0, 31, 6)):
        one, other = difference_of_shares(a, 20, b, 30, 0.9), difference_of_shares(b, 30, a, 20, 0.9)
        assert np.allclose([one.lower, one.upper], [-other.upper, -other.lower], atol=1e-8)
        assert one.lower <= one.value <= one.upper


def test_limits_are_narrower_than_two_separate_ones_and_wider_than_the_approximation():
    for count in (100, 1000, 100_000):
        a, b = count // 3, count // 4
        found = difference_of_shares(a, count, b, count, 0.95)
        width = (found.upper - found.lower) / 2
        normal = 1.959964 * np.sqrt(a * (count - a) / count**3 + b * (count - b) / count**3)
        apart = [rate(hits, count, 0.975) for hits in (a, b)]
        assert normal < width < 1.2 * normal
        assert width < 0.75 * (apart[0].upper - apart[1].lower - (apart[0].lower - apart[1].upper)) / 2


def judged(hits, members=None, **more):
    return measure_recoveries(Recoveries("a", ADVERSARY, "exact", np.array(hits), members, **more))


def test_constant_attacks_leak_nothing():
    """An attack that hits everybody, or nobody: ties everywhere, at every size."""
    for count in range(1, 60):
        coin = np.arange(2 * count) < count
        for hits in (np.ones(2 * count), np.zeros(2 * count)):
            assert not judged(hits, coin).detected
            assert judged(hits, coin).leak.value == 0
            assert not judged(hits, blind_hits=hits.copy()).detected


def test_an_exact_baseline_is_one_in_k():
    found = judged(np.arange(40) < 30, candidates=4)
    assert (found.baseline.lower, found.baseline.upper) == (0.25, 0.25)
    assert found.leak.value == 0.5
    assert found.detected
    assert not judged(np.arange(40) < 14, candidates=4).detected


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: difference_of_shares(3, 2, 0, 1, 0.95), "'hits' must be at most 'trials'"),
        (lambda: difference_of_shares(-1, 2, 0, 1, 0.95), "'hits' must be at least 0"),
        (lambda: difference_of_shares(1, 2, 0, 0, 0.95), "'other_trials' must be at least 1"),
        (lambda: difference_of_shares(1, 2, 0, 1, 3.0), "'confidence' must lie strictly between 0 and 1"),
        (lambda: paired_difference(1, 1, 1, 0.95), "'only_first \\+ only_second' must be at most 'pairs'"),
        (lambda: paired_difference(-1, 2, 3, 0.95), "'only_first' must be at least 0"),
        (lambda: paired_difference(1, 1, 3, 1.0), "'confidence' must lie strictly between 0 and 1"),
    ],
)
def test_refusals(call, sentence):
    with pytest.raises(InvalidArgument, match=sentence):
        call()
