"""Calibrate, then account: the target is kept, and hardly anything is given away."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privet.accounting import (
    AdvantageTarget,
    EpsilonTarget,
    PosteriorTarget,
    TprTarget,
    account,
    calibrate,
)
from privet.adjacency import AddRemove, ReplaceOne
from privet.events import FixedSize, Gaussian, Laplace, Opaque, RandomizedResponse, Repeat, dp_sgd

_TARGETS = [
    EpsilonTarget(epsilon=1.5, delta=1e-5),
    PosteriorTarget(prior=0.1, posterior=0.3, delta=1e-5),
    AdvantageTarget(advantage=0.2),
    TprTarget(tpr=0.05, fpr=1e-2),
]
_LONG = pytest.mark.slow  # a search of over 3 seconds, in the same way as the others
_SEARCHED = [
    pytest.param(t, marks=_LONG if isinstance(t, PosteriorTarget | TprTarget) else (), id=type(t).__name__)
    for t in _TARGETS
]


def reached(target, guarantee):
    """What the guarantee gives for the quantity that the target names, and the target's number."""
    match target:
        case EpsilonTarget(epsilon=epsilon, delta=delta):
            return guarantee.epsilon(delta=delta), epsilon
        case PosteriorTarget(prior=prior, posterior=posterior, delta=delta):
            return guarantee.posterior(prior=prior, delta=delta).upper, posterior
        case AdvantageTarget(advantage=advantage):
            return guarantee.advantage(), advantage
        case TprTarget(tpr=tpr, fpr=fpr):
            return guarantee.tpr(fpr=fpr), tpr
    raise AssertionError(target)


def assert_kept(found, target, adjacency, *, tight=1e-5):
    again = account(found.event, adjacency=adjacency)
    value, aim = reached(target, again)
    assert value <= aim * (1 + 1e-9)
    assert value >= aim * (1 - tight)
    assert found.target is target
    assert found.guarantee.adjacency == adjacency


@pytest.mark.parametrize("target", _TARGETS, ids=lambda t: type(t).__name__)
def test_noise(target):
    found = calibrate(
        lambda noise: dp_sgd(noise_multiplier=noise, sampling_rate=0.01, steps=500),
        target,
        adjacency=AddRemove(),
    )
    assert_kept(found, target, AddRemove())


@pytest.mark.parametrize("target", _SEARCHED)
def test_rate(target):
    found = calibrate(
        lambda rate: dp_sgd(noise_multiplier=1.0, sampling_rate=rate, steps=500),
        target,
        adjacency=AddRemove(),
        between=(1e-7, 1.0),
    )
    assert_kept(found, target, AddRemove())


@pytest.mark.parametrize("target", _SEARCHED)
def test_steps(target):
    """One step more would break the target, so the last whole number below it is what is asked for."""

    def training(steps):
        return dp_sgd(noise_multiplier=1.0, sampling_rate=0.01, steps=steps)

    found = calibrate(training, target, adjacency=AddRemove(), between=(1, 1e8), whole=True)
    value, aim = reached(target, account(training(int(found.value)), adjacency=AddRemove()))
    beyond, _ = reached(target, account(training(int(found.value) + 1), adjacency=AddRemove()))
    assert value <= aim * (1 + 1e-9) < beyond * (1 + 2e-9)
    assert found.value == int(found.value)


@pytest.mark.parametrize("target", _TARGETS, ids=lambda t: type(t).__name__)
@pytest.mark.parametrize("adjacency", [AddRemove(), ReplaceOne()], ids=str)
def test_scale_of_one_release(target, adjacency):
    assert_kept(calibrate(Gaussian, target, adjacency=adjacency), target, adjacency)
    assert_kept(calibrate(Laplace, target, adjacency=adjacency), target, adjacency)


@pytest.mark.parametrize("target", _TARGETS[:3], ids=lambda t: type(t).__name__)
def test_a_parameter_that_makes_it_leak_more(target):
    found = calibrate(lambda e: Repeat(Opaque(epsilon=e), 20), target, adjacency=AddRemove())
    assert_kept(found, target, AddRemove())


def test_truth_of_a_response():
    target = EpsilonTarget(epsilon=1.0, delta=0.0)
    found = calibrate(RandomizedResponse, target, adjacency=ReplaceOne(), between=(0.5, 0.999))
    assert found.value == pytest.approx(math.e / (1 + math.e), rel=1e-5)


def test_size_of_a_sample():
    target = EpsilonTarget(epsilon=0.5, delta=1e-5)
    found = calibrate(
        lambda size: FixedSize(size, 10_000, Gaussian(2.0)),
        target,
        adjacency=ReplaceOne(),
        between=(1, 9_999),
        whole=True,
    )
    more = FixedSize(int(found.value) + 1, 10_000, Gaussian(2.0))
    assert found.guarantee.epsilon(delta=1e-5) <= 0.5
    assert account(more, adjacency=ReplaceOne()).epsilon(delta=1e-5) > 0.5


@settings(max_examples=8)
@given(
    epsilon=st.floats(0.05, 10.0),
    delta=st.sampled_from((1e-4, 1e-7, 1e-12)),
    rate=st.floats(0.001, 0.5),
    steps=st.integers(1, 2000),
)
def test_noise_for_random_targets(epsilon, delta, rate, steps):
    target = EpsilonTarget(epsilon=epsilon, delta=delta)
    found = calibrate(
        lambda noise: dp_sgd(noise_multiplier=noise, sampling_rate=rate, steps=steps),
        target,
        adjacency=AddRemove(),
    )
    assert_kept(found, target, AddRemove())


def test_noise_that_cannot_be_accounted_at_the_start_of_the_search():
    """At noise 1 the sampled Gaussian is out of reach, which means that more is needed, not that there is no answer."""
    found = calibrate(
        lambda noise: dp_sgd(noise_multiplier=noise, sampling_rate=0.9, steps=2000),
        EpsilonTarget(epsilon=0.5, delta=1e-6),
        adjacency=ReplaceOne(),
    )
    assert found.guarantee.epsilon(delta=1e-6) == pytest.approx(0.5, rel=1e-5)


def test_a_target_that_every_value_reaches_wastes_no_noise():
    found = calibrate(Gaussian, EpsilonTarget(epsilon=1e7, delta=0.5), adjacency=AddRemove())
    assert found.value == pytest.approx(1e-3)
