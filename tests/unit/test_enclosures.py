"""Lower and upper bounds of one number: they never exclude each other, and an accountant that finds it so says so."""

import itertools
import math

import pytest

from privet.accounting import account
from privet.accounting.collapsed import as_pair
from privet.accounting.composed import delta_bounds
from privet.accounting.cumulant import Composition
from privet.accounting.pairs import FinitePair, GaussianPair, LaplacePair, randomized_response
from privet.adjacency import AddRemove, ReplaceOne, ZeroOut
from privet.bounds import Interval, enclosure
from privet.ceilings import lowest_ceiling
from privet.errors import ContradictoryBounds, PrivetError
from privet.events import (
    Compose,
    DiscreteLaplace,
    FixedSize,
    Gaussian,
    Laplace,
    Opaque,
    Parallel,
    Poisson,
    RandomizedResponse,
    Repeat,
)
from privet.guarantees import GroupCurve, PairCurve


def test_bounds_that_exclude_each_other_are_an_error():
    assert enclosure(0.2, 0.3) == Interval(0.2, 0.3)
    assert enclosure(0.3 * (1 + 1e-9), 0.3) == Interval(0.3, 0.3)  # round-off
    with pytest.raises(ContradictoryBounds, match=r"bug in Privet: report") as found:
        enclosure(0.641, 0.615)
    assert isinstance(found.value, PrivetError)


def test_a_ceiling_does_not_hide_a_contradiction():
    """Two orders that are both above the profile that they are said to be the parts of."""
    low, high = PairCurve(0.1, 0.0), PairCurve(2.0, 0.0)
    with pytest.raises(ContradictoryBounds):
        lowest_ceiling(low.delta, 0.1, orders=lambda epsilon: (high.delta(epsilon), high.delta(epsilon)))


# --- the ceiling of asymmetric pairs ------------------------------------------------------------------------


def best_attack(p, q, fpr):
    """Neyman and Pearson's test at this false-positive rate."""
    found, left = 0.0, fpr
    for up, down in sorted(zip(p, q, strict=True), key=lambda pair: -pair[0] / pair[1]):
        share = min(left / down, 1.0)
        found, left = found + share * up, left - share * down
    return found


def products(law, times):
    return [math.prod(part) for part in itertools.product(law, repeat=times)]


@pytest.mark.parametrize(("truth", "categories"), [(0.6, 2), (0.75, 3), (0.9, 4), (0.99, 8)])
@pytest.mark.parametrize("times", [1, 2, 3])
def test_ceilings_of_answers_that_are_not_symmetric(truth, categories, times):
    """The lower bound was that of the larger of two profiles: 0.79 where the best attack has 0.646."""
    p = products([truth] + [(1 - truth) / (categories - 1)] * (categories - 1), times)
    q = products([1 / categories] * categories, times)
    claim = account(Repeat(RandomizedResponse(truth, categories), times), adjacency=ZeroOut())
    for fpr in (0.01, 0.1, 0.3, 0.5, 0.8):
        found = claim.tpr_bounds(fpr=fpr)
        best = max(best_attack(p, q, fpr), best_attack(q, p, fpr))
        assert found.lower <= best * (1 + 1e-9)
        assert best * (1 - 1e-9) <= found.upper


def test_the_ceiling_of_a_group_has_the_lower_bound_of_one():
    """Its upper bounds are not convex, so they prove nothing from below."""
    claim = account(RandomizedResponse(0.6), adjacency=ZeroOut())
    for fpr in (0.1, 0.3):
        group = GroupCurve(claim.curve, 2).ceiling(fpr).tpr
        assert group.lower == claim.tpr_bounds(fpr=fpr).lower < group.upper


def test_the_ceiling_of_a_sampled_gaussian_is_still_tight():
    found = account(Repeat(Poisson(0.1, Gaussian(1.0)), 10), adjacency=AddRemove()).tpr_bounds(fpr=1e-3)
    assert found.relative_gap < 1e-4


# --- a composition as one pair ------------------------------------------------------------------------------


def test_parallel_parts_that_are_compositions():
    """ε was 30.3, by round-off that counted as an infinite loss."""
    parts = Repeat(Gaussian(10.0), 100), Compose((Laplace(4.0), Laplace(4.0)))
    alone = [account(part, adjacency=AddRemove()).epsilon(delta=1e-6) for part in parts]
    both = account(Parallel(parts), adjacency=AddRemove()).epsilon_bounds(delta=1e-6)
    assert both.upper == pytest.approx(max(alone), rel=1e-5)
    assert both.lower <= max(alone)
    mixed = Compose((Gaussian(1.5), Laplace(3.0)))
    for first, second in itertools.permutations((mixed, Repeat(Laplace(3.0), 3))):
        found = account(Parallel((first, second)), adjacency=AddRemove()).epsilon(delta=1e-6)
        assert found == pytest.approx(account(mixed, adjacency=AddRemove()).epsilon(delta=1e-6), rel=1e-5)


def summed(pair, times):
    """The law of the summed loss, written out: P's masses by loss, and Q's."""
    losses, masses = pair.law()
    for terms in itertools.product(zip(losses, masses, strict=True), repeat=times):
        loss = sum(term[0] for term in terms)
        mass = math.prod(term[1] for term in terms)
        yield mass, mass * math.exp(-loss)


@pytest.mark.parametrize("pair", [randomized_response(0.7, 0.1), randomized_response(1.3)])
@pytest.mark.parametrize("times", [2, 3, 5])
def test_few_losses_are_added_up_exactly(pair, times):
    law = list(summed(pair, times))
    for above in (True, False):
        found = as_pair(Composition(((pair, times),)), above=above)
        assert isinstance(found, FinitePair)
        assert sum(found.masses) + found.lost == pytest.approx(1.0, abs=1e-12)
        for epsilon in (-2.0, -0.3, 0.0, 0.9, 3.0):
            exact = sum(max(p - math.exp(epsilon) * q, 0.0) for p, q in law)
            assert float(found.delta(epsilon)) == pytest.approx(exact, rel=1e-9, abs=1e-12)


@pytest.mark.parametrize(
    "composition",
    [
        Composition(((GaussianPair(0.7), 1), (LaplacePair(0.5), 2))),
        Composition(((LaplacePair(0.25), 6),)),
        Composition(((randomized_response(0.7, 1e-3), 1), (GaussianPair(0.3), 1))),
        Composition(((randomized_response(0.7, 1e-3).subsample(0.3), 2), (LaplacePair(0.3), 1))),
        Composition(((LaplacePair(8.0), 1), (LaplacePair(0.05), 4))),
    ],
)
def test_a_grid_has_the_composition_between_its_two_pairs(composition):
    """In both orders, and as far as the losses go: round-off must not become an infinite loss in either."""
    lower, upper = (as_pair(composition, above=above) for above in (False, True))
    for swap in (False, True):
        low, high = (pair.swap() if swap else pair for pair in (lower, upper))
        way = composition.swap() if swap else composition
        assert way.infinity <= high.infinity < way.infinity + 1e-12
        assert way.infinity * 0.999 <= low.infinity <= way.infinity
        for epsilon in (0.0, 0.1, 1.0, 2.5):
            truth = delta_bounds(way, epsilon)  # by engines that make no pair of it
            assert float(low.delta(epsilon)) + low.infinity <= truth.upper * (1 + 1e-9)
            assert float(high.delta(epsilon)) + high.infinity >= truth.lower * (1 - 1e-9)
            assert float(high.delta(epsilon)) == pytest.approx(float(low.delta(epsilon)), rel=1e-3, abs=1e-9)


@pytest.mark.parametrize("times", [2, 4])
def test_a_composition_inside_of_a_sample(times):
    """δ(0) was in [0.1184, 0.1220] where the exact value is 0.1074."""
    pair, rate = randomized_response(0.5, 1e-3), 0.2
    law = list(summed(pair, times))
    lost = 1 - (1 - 1e-3) ** times
    claim = account(Poisson(rate, Repeat(Opaque(epsilon=0.5, delta=1e-3), times)), adjacency=AddRemove())
    for epsilon in (0.0, 0.05, 0.3):
        y = math.exp(epsilon)
        removed = sum(max((1 - rate) * q + rate * p - y * q, 0.0) for p, q in law) + rate * lost
        removed += max(1 - rate - y, 0.0) * lost
        added = sum(max(q - y * ((1 - rate) * q + rate * p), 0.0) for p, q in law)
        added += max(1 - y * (1 - rate), 0.0) * lost
        found = claim.delta_bounds(epsilon=epsilon)
        assert found.lower <= max(removed, added) * (1 + 1e-9)
        assert found.upper == pytest.approx(max(removed, added), rel=1e-9)


def test_claims_in_a_fixed_size_sample_are_not_attained_twice():
    """0.3808 was the lower bound of δ(0); of two exchanged ε-DP outputs, both within ε of a third, none has more
    than ½ (1 − exp(−1)) = 0.3161."""
    found = account(FixedSize(1, 2, Opaque(epsilon=1.0)), adjacency=AddRemove()).delta_bounds(epsilon=0.0)
    assert found.lower <= 0.5 * (1 - math.exp(-1)) <= found.upper


# --- the histogram ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "event",
    [
        Repeat(Opaque(epsilon=1, delta=0.1), 4),
        Repeat(Opaque(epsilon=0.5, delta=0.4), 2),
        Repeat(Gaussian(4.0), 4),
        Repeat(DiscreteLaplace(2.0), 3),
    ],
)
def test_the_law_of_the_loss_adds_up_to_one(event):
    """With a δ it added up to 1.40: the finite losses alone were given a mass of 1."""
    found = account(event, adjacency=ReplaceOne()).privacy_loss()
    assert found.probability.sum() + found.infinity == pytest.approx(1.0, abs=1e-6)
