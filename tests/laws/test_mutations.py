"""Mistakes that people make, put in on purpose: the public law checks must fail for each.

An accountant can be wrong in ways that no relation between its own answers shows; ``check_accountant`` holds it
against profiles that are written down a second time.
"""

import pytest

from privet import events
from privet.accounting import (
    Basic,
    Concentrated,
    GaussianDP,
    Optimal,
    PrivacyLoss,
    Pure,
    Renyi,
    atoms,
    choice,
    privacy_loss,
    renyi,
    theorems,
)
from privet.accounting.composed import delta_bounds, epsilon_bounds
from privet.accounting.cumulant import Composition
from privet.accounting.renyi import RenyiCurve
from privet.adjacency import AddRemove, ReplaceOne
from privet.bounds import Interval
from privet.errors import ContradictoryBounds
from privet.events import Gaussian, Laplace, RandomizedResponse
from privet.testing import ACCOUNTANTS, LawBroken, check_accountant, check_event, check_risks


@pytest.mark.parametrize("accountant", ACCOUNTANTS, ids=lambda a: a.name)
def test_nothing_is_wrong_yet(accountant):
    check_accountant(accountant)


def assert_caught(*accountants):
    for accountant in accountants:
        with pytest.raises((LawBroken, ContradictoryBounds)):
            check_accountant(accountant)


def test_half_the_noise_too_little(monkeypatch):
    """The event says σ, the accountant believes 2σ: the mechanism runs with half the noise that is accounted."""
    honest = atoms.leaf

    def believing(event, adjacency):
        match event:
            case Gaussian(noise):
                return honest(Gaussian(2 * noise), adjacency)
            case Laplace(noise):
                return honest(Laplace(2 * noise), adjacency)
        return honest(event, adjacency)

    for module in (privacy_loss, renyi, theorems):
        monkeypatch.setattr(module, "leaf", believing)
    assert_caught(PrivacyLoss(), Renyi(), Concentrated(), GaussianDP(), Pure(), Basic(), Optimal())


def test_a_dropped_factor_two_of_a_replacement(monkeypatch):
    monkeypatch.setattr(ReplaceOne, "contribution_distance", 1)
    assert_caught(PrivacyLoss(), Renyi(), Concentrated(), GaussianDP(), Pure(), Basic(), Optimal())


@pytest.mark.parametrize("accountant", ACCOUNTANTS, ids=lambda a: a.name)
def test_a_dropped_count(monkeypatch, accountant):
    monkeypatch.setattr(type(accountant), "power", lambda self, cost, times: cost)
    assert_caught(accountant)


def test_a_dropped_count_for_randomised_response_only(monkeypatch):
    """What dp-accounting's PLD accountant does."""
    honest = privacy_loss.PrivacyLoss.power

    def forgetful(self, cost, times):
        atomic = all(hasattr(pair, "masses") for pair in cost.upper)
        return cost if atomic else honest(self, cost, times)

    monkeypatch.setattr(privacy_loss.PrivacyLoss, "power", forgetful)
    assert_caught(PrivacyLoss())


def test_a_dropped_count_for_the_exponential_mechanism_only(monkeypatch):
    """What dp-accounting's RDP accountant does."""
    honest = Renyi.power
    monkeypatch.setattr(
        Renyi, "power", lambda self, cost, times: cost if not cost.lower else honest(self, cost, times)
    )
    with pytest.raises(LawBroken):
        check_event(events.ExponentialMechanism(epsilon=0.5), AddRemove(), accountants=[Renyi()])


@pytest.mark.parametrize("kept", [lambda way: way, lambda way: way.swap()], ids=["no add", "no remove"])
def test_one_order_of_neighbours_forgotten(monkeypatch, kept):
    monkeypatch.setattr(privacy_loss, "_ways", lambda composition: [kept(composition)])
    assert_caught(PrivacyLoss())


@pytest.mark.parametrize("kept", [lambda way: way, lambda way: way.swap()], ids=["no add", "no remove"])
def test_one_order_of_neighbours_forgotten_in_moments(monkeypatch, kept):
    monkeypatch.setattr(Renyi, "curve", lambda self, cost: RenyiCurve((kept(Composition.of(cost.upper)),)))
    assert_caught(Renyi())


def test_amplification_forgotten(monkeypatch):
    monkeypatch.setattr(privacy_loss, "poisson", lambda inner, rate, adjacency: inner)
    assert_caught(PrivacyLoss())


def test_amplification_by_the_square_of_the_rate(monkeypatch):
    honest = privacy_loss.poisson
    monkeypatch.setattr(
        privacy_loss, "poisson", lambda inner, rate, adjacency: honest(inner, rate**2, adjacency)
    )
    assert_caught(PrivacyLoss(), Renyi())


def test_claims_amplified_too_much(monkeypatch):
    honest = theorems.amplify
    monkeypatch.setattr(theorems, "amplify", lambda claim, rate: honest(claim, rate**2))
    assert_caught(Pure(), Basic(), Optimal())


def test_a_fixed_size_sample_treated_as_a_poisson_sample(monkeypatch):
    """The sampled pair of one contribution instead of that of an exchange."""
    honest = privacy_loss.fixed_size

    def careless(inner, replaced, rate, adjacency):
        single = PrivacyLoss()._one(Gaussian(1.5), AddRemove())
        return honest(single, single, rate, adjacency)

    monkeypatch.setattr(privacy_loss, "fixed_size", careless)
    assert_caught(PrivacyLoss(), Renyi())


def test_lower_and_upper_swapped(monkeypatch):
    def swap(function):
        def found(composition, at):
            lower, upper = function(composition, at)
            return Interval(upper * (1 + 1e-6), lower * (1 - 1e-6))

        return found

    monkeypatch.setattr(privacy_loss, "delta_bounds", swap(delta_bounds))
    monkeypatch.setattr(privacy_loss, "epsilon_bounds", swap(epsilon_bounds))
    assert_caught(PrivacyLoss(), Optimal())


def test_a_lower_bound_reported_as_the_upper(monkeypatch):
    """An ε that is a part in a million too small is found."""
    monkeypatch.setattr(
        privacy_loss,
        "epsilon_bounds",
        lambda way, delta: Interval(0.0, epsilon_bounds(way, delta).upper * (1 - 1e-6)),
    )
    assert_caught(PrivacyLoss())


def test_the_smaller_of_parallel_parts(monkeypatch):
    monkeypatch.setattr(Concentrated, "worst", lambda self, first, second: min(first, second))
    parts = events.Parallel((Gaussian(1.0), Gaussian(5.0)))
    with pytest.raises(LawBroken):
        check_event(parts, AddRemove(), accountants=[GaussianDP(), Concentrated()])


def test_documents_that_round(monkeypatch):
    """A reader that keeps six digits changes ε."""
    from privet.testing import ledgers

    honest = ledgers.event_from_json
    monkeypatch.setattr(ledgers, "event_from_json", lambda text: _rounded(honest(text)))
    with pytest.raises(LawBroken):
        check_event(Gaussian(1 / 3), AddRemove())


def _rounded(event):
    return Gaussian(round(event.noise_multiplier, 6))


def test_attack_ceilings_below_guessing(monkeypatch):
    claim = choice.account(RandomizedResponse(0.75), adjacency=ReplaceOne())
    monkeypatch.setattr(type(claim), "tpr_bounds", lambda self, *, fpr: Interval(0.5 * fpr, 0.5 * fpr))
    with pytest.raises(LawBroken):
        check_risks(claim)
