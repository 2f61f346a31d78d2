"""A claim (ε, δ) covers every mechanism that keeps it: what is said of ``Opaque`` holds for all of them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from privet.accounting import account
from privet.adjacency import AddRemove, ReplaceOne, ZeroOut
from privet.errors import NotProved
from privet.events import (
    Compose,
    DiscreteLaplace,
    ExponentialMechanism,
    FixedSize,
    Laplace,
    Opaque,
    Parallel,
    Poisson,
    Repeat,
    ReportNoisyMax,
    SparseVector,
)
from privet.testing import ACCOUNTANTS
from privet.testing.broken import at_delta

_WRAPPERS = {
    "alone": lambda event: event,
    "repeated": lambda event: Repeat(event, 4),
    "poisson": lambda event: Poisson(0.5, event),
    "fixed-size": lambda event: FixedSize(50, 100, event),
    "sampled composition": lambda event: FixedSize(50, 100, Repeat(event, 2)),
    "parallel": lambda event: Parallel((event,)),
    "composed": lambda event: Compose((event, event)),
}


@pytest.mark.parametrize("wrap", _WRAPPERS.values(), ids=_WRAPPERS)
@pytest.mark.parametrize("adjacency", [AddRemove(), ReplaceOne(), ZeroOut()], ids=str)
def test_a_claim_is_never_below_a_mechanism_that_keeps_it(wrap, adjacency):
    """Laplace noise of scale b is ε-DP with ε = distance/b; so the claim of that ε must cost at least as much.

    Inside a fixed-size sample a unit is exchanged for another, so a claim under add-remove or zero-out adjacency
    must be doubled there, as the noise is.
    """
    assert_covered(Opaque, wrap, adjacency, deltas=(0.0, 1e-2))


@pytest.mark.parametrize("adjacency", [AddRemove(), ReplaceOne(), ZeroOut()], ids=str)
@pytest.mark.parametrize("claimed", [ExponentialMechanism, ReportNoisyMax, SparseVector])
def test_what_is_known_by_its_epsilon_is_covered_in_a_sample(claimed, adjacency):
    assert_covered(claimed, _WRAPPERS["fixed-size"], adjacency, deltas=(0.0,))


def assert_covered(claimed, wrap, adjacency, *, deltas):
    scale = 1.5
    epsilon = adjacency.contribution_distance / scale
    for accountant in ACCOUNTANTS:
        try:
            known = account(wrap(Laplace(scale)), adjacency=adjacency, accountant=accountant)
            blind = account(wrap(claimed(epsilon=epsilon)), adjacency=adjacency, accountant=accountant)
        except NotProved:
            continue
        for delta in deltas:
            low, high = at_delta(known, delta), at_delta(blind, delta)
            if low is not None and high is not None:
                assert high.upper >= low.lower * (1 - 1e-9), (accountant.name, delta)


@given(scale=st.floats(0.5, 10.0), contribution=st.integers(1, 4), times=st.integers(1, 4))
def test_discrete_noise_is_covered_by_its_claim(scale, contribution, times):
    known = account(Repeat(DiscreteLaplace(scale, contribution), times), adjacency=AddRemove())
    blind = account(Repeat(Opaque(epsilon=contribution / scale), times), adjacency=AddRemove())
    for delta in (0.0, 1e-2, 1e-6):
        assert known.epsilon_bounds(delta=delta).lower <= blind.epsilon(delta=delta) * (1 + 1e-9)
