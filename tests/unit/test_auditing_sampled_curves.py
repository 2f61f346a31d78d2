"""The curves of Gaussian noise on Poisson samples, held against the accountant, with which they share no code."""

import math

import numpy as np
import pytest
from scipy.special import ndtr, ndtri

import privet
from privet.auditing import EVERYBODY, GaussianCurves, OneRunFDP, OrderStatistic, SampledGaussianCurves
from privet.errors import InvalidArgument
from privet.events import Gaussian, Poisson, Repeat
from privet.scores import Scores

DELTA = 1e-5
RUNS = [
    (0.01, 1000, 1.0),
    (0.0256, 200, 0.7),
    (0.001, 3000, 0.7),
    (0.5, 100, 5.0),
    (0.1, 1, 1.0),
    (0.02, 5000, 3.0),
    (0.01, 10, 50.0),
    (1.0, 10, 3.0),
]


def _claim(rate, steps, noise):
    event = Gaussian(noise) if rate == 1 else Poisson(rate, Gaussian(noise))
    return privet.account(privet.Ledger(privet.AddRemove()).spend("training", Repeat(event, steps)))


@pytest.mark.parametrize(("rate", "steps", "noise"), RUNS)
def test_epsilon_is_the_accountants_rounded_down(rate, steps, noise):
    found = SampledGaussianCurves(rate, steps).epsilon(1 / noise, DELTA)
    truth = _claim(rate, steps, noise).epsilon_bounds(delta=DELTA)
    assert 0.998 * truth.lower <= found <= truth.lower


@pytest.mark.parametrize(("rate", "steps", "noise"), [RUNS[1], RUNS[3], RUNS[4], RUNS[7]])
@pytest.mark.parametrize("fpr", [0.3, 0.001])
def test_the_symmetric_curve_is_the_accountants_and_not_below(rate, steps, noise, fpr):
    """Rounded up: it allows an attack at least as much as the truth does, by no more than one part in 200."""
    least = SampledGaussianCurves(rate, steps).least_false(
        1 / noise, _claim(rate, steps, noise).tpr_bounds(fpr=fpr).lower
    )
    assert 0.995 * fpr <= least <= fpr * (1 + 1e-9)


def test_without_sampling_the_curves_are_gaussian():
    """μ = √steps/σ; the grid moves a rate by less than 3 parts in 1,000 of its complement."""
    shares = np.array([0.01, 0.1, 0.5, 0.9, 0.99])
    found = SampledGaussianCurves(1.0, 16).members_below(0.25, shares)
    assert found == pytest.approx(GaussianCurves().members_below(1.0, shares), rel=5e-3)
    assert found == pytest.approx(ndtr(ndtri(shares) - 1), rel=5e-3)


@pytest.mark.parametrize(("rate", "steps"), [(0.01, 500), (0.2, 20), (1.0, 3)])
def test_the_family_is_ordered(rate, steps):
    curves, shares = SampledGaussianCurves(rate, steps), np.linspace(0.001, 0.999, 200)
    masses = np.linspace(0.01, 1, 50)
    signals = [0.05, 0.2, 0.5, 1.0, 1.5, 2.5]
    below = [curves.members_below(signal, shares) for signal in signals]
    wrong = [curves.false_share(signal, masses) for signal in signals]
    epsilons = [curves.epsilon(signal, DELTA) for signal in signals]
    assert epsilons == sorted(epsilons)
    for i in range(len(signals) - 1):
        assert (below[i + 1] <= below[i] + 1e-6).all()
        assert (wrong[i + 1] <= wrong[i] + 1e-6).all()


def test_wrong_guesses_are_those_of_the_likelihood_ratio():
    """By simulation: 100,000 records at rate 0.1, 20 steps, σ = 1; four standard errors of a count (false alarm 2e-4)."""
    generator, rate, steps, signal = np.random.default_rng(0), 0.1, 20, 1.0
    coins = generator.random(100_000) < 0.5
    loss = np.zeros(len(coins))
    for _ in range(steps):
        seen = generator.normal(size=len(coins)) + signal * (coins & (generator.random(len(coins)) < rate))
        loss += np.log(1 - rate + rate * np.exp(signal * seen - signal**2 / 2))
    order = np.argsort(-np.abs(loss))
    wrong = ((loss > 0) != coins)[order]
    for mass in (0.05, 0.3, 1.0):
        share = float(SampledGaussianCurves(rate, steps).false_share(signal, np.array([mass]))[0])
        count = int(mass * len(coins))
        error = 4 * math.sqrt(share * len(coins))
        assert abs(wrong[:count].sum() - share * len(coins)) < error


def test_other_bounds_take_the_curves():
    generator = np.random.default_rng(1)
    coins = generator.random(300) < 0.5
    scores = Scores(generator.normal(size=300) + 3 * coins, coins)
    for kind in (OneRunFDP, OrderStatistic):
        assert kind(0.95, SampledGaussianCurves(0.5, 10), plan=EVERYBODY).epsilon(scores, delta=DELTA) > 1


@pytest.mark.parametrize("rate", [0.0, -0.1, 1.5])
def test_a_rate_that_is_no_probability_is_refused(rate):
    with pytest.raises(InvalidArgument, match="rate"):
        SampledGaussianCurves(rate, 10)


def test_what_has_no_answer_is_refused():
    curves = SampledGaussianCurves(0.1, 10)
    with pytest.raises(InvalidArgument, match="Give the δ of the claim"):
        curves.epsilon(1.0, 0.0)
    with pytest.raises(InvalidArgument, match="Give 1/σ"):
        curves.members_below(50.0, np.array([0.5]))
    assert curves.epsilon(0.0, DELTA) == 0
