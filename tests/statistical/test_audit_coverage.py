"""A lower bound that is above the truth too often is no bound. Each is simulated where the truth is known.

``RUNS`` runs each. A bound at 95 % may be wrong in 5 % of them; a test fails if it is wrong so often that this would happen to a
correct one with probability 1e-6. Each mutation below must be caught by the same count.
"""

import math

import numpy as np
import pytest
from scipy.stats import binom

import privet
from privet.auditing import (
    PLAN,
    ApproximateCurves,
    ClopperPearson,
    GaussianFit,
    OneRun,
    OneRunFDP,
    OrderStatistic,
    RankedThresholds,
    WeightedRanks,
)
from privet.auditing.curves import gaussian_epsilon
from privet.auditing.gaussian_fit import _least
from privet.auditing.guesses import count_right_guesses, plan_counts
from privet.auditing.thresholds import errors_by_threshold
from privet.bounds import Verdict
from privet.events import Gaussian
from privet.scores import Scores

RUNS, RECORDS, DELTA = 200, 240, 1e-5
ALLOWED = int(binom.isf(1e-6, RUNS, 0.05))  # 28

AUDITS = [
    ClopperPearson(0.95),
    OneRun(0.95),
    OneRun(0.95, split=None),
    OneRunFDP(0.95),
    OneRunFDP(0.95, curves=ApproximateCurves(DELTA)),
    OrderStatistic(0.95),
    pytest.param(OrderStatistic(0.95, plan=PLAN[::3], split=None), marks=pytest.mark.slow),
    GaussianFit(0.95),
    RankedThresholds(0.95, shares=(0.25,)),
    pytest.param(WeightedRanks(0.95), marks=pytest.mark.slow),  # by default in test_weighted_ranks
]
FAMILY_FREE = [
    ClopperPearson(0.95),
    OneRun(0.95),
    OneRunFDP(0.95, curves=ApproximateCurves(DELTA)),
    OrderStatistic(0.95, curves=ApproximateCurves(DELTA)),
    RankedThresholds(0.95, curves=ApproximateCurves(DELTA)),
    WeightedRanks(0.95, curves=ApproximateCurves(DELTA)),
]


def _named(audit):
    return type(audit).__name__


def _gaussian(generator, separation, records=RECORDS):
    coins = generator.random(records) < 0.5
    return Scores(generator.normal(size=records) + separation * coins, coins)


def _randomized_response(generator, epsilon, records=RECORDS):
    """Pure ε-DP at its worst, and nothing but ties: the coin is told rightly with probability e^ε/(1 + e^ε)."""
    coins = generator.random(records) < 0.5
    kept = generator.random(records) < 1 / (1 + math.exp(-epsilon))
    return Scores((coins == kept).astype(float), coins)


def _too_high(epsilon_of, draw, truth, seed):
    generator = np.random.default_rng(seed)
    return sum(epsilon_of(draw(generator)) > truth for _ in range(RUNS))


@pytest.mark.parametrize("audit", AUDITS, ids=_named)
def test_nothing_is_found_where_there_is_nothing(audit):
    found = _too_high(lambda s: audit.epsilon(s, delta=DELTA), lambda g: _gaussian(g, 0.0), 0.0, seed=1)
    assert found <= ALLOWED


@pytest.mark.slow
@pytest.mark.parametrize("audit", AUDITS, ids=_named)
def test_the_bound_is_below_the_truth_for_gaussian_noise(audit):
    truth = gaussian_epsilon(1.0, DELTA)
    found = _too_high(lambda s: audit.epsilon(s, delta=DELTA), lambda g: _gaussian(g, 1.0), truth, seed=2)
    assert found <= ALLOWED


@pytest.mark.slow
@pytest.mark.parametrize("audit", FAMILY_FREE, ids=_named)
def test_the_bound_is_below_the_truth_for_randomized_response(audit):
    found = _too_high(
        lambda s: audit.epsilon(s, delta=DELTA), lambda g: _randomized_response(g, 1.0), 1.0, seed=3
    )
    assert found <= ALLOWED


@pytest.mark.slow
def test_the_tight_bound_is_tight():
    # It uses all of its 5 %: a bound that is right too often is too low.
    truth, audit = gaussian_epsilon(1.0, DELTA), OrderStatistic(0.95)
    found = _too_high(lambda s: audit.epsilon(s, delta=DELTA), lambda g: _gaussian(g, 1.0), truth, seed=4)
    assert found >= binom.ppf(1e-4, RUNS, 0.05)


# Power: the median over ten runs of 4,000 canaries at μ = 2, where the truth is 9.997 at δ = 1e-5.
POWER = [
    (ClopperPearson(0.95), 3.0),
    (OneRun(0.95), 3.0),
    (OneRunFDP(0.95), 5.0),
    (OneRunFDP(0.95, curves=ApproximateCurves(DELTA)), 3.0),
    (OrderStatistic(0.95), 9.0),
    (GaussianFit(0.95), 8.0),
    (RankedThresholds(0.95, curves=ApproximateCurves(DELTA)), 3.5),
    (RankedThresholds(0.95, shares=(0.25,)), 9.0),
    pytest.param(WeightedRanks(0.95, expected=2.0), 9.2, marks=pytest.mark.slow),
]


@pytest.mark.parametrize(("audit", "least"), POWER, ids=lambda value: type(value).__name__)
def test_what_leaks_is_found(audit, least):
    generator = np.random.default_rng(5)
    bounds = [audit.epsilon(_gaussian(generator, 2.0, 4000), delta=DELTA) for _ in range(10)]
    assert least < np.median(bounds) < audit.ceiling(2000, 2000, delta=DELTA)


@pytest.mark.parametrize(
    "audit",
    [
        ClopperPearson(0.95),
        pytest.param(OneRun(0.95), marks=pytest.mark.slow),
        OneRunFDP(0.95),
        OrderStatistic(0.95),
        GaussianFit(0.95),
        RankedThresholds(0.95, shares=(0.25,)),
        pytest.param(WeightedRanks(0.95), marks=pytest.mark.slow),
    ],
    ids=_named,
)
def test_half_the_noise_is_caught(audit):
    claim = privet.account(privet.Ledger(privet.AddRemove()).spend("sum", Gaussian(noise_multiplier=1.0)))
    generator = np.random.default_rng(6)
    honest, halved = _gaussian(generator, 1.0, 100_000), _gaussian(generator, 2.0, 100_000)
    assert audit.test(honest, claim, delta=DELTA).verdict is Verdict.CONSISTENT
    assert audit.test(halved, claim, delta=DELTA).verdict is Verdict.VIOLATED


# ---- mutations: without its correction each bound is above the truth far too often, and the counts above see it


def _uncorrected(audit):
    def epsilon(scores):
        lines = count_right_guesses(scores.values, scores.members, plan_counts(PLAN, len(scores)))
        return audit.best_epsilon(lines, len(scores), 1 - audit.confidence, DELTA)

    return epsilon


@pytest.mark.slow
@pytest.mark.parametrize("audit", [OneRun(0.95), OneRunFDP(0.95), OrderStatistic(0.95)], ids=_named)
def test_the_best_of_many_plans_without_a_price_is_caught(audit):
    if isinstance(audit, OneRun):  # at δ = 0, where its theorem leaves no slack that hides the mistake

        def epsilon(scores):
            lines = count_right_guesses(scores.values, scores.members, plan_counts(PLAN, len(scores)))
            return audit.best_epsilon(lines, len(scores), 0.05, 0.0)

    else:
        epsilon = _uncorrected(audit)
    truth = 0.0 if isinstance(audit, OneRun) else 1e-3
    assert _too_high(epsilon, lambda g: _gaussian(g, 0.0), truth, seed=7) > ALLOWED


@pytest.mark.slow
@pytest.mark.parametrize("audit", [ClopperPearson(0.5), GaussianFit(0.5)], ids=_named)
def test_a_threshold_chosen_on_what_it_is_judged_by_is_caught(audit):
    # At 50 %: at 95 % the two limits, each with half of the failure, leave so much slack that it hides the mistake.
    def epsilon(scores):
        _, errors = errors_by_threshold(scores)
        if isinstance(audit, ClopperPearson):
            return max(audit._bounds(errors, 0.0, flipped).max() for flipped in (False, True))
        return _least(errors, 0.5).max()

    allowed = binom.isf(1e-6, RUNS, 0.5)
    assert _too_high(epsilon, lambda g: _gaussian(g, 0.0), 0.0, seed=8) > allowed
    honest = _too_high(lambda s: audit.epsilon(s, delta=1e-12), lambda g: _gaussian(g, 0.0), 0.0, seed=8)
    assert honest <= allowed


@pytest.mark.slow
def test_canaries_that_interfere_break_the_tight_bound_and_no_other():
    """One coin for all: with probability 0.3 every canary is told by randomized response, otherwise none.

    With ε₁ = 1.6 it is 1-GDP: 0.3·δ₁(ε) stays below the profile of 1-GDP at every ε, as is asserted first. The tight bound asks
    for canaries that do not interfere, and is wrong in three runs of ten; the bounds that do not ask are right.
    """
    luck, epsilon_one = 0.3, 1.6
    for epsilon in np.linspace(0, 2, 41):
        shown = luck * max(math.exp(epsilon_one) - math.exp(epsilon), 0) / (1 + math.exp(epsilon_one))
        assert gaussian_epsilon(1.0, max(shown, 1e-12)) >= epsilon - 1e-9

    def draw(generator):
        return _randomized_response(generator, epsilon_one if generator.random() < luck else 0.0)

    truth, tight, one_run = gaussian_epsilon(1.0, DELTA), OrderStatistic(0.95), OneRunFDP(0.95)
    generator = np.random.default_rng(9)
    scores = [draw(generator) for _ in range(RUNS)]
    assert sum(tight.epsilon(s, delta=DELTA) > truth for s in scores) > ALLOWED
    assert sum(one_run.epsilon(s, delta=DELTA) > truth for s in scores) <= ALLOWED
