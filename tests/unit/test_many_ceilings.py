"""Many ceilings of one claim: sound from both sides, the same in every order of asking, and cheap."""

import itertools
import math
import pickle

import numpy as np
import pytest

from privet.accounting import account, tabulated
from privet.accounting.composed import delta_bounds
from privet.accounting.cumulant import Composition
from privet.accounting.pairs import (
    DiscreteGaussianPair,
    DiscreteLaplacePair,
    LaplacePair,
    randomized_response,
)
from privet.accounting.tabulated import TabulatedProfile
from privet.adjacency import AddRemove
from privet.bounds import Interval
from privet.events import Compose, DiscreteGaussian, DiscreteLaplace, ExponentialMechanism, Gaussian, Repeat
from privet.guarantees import Curve, PairCurve

RATES = (1e-6, 0.02, 0.07866, 0.0865, 0.5, 1 - 1e-5)


def choices_and_counts(rounds, epsilon):
    """As multiplicative weights with the exponential mechanism: in each round a choice and noisy counts."""
    share = 0.475 * epsilon / rounds
    pair = (ExponentialMechanism(epsilon=share * (1 - 3e-6)), DiscreteLaplace(1 / share))
    return Compose((DiscreteLaplace(20 / epsilon), *pair * rounds))


# --- an independent oracle: every outcome written out -------------------------------------------------------


def outcomes(composition):
    """P's and Q's probability of each outcome; the two-valued looks of one kind by how many were positive."""
    laws = [
        [
            (math.comb(count, k) * up**k * down ** (count - k), (2 * k - count) * loss)
            for k in range(count + 1)
        ]
        for (_, loss), (down, up), count in (
            (*map(tuple, pair.law()), count) for pair, count in composition.parts
        )
    ]
    for terms in itertools.product(*laws):
        mass, loss = math.prod(term[0] for term in terms), math.fsum(term[1] for term in terms)
        yield mass, mass * math.exp(-loss)


def best_attack(pairs, fpr):
    """Neyman and Pearson's test at this false-positive rate."""
    found, left = [], fpr
    for up, down in sorted(pairs, key=lambda pair: -pair[0] / pair[1]):
        share = min(left / down, 1.0)
        found.append(share * up)
        left -= share * down
        if left <= 0:
            break
    return math.fsum(found)


@pytest.mark.parametrize(("rounds", "epsilon"), [(1, 4.0), (4, 1.0), (8, 0.1)])
def test_ceilings_of_choices_and_counts_against_all_outcomes(rounds, epsilon):
    """ContradictoryBounds was raised at some rates, and at others the upper end was above the best attack on
    the dominating pair by up to 7 %."""
    claim = account(choices_and_counts(rounds, epsilon), adjacency=AddRemove())
    curve = claim.curve.first
    above, below = list(outcomes(curve.upper)), list(outcomes(curve.lower))
    for fpr in RATES:
        found, best, reached = curve.ceiling(fpr).tpr, best_attack(above, fpr), best_attack(below, fpr)
        assert best <= found.upper * (1 + 1e-13)
        assert found.upper <= best * (1 + 1e-10)
        assert reached * (1 - 1e-5) <= found.lower <= reached * (1 + 1e-13)
        both = claim.tpr_bounds(fpr=fpr)
        assert both.upper <= found.upper
        assert both.lower <= reached * (1 + 1e-13)


def test_a_ceiling_of_multiplicative_weights_has_both_ends():
    """It was ContradictoryBounds: 0.6070061 was proved from below, and the search itself had reached 0.6070022."""
    parts = (ExponentialMechanism(epsilon=0.11874961853027344), DiscreteLaplace(8.421052631586607))
    event = Compose((DiscreteLaplace(20.00000000001819), *parts * 4))
    found = account(event, adjacency=AddRemove()).tpr_bounds(fpr=0.5)
    assert found.lower == pytest.approx(0.6070095, abs=1e-6)
    assert found.upper == pytest.approx(0.6326970, abs=1e-6)


# --- lower ends are not a profile ---------------------------------------------------------------------------


class Rough(Curve):
    """An exact profile, of which the lower ends are known up to an error that differs from ε to ε."""

    truth = PairCurve(1.0, 1e-3)

    def delta(self, epsilon):
        exact = self.truth.delta(epsilon).upper
        error = 5e-5 * (1 + math.sin(1e9 * epsilon))
        return Interval(exact * (1 - error), exact * 1.05)

    def attain(self, epsilon):
        return Interval(self.delta(epsilon).lower, self.truth.delta(epsilon).upper * (1 + 1e-9))

    def epsilon(self, delta):
        raise NotImplementedError


def test_lower_ends_with_errors_prove_no_more_than_the_profile():
    """They were taken for a convex profile: lines through two of them can be above it."""
    for fpr in np.linspace(0.005, 0.995, 34):
        found, exact = Rough().ceiling(float(fpr)).tpr, Rough.truth.ceiling(float(fpr)).tpr
        assert found.lower <= exact.upper
        assert exact.lower <= found.upper
        assert found.lower >= max(fpr, 0.98 * exact.lower)


# --- one law for many ε -------------------------------------------------------------------------------------


@pytest.fixture
def coarse(monkeypatch):
    """Grids that are made quickly; they count too."""
    made = []

    def count(composition, capped, saddle, size):
        made.append(size)
        return original(composition, capped, saddle, size)

    original = tabulated.laws_near
    monkeypatch.setattr(tabulated, "laws_near", count)
    monkeypatch.setattr(tabulated, "_SIZES", (1 << 11, 1 << 14))
    return made


def exact_delta(composition, epsilon):
    """Of a composition with few atoms, by all sums of losses."""
    losses, masses = np.zeros(1), np.ones(1)
    for pair, count in composition.parts:
        for _ in range(count):
            more, weights = pair.law()
            held = weights > 1e-40
            losses = np.add.outer(losses, more[held]).ravel()
            masses = np.multiply.outer(masses, weights[held]).ravel()
    above = losses > epsilon
    return math.fsum(masses[above] * -np.expm1(epsilon - losses[above]))


@pytest.mark.parametrize(
    "composition",
    [
        Composition(((DiscreteGaussianPair(4.0, 1), 2), (randomized_response(0.3), 2))),
        Composition(((DiscreteGaussianPair(2.5, 1), 1), (DiscreteLaplacePair(3.0, 2), 1))),
        Composition(((DiscreteGaussianPair(2.0, 1), 1), (randomized_response(0.3, 1e-3), 1))),
    ],
)
def test_one_law_on_a_grid_bounds_every_delta(composition, coarse):
    profile = TabulatedProfile(composition)
    for epsilon in (0.0, 1e-3, 0.2, 0.71, 1.2, 2.5):
        found = profile.delta(epsilon)
        exact = exact_delta(composition, epsilon) + composition.infinity
        assert found.lower <= exact * (1 + 1e-12)
        assert exact * (1 - 1e-12) <= found.upper
        assert found.relative_gap < 2e-2
    assert 0 < len(coarse) <= 2 * 6


def test_one_law_is_as_tight_as_a_law_for_each_epsilon():
    """From above, on the grids that are used; losses with a density and point masses."""
    composition = Composition(((LaplacePair(0.3), 2), (randomized_response(0.2), 1)))
    profile = TabulatedProfile(composition)
    own = delta_bounds(composition, 0.5)
    assert profile.delta(0.5).upper == pytest.approx(own.upper, rel=1e-6)


def test_many_ceilings_share_their_laws_and_do_not_depend_on_the_order(coarse):
    event = Compose((Repeat(DiscreteGaussian(4.0), 2), ExponentialMechanism(epsilon=0.3)))
    rates = [0.01, 0.03, 0.1, 0.11, 0.2, 0.3, 0.6]
    claim = account(event, adjacency=AddRemove())
    found = {rate: claim.tpr_bounds(fpr=rate) for rate in rates}
    cells = {key for profile in claim.curve.first._profiles.values() for key in profile._cells}
    assert len(coarse) <= 2 * len(cells) <= 12
    assert len(pickle.dumps(claim)) < 100_000  # a copy makes the laws again
    again = account(event, adjacency=AddRemove())
    assert {rate: again.tpr_bounds(fpr=rate) for rate in reversed(rates)} == found


def test_a_law_with_a_density_keeps_its_contour(coarse):
    claim = account(Compose((Gaussian(4.0), ExponentialMechanism(epsilon=0.3))), adjacency=AddRemove())
    found = claim.tpr_bounds(fpr=0.05)
    assert found.relative_gap < 0.2
    assert not coarse
