"""One law for every attack: success ≤ claim.tpr(fpr=baseline), and the best attack comes within 10 % of it.

The mechanisms have known curves: randomised response, Gaussian noise, and DP-SGD on one coordinate. Attacks are simulated, with targets
that share nothing, so success is a binomial count. In a *coin game* the target is in or left out, and a hit is what the attack
recovers of it; in a *k-ary game* all targets are in, and the secret is one of k public candidates.

The estimate may exceed the ceiling by chance; it must not by more than the Clopper & Pearson limits allow at 1 − 10⁻⁶, so that the law
raises a false alarm in fewer than one of 10,000 runs of this file.
"""

import functools

import numpy as np
import pytest
from scipy.special import ndtr, ndtri

from privet.accounting import account
from privet.adjacency import AddRemove, ReplaceOne
from privet.auditing import bound_recoveries, measure_recoveries
from privet.auditing.proportions import at_least
from privet.events import Gaussian, RandomizedResponse, dp_sgd
from privet.ledger import Ledger
from privet.recoveries import Recoveries, RecoveryGame
from privet.views import Adversary

ADVERSARY = Adversary(sees="the output", knows="the candidates", wants="the secret")
TARGETS = 20_000
SURE = 1e-6
CLOSE = 0.9


@functools.cache
def claim_of(event, adjacency):
    return account(Ledger(adjacency).spend("released", event))


def judge_names(secrets, named, candidates, **more):
    return RecoveryGame(secrets, candidates=candidates, **more).judge(named, "names", adversary=ADVERSARY)


def exceeds(recoveries, claim, baseline=None):
    """Whether success is surely above the ceiling at the baseline; the exact one where it is known."""
    inside = recoveries.inside
    lower = float(at_least(int(recoveries.hits[inside].sum()), int(inside.sum()), SURE))
    measured = measure_recoveries(recoveries, confidence=1 - 2 * SURE)
    return lower > (measured.sure_ceiling(claim) if baseline is None else claim.tpr(fpr=baseline))


def shown(recoveries, claim, delta):
    """The lower bound on ε, at a confidence that makes a false alarm rare."""
    return bound_recoveries(recoveries, claim, delta=delta, confidence=1 - SURE).epsilon


def closeness(recoveries, claim):
    measured = measure_recoveries(recoveries)
    return measured.success.value / measured.ceiling(claim)


# ---- randomised response: k candidates, exchange of one for another


def respond(generator, secrets, candidates, truthful):
    """The truth with probability ``truthful``, else any other candidate."""
    other = (secrets + generator.integers(1, candidates, len(secrets))) % candidates
    return np.where(generator.random(len(secrets)) < truthful, secrets, other)


@pytest.mark.parametrize("candidates", [2, 4, 16])
@pytest.mark.parametrize("epsilon", [0.3, 1.0, 3.0])
def test_randomised_response(candidates, epsilon):
    generator = np.random.default_rng(0)
    truthful = float(np.exp(epsilon) / (np.exp(epsilon) + candidates - 1))
    claim = claim_of(RandomizedResponse(truthful, candidates), ReplaceOne())
    secrets = generator.integers(0, candidates, TARGETS)
    released = respond(generator, secrets, candidates, truthful)
    best = judge_names(secrets, released, candidates)
    stubborn = judge_names(secrets, np.zeros(TARGETS, dtype=int), candidates)
    fickle = judge_names(secrets, np.where(generator.random(TARGETS) < 0.5, released, 0), candidates)
    for found in (best, stubborn, fickle):
        assert not exceeds(found, claim)
        assert shown(found, claim, 0.0) <= claim.epsilon(delta=0.0) + 1e-9
    assert closeness(best, claim) > 0.97  # it is the best mechanism there is, and reaches the ceiling
    assert measure_recoveries(best).ceiling(claim) == pytest.approx(truthful, rel=1e-3)
    assert bound_recoveries(best, claim, delta=0.0).epsilon > epsilon - 0.15


# ---- Gaussian noise


def simplex(candidates):
    """Unit vectors that are as far apart as possible: the contributions of the candidates."""
    corners = np.eye(candidates) - 1 / candidates
    return corners / np.linalg.norm(corners, axis=1, keepdims=True)


@pytest.mark.parametrize("candidates", [2, 3, 8])
@pytest.mark.parametrize("noise", [2.0, 1.0, 0.5])
def test_names_from_gaussian_noise(candidates, noise):
    """Each candidate moves the sum by a vector of norm 1. The nearest candidate is the best answer."""
    generator = np.random.default_rng(1)
    claim = claim_of(Gaussian(noise), AddRemove())
    secrets = generator.integers(0, candidates, TARGETS)
    vectors = simplex(candidates)
    released = vectors[secrets] + noise * generator.normal(size=(TARGETS, candidates))
    found = judge_names(secrets, (released @ vectors.T).argmax(axis=1), candidates)
    assert not exceeds(found, claim)
    assert shown(found, claim, 1e-5) <= claim.epsilon(delta=1e-5) + 1e-9
    if candidates == 2:  # opposite vectors: the attack is the best test of "in" against "out" at FPR ½
        assert closeness(found, claim) > CLOSE


@pytest.mark.parametrize("baseline", [0.01, 0.1, 0.5])
@pytest.mark.parametrize("noise", [2.0, 0.5])
def test_the_coin_game_of_gaussian_noise(noise, baseline):
    """The attack names the right value only if the output is beyond a threshold, and is wrong otherwise."""
    generator = np.random.default_rng(2)
    claim = claim_of(Gaussian(noise), AddRemove())
    found = _coin_game(
        generator, lambda coin: coin / noise + generator.normal(size=TARGETS), ndtri(1 - baseline)
    )
    assert not exceeds(found, claim)
    assert not exceeds(found, claim, baseline=baseline)
    assert closeness(found, claim) > CLOSE
    assert shown(found, claim, 1e-5) <= claim.epsilon(delta=1e-5) + 1e-9


def _coin_game(generator, statistic, threshold):
    coin = generator.random(TARGETS) < 0.5
    values = statistic(coin)
    recovered = np.where(values > threshold, 1, 0)
    game = RecoveryGame(np.ones(TARGETS, dtype=int), coin)
    return game.judge(recovered, "threshold", adversary=ADVERSARY)


# ---- DP-SGD on one coordinate, every step seen


@pytest.mark.parametrize("baseline", [0.01, 0.1])
@pytest.mark.parametrize(("rate", "noise", "steps"), [(0.1, 1.0, 20), (1.0, 3.0, 10), (0.02, 0.7, 30)])
def test_the_coin_game_of_dp_sgd(rate, noise, steps, baseline):
    """The likelihood ratio of all steps, with a threshold fixed on targets of their own that are out."""
    generator = np.random.default_rng(3)
    claim = claim_of(dp_sgd(noise_multiplier=noise, sampling_rate=rate, steps=steps), AddRemove())

    def ratio(coin):
        total = np.zeros(len(coin))
        for _ in range(steps):
            sampled = coin & (generator.random(len(coin)) < rate)
            seen = sampled + noise * generator.normal(size=len(coin))
            total += np.log1p(rate * np.expm1((2 * seen - 1) / (2 * noise**2)))
        return total

    threshold = np.quantile(ratio(np.zeros(TARGETS, dtype=bool)), 1 - baseline)
    found = _coin_game(generator, ratio, threshold)
    assert not exceeds(found, claim)
    assert closeness(found, claim) > CLOSE
    assert shown(found, claim, 1e-5) <= claim.epsilon(delta=1e-5) + 1e-9


def test_names_from_dp_sgd():
    """The sign of a contribution, through subsampled steps: sums of steps are not the best answer, and stay below."""
    generator = np.random.default_rng(4)
    claim = claim_of(dp_sgd(noise_multiplier=1.0, sampling_rate=0.1, steps=20), AddRemove())
    secrets = generator.integers(0, 2, TARGETS)
    sign = 2 * secrets - 1
    total = np.zeros(TARGETS)
    for _ in range(20):
        total += sign * (generator.random(TARGETS) < 0.1) + generator.normal(size=TARGETS)
    found = judge_names(secrets, (total > 0).astype(int), 2)
    assert not exceeds(found, claim)
    assert measure_recoveries(found).detected


# ---- mutations: the law must see a wrong baseline, and coins that reach the attack


def test_a_wrong_baseline_is_caught():
    """A ceiling at half of the baseline, as if the blind guess were right half as often, is exceeded by the best attack."""
    generator = np.random.default_rng(5)
    claim = claim_of(Gaussian(2.0), AddRemove())
    found = _coin_game(generator, lambda coin: coin / 2.0 + generator.normal(size=TARGETS), ndtri(0.9))
    assert not exceeds(found, claim, baseline=0.1)
    assert exceeds(found, claim, baseline=0.05)


def test_a_missing_baseline_is_caught():
    """Success of the k-ary game against 1/k of twice as many candidates."""
    generator = np.random.default_rng(6)
    claim = claim_of(Gaussian(1.0), AddRemove())
    secrets = generator.integers(0, 2, TARGETS)
    released = (2 * secrets - 1) + generator.normal(size=TARGETS)
    named = (released > 0).astype(int)
    assert not exceeds(judge_names(secrets, named, 2), claim)
    assert exceeds(judge_names(secrets, named, 4), claim)


@pytest.mark.parametrize("leaked", [0.02, 0.2])
def test_coins_that_reach_the_attack_are_caught(leaked):
    """The best attack learns the coin of a few targets: the law, and the bound on ε where the leak is large, say so."""
    generator = np.random.default_rng(7)
    claim = claim_of(Gaussian(2.0), AddRemove())
    honest = _coin_game(generator, lambda coin: coin / 2.0 + generator.normal(size=TARGETS), ndtri(0.99))
    knows = generator.random(TARGETS) < leaked
    cheating = Recoveries(
        "cheating", ADVERSARY, "exact", np.where(knows, honest.members, honest.hits), honest.members
    )
    assert not measure_recoveries(honest).is_above_ceiling(claim)
    assert measure_recoveries(cheating).is_above_ceiling(claim)
    if leaked > 0.1:
        assert exceeds(cheating, claim)
        assert bound_recoveries(cheating, claim, delta=1e-5).epsilon > claim.epsilon(delta=1e-5)


def test_the_ceiling_holds_for_averages_over_unlike_targets():
    """Half of the targets are guessed easily and half hardly ever: the curve is concave, so the mean baseline is a valid one."""
    generator = np.random.default_rng(8)
    claim = claim_of(Gaussian(1.0), AddRemove())
    coin = generator.random(TARGETS) < 0.5
    thresholds = np.where(np.arange(TARGETS) % 2 == 0, ndtri(0.5), ndtri(0.999))
    hits = coin + generator.normal(size=TARGETS) > thresholds
    found = Recoveries("unlike", ADVERSARY, "exact", hits, coin)
    assert not exceeds(found, claim)
    expected = (ndtr(1 - ndtri(0.5)) + ndtr(1 - ndtri(0.999))) / 2
    assert expected < claim.tpr(fpr=(0.5 + 0.001) / 2)
