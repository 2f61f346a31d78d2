"""Weighted ranks: the law that is simulated is the law, for any score; and what breaks it is seen.

Each count states its false-alarm rate. ``_limit`` at the truth is what a bound compares with: it is above the truth exactly if S
exceeds it.
"""

import numpy as np
import pytest
from scipy.stats import binom

from privet.auditing import ApproximateCurves, GaussianCurves, SampledGaussianCurves, WeightedRanks
from privet.auditing import weighted_ranks as ranks
from privet.errors import InvalidArgument
from privet.scores import Scores

RUNS, RECORDS = 1500, 300
ALLOWED = int(binom.isf(1e-6, RUNS, 0.05))
FEWEST = int(binom.ppf(1e-4, RUNS, 0.04))


def _exceeding(curves, parameter, draw, limit_of=None, records=RECORDS):
    """In how many of ``RUNS`` runs S is above its limit at the true parameter."""
    generator = np.random.default_rng(1)
    edges = np.concatenate([[0], ranks._edges(records), [records]])
    counts = []
    for _ in range(RUNS):
        values, members = draw(generator, records)
        ranked = members[np.lexsort((~members, values))]
        counts.append(np.diff(np.append(0, np.cumsum(ranked))[edges]))
    weights = ranks._weights(curves, parameter, records)
    found = ranks._statistic(np.array(counts), weights, ranks._sizes(records))
    return int((found > ranks._limit(curves, limit_of or parameter, parameter, records, 0.05, 20_000)).sum())


def _normal(separation, rounded=None):
    def draw(generator, records):
        members = generator.random(records) < 0.5
        values = generator.normal(size=records) + separation * members
        return values if rounded is None else np.floor(values / rounded), members

    return draw


def _sampled(rate, steps, signal):
    """The log-likelihood ratio of a Dirac canary over all steps."""

    def draw(generator, records):
        members = generator.random(records) < 0.5
        drawn = (generator.random((steps, records)) < rate) & members
        seen = generator.normal(size=(steps, records)) + signal * drawn
        return np.log(1 - rate + rate * np.exp(signal * seen - signal**2 / 2)).sum(axis=0), members

    return draw


@pytest.mark.parametrize("separation", [0.05, 1.0, 3.0])
def test_the_limit_is_exceeded_in_five_percent_of_runs_and_hardly_less(separation):
    found = _exceeding(GaussianCurves(), separation, _normal(separation))
    assert FEWEST <= found <= ALLOWED


def test_sampled_noise_has_the_law_of_its_own_curves():
    found = _exceeding(SampledGaussianCurves(0.1, 10), 1.0, _sampled(0.1, 10, 1.0))
    assert FEWEST <= found <= ALLOWED


def test_a_worse_score_shows_less():
    """Rounded scores are a post-processing of better ones, with ties; S is smaller."""
    better = _exceeding(GaussianCurves(), 1.0, _normal(1.0))
    assert _exceeding(GaussianCurves(), 1.0, _normal(1.0, rounded=1.0)) < better


# ---- mutations


def test_half_the_noise_is_caught():
    assert _exceeding(GaussianCurves(), 1.0, _normal(2.0)) == RUNS


def test_a_limit_for_less_noise_than_the_truth_would_be_seen():
    assert _exceeding(GaussianCurves(), 1.0, _normal(1.0), limit_of=0.7) > ALLOWED


@pytest.mark.slow
def test_canaries_that_interfere_break_it():
    """The mechanism of ``test_audit_coverage``: one coin for all. It is 1-GDP, and not for canaries together."""

    def draw(generator, records):
        members = generator.random(records) < 0.5
        right = 1 / (1 + np.exp(-1.6)) if generator.random() < 0.3 else 0.5
        told = (generator.random(records) < right) == members
        return told + 0.9 * generator.random(records), members

    assert _exceeding(GaussianCurves(), 1.0, draw, records=1200) > ALLOWED


# ---- its uses


def test_a_random_half_is_drawn_by_coins():
    values = np.arange(2000.0)
    heads = []
    for seed in range(3):
        members = np.random.default_rng(seed).permutation(2000) < 1000
        drawn, inside = ranks._draw_by_coins(values, members)
        assert len(drawn) == ranks._coins_for(1000) > 1800
        assert len(np.unique(drawn)) == len(drawn)
        heads.append(int(inside.sum()))
    assert len(set(heads)) == 1  # the same coins for the same sizes, whatever the scores are
    assert heads[0] != len(drawn) / 2


def test_weights_far_from_the_truth_show_less_and_stay_valid(monkeypatch):
    monkeypatch.setattr(ranks, "_SIMULATIONS", 2000)
    generator = np.random.default_rng(3)
    values, members = _normal(1.0)(generator, 2000)
    scores = Scores(values, members)
    found = [WeightedRanks(0.95, expected=mu).epsilon(scores, delta=1e-5) for mu in (1.0, 6.0)]
    assert 3.0 < found[1] <= found[0] * 1.1 < 4.377 * 1.1


def test_few_records_and_wrong_parameters_are_refused():
    with pytest.raises(InvalidArgument, match="at least 8"):
        WeightedRanks().epsilon(Scores.of(np.ones(3), np.zeros(4)), delta=1e-5)
    with pytest.raises(InvalidArgument, match="Give the parameter of the claim"):
        WeightedRanks(0.95, SampledGaussianCurves(0.1, 10), expected=20.0)
    with pytest.raises(InvalidArgument, match="above 0"):
        WeightedRanks(0.95, expected=0.0)
    assert "nothing is assumed" in WeightedRanks(0.95, ApproximateCurves(1e-5)).assumes
