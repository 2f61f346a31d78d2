"""More noise never raises ε; a higher rate, more steps or a larger unit never lower it."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privet.accounting import PrivacyLoss, Renyi, account
from privet.adjacency import AddRemove, ReplaceOne, ZeroOut
from privet.errors import NotProved
from privet.events import (
    BandedNoise,
    Compose,
    DiscreteGaussian,
    DiscreteLaplace,
    FixedSize,
    Gaussian,
    Laplace,
    Parallel,
    Poisson,
    RandomizedResponse,
    Repeat,
    TreeNoise,
    dp_sgd,
)
from privet.testing import ACCOUNTANTS
from privet.testing.broken import at_delta
from privet.testing.strategies import adjacencies, gaussians, laplaces, leaves, rates

_DELTAS = (1e-2, 1e-6)
_factors = st.floats(1.001, 3.0)


def assert_not_above(smaller, larger, adjacency=None, *, accountants=(None,)):
    """ε of ``smaller`` is at most ε of ``larger``, by each accountant, up to its own certified gap."""
    for accountant in accountants:
        try:
            low = account(smaller, adjacency=adjacency or AddRemove(), accountant=accountant)
            high = account(larger, adjacency=adjacency or AddRemove(), accountant=accountant)
        except NotProved:
            continue
        for delta in _DELTAS:
            small, large = at_delta(low, delta), at_delta(high, delta)
            if small is None or large is None:
                continue
            slack = 1e-9 + min(small.relative_gap, 1e-3)
            assert small.lower <= large.upper * (1 + 1e-9), (smaller, larger, delta)
            assert small.upper <= large.upper * (1 + slack), (smaller, larger, delta)


@pytest.mark.parametrize(
    "make",
    [
        Gaussian,
        Laplace,
        DiscreteLaplace,
        lambda noise: TreeNoise(noise, 16, 4, 2),
        lambda noise: BandedNoise(noise, (1.0, 0.5), 8),
    ],
    ids=["gaussian", "laplace", "discrete-laplace", "tree", "banded"],
)
@given(noise=st.floats(0.5, 20.0), factor=_factors, adjacency=adjacencies)
def test_in_the_noise(make, noise, factor, adjacency):
    assert_not_above(make(noise * factor), make(noise), adjacency, accountants=ACCOUNTANTS)


@given(scale=st.floats(1.0, 10.0), factor=st.floats(2.0, 4.0), adjacency=adjacencies)
def test_in_the_noise_of_discrete_gaussians(scale, factor, adjacency):
    """From twice the scale on; between, ε may rise with the scale (test_closed_forms has an instance)."""
    less, more = DiscreteGaussian(scale), DiscreteGaussian(factor * scale)
    assert_not_above(more, less, adjacency, accountants=ACCOUNTANTS)


@given(truth=st.floats(0.5, 0.9), categories=st.integers(2, 4))
def test_in_the_truth(truth, categories):
    less, more = RandomizedResponse(truth, categories), RandomizedResponse(0.5 * (1 + truth), categories)
    assert_not_above(less, more, ReplaceOne(), accountants=ACCOUNTANTS)


@pytest.mark.parametrize("inner", [Gaussian(0.8), Laplace(0.8)], ids=str)
@settings(max_examples=4)
@given(rate=rates, share=st.floats(0.05, 0.99))
def test_in_the_rate(inner, rate, share):
    accountants = (PrivacyLoss(), Renyi())
    assert_not_above(Poisson(share * rate, inner), Poisson(rate, inner), accountants=accountants)
    assert_not_above(Poisson(rate, inner), inner, accountants=accountants)


@given(
    size=st.integers(1, 98), more=st.integers(1, 50), adjacency=st.sampled_from((AddRemove(), ReplaceOne()))
)
def test_in_the_size_of_the_sample(size, more, adjacency):
    smaller, larger = FixedSize(size, 100, Gaussian(2.0)), FixedSize(min(size + more, 99), 100, Gaussian(2.0))
    assert_not_above(smaller, larger, adjacency)


@given(noise=st.floats(0.7, 5.0), rate=rates, steps=st.integers(1, 200), more=st.integers(1, 200))
def test_in_the_steps(noise, rate, steps, more):
    few = dp_sgd(noise_multiplier=noise, sampling_rate=rate, steps=steps)
    many = dp_sgd(noise_multiplier=noise, sampling_rate=rate, steps=steps + more)
    assert_not_above(few, many, accountants=(PrivacyLoss(), Renyi()))


@given(event=leaves)
def test_add_or_remove_is_at_most_replace(event):
    """Checked inside ``check_event`` too; here over random events, and for each accountant."""
    for accountant in ACCOUNTANTS:
        try:
            removed = account(event, adjacency=AddRemove(), accountant=accountant)
            replaced = account(event, adjacency=ReplaceOne(), accountant=accountant)
        except NotProved:
            continue
        for delta in _DELTAS:
            small, large = at_delta(removed, delta), at_delta(replaced, delta)
            if small is not None and large is not None:
                assert small.upper <= large.upper * (1 + 1e-9 + min(small.relative_gap, 1e-3))


@given(noise=st.floats(0.5, 10.0), rate=rates)
def test_sampled_add_or_remove_is_at_most_replace(noise, rate):
    event = Repeat(Poisson(rate, Gaussian(noise)), 3)
    removed, replaced = (account(event, adjacency=kind) for kind in (AddRemove(), ReplaceOne()))
    for delta in _DELTAS:
        assert removed.epsilon(delta=delta) <= replaced.epsilon(delta=delta) * (1 + 1e-9)


@given(event=st.one_of(gaussians, laplaces), rate=rates)
def test_zeroing_out_is_removing_where_sizes_do_not_matter(event, rate):
    for described in (event, Poisson(rate, event), Repeat(event, 4)):
        removed, zeroed = (account(described, adjacency=kind) for kind in (AddRemove(), ZeroOut()))
        for delta in _DELTAS:
            assert removed.epsilon(delta=delta) == zeroed.epsilon(delta=delta)


@given(event=leaves, adjacency=adjacencies)
def test_a_poisson_sample_of_everybody_is_no_sample(event, adjacency):
    try:
        whole = account(event, adjacency=adjacency)
        sample = account(Poisson(1.0, event), adjacency=adjacency)
    except NotProved:
        return
    for delta in _DELTAS:
        one, other = at_delta(whole, delta), at_delta(sample, delta)
        if one is not None and other is not None:
            assert other.lower <= one.upper * (1 + 1e-9)
            assert one.upper <= other.upper * (1 + 1e-9 + min(one.relative_gap, 1e-3))


@given(first=st.one_of(gaussians, laplaces), second=st.one_of(gaussians, laplaces))
def test_parallel_is_the_larger_part_and_at_most_the_composition(first, second):
    parallel = account(Parallel((first, second)), adjacency=AddRemove())
    parts = [account(part, adjacency=AddRemove()) for part in (first, second)]
    for epsilon in (0.0, 0.2, 1.0):
        largest = max(part.delta_bounds(epsilon=epsilon).upper for part in parts)
        found = parallel.delta_bounds(epsilon=epsilon)
        assert found.upper >= largest * (1 - 1e-9)
        assert found.upper <= largest * (1 + 1e-4) + 1e-12
        assert found.lower <= largest * (1 + 1e-9)
    both = account(Compose((first, second)), adjacency=AddRemove())
    for delta in _DELTAS:
        assert parallel.epsilon_bounds(delta=delta).lower <= both.epsilon(delta=delta) * (1 + 1e-9)
