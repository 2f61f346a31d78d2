"""The two counts that a famous library drops, against computations by hand.

dp-accounting 0.4: ``PLDAccountant`` composes a repeated ``RandomizedResponseDpEvent`` once, and ``RdpAccountant``
a repeated ``ExponentialMechanismDpEvent`` once. Both make the reported ε too small by an order of magnitude.
"""

import math
from fractions import Fraction

import pytest

from privet.accounting import PrivacyLoss, Renyi, account
from privet.adjacency import AddRemove, ReplaceOne
from privet.events import ExponentialMechanism, RandomizedResponse, Repeat


def binomial_delta(truth, times, epsilon):
    """Σ over k of (C(n,k) pᵏ(1−p)ⁿ⁻ᵏ − e^ε C(n,k) (1−p)ᵏpⁿ⁻ᵏ)₊ in exact fractions but for e^ε."""
    truth, factor = Fraction(truth), Fraction(math.exp(epsilon))
    total = Fraction(0)
    for k in range(times + 1):
        p = truth**k * (1 - truth) ** (times - k)
        q = (1 - truth) ** k * truth ** (times - k)
        total += math.comb(times, k) * max(p - factor * q, Fraction(0))
    return float(total)


@pytest.mark.parametrize("times", [1, 2, 10, 50])
@pytest.mark.parametrize("share", [0.3, 0.7])
def test_repeated_randomised_response_under_the_privacy_loss_accountant(times, share):
    epsilon = share * times * math.log(3)
    exact = binomial_delta(0.75, times, epsilon)
    claim = account(Repeat(RandomizedResponse(0.75), times), adjacency=ReplaceOne(), accountant=PrivacyLoss())
    found = claim.delta_bounds(epsilon=epsilon)
    assert found.lower <= exact * (1 + 1e-9)
    assert found.upper >= exact * (1 - 1e-9)
    assert found.upper == pytest.approx(exact, rel=1e-4)
    back = claim.epsilon_bounds(delta=exact)
    assert back.upper == pytest.approx(epsilon, rel=1e-4)


def moments_epsilon(rho, delta):
    """min over orders α of ρα + (ln(1/δ) + (α − 1) ln(1 − 1/α) − ln α)/(α − 1), on a fine grid of α.

    Canonne, Kamath & Steinke 2020, Proposition 12, for ρ-zCDP.
    """
    orders = (1 + math.exp(-8 + 20 * k / 20_000) for k in range(20_001))
    return min(
        rho * a + (math.log(1 / delta) + (a - 1) * math.log1p(-1 / a) - math.log(a)) / (a - 1) for a in orders
    )


@pytest.mark.parametrize("times", [1, 2, 10, 100, 1000])
@pytest.mark.parametrize("delta", [1e-3, 1e-6, 1e-9])
def test_repeated_exponential_mechanism_under_the_renyi_accountant(times, delta):
    """n uses of an ε-exponential mechanism are n ε²/8-zCDP (Cesar & Rogers 2021, Theorem 1)."""
    event = Repeat(ExponentialMechanism(epsilon=0.3), times)
    found = account(event, adjacency=AddRemove(), accountant=Renyi()).epsilon(delta=delta)
    by_hand = max(moments_epsilon(times * 0.3**2 / 8, delta), 0.0)
    assert by_hand * (1 - 1e-6) <= found <= by_hand * (1 + 1e-3)


@pytest.mark.parametrize("times", [1, 5, 40])
def test_the_renyi_bound_is_above_an_exponential_mechanism_that_exists(times):
    """Two candidates whose scores move apart by Δ: the loss is ± ε/2, so this is randomised response at ε/2."""
    epsilon, likely = 0.8, 1 / (1 + math.exp(-0.4))
    event = Repeat(ExponentialMechanism(epsilon=epsilon), times)
    claim = account(event, adjacency=AddRemove(), accountant=Renyi())
    for share in (0.2, 0.5, 0.9):
        at = share * times * 0.5 * epsilon
        assert claim.delta(epsilon=at) >= binomial_delta(likely, times, at) * (1 - 1e-12)
