"""Mistakes that a review found in measured bounds: each was wrong once."""

import numpy as np
import pytest

from privet import AddRemove, Ledger, account
from privet.auditing import (
    RankedThresholds,
    SampledGaussianCurves,
    WeightedRanks,
    calibrate_per_record,
    measure_recoveries,
    most_at_risk_over_targets,
)
from privet.errors import InvalidArgument
from privet.events import Gaussian, Poisson, Repeat
from privet.recoveries import Recoveries
from privet.scores import Scores
from privet.views import Adversary

NOBODY = Adversary(sees="", knows="", wants="")


@pytest.mark.parametrize("delta", [1e-5, 1e-8])
@pytest.mark.parametrize(
    ("rate", "noise", "steps"),
    [(0.01, 0.5, 1000), (0.01, 0.25, 1000), (0.01, 0.2, 100), (0.001, 0.6, 10_000)],
)
def test_curves_of_small_noise_are_not_above_the_proof(rate, noise, steps, delta):
    """The far tail of P was lost in 1 − Φ and came back as mass at infinity: 424 where 122 is proved."""
    claim = account(Ledger(AddRemove()).spend("training", Repeat(Poisson(rate, Gaussian(noise)), steps)))
    found, proved = SampledGaussianCurves(rate, steps).epsilon(1 / noise, delta), claim.epsilon(delta=delta)
    assert 0.97 * proved < found <= proved


def test_ranked_thresholds_need_a_symmetric_family():
    with pytest.raises(InvalidArgument, match="symmetric"):
        RankedThresholds(curves=SampledGaussianCurves(0.3, 1))


def test_a_better_guess_than_the_blind_one_breaks_no_claim():
    hits = np.ones(20, dtype=bool)
    claim = account(Gaussian(5.0), adjacency=AddRemove())
    leakage = measure_recoveries(Recoveries("a", NOBODY, "exact", hits, blind_hits=~hits))
    assert leakage.ceiling(claim) < 0.5  # shown
    assert leakage.sure_ceiling(claim) is None
    assert not leakage.is_above_ceiling(claim)
    coin = np.arange(400) % 2 == 0
    assert measure_recoveries(Recoveries("a", NOBODY, "exact", coin, coin)).is_above_ceiling(claim)


@pytest.mark.parametrize(("low", "high", "chance"), [(0.1, 0.2, 0.05), (0.1, 0.9, 0.05)])
def test_the_pooled_rate_holds_for_scores_of_two_values(low, high, chance):
    """2,000 records, nobody trained: the rate at 5 % is 0.05 or less up to 0.02 (4 standard errors)."""
    for seed in range(4):
        generator = np.random.default_rng(seed)
        draw = np.where(generator.random((17, 2000)) < chance, high, low)
        found = calibrate_per_record(draw[0], draw[1:], np.zeros((16, 2000), dtype=bool))
        assert (found.pooled <= 0.05).mean() < 0.07
        assert (found.pooled <= 1e-4).mean() < 0.003


def test_the_pooled_rate_holds_for_records_with_few_and_many_references():
    generator = np.random.default_rng(0)
    normal, coins = generator.normal(size=(61, 1000)), (generator.random((61, 1000)) < 0.1).astype(float)
    values = np.hstack([coins, normal])
    trained = np.zeros((60, 2000), dtype=bool)
    trained[4:, :1000] = True  # the first half have 4 references that were not trained on them
    found = calibrate_per_record(values[0], values[1:], trained)
    assert (found.pooled <= 0.01).mean() < 0.02


def test_mostly_tied_scores_flag_nobody_without_a_leak():
    """Level 0.1: of 20 studies without a leak, at most 6 flag somebody (P < 0.003); the normal law flagged in 14."""
    flagged = 0
    for seed in range(20):
        generator = np.random.default_rng(seed)
        values = generator.choice([0.0, 1.0, 2.0], size=(100, 500), p=[0.97, 0.015, 0.015])
        flagged += most_at_risk_over_targets(values, generator.random((100, 500)) < 0.1).flagged > 0
    assert flagged <= 6


@pytest.mark.parametrize("records", [36, 41, 47, 48, 60])
def test_perfect_scores_of_few_records_show_something(records):
    members = np.arange(records) % 2 == 0
    assert (
        WeightedRanks().epsilon(
            Scores(np.where(members, 1.0, -1.0) + 0.001 * np.arange(records), members), delta=1e-5
        )
        > 0
    )
