"""Every event × adjacency × sampling against tiny databases that are enumerated: upper and lower bounds.

No theorem is applied outside of its statement: an upper bound is never below what a mechanism of the event's kind tells,
and a lower bound never above what the worst of them tells.
"""

import sys

import pytest
from tests.oracle.enumeration import divergence

from privet.accounting import account, atoms, privacy_loss
from privet.accounting.pairs import randomized_response
from privet.adjacency import AddRemove, ReplaceOne, ZeroOut
from privet.errors import NotProved, OutOfReach
from privet.events import (
    BandedNoise,
    BestOfNegativeBinomial,
    BestOfPoisson,
    Compose,
    DiscreteGaussian,
    DiscreteGaussianShares,
    DiscreteLaplace,
    ExponentialMechanism,
    FixedSize,
    Gaussian,
    Laplace,
    Opaque,
    Parallel,
    Poisson,
    RandomizedResponse,
    Repeat,
    ReportNoisyMax,
    SparseVector,
    TreeNoise,
)
from privet.testing import ACCOUNTANTS

_LEAVES = [
    Gaussian(1.0),
    Laplace(1.5),
    DiscreteGaussian(1.5),
    DiscreteLaplace(1.2, 2),
    DiscreteGaussianShares(2.5, 3, 3.0, 1),
    TreeNoise(3.0, 4, 2, 2),
    BandedNoise(2.0, (1.0, 0.5), 4, 2, 2),
    RandomizedResponse(0.9),
    RandomizedResponse(0.7, 3),
    ExponentialMechanism(epsilon=1.2),
    ReportNoisyMax(epsilon=1.2),
    SparseVector(epsilon=1.2),
    Opaque(epsilon=1.0),
    Opaque(epsilon=0.5, delta=0.1),
]
_AROUND = {
    "alone": lambda e: e,
    "repeat": lambda e: Repeat(e, 2),
    "poisson": lambda e: Poisson(0.3, e),
    "fixed-size": lambda e: FixedSize(1, 3, e),
    "two of three": lambda e: FixedSize(2, 3, e),
    "poisson of poisson": lambda e: Poisson(0.5, Poisson(0.6, e)),
    "fixed-size of fixed-size": lambda e: FixedSize(2, 3, FixedSize(1, 2, e)),
    "poisson of repeat": lambda e: Poisson(0.3, Repeat(e, 2)),
    "fixed-size of repeat": lambda e: FixedSize(1, 2, Repeat(e, 2)),
    "repeat of poisson": lambda e: Repeat(Poisson(0.3, e), 2),
    "with a sum": lambda e: Poisson(0.3, Compose((e, DiscreteLaplace(1.0)))),
    "with a claim": lambda e: FixedSize(1, 2, Compose((e, Opaque(epsilon=0.3)))),
    "parallel": lambda e: Parallel((e, e)),
    "parallel with another": lambda e: Parallel((e, DiscreteLaplace(2.0))),
    "parallel compositions": lambda e: Parallel((Repeat(e, 2), DiscreteLaplace(2.0))),
    "poisson of parallel": lambda e: Poisson(0.3, Parallel((e, DiscreteLaplace(2.0)))),
}
_SINGLE = ("alone", "poisson", "fixed-size", "two of three", "poisson of poisson", "fixed-size of fixed-size")
_QUICK = _SINGLE[:4]
_ADJACENCIES = (AddRemove(), ReplaceOne(), ZeroOut())
_EPSILONS = (0.0, 0.25, 1.0, 2.0)
_FINE, _COARSE = (64, 2e-3), (10, 2e-2)  # bins of continuous noise, and what they may hide, relative


def check(event, adjacency, accountants, resolution):
    """Whether any accountant took the event; both of its bounds were held against the enumeration."""
    found = {}
    for accountant in accountants:
        try:
            claim = account(event, adjacency=adjacency, accountant=accountant)
            found[accountant] = [claim.delta_bounds(epsilon=epsilon) for epsilon in _EPSILONS]
        except (NotProved, OutOfReach):
            continue
    if not found:
        return False
    bins, hidden = resolution
    worst = divergence(event, adjacency.relation, _EPSILONS, bins)
    for accountant, bounds in found.items():
        for epsilon, bound, told in zip(_EPSILONS, bounds, worst, strict=True):
            what = f"{accountant.name if accountant else 'the choice'} at ε = {epsilon}: {bound} for {told}"
            assert bound.upper >= told * (1 - 1e-9) - 1e-13, f"{what}: the upper bound is too small"
            assert bound.lower <= told * (1 + hidden) + 1e-3 * hidden, f"{what}: the lower bound is too large"
    return True


@pytest.mark.parametrize("adjacency", _ADJACENCIES, ids=str)
@pytest.mark.parametrize("around", _QUICK)
@pytest.mark.parametrize("leaf", _LEAVES, ids=lambda event: type(event).__name__)
def test_the_chosen_bounds_hold(leaf, around, adjacency):
    check(_AROUND[around](leaf), adjacency, (None,), _FINE)


@pytest.mark.slow
@pytest.mark.parametrize("adjacency", _ADJACENCIES, ids=str)
@pytest.mark.parametrize("around", _AROUND)
@pytest.mark.parametrize("leaf", _LEAVES, ids=lambda event: type(event).__name__)
def test_every_accountant_holds(leaf, around, adjacency):
    resolution = _FINE if around in _SINGLE else _COARSE
    check(_AROUND[around](leaf), adjacency, (None, *ACCOUNTANTS), resolution)


_SEARCHES = [
    BestOfPoisson((RandomizedResponse(0.9),), 3.0),
    BestOfPoisson((DiscreteLaplace(1.2, 2),), 6.0),
    BestOfNegativeBinomial((Opaque(epsilon=0.5, delta=0.1),), 1.0, 0.3),
    BestOfNegativeBinomial((RandomizedResponse(0.7, 3), DiscreteLaplace(3.0)), 3.0, 0.2),
]


@pytest.mark.slow
@pytest.mark.parametrize("adjacency", _ADJACENCIES, ids=str)
@pytest.mark.parametrize("around", ["alone", "repeat", "poisson", "fixed-size", "parallel with another"])
@pytest.mark.parametrize("search", _SEARCHES, ids=repr)
def test_the_bounds_of_searches_hold(search, around, adjacency):
    """The scores of the oracle rise or fall with the output. Of the lower bounds, which are those of the worst score,
    only those that such a score attains are checked.
    """
    attained = search in _SEARCHES[:2] and around in ("alone", "repeat")
    check(_AROUND[around](search), adjacency, (None,), _COARSE if attained else (_COARSE[0], 1e9))


# --- mistakes that were made, or could be: the enumeration must find each --------------------------------------


def caught(event, adjacency, says):
    with pytest.raises(AssertionError, match=says):
        check(event, adjacency, (None,), _FINE)


@pytest.mark.parametrize(
    "leaf", [RandomizedResponse(0.9), Opaque(epsilon=1.0), ReportNoisyMax(epsilon=1.2)], ids=repr
)
def test_a_zeroed_unit_that_is_taken_for_an_absent_one_is_found(monkeypatch, leaf):
    monkeypatch.setattr(privacy_loss, "zeroed_is_absent", lambda event: True)
    monkeypatch.setattr(sys.modules["privet.accounting.fold"], "zeroed_is_absent", lambda event: True)
    caught(Poisson(0.3, leaf), ZeroOut(), "upper bound is too small")
    if isinstance(leaf, Opaque):
        caught(Parallel((leaf, leaf)), ZeroOut(), "upper bound is too small")


def test_claims_that_are_not_restated_for_an_exchange_are_found(monkeypatch):
    monkeypatch.setattr(privacy_loss, "restate_for_exchange", lambda event: event)
    caught(FixedSize(1, 3, Opaque(epsilon=1.0)), AddRemove(), "upper bound is too small")


def test_a_fixed_size_sample_taken_for_a_poisson_sample_is_found(monkeypatch):
    def mistaken(self, inner, size, population, adjacency):
        return atoms.poisson(self._one(inner, adjacency), size / population, adjacency)

    monkeypatch.setattr(privacy_loss.PrivacyLoss, "_fixed_size", mistaken)
    caught(FixedSize(1, 3, DiscreteLaplace(1.2, 2)), AddRemove(), "upper bound is too small")


def test_a_choice_that_costs_nothing_is_found(monkeypatch):
    monkeypatch.setattr(privacy_loss, "best_of", lambda run, law: run)
    caught(_SEARCHES[1], AddRemove(), "bound is too")


def test_one_order_of_neighbours_only_is_found(monkeypatch):
    monkeypatch.setattr(privacy_loss, "_ways", lambda composition: [composition])
    caught(RandomizedResponse(0.9), ZeroOut(), "upper bound is too small")


def test_a_bound_of_a_class_that_is_given_as_attained_is_found(monkeypatch):
    def attained(epsilon, positives=1):
        return randomized_response(epsilon)

    monkeypatch.setattr(atoms, "_two_noisy_scores", attained)
    monkeypatch.setattr(atoms, "_one_comparison", attained)
    monkeypatch.setattr(atoms, "_two_candidates", attained)
    caught(ReportNoisyMax(epsilon=1.2), AddRemove(), "lower bound is too large")
    caught(SparseVector(epsilon=1.2), AddRemove(), "lower bound is too large")


def test_a_lower_bound_of_exchanged_claims_is_found(monkeypatch):
    honest = privacy_loss.PrivacyLoss._one
    twice = privacy_loss.restate_for_exchange
    monkeypatch.setattr(
        privacy_loss.PrivacyLoss,
        "_one",
        lambda self, inner, adjacency: honest(self, twice(inner), adjacency),
    )
    caught(FixedSize(1, 3, Opaque(epsilon=1.0)), AddRemove(), "lower bound is too large")
