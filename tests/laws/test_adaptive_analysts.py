"""Budgets against analysts who choose each question in view of the answers: the best of them, by dynamic programming."""

import math
from functools import cache

import pytest
from tests.oracle.adaptive_analyst import fixed_delta, largest_delta, largest_delta_with_a_last_question

from privet.accounting.filtering import Filtered, choose_filter, renyi_filter
from privet.accounting.fold import fold
from privet.adjacency import AddRemove
from privet.events import Opaque
from privet.filters import BasicFilter, GaussianFilter

_EPSILON, _DELTA = 1.0, 1e-5


def _permits(rule, kinds, step, leaks=None):
    """What the filter says of so many questions of each kind."""
    meter = Filtered(rule)
    leaks = leaks or (0.0,) * len(kinds)
    prices = [
        fold(meter, Opaque(epsilon=kind * step, delta=leak), AddRemove())
        for kind, leak in zip(kinds, leaks, strict=True)
    ]

    def permits(counts):
        total = meter.zero()
        for price, count in zip(prices, counts, strict=True):
            if count:
                total = meter.join(total, meter.power(price, count))
        return meter.permits(total)

    return permits


@cache
def _fixed(small, last, step):
    return fixed_delta({1: small, last: 1} if last else {1: small}, step=step, epsilon=_EPSILON)


def test_the_price_for_fixed_parameters_is_no_filter():
    """The mistake that filters are for: counts at ε = 0.02, going on, or spending the rest at once.

    Priced as if fixed, the budget (1, 1e-5) is exceeded more than six times over. The rest is taken in steps of 0.02.
    """
    found = largest_delta_with_a_last_question(
        lambda small, last: _fixed(small, last, 0.02) <= _DELTA, step=0.02, epsilon=_EPSILON, largest=50
    )
    assert found == pytest.approx(6.6e-5, rel=0.01)


@pytest.mark.parametrize(
    "rule",
    [
        renyi_filter(epsilon=_EPSILON, delta=_DELTA),
        renyi_filter(epsilon=_EPSILON, delta=_DELTA, claims=0.1 * _DELTA),
        GaussianFilter(epsilon=_EPSILON, delta=_DELTA, claims=0.0),
        BasicFilter(epsilon=_EPSILON, delta=_DELTA),
    ],
    ids=lambda rule: rule.name,
)
def test_the_same_analyst_within_a_filter(rule):
    sizes = range(51)
    asked = {size: _permits(rule, (1, max(size, 1)), 0.02) for size in sizes}
    found = largest_delta_with_a_last_question(
        lambda small, last: asked[last]((small, 1 if last else 0)), step=0.02, epsilon=_EPSILON, largest=50
    )
    assert found <= _DELTA


@pytest.mark.parametrize(("epsilon", "delta"), [(0.5, 1e-3), (1.0, 1e-5), (2.0, 1e-6), (3.0, 1e-2)])
def test_any_order_of_three_kinds_of_questions(epsilon, delta):
    """And the filter is not idle: the best analyst gets within a factor of five of δ."""
    step, kinds = epsilon / 24, (1, 4, 9)
    rule = renyi_filter(epsilon=epsilon, delta=delta)
    found = largest_delta(_permits(rule, kinds, step), kinds, step=step, epsilon=epsilon)
    assert delta / 5 <= found <= delta


def test_any_order_of_three_kinds_within_the_gaussian_filter():
    step, kinds = 1 / 24, (1, 4, 9)
    rule = GaussianFilter(epsilon=1.0, delta=1e-3, claims=0.0)
    assert largest_delta(_permits(rule, kinds, step), kinds, step=step, epsilon=1.0) <= 1e-3


@pytest.mark.parametrize("share", [0.0, 0.25, 0.5])
def test_questions_that_leak(share):
    """With claims of their own: half of δ is for them if the first request has one, a tenth otherwise."""
    epsilon, delta = 1.0, 1e-3
    step, kinds, leaks = epsilon / 20, (1, 4, 0), (0.0, 2e-5, 1e-4)
    rule = choose_filter(
        epsilon=epsilon, delta=delta, asked=[Opaque(epsilon=0.1, delta=share * delta)], adjacency=AddRemove()
    )
    found = largest_delta(_permits(rule, kinds, step, leaks), kinds, step=step, epsilon=epsilon, leaks=leaks)
    assert delta / 4 <= found <= delta


def test_adding_leaks_and_moments_up_is_no_filter():
    """Why the share for claims is fixed: analysts spend leaks where the moments were wasted, and moments elsewhere.

    Exact prices for fixed parameters take the place of moments here, so that no slack of a bound hides it.
    """
    epsilon, delta = 1.0, 1e-3
    step, kinds, leaks = epsilon / 20, (1, 4, 0), (0.0, 0.0, 1e-4)

    @cache
    def price(small, large):
        return fixed_delta({1: small, 4: large}, step=step, epsilon=epsilon)

    def permits(counts):
        return price(*counts[:2]) + leaks[2] * counts[2] <= delta

    assert largest_delta(permits, kinds, step=step, epsilon=epsilon, leaks=leaks) > 1.3 * delta


def test_the_oracle_knows_what_randomised_response_tells():
    """One question: δ = (exp(ε₀) − exp(ε))/(1 + exp(ε₀)); two that are fixed are what an analyst who never looks gets."""
    one = largest_delta(lambda counts: counts[0] <= 1, (3,), step=0.5, epsilon=1.0)
    assert one == pytest.approx((math.exp(1.5) - math.e) / (1 + math.exp(1.5)), rel=1e-12)
    two = largest_delta(lambda counts: counts[0] <= 2, (3,), step=0.5, epsilon=1.0)
    assert two >= fixed_delta({3: 2}, step=0.5, epsilon=1.0) * (1 - 1e-12)
