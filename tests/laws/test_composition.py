"""Adding up, over random events and every accountant that takes them."""

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privet.accounting import PrivacyLoss, Renyi, account
from privet.adjacency import AddRemove, ReplaceOne
from privet.errors import NotProved
from privet.events import Compose, ExponentialMechanism, RandomizedResponse, Repeat
from privet.testing import (
    ACCOUNTANTS,
    check_nesting,
    check_order,
    check_repeat_is_compose,
    check_repetition_costs,
)
from privet.testing.strategies import adjacencies, leaves, sampled

every_accountant = pytest.mark.parametrize("accountant", ACCOUNTANTS, ids=lambda a: a.name)


def or_refused(check, *arguments, **options):
    """An accountant may refuse an event; it may not get it wrong."""
    try:
        check(*arguments, **options)
    except NotProved:
        return


@every_accountant
@given(event=leaves, adjacency=adjacencies, times=st.integers(1, 6))
def test_repeat_is_compose(accountant, event, adjacency, times):
    or_refused(check_repeat_is_compose, accountant, event, adjacency, times=times)


@every_accountant
@given(event=leaves, adjacency=adjacencies, inner=st.integers(1, 4), outer=st.integers(1, 4))
def test_nested_repeats_multiply(accountant, event, adjacency, inner, outer):
    or_refused(check_nesting, accountant, event, adjacency, inner=inner, outer=outer)


@every_accountant
@given(parts=st.lists(leaves, min_size=2, max_size=3), adjacency=adjacencies)
def test_order_and_brackets_do_not_matter(accountant, parts, adjacency):
    or_refused(check_order, accountant, parts, adjacency)


@every_accountant
@given(event=leaves, adjacency=adjacencies)
def test_repeating_is_never_free(accountant, event, adjacency):
    or_refused(check_repetition_costs, accountant, event, adjacency)


@pytest.mark.parametrize("accountant", [PrivacyLoss(), Renyi()], ids=lambda a: a.name)
@settings(max_examples=2)
@given(event=sampled, adjacency=adjacencies)
def test_sampled_events_add_up(accountant, event, adjacency):
    or_refused(check_repeat_is_compose, accountant, event, adjacency, times=3)
    or_refused(check_repetition_costs, accountant, event, adjacency)


@settings(max_examples=6)
@given(first=leaves, second=leaves)
def test_more_events_never_cost_less(first, second):
    try:
        one = account(first, adjacency=ReplaceOne())
        both = account(Compose((first, second)), adjacency=ReplaceOne())
        assert both.epsilon(delta=1e-3) >= one.epsilon_bounds(delta=1e-3).lower * (1 - 1e-9)
    except NotProved:
        return


def test_repeated_randomised_response_grows_under_the_privacy_loss_accountant():
    """dp-accounting's PLD accountant drops the count; test_known_undercounting has the hand computation."""
    answers = [
        account(Repeat(RandomizedResponse(0.75), n), adjacency=ReplaceOne()).epsilon(delta=1e-6)
        for n in (1, 2, 5, 20, 100)
    ]
    assert all(later > 1.3 * earlier for earlier, later in pairwise(answers))


def test_repeated_exponential_mechanism_grows_under_the_renyi_accountant():
    """dp-accounting's RDP accountant drops the count; test_known_undercounting has the hand computation."""
    answers = [
        account(
            Repeat(ExponentialMechanism(epsilon=0.5), n), adjacency=AddRemove(), accountant=Renyi()
        ).epsilon(delta=1e-6)
        for n in (1, 2, 5, 20, 100)
    ]
    assert all(later > 1.3 * earlier for earlier, later in pairwise(answers))
