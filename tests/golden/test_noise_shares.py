"""Sums of discrete Gaussians against their definition, and against the published theorem with 30 digits.

Source of the theorem: Kairouz, Liu & Steinke 2021, Theorem 1 and Proposition 14 (arXiv 2102.06387). The law of a sum is
written out by convolution here; nothing uses the accountants' formulas.
"""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mpmath import mp, mpf

from privet.accounting import Concentrated, PrivacyLoss, Renyi, account, noise_shares
from privet.accounting.noise_shares import concentrate, dominate_shares
from privet.adjacency import AddRemove, ReplaceOne, Unit, ZeroOut
from privet.errors import InvalidArgument, NotProved
from privet.events import DiscreteGaussian, DiscreteGaussianShares, Gaussian, Repeat

CLIENTS = ZeroOut(Unit.CLIENT)
EPSILONS = (0.0, 0.3, 1.0, 2.5)


def profile(scale, shares, shift, epsilon, coordinates=1):
    """The largest of H(P ‖ Q) and H(Q ‖ P), where ``shift`` moves each coordinate."""
    reach = math.ceil(12 * scale)
    share = np.exp(-0.5 * (np.arange(-reach, reach + 1) / scale) ** 2)
    noise = np.ones(1)
    for _ in range(shares):
        noise = np.convolve(noise, share / share.sum())
    p, q = np.pad(noise, (shift, 0)), np.pad(noise, (0, shift))
    first, second = np.ones(1), np.ones(1)
    for _ in range(coordinates):
        first, second = np.multiply.outer(first, p).ravel(), np.multiply.outer(second, q).ravel()
    return max(
        float(np.maximum(a - math.exp(epsilon) * b, 0).sum()) for a, b in ((first, second), (second, first))
    )


def assert_holds(scale, shares, shift, coordinates=1):
    event = DiscreteGaussianShares(scale, shares, shift * math.sqrt(coordinates), coordinates)
    for accountant in (PrivacyLoss(), Renyi(), Concentrated()):
        claim = account(event, adjacency=CLIENTS, accountant=accountant)
        for epsilon in EPSILONS:
            told = profile(scale, shares, shift, epsilon, coordinates)
            assert claim.delta(epsilon=epsilon) >= told * (1 - 1e-9) - 1e-14, (accountant.name, epsilon)


@pytest.mark.parametrize(("scale", "shares", "shift"), [(1.5, 10, 3), (2.0, 5, 3), (5.0, 3, 5), (4.0, 1, 2)])
def test_the_bound_holds_for_the_written_out_law(scale, shares, shift):
    assert_holds(scale, shares, shift)


def test_the_bound_holds_on_several_coordinates():
    assert_holds(2.5, 2, 2, coordinates=2)


@settings(max_examples=25, deadline=None)
@given(st.floats(1.6, 6.0), st.integers(2, 8), st.integers(1, 6))
def test_the_bound_holds_for_any_shares(scale, shares, shift):
    if scale**2 * shares > 6:
        assert_holds(scale, shares, shift)


def test_many_shares_on_a_fine_grid_cost_what_one_gaussian_costs():
    """100 clients, 131,072 coordinates, noise that is 4/3 of a contribution: within 0.01 % of real Gaussian noise,
    where the published theorem is 7 % above.
    """
    event = DiscreteGaussianShares(scale=20.0, shares=100, contribution=150.0, coordinates=131_072)
    found = account(event, adjacency=CLIENTS).epsilon(delta=1e-6)
    real = account(Gaussian(200 / 150), adjacency=CLIENTS).epsilon(delta=1e-6)
    published = account(event, adjacency=CLIENTS, accountant=Concentrated()).epsilon(delta=1e-6)
    assert real < found < 1.0002 * real
    assert 1.05 * found < published < 1.1 * found


@pytest.mark.parametrize(
    ("scale", "shares", "contribution", "coordinates"),
    [
        (20.0, 100, 150.0, 131_072),
        (1.0, 10, 5.0, 1000),
        (0.7, 50, 3.0, 64),
        (0.5, 2, 1.0, 1),
        (3.0, 1, 2.0, 10),
    ],
)
def test_concentrated_dp_is_that_of_the_published_theorem(scale, shares, contribution, coordinates):
    event = DiscreteGaussianShares(scale, shares, contribution, coordinates)
    with mp.workdps(30):
        tau = 10 * sum(
            (mp.exp(-2 * mp.pi**2 * mpf(scale) ** 2 * k / (k + 1)) for k in range(1, shares)), mpf(0)
        )
        shift = mpf(contribution) / (mp.sqrt(shares) * mpf(scale))
        epsilon = min(mp.sqrt(shift**2 + tau * coordinates / 2), shift + tau * mp.sqrt(coordinates))
        assert concentrate(event, CLIENTS) == pytest.approx(float(epsilon**2 / 2), rel=1e-8)


def test_the_price_of_the_shares_is_rounded_up():
    """T of the proof with 30 digits, for 4 shares of scale 1.5 and 1,000 coordinates."""
    event = DiscreteGaussianShares(2.0, 4, 3.0, 1000)
    normal, nothing = dominate_shares(event, CLIENTS)
    with mp.workdps(30):
        rounding = (46 + mp.log(4000)) / (2 * mp.pi**2)
        variances = [mpf(4) * k / (k + 1) for k in (1, 2, 3)] + [rounding]
        waves = [2 * mp.nsum(lambda m, u=u: mp.exp(-2 * mp.pi**2 * u * m**2), [1, mp.inf]) for u in variances]
        total = 1000 * sum(mp.log((1 + wave) / (1 - wave)) for wave in waves)
        leak, shift = -mp.expm1(-total), 3 / mp.sqrt(16 - rounding)
        assert float(leak) <= nothing.infinity <= float(leak) * (1 + 1e-6)
        assert float(shift) <= normal.mu <= float(shift) * (1 + 1e-6)
    assert nothing.infinity > 0


def test_one_share_is_a_discrete_gaussian():
    one = account(DiscreteGaussianShares(40.0, 1, 30.0, 1), adjacency=CLIENTS).epsilon(delta=1e-6)
    alone = account(DiscreteGaussian(40.0, 30), adjacency=CLIENTS).epsilon(delta=1e-6)
    assert alone < one < 1.005 * alone


def test_an_exchanged_client_costs_twice_the_contribution():
    event, twice = DiscreteGaussianShares(9.0, 10, 7.0, 50), DiscreteGaussianShares(9.0, 10, 14.0, 50)
    exchanged = account(event, adjacency=ReplaceOne(Unit.CLIENT)).epsilon(delta=1e-6)
    assert exchanged == account(twice, adjacency=CLIENTS).epsilon(delta=1e-6)


def test_more_shares_cost_less():
    found = [
        account(Repeat(DiscreteGaussianShares(5.0, shares, 8.0, 100), 10), adjacency=CLIENTS).epsilon(
            delta=1e-6
        )
        for shares in (5, 6, 50)
    ]
    assert found == sorted(found, reverse=True)


def test_what_no_theorem_covers_is_refused():
    event = DiscreteGaussianShares(3.0, 5, 4.0, 10)
    with pytest.raises(NotProved, match="no guarantee under add-remove adjacency"):
        account(event, adjacency=AddRemove(Unit.CLIENT))
    with pytest.raises(NotProved, match="Take a finer grid"):
        account(DiscreteGaussianShares(0.6, 50, 1.0, 100), adjacency=CLIENTS, accountant=PrivacyLoss())
    with pytest.raises(NotProved, match="scale of at least ½"):
        concentrate(DiscreteGaussianShares(0.4, 50, 1.0, 100), CLIENTS)
    for wrong in ((0.0, 5, 4.0, 10), (3.0, 0, 4.0, 10), (3.0, 5, -1.0, 10), (3.0, 5, 4.0, 0)):
        with pytest.raises(InvalidArgument):
            DiscreteGaussianShares(*wrong)


# Mutations: each must be found by ``assert_holds``.


@pytest.mark.parametrize(
    ("mutation", "setting"),
    [
        ("half of the noise", (3.0, 6, 4)),
        ("a contribution of half its size", (3.0, 6, 4)),
        ("no price of the shares", (0.75, 2, 2)),
    ],
)
def test_mutations_are_found(mutation, setting, monkeypatch):
    real = noise_shares.dominate_shares

    def wrong(event, adjacency):
        match mutation:
            case "half of the noise":
                event = DiscreteGaussianShares(
                    event.scale, 2 * event.shares, event.contribution, event.coordinates
                )
            case "a contribution of half its size":
                event = DiscreteGaussianShares(
                    event.scale, event.shares, event.contribution / 2, event.coordinates
                )
            case "no price of the shares":
                return account_as_one(event)
        return real(event, adjacency)

    def account_as_one(event):
        """Real Gaussian noise of the same variance, at a scale at which the shares are far from it."""
        from privet.accounting.pairs import FinitePair, GaussianPair

        return GaussianPair(event.contribution / (math.sqrt(event.shares) * event.scale)), FinitePair(
            (0.0,), (1.0,)
        )

    monkeypatch.setattr("privet.accounting.privacy_loss.dominate_shares", wrong)
    with pytest.raises(AssertionError):
        assert_holds(*setting)
