"""A claim that is watched: a true one is rarely called broken at any time, a false one is found early."""

import numpy as np
import pytest
from scipy.stats import binom

import privet
from privet.auditing import SequentialTest
from privet.errors import InvalidArgument
from privet.events import Gaussian
from privet.guarantees import Guarantee, PairCurve
from privet.scores import Scores


def _claim(noise):
    return privet.account(privet.Ledger(privet.AddRemove()).spend("sum", Gaussian(noise)))


def _normal(generator, separation, records=1500):
    coins = generator.random(records) < 0.5
    return Scores(generator.normal(size=records) + separation * coins, coins)


def _response(generator, epsilon, records=400):
    """Pure ε-DP at its worst: every point of its curve is met."""
    coins = generator.random(records) < 0.5
    kept = generator.random(records) < 1 / (1 + np.exp(-epsilon))
    return Scores((coins == kept) + 1e-6 * generator.random(records), coins)


def test_a_true_claim_is_rarely_broken_at_any_time():
    """At 50 %, where it matters: 25 runs, a false alarm of the test has probability 1e-6; at 95 % none is broken."""
    generator, claim = np.random.default_rng(0), Guarantee(PairCurve(1.0, 0.0), privet.AddRemove(), "by hand")
    runs = [_response(generator, 1.0) for _ in range(25)]
    assert sum(SequentialTest(0.5).follow(run, claim).broken for run in runs) <= binom.isf(1e-6, 25, 0.5)
    assert sum(SequentialTest(0.95).follow(run, claim).broken for run in runs) <= binom.isf(1e-6, 25, 0.05)


@pytest.mark.slow
@pytest.mark.parametrize("noise", [0.5, 1.0, 3.0])
def test_a_true_gaussian_claim_is_rarely_broken(noise):
    generator, claim = np.random.default_rng(1), _claim(noise)
    broken = sum(SequentialTest(0.8).follow(_normal(generator, 1 / noise), claim).broken for _ in range(200))
    assert broken <= binom.isf(1e-6, 200, 0.2)


def test_half_the_noise_is_found_early():
    """σ = ½ where 1 was claimed: the median over twenty other runs was 221 records."""
    generator, claim = np.random.default_rng(2), _claim(1.0)
    found = [SequentialTest(0.95).follow(_normal(generator, 2.0), claim) for _ in range(11)]
    assert all(verdict.broken for verdict in found)
    assert np.median([verdict.records for verdict in found]) < 500


def test_a_bet_that_may_look_is_caught():
    """The mutation: thresholds and bets that know the record they are for break a true claim."""
    generator, claim = np.random.default_rng(3), _claim(1.0)
    scores = _normal(generator, 1.0)
    looking = Scores(scores.values + 3 * scores.members, scores.members)
    assert SequentialTest(0.95).follow(looking, claim).broken
    assert not SequentialTest(0.95).follow(scores, claim).broken


def test_records_one_by_one_are_the_same_as_all_together():
    claim, scores = _claim(1.0), _normal(np.random.default_rng(4), 2.0)
    watch, verdict = SequentialTest(0.95).start(claim), SequentialTest(0.95).follow(scores, claim)
    seen = 0
    for value, member in zip(scores.values, scores.members, strict=True):
        seen += 1
        if watch.see(float(value), member=bool(member)):
            break
    assert verdict == watch.verdict
    assert verdict.records == seen


def test_orders_and_coins_that_tell_are_refused():
    claim = _claim(1.0)
    with pytest.raises(InvalidArgument, match="shuffle them"):
        SequentialTest(0.95).follow(Scores.of(np.ones(50), np.zeros(50)), claim)
    with pytest.raises(InvalidArgument, match="fair coin"):
        SequentialTest(0.95).follow(Scores(np.zeros(100), np.arange(100) % 10 > 0), claim)
    with pytest.raises(InvalidArgument):
        SequentialTest(1.0)
    with pytest.raises(InvalidArgument, match="score"):
        SequentialTest(0.95).start(claim).see(float("nan"), member=True)
