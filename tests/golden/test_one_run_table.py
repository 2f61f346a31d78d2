"""Bounds from one run for scores that are the exact quantiles of their laws: no luck in them.

The table is of N(0, σ) against N(1, σ), 10⁵ canaries, δ = 1e-5, 95 %. The tight column guesses everybody and hardly depends on luck:
it is met within 1 %. The other two columns are what single random draws show when the best number of guesses is taken afterwards:
quantiles have no luck to take advantage of. One-run is met within 3 %, f-DP, which rests on a handful of errors among the surest
guesses, within 8 %. That both theorems are computed as they should be is held against the figures that the peer publishes for
quantiles (jax_privacy, its own test of `epsilon_one_run` and `epsilon_one_run_fdp`: 10⁴ + 10⁴ canaries, δ = 1e-6), to five digits.
"""

import functools
import math

import numpy as np
import pytest
from scipy.special import ndtri
from scipy.stats import binom

from privet.auditing import EVERYBODY, GaussianCurves, Guesses, OneRun, OneRunFDP, OrderStatistic, Roc
from privet.auditing.audits import find_largest_refuted
from privet.auditing.curves import gaussian_epsilon
from privet.auditing.guesses import GuessResult
from privet.auditing.one_run import p_value
from privet.auditing.one_run_fdp import is_refuted
from privet.auditing.order_statistic import p_value as order_p_value
from privet.scores import Scores

DELTA = 1e-5


@functools.cache
def _quantiles(separation, count):
    normal = ndtri((np.arange(count) + 0.5) / count)
    return Scores.of(normal + separation, normal)


@functools.cache
def _canaries(sigma):
    """10⁵ canaries of which coins decided: one more of one side than of the other, in any order."""
    members, others = (ndtri((np.arange(count) + 0.5) / count) for count in (50_001, 49_999))
    both = Scores.of(members + 1 / sigma, others)
    return both.take(np.random.default_rng(0).permutation(len(both)))


def _both(share):
    return (Guesses(members=share, others=share),)


# σ, true ε (cut, not rounded), share of guesses on either side, the table's figure
ONE_RUN = [(0.5, 9.99, 0.0376, 4.99), (1.0, 4.37, 0.0088, 2.61), (2.0, 1.99, 0.004, 1.33)]
TRADE_OFF = [(0.5, 9.99, 0.011, 8.16), (1.0, 4.37, 0.0036, 3.61), (2.0, 1.99, 0.0035, 1.59)]
TIGHT = [(0.5, 9.99, 9.90), (1.0, 4.37, 4.31), (2.0, 1.99, 1.94)]


@pytest.mark.parametrize(("sigma", "true", "tight"), TIGHT)
def test_the_tight_column(sigma, true, tight):
    assert math.floor(100 * gaussian_epsilon(1 / sigma, DELTA)) / 100 == true
    found = OrderStatistic(0.95).bound(_canaries(sigma), delta=DELTA).value
    assert found == pytest.approx(tight, rel=0.01)
    assert found < true


@pytest.mark.parametrize(("sigma", "true", "share", "table"), ONE_RUN)
def test_the_one_run_column(sigma, true, share, table):
    found = OneRun(0.95, plan=_both(share)).bound(_canaries(sigma), delta=DELTA).value
    assert found == pytest.approx(table, rel=0.03)
    chosen = OneRun(0.95).bound(_canaries(sigma), delta=DELTA).value
    assert (
        0.8 * found < chosen < true
    )  # choosing the number of guesses on a quarter of the canaries costs little


@pytest.mark.parametrize(("sigma", "true", "share", "table"), TRADE_OFF)
def test_the_trade_off_column(sigma, true, share, table):
    found = OneRunFDP(0.95, plan=_both(share)).bound(_canaries(sigma), delta=DELTA).value
    assert found == pytest.approx(table, rel=0.08)
    chosen = OneRunFDP(0.95).bound(_canaries(sigma), delta=DELTA).value
    assert 0.85 * found < chosen < true


def test_the_columns_are_in_order():
    sigma, scores = 1.0, _canaries(1.0)
    bounds = [audit(0.95).bound(scores, delta=DELTA).value for audit in (OneRun, OneRunFDP, OrderStatistic)]
    assert bounds == sorted(bounds)
    assert bounds[-1] < gaussian_epsilon(1 / sigma, DELTA)


def test_a_thousand_perfect_guesses_of_a_thousand():
    # SPEC U2
    assert OneRun(0.95, plan=EVERYBODY).ceiling(501, 499, delta=DELTA) == pytest.approx(5.78, abs=0.005)
    perfect = Scores.of(np.ones(500), np.zeros(500))
    finding = OneRun(0.95, plan=EVERYBODY).test(perfect, None, delta=DELTA)
    assert finding.measured.value == finding.ceiling
    assert finding.verdict is None
    # A random half counts one right guess less.
    one_less = find_largest_refuted(
        lambda epsilon: p_value(GuessResult(1000, 999), 1000, epsilon, DELTA) < 0.05, 0.0
    )
    assert finding.ceiling == pytest.approx(one_less)


def _hull(roc):
    """The thresholds on the upper hull of the ROC: the peer shares its level out over these."""
    kept = []
    x, y = roc.false_positives, roc.true_positives
    for i in range(len(x)):
        while len(kept) > 1 and (y[kept[-1]] - y[kept[-2]]) * (x[i] - x[kept[-1]]) <= (y[i] - y[kept[-1]]) * (
            x[kept[-1]] - x[kept[-2]]
        ):
            kept.pop()
        kept.append(i)
    return np.array(kept)


@pytest.mark.parametrize(
    ("separation", "one_run", "trade_off"),
    [
        pytest.param(1.0, 1.13346, 2.164749, marks=pytest.mark.slow),
        pytest.param(2.0, 2.311945, 4.7218075, marks=pytest.mark.slow),
        (4.0, 4.395568, 9.133752),
    ],
)
def test_the_peer_at_quantiles(separation, one_run, trade_off):
    roc, delta = Roc.of(_quantiles(separation, 10_000)), 1e-6
    hull = _hull(roc)
    level, best, separated = 0.05 / len(hull), 0.0, 1e-4
    right = roc.true_positives[hull][1:]
    made = right + roc.false_positives[hull][1:]
    for place in np.argsort(2 / np.sqrt(made) - right / made):  # the telling ones first, for speed alone
        line = GuessResult(int(made[place]), int(right[place]))
        if line.right / line.made > 1 / (1 + math.exp(-best)):
            best = find_largest_refuted(lambda e: p_value(line, 20_000, e, delta) < level, best)
        separated = find_largest_refuted(
            lambda mu: is_refuted(line, 20_000, GaussianCurves(), mu, level), separated
        )
    assert best == pytest.approx(one_run, rel=1e-5)
    assert gaussian_epsilon(separated, delta) == pytest.approx(trade_off, rel=1e-5)


@pytest.mark.parametrize(
    ("records", "made", "right", "epsilon", "delta"),
    [
        (1000, 100, 80, 0.5, 1e-3),
        (1000, 1000, 1000, 5.78, 1e-5),
        (50, 10, 7, 1.0, 0.0),
        (200, 200, 150, 0.9, 1e-2),
    ],
)
def test_the_theorem_of_one_run_by_its_words(records, made, right, epsilon, delta):
    law = binom(made, 1 / (1 + math.exp(-epsilon)))
    tail = law.sf(right - 1)
    jumps = [(law.sf(right - i - 1) - tail) / i for i in range(1, right + 1)]
    expected = min(tail + 2 * records * delta * max(jumps), 1)
    assert p_value(GuessResult(made, right), records, epsilon, delta) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize(("records", "made", "separation"), [(6, 2, 2.0), (60, 20, 1.0), (7, 7, 1.0)])
def test_the_law_of_errors_among_the_surest_by_simulation(records, made, separation):
    # the exact mixture against 40,000 draws; 4.5 standard errors, and what rounding up costs
    generator, runs = np.random.default_rng(1), 40_000
    coins = generator.random((runs, records)) < 0.5
    seen = generator.normal(size=(runs, records)) + separation * coins - separation / 2
    surest = np.argsort(-np.abs(seen), axis=1)[:, :made]
    wrong = np.take_along_axis((seen > 0) != coins, surest, axis=1).sum(axis=1)
    for errors in range(3):
        share = (wrong <= errors).mean()
        found = order_p_value(GuessResult(made, made - errors), records, GaussianCurves(), separation)
        error = 4.5 * math.sqrt(share * (1 - share) / runs)
        assert share - error <= found <= share + error + 2e-3
