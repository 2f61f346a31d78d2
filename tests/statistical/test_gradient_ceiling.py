"""No attack on a noisy gradient exceeds the ceiling of its proof; with half the noise the best one does."""

import numpy as np
import pytest
from scipy.stats import beta

torch = pytest.importorskip("torch", reason="gradients come from torch")

import privet  # noqa: E402
from privet.attacks.inversion.gradients import CandidateTest, PublicModel  # noqa: E402
from privet.randomness import experiment  # noqa: E402
from privet.shared_gradients import NoisyStep, SharedGradient  # noqa: E402

LISTED, TARGETS, LEVEL = 10, 600, 1e-6


@pytest.fixture(scope="module")
def setting():
    """Candidates that are far apart, so that the test among them is nearly as strong as the proof allows."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        net = torch.nn.Sequential(torch.nn.Linear(40, 30), torch.nn.ReLU(), torch.nn.Linear(30, 10))
    candidates = 5.0 * np.eye(40)[:LISTED]
    return PublicModel(net, shape=(40,)), candidates, np.arange(LISTED)


def count_hits(setting, sigma, seed, claimed=None):
    """How many of the targets the candidate test names, where each adds noise σ and says ``claimed``."""
    model, candidates, labels = setting
    draws = experiment(seed)
    chosen = draws.integers(0, LISTED, TARGETS)
    said = NoisyStep(clip=1.0, noise_multiplier=claimed or sigma)
    exact = [
        model.share(candidates[[i]], labels[[i]], NoisyStep(clip=1.0, noise_multiplier=0.0)).gradients
        for i in range(LISTED)
    ]
    messages = [
        SharedGradient(
            {name: value + sigma * draws.standard_normal(value.shape) for name, value in exact[i].items()},
            1,
            said,
        )
        for i in chosen
    ]
    found = CandidateTest(candidates, labels).recover(model, messages)
    return int((found.labels[:, 0] == labels[chosen]).sum())


def lowest(hits):
    """The lower end of an exact one-sided interval; it fails with probability 1e-6."""
    return beta.ppf(LEVEL, hits, TARGETS - hits + 1) if hits else 0.0


@pytest.mark.parametrize("sigma", [0.4, 0.7, 1.5])
def test_success_stays_below_the_ceiling(setting, sigma):
    ceiling = privet.account(privet.events.Gaussian(sigma), adjacency=privet.AddRemove()).tpr(fpr=1 / LISTED)
    hits = count_hits(setting, sigma, seed=5)
    assert lowest(hits) <= ceiling
    assert hits / TARGETS > 1.2 / LISTED  # and the attack is no straw man: a guess has 1/10


def test_half_the_noise_breaks_the_ceiling(setting):
    """A mutation: the claim says σ = 0.7, the noise is 0.35."""
    ceiling = privet.account(privet.events.Gaussian(0.7), adjacency=privet.AddRemove()).tpr(fpr=1 / LISTED)
    assert lowest(count_hits(setting, 0.35, seed=6, claimed=0.7)) > ceiling
