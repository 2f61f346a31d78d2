"""The noise of federated runs: its size, that it is there once, and who is in a cohort."""

import math

import numpy as np
import pytest
import torch
from torch import nn

import privet
from privet.federated import CentralNoise, FedSGD, LocalNoise, NoNoise, ServerSGD, server_noise
from privet.federated.local_training import LocalTraining
from privet.federated.model_layout import ModelLayout
from privet.observed_rounds import Observer, RoundObserver
from privet.randomness import SeededNoise
from privet.training import FixedSizeSampling, PoissonSampling, TreeNoise
from privet.training.sampling.schemes import CyclicSampling

pytestmark = pytest.mark.filterwarnings("ignore:δ is at least")
SIZE, DELTA = 20_000, 1e-5
FALSE_ALARM = 5.0  # standard errors: 6·10⁻⁷ on both sides


class Idle(LocalTraining):
    """Leaves the weights as they are, so that only the noise moves the model."""

    def train(self, model, objective, generator):
        pass


class Watching(RoundObserver):
    def __init__(self):
        self.seen = []

    @property
    def place(self):
        return Observer.SERVER

    def observe(self, seen):
        self.seen.append(seen)


def clients_of(count):
    return [(torch.zeros(1, SIZE // 2), torch.zeros(1, dtype=torch.int64)) for _ in range(count)]


def run_idle(privacy, *, clients=20, rounds=1, observers=(), epsilon=2.0, seed=5):
    model = nn.Linear(SIZE // 2, 2, bias=False)
    nn.init.zeros_(model.weight)
    return privet.federate(
        model,
        clients_of(clients),
        rounds=rounds,
        epsilon=epsilon,
        delta=None if epsilon is None else DELTA,
        privacy=privacy,
        training=Idle(),
        observers=observers,
        noise=SeededNoise(seed),
    )


def numbers_of(result):
    return ModelLayout(result.model).read(result.model).double().numpy()


def check_deviation(numbers, deviation):
    """A variance of n normal numbers has the relative standard error √(2/n): here 0.01, so twice or no noise is far off.

    The dither and the grid of the sampler make the variance larger by up to 3.3·10⁻⁴.
    """
    relative = np.mean(numbers**2) / deviation**2 - 1
    assert abs(relative) < FALSE_ALARM * math.sqrt(2 / len(numbers)) + 3.3e-4
    assert abs(np.mean(numbers)) < FALSE_ALARM * deviation / math.sqrt(len(numbers))


@pytest.mark.parametrize("sampling", [PoissonSampling(1.0), PoissonSampling(0.5), FixedSizeSampling(7)])
def test_the_server_adds_the_noise_of_the_plan_once(sampling):
    result = run_idle(CentralNoise(clip=0.3, sampling=sampling))
    plan = result.terms.plan
    check_deviation(numbers_of(result), plan.noise_multiplier * 0.3 / plan.expected_lot)


@pytest.mark.parametrize("mutation", ["by no one", "twice"])
def test_noise_that_is_missing_or_doubled_would_be_noticed(monkeypatch, mutation):
    original = server_noise.add_gaussian_

    def wrong(buffer, *arguments):
        return buffer if mutation == "by no one" else original(original(buffer, *arguments), *arguments)

    monkeypatch.setattr(server_noise, "add_gaussian_", wrong)
    with pytest.raises(AssertionError):
        test_the_server_adds_the_noise_of_the_plan_once(PoissonSampling(1.0))


def test_the_noise_of_rounds_is_independent():
    result = run_idle(CentralNoise(clip=1.0), rounds=4)
    plan = result.terms.plan
    check_deviation(numbers_of(result), 2 * plan.noise_multiplier / plan.expected_lot)


def test_the_adaptive_clip_scales_its_noise_with_its_bound():
    """Nobody moves, so all norms are below the bound, which falls by e^(−0.2·½) a round, apart from the count's noise."""
    result = run_idle(CentralNoise(), rounds=3, clients=120)
    plan = result.terms.plan
    bounds = [record.clip_bound for record in result.history]
    assert bounds[2] < bounds[1] < bounds[0]
    deviation = plan.gradient_multiplier / plan.expected_lot * math.sqrt(sum(bound**2 for bound in bounds))
    check_deviation(numbers_of(result), deviation)


def test_correlated_noise_of_the_server_takes_back_a_part_of_itself():
    """After 4 rounds a binary tree has the noise of one node, and no more than that."""
    result = run_idle(
        CentralNoise(clip=1.0, sampling=CyclicSampling(4), correlation=TreeNoise(efficient=False)), rounds=4
    )
    plan = result.terms.plan
    check_deviation(numbers_of(result), plan.noise_multiplier / plan.expected_lot)


def test_each_client_adds_its_own_noise_and_the_server_none():
    watching = Watching()
    result = run_idle(LocalNoise(clip=0.5), clients=3, observers=(watching,))
    deviation = result.terms.plan.noise_multiplier * 0.5
    updates = [message.update["weight"].ravel() for message in watching.seen[0].messages]
    for update in updates:
        check_deviation(update, deviation)
    check_deviation(numbers_of(result), deviation / math.sqrt(3))
    assert abs(np.corrcoef(updates[0], updates[1])[0, 1]) < FALSE_ALARM / math.sqrt(SIZE)


def test_without_noise_nothing_moves():
    assert not numbers_of(run_idle(NoNoise(), epsilon=None)).any()


def test_poisson_cohorts_are_independent_coins():
    """60 rounds of 20 clients at rate 0.3: each client and each round is binomial; 5 σ on 80 counts, false alarm 5·10⁻⁵."""
    watching = Watching()
    model = nn.Linear(1, 2)
    privet.federate(
        model,
        [(torch.zeros(1, 1), torch.zeros(1, dtype=torch.int64))] * 20,
        rounds=60,
        privacy=NoNoise(sampling=PoissonSampling(0.3)),
        training=FedSGD(),
        optimizer=ServerSGD(),
        observers=(watching,),
        noise=SeededNoise(8),
    )
    taking_part = np.zeros((60, 20))
    for number, seen in enumerate(watching.seen):
        taking_part[number, list(seen.participants)] = 1
    for axis, trials in ((0, 60), (1, 20)):
        counts = taking_part.sum(axis=axis)
        assert np.abs(counts - 0.3 * trials).max() < 5 * math.sqrt(trials * 0.21)
    assert counts.std() > 0
