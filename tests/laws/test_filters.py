"""Privacy filters: what they add up is an upper bound, does not depend on the order, and never shrinks."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.stats import norm

from privet.accounting import account
from privet.accounting.filtering import Filtered, choose_filter, renyi_filter
from privet.accounting.fold import fold
from privet.adjacency import AddRemove, ReplaceOne, ZeroOut
from privet.caveats import Caveat
from privet.errors import InvalidArgument, NotProved, Unreadable
from privet.events import (
    Compose,
    DiscreteGaussian,
    DiscreteLaplace,
    ExponentialMechanism,
    Gaussian,
    Laplace,
    Opaque,
    Parallel,
    Poisson,
    RandomizedResponse,
    Repeat,
)
from privet.filters import (
    BasicFilter,
    GaussianFilter,
    OneRequestFilter,
    RenyiFilter,
    filter_from_plain,
    filter_to_plain,
)

_RENYI = renyi_filter(epsilon=1.0, delta=1e-5)
_FILTERS = [
    BasicFilter(epsilon=1.0, delta=1e-5),
    _RENYI,
    renyi_filter(epsilon=2.0, delta=1e-6, claims=5e-7),
    GaussianFilter(epsilon=1.0, delta=1e-5, claims=1e-6),
]


def _spent(rule, event, adjacency=None):
    return fold(Filtered(rule), event, adjacency or AddRemove())


def _moment(p, q, order):
    return math.log(float(np.sum(p * (p / q) ** (order - 1))))


def test_moments_are_those_of_the_laws_themselves():
    """Each against its definition, ln Σ p (p/q)^(α − 1) or the integral, in both orders of neighbours."""
    alpha = _RENYI.order
    for epsilon in (0.02, 0.5, 2.0):
        p = np.array([math.exp(epsilon), 1.0]) / (1 + math.exp(epsilon))
        for used in _spent(_RENYI, Opaque(epsilon=epsilon)):
            assert used.measure == pytest.approx(_moment(p, p[::-1], alpha), rel=1e-8)
    for epsilon in (1e-7, 0.02, 0.5):
        exact = (
            (alpha / (2 * alpha - 1))
            * quad(
                lambda t, e=epsilon: (
                    (alpha - 1) * math.exp((alpha - 1) * t * e) - (alpha - 1) * math.exp(-alpha * t * e)
                ),
                0,
                1,
            )[0]
            * epsilon
        )
        for used in _spent(_RENYI, Laplace(1 / epsilon)):
            assert used.measure >= math.log1p(exact) * (1 - 1e-9)
            if epsilon > 1e-5:
                assert used.measure == pytest.approx(math.log1p(exact), rel=1e-7)
    places = np.arange(-3000, 3001)
    law = np.exp(-np.abs(places) / 50.0)
    law /= law.sum()
    for used in _spent(_RENYI, DiscreteLaplace(50.0)):
        assert used.measure == pytest.approx(_moment(law[:-1], law[1:], alpha), rel=1e-7)
        assert used.largest == pytest.approx(1 / 50)
    law = np.exp(-0.5 * (np.arange(-200, 201) / 10.0) ** 2)
    law /= law.sum()
    for used in _spent(_RENYI, DiscreteGaussian(10.0)):
        assert used.measure >= _moment(law[:-1], law[1:], alpha) * (1 - 1e-9)
        assert used.measure == pytest.approx(0.5 * alpha * (alpha - 1) / 100, rel=1e-8)
    for used in _spent(_RENYI, Gaussian(10.0)):
        assert used.measure == pytest.approx(0.5 * alpha * (alpha - 1) / 100, rel=1e-8)
    truth = np.array([0.8, 0.1, 0.1])
    for used in _spent(_RENYI, RandomizedResponse(0.8, 3), ReplaceOne()):
        assert used.measure == pytest.approx(_moment(truth, truth[[1, 0, 2]], alpha), rel=1e-8)


@given(epsilon=st.floats(0.01, 3.0), share=st.floats(0.01, 0.99))
def test_choices_of_a_bounded_range_cost_no_more_than_is_counted(epsilon, share):
    """An exponential mechanism has losses within an interval of length ε: its two ends, wherever it lies."""
    top, alpha = share * epsilon, _RENYI.order
    q = -math.expm1(top - epsilon) / (math.exp(top) - math.exp(top - epsilon))
    law, other = np.array([math.exp(top) * q, math.exp(top - epsilon) * (1 - q)]), np.array([q, 1 - q])
    assert law.sum() == pytest.approx(1.0)
    for used in _spent(_RENYI, ExponentialMechanism(epsilon=epsilon)):
        assert used.measure >= max(_moment(law, other, alpha), _moment(other, law, alpha)) * (1 - 1e-9)
        assert used.measure <= min(alpha * (alpha - 1) * epsilon**2 / 8, (alpha - 1) * epsilon) * (1 + 1e-8)


def test_both_orders_of_neighbours_must_be_permitted():
    """Sampled noise tells more of one order than of the other; the worse one decides."""
    event = Poisson(0.05, Gaussian(0.8))
    meter, price = Filtered(_RENYI), _spent(_RENYI, event)
    larger, smaller = sorted(price, key=lambda used: -used.measure)
    assert larger.measure > 1.05 * smaller.measure
    room = next(n for n in range(1, 10**6) if not meter.permits((larger.times(n), larger.times(n))))
    assert meter.permits((smaller.times(room), smaller.times(room)))
    assert not meter.permits(meter.power(price, room))
    assert not meter.permits(meter.power((price[1], price[0]), room))
    assert meter.reached_epsilon(meter.power(price, room)) > 1.0


def test_moments_of_a_poisson_sample():
    rate, sigma, alpha = 0.01, 1.5, _RENYI.order

    def mixed(x):
        return (1 - rate) * norm.pdf(x, 0, sigma) + rate * norm.pdf(x, 1, sigma)

    def plain(x):
        return norm.pdf(x, 0, sigma)

    first, second = _spent(_RENYI, Poisson(rate, Gaussian(sigma)))
    for used, p, q in ((first, mixed, plain), (second, plain, mixed)):
        exact = math.log(quad(lambda x: p(x) * (p(x) / q(x)) ** (alpha - 1), -30, 50, limit=400)[0])
        assert used.measure == pytest.approx(exact, rel=1e-6)


@given(epsilon=st.floats(1e-3, 8.0))
def test_the_gaussian_of_a_pure_event_dominates_it(epsilon):
    """At every ε′ its δ is no smaller, and there is an attack at which the two agree."""
    rule = GaussianFilter(epsilon=1.0, delta=1e-5, claims=0.0)
    mu = math.sqrt(_spent(rule, Opaque(epsilon=epsilon))[0].measure)
    grid = np.linspace(0.0, epsilon * 1.2, 60)
    dominating = norm.sf(grid / mu - mu / 2) - np.exp(grid) * norm.sf(grid / mu + mu / 2)
    assert np.all(dominating >= np.maximum(np.exp(epsilon) - np.exp(grid), 0) / (1 + np.exp(epsilon)) - 1e-12)
    assert dominating[0] == pytest.approx(math.tanh(epsilon / 2), rel=1e-7)


_EVENTS = st.sampled_from(
    [
        Opaque(epsilon=0.1),
        Opaque(epsilon=0.02, delta=1e-8),
        Laplace(20.0),
        Gaussian(40.0),
        ExponentialMechanism(epsilon=0.1),
        Repeat(Opaque(epsilon=0.01), 7),
        Compose((Laplace(30.0), Gaussian(50.0))),
        Parallel((Laplace(30.0), Gaussian(50.0))),
    ]
)


@settings(max_examples=60)
@given(asked=st.lists(_EVENTS, min_size=1, max_size=12), rule=st.sampled_from(_FILTERS))
def test_what_is_permitted_does_not_depend_on_the_order_and_shrinks_with_every_question(asked, rule):
    meter = Filtered(rule)
    total, stands = meter.zero(), 0.0
    for event in asked:
        total = meter.join(total, _spent(rule, event))
        assert meter.reached_epsilon(total) >= stands * (1 - 1e-12)
        stands = meter.reached_epsilon(total)
    backwards = _spent(rule, Compose(tuple(reversed(asked))))
    assert meter.reached_epsilon(backwards) == pytest.approx(stands, rel=1e-9)
    left = meter.remaining(total)
    assert (left > 0) <= meter.permits(total)
    if 0 < left < rule.epsilon:
        assert meter.permits(meter.join(total, _spent(rule, Opaque(epsilon=left * (1 - 1e-6)))))
        assert not meter.permits(meter.join(total, _spent(rule, Opaque(epsilon=left * (1 + 1e-6)))))


@settings(max_examples=12)
@given(
    asked=st.lists(
        st.sampled_from([Opaque(epsilon=0.1), Opaque(epsilon=0.02, delta=1e-8), Gaussian(40.0)]),
        min_size=1,
        max_size=40,
    )
)
def test_what_a_filter_permits_an_accountant_finds_within_the_budget(asked):
    """Fixed parameters are a case of adaptive ones, so the price beside a filter is never the larger one."""
    claim = account(Compose(tuple(asked)), adjacency=AddRemove())
    for rule in _FILTERS:
        if Filtered(rule).permits(_spent(rule, Compose(tuple(asked)))):
            assert claim.curve.sketch(rule.epsilon).upper <= rule.delta * (1 + 1e-6)


def test_how_many_counts_a_budget_has():
    """Counts at ε = 0.02 within (1, 1e-5): 182 if fixed beforehand, 155 by the filter, 50 by basic composition."""

    def most(rule):
        meter, price = Filtered(rule), _spent(rule, Opaque(epsilon=0.02))
        return max(n for n in range(1, 400) if meter.permits(meter.power(price, n)))

    assert most(_RENYI) == 155
    assert most(GaussianFilter(epsilon=1.0, delta=1e-5, claims=0.0)) == 114
    assert most(BasicFilter(epsilon=1.0, delta=1e-5)) == 50


def test_the_filter_is_chosen_before_the_first_answer():
    def chosen(*asked, delta=1e-5):
        return choose_filter(epsilon=1.0, delta=delta, asked=asked, adjacency=AddRemove())

    assert isinstance(chosen(Gaussian(10.0), delta=0.0), BasicFilter)
    assert chosen(Gaussian(10.0)).claimable == pytest.approx(1e-6)
    assert chosen(Opaque(epsilon=0.1, delta=1e-7)).claimable == pytest.approx(5e-6)
    assert chosen(Opaque(epsilon=0.1, delta=9e-6)) == BasicFilter(epsilon=1.0, delta=1e-5)


def test_the_order_depends_on_the_budget_alone_and_is_the_best_for_gaussian_noise():
    def room(order):
        rule = RenyiFilter(epsilon=1.0, delta=1e-5, order=order, claims=0.0)
        meter, price = Filtered(rule), _spent(rule, Gaussian(1000.0))
        low, high = 1, 10**6
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if meter.permits(meter.power(price, middle)) else (low, middle)
        return low

    best = room(_RENYI.order)
    assert all(room(_RENYI.order * share) <= best for share in (0.6, 0.8, 0.95, 1.05, 1.3, 2.0))


def test_a_ledger_within_its_filter_has_the_filter_s_own_guarantee():
    claim = account(Repeat(Opaque(epsilon=0.02), 150), adjacency=AddRemove(), accountant=Filtered(_RENYI))
    assert claim.epsilon(delta=1e-5) == 1.0
    assert Caveat.ADAPTIVE_PARAMETERS in claim.caveats
    assert Caveat.FIXED_PARAMETERS not in claim.caveats
    with pytest.raises(NotProved, match="fixed beforehand"):
        account(Repeat(Opaque(epsilon=0.02), 156), adjacency=AddRemove(), accountant=Filtered(_RENYI))


def test_what_no_filter_covers_is_refused():
    with pytest.raises(NotProved):
        _spent(GaussianFilter(epsilon=1.0, delta=1e-5, claims=0.0), DiscreteGaussian(10.0))
    with pytest.raises(NotProved):
        _spent(GaussianFilter(epsilon=1.0, delta=1e-5, claims=0.0), Poisson(0.01, Gaussian(1.0)))
    assert not Filtered(BasicFilter(epsilon=9.0, delta=1e-5)).permits(
        _spent(BasicFilter(epsilon=9.0, delta=1e-5), Gaussian(1.0))
    )


@pytest.mark.parametrize("rule", [*_FILTERS, OneRequestFilter(epsilon=1.0, delta=1e-6)], ids=lambda r: r.name)
def test_filters_as_documents(rule):
    assert filter_from_plain(filter_to_plain(rule)) == rule
    for wrong in (
        {**filter_to_plain(rule), "kind": "other"},
        {**filter_to_plain(rule), "more": 1},
        {**filter_to_plain(rule), "epsilon": "1"},
        {**filter_to_plain(rule), "delta": 2.0},
        {"kind": filter_to_plain(rule)["kind"]},
        [],
    ):
        with pytest.raises(Unreadable):
            filter_from_plain(wrong)


@pytest.mark.parametrize(
    "make",
    [
        lambda: RenyiFilter(epsilon=1.0, delta=1e-5, order=1.0, claims=0.0),
        lambda: RenyiFilter(epsilon=1.0, delta=1e-5, order=9.0, claims=1e-5),
        lambda: GaussianFilter(epsilon=1.0, delta=0.0, claims=0.0),
        lambda: BasicFilter(epsilon=0.0, delta=0.0),
        lambda: BasicFilter(epsilon=1.0, delta=1.0),
    ],
)
def test_arguments(make):
    with pytest.raises(InvalidArgument):
        make()


def test_of_parallel_parts_the_larger_delta_counts():
    """A unit may be in the part with the larger claim."""
    parts = Parallel((Opaque(epsilon=0.1, delta=3e-6), Opaque(epsilon=0.2, delta=1e-6)))
    for used in fold(Filtered(BasicFilter(epsilon=1.0, delta=1e-5)), parts, AddRemove()):
        assert used.infinity == 3e-6
        assert used.largest == 0.2


def test_gaussian_dp_of_an_event_whose_orders_differ_is_that_of_the_larger_loss():
    """Under zero-out a randomised answer has the losses ln 1.5 and ln 2; a Gaussian curve must lie below both of its orders."""
    rule = GaussianFilter(epsilon=1.0, delta=1e-5, claims=0.0)
    first, second = fold(Filtered(rule), RandomizedResponse(0.75), ZeroOut())
    assert {round(first.largest, 9), round(second.largest, 9)} == {
        round(math.log(1.5), 9),
        round(math.log(2), 9),
    }
    pure = fold(Filtered(rule), Opaque(epsilon=math.log(2)), ZeroOut())[0]
    assert first.measure == second.measure == pytest.approx(pure.measure, rel=1e-12)
