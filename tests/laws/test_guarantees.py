"""Curves and risks, over random events and every accountant that takes them."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privet.accounting import Concentrated, Pure, Renyi, account
from privet.adjacency import AddRemove, ReplaceOne
from privet.errors import NotProved
from privet.events import Gaussian, Laplace, Opaque, Repeat, dp_sgd
from privet.testing import ACCOUNTANTS, check_guarantee, check_risks
from privet.testing.agreement import check_agreement, check_tightness, collect_guarantees
from privet.testing.ledgers import check_documents, check_ledger
from privet.testing.strategies import adjacencies, gaussians, leaves, sampled, trees


def assert_lawful(event, adjacency):
    guarantees = collect_guarantees(ACCOUNTANTS, event, adjacency)
    for guarantee in guarantees.values():
        check_guarantee(guarantee)
    check_agreement(guarantees, f"{event} under {adjacency}")
    check_tightness(guarantees, f"{event} under {adjacency}", event)


@given(event=leaves, adjacency=adjacencies)
def test_curves_of_single_events(event, adjacency):
    assert_lawful(event, adjacency)


@settings(max_examples=5)
@given(event=leaves, adjacency=adjacencies, times=st.integers(2, 50))
def test_curves_of_repeated_events(event, adjacency, times):
    assert_lawful(Repeat(event, times), adjacency)


@pytest.mark.slow  # the same laws hold for chosen sampled events in test_who_takes_what
@settings(max_examples=10)
@given(event=sampled, adjacency=adjacencies)
def test_curves_of_sampled_events(event, adjacency):
    assert_lawful(event, adjacency)


@pytest.mark.slow
@settings(max_examples=20)
@given(event=trees, adjacency=adjacencies)
def test_curves_of_trees(event, adjacency):
    assert_lawful(event, adjacency)


@settings(max_examples=6)
@given(event=leaves, adjacency=adjacencies)
def test_risks(event, adjacency):
    for guarantee in collect_guarantees(ACCOUNTANTS, event, adjacency).values():
        # A bound from moments is not convex: its ceilings hold, but the search need not find the least.
        if guarantee.accountant not in {Renyi.name, Concentrated.name}:
            check_risks(guarantee)


@pytest.mark.slow  # ceilings of training are golden numbers too
@settings(max_examples=5)
@given(noise=st.floats(0.7, 3.0), rate=st.floats(0.01, 0.3), steps=st.integers(2, 300))
def test_risks_of_training(noise, rate, steps):
    event = dp_sgd(noise_multiplier=noise, sampling_rate=rate, steps=steps)
    check_risks(account(event, adjacency=AddRemove()), fprs=(1e-6, 1e-2))


@settings(max_examples=5)
@given(event=trees, adjacency=adjacencies)
def test_documents_and_ledgers(event, adjacency):
    try:
        account(event, adjacency=adjacency)
    except NotProved:
        return
    check_documents(event, adjacency)
    check_ledger(event, adjacency)


@given(scale=st.floats(0.5, 20.0), size=st.integers(1, 20))
def test_a_group_pays_for_each_of_its_members(scale, size):
    for accountant in (None, Pure()):
        one = account(Laplace(scale), adjacency=AddRemove(), accountant=accountant)
        assert one.group(size=1) is one
        together = one.group(size=size)
        assert together.epsilon(delta=0.0) == pytest.approx(size / scale, rel=1e-12)
        assert together.epsilon(delta=1e-3) >= one.epsilon_bounds(delta=1e-3).lower


@given(event=gaussians, size=st.integers(2, 6))
def test_group_profiles_are_profiles(event, size):
    check_guarantee(account(event, adjacency=AddRemove()).group(size=size), epsilons=(0.0, 0.5, 2.0, 6.0))


@given(epsilon=st.floats(0.01, 6.0), prior=st.floats(0.001, 0.999))
def test_post_processing_cannot_teach_more_than_the_odds(epsilon, prior):
    belief = account(Opaque(epsilon=epsilon), adjacency=AddRemove()).posterior(prior=prior, delta=0.0)
    gain = math.log(belief.upper / (1 - belief.upper)) - math.log(prior / (1 - prior))
    assert gain == pytest.approx(epsilon, rel=1e-6)


@given(noise=st.floats(0.3, 50.0), times=st.integers(1, 1000))
def test_the_default_accountant_is_the_tightest_that_takes_the_event(noise, times):
    for event in (Repeat(Gaussian(noise), times), Repeat(Laplace(noise), min(times, 20))):
        chosen = account(event, adjacency=ReplaceOne()).epsilon(delta=1e-5)
        for guarantee in collect_guarantees(ACCOUNTANTS, event, ReplaceOne()).values():
            assert chosen <= guarantee.epsilon(delta=1e-5) * (1 + 1e-6)
