import math
from itertools import pairwise

import numpy as np
import pytest

from privet.accounting import Basic, GaussianDP, Renyi, account
from privet.adjacency import AddRemove
from privet.bounds import EpsilonBound, Side
from privet.caveats import Caveat
from privet.errors import InvalidArgument, NotProved
from privet.events import Gaussian, Laplace, Opaque
from privet.guarantees import GroupCurve, PairCurve, delta_warning


def gaussian(sigma=1.0):
    return account(Gaussian(sigma), adjacency=AddRemove())


def opaque(epsilon, delta=0.0):
    return account(Opaque(epsilon=epsilon, delta=delta), adjacency=AddRemove(), accountant=Basic())


@pytest.mark.parametrize("epsilon", [0.0, 0.3, 2.0, 50.0])
@pytest.mark.parametrize("delta", [0.0, 1e-6, 0.2])
def test_a_pair_curve_passes_through_its_pair(epsilon, delta):
    curve = PairCurve(epsilon, delta)
    assert curve.delta(epsilon).upper == delta
    assert curve.delta(epsilon + 1).upper == delta
    assert curve.epsilon(delta).upper == pytest.approx(epsilon, abs=1e-15)


@pytest.mark.parametrize("epsilon", [0.3, 2.0])
@pytest.mark.parametrize("delta", [0.0, 1e-3, 0.2])
def test_a_pair_curve_undoes_itself(epsilon, delta):
    curve = PairCurve(epsilon, delta)
    for share in (0.0, 0.25, 0.9):
        at = curve.delta(share * epsilon).upper
        assert curve.epsilon(at).upper == pytest.approx(share * epsilon, abs=1e-12)


def test_a_pair_says_nothing_below_its_delta():
    with pytest.raises(NotProved, match=r"at least the claimed .* Ask at the claimed δ"):
        PairCurve(1.0, 1e-5).epsilon(1e-6)


def test_a_group_of_one_is_the_same_guarantee():
    claim = gaussian()
    assert claim.group(size=1) is claim


@pytest.mark.parametrize("size", [2, 3, 10])
def test_the_group_bound_is_never_below_the_exact_group_profile(size):
    """The exact profile of a group of k under Gaussian noise is that of k times the sensitivity."""
    for sigma in (0.2, 1.0, 30.0):
        exact, bound = gaussian(sigma / size), gaussian(sigma).group(size=size)
        for epsilon in (0.1, 1.0, 10.0, 100.0, 600.0):
            assert bound.delta(epsilon=epsilon) >= exact.delta_bounds(epsilon=epsilon).lower
        for delta in (1e-3, 1e-9):
            assert bound.epsilon(delta=delta) >= exact.epsilon_bounds(delta=delta).lower


def test_the_group_bound_holds_beyond_the_range_of_exp():
    exact, bound = gaussian(1 / 54.0), gaussian(1 / 5.4).group(size=10)
    for epsilon in (800.0, 2000.0, 5000.0, 20_000.0):
        assert bound.delta(epsilon=epsilon) >= exact.delta_bounds(epsilon=epsilon).lower


def test_a_group_profile_falls():
    curve = GroupCurve(PairCurve(0.5, 1e-6), 4)
    values = [curve.delta(epsilon).upper for epsilon in np.linspace(0, 8, 33)]
    assert all(later <= earlier * (1 + 1e-12) for earlier, later in pairwise(values))


@pytest.mark.parametrize("size", [2, 4, 16])
@pytest.mark.parametrize("fpr", [1e-6, 1e-3, 0.1])
def test_the_ceiling_of_a_group_is_that_of_k_steps(size, fpr):
    """Pure DP: x → min(exp(ε)·x, 1 − exp(−ε)(1 − x)), k times. Gaussian noise: k times the sensitivity."""
    pure, exact = opaque(0.25, 0.0).group(size=size).tpr(fpr=fpr), fpr
    for _ in range(size):
        exact = min(math.exp(0.25) * exact, 1 - math.exp(-0.25) * (1 - exact))
    assert exact * (1 - 1e-12) <= pure <= exact * (1 + 1e-6)
    noisy, truth = gaussian(40.0).group(size=size).tpr(fpr=fpr), gaussian(40.0 / size).tpr_bounds(fpr=fpr)
    assert truth.lower <= noisy <= truth.upper * (1 + 1e-4)


def test_a_group_of_a_pair_is_vadhans_bound():
    """Vadhan 2017, Lemma 2.2: (ε, δ) gives (kε, δ (e^{kε} − 1)/(e^ε − 1))."""
    group = opaque(0.5, 1e-6).group(size=3)
    assert group.delta(epsilon=1.5) == pytest.approx(1e-6 * math.expm1(1.5) / math.expm1(0.5), rel=1e-12)


@pytest.mark.parametrize("size", [0, -1, 1.0, True, None])
def test_group_sizes_are_counts(size):
    with pytest.raises(InvalidArgument, match=r"'size'"):
        gaussian().group(size=size)


@pytest.mark.parametrize("mu", [0.3, 1.0, 4.0])
@pytest.mark.parametrize("fpr", [1e-10, 1e-5, 1e-3, 0.1, 0.5, 0.9, 1 - 1e-6])
def test_the_gaussian_trade_off_curve(mu, fpr):
    """Dong, Roth & Su 2022, equation (6): TPR = Φ(Φ⁻¹(FPR) + μ)."""
    from scipy.special import ndtr, ndtri

    found = gaussian(1 / mu).tpr_bounds(fpr=fpr)
    exact = float(ndtr(ndtri(fpr) + mu))
    assert found.lower <= exact * (1 + 1e-9)
    assert found.upper >= exact * (1 - 1e-9)
    assert found.upper <= exact * (1 + 1e-5)


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 4.0])
@pytest.mark.parametrize("delta", [0.0, 1e-5, 0.05])
@pytest.mark.parametrize("fpr", [1e-8, 1e-3, 0.05, 0.3, 0.7, 0.99])
def test_the_trade_off_curve_of_a_pair(epsilon, delta, fpr):
    """Kairouz, Oh & Viswanath 2015, Theorem 2.1: two straight lines, and a corner between them."""
    found = opaque(epsilon, delta).tpr_bounds(fpr=fpr)
    exact = min(delta + math.exp(epsilon) * fpr, 1 - math.exp(-epsilon) * (1 - delta - fpr), 1.0)
    assert found.lower <= exact * (1 + 1e-12)
    assert found.upper >= exact * (1 - 1e-12)
    assert found.upper <= exact * (1 + 1e-4)


def test_trade_off_points():
    claim = gaussian()
    assert claim.tpr(fpr=1.0) == 1.0
    with pytest.raises(NotProved, match=r"'fpr' must be above 0.*Ask"):
        claim.tpr(fpr=0)
    missed = claim.tradeoff(fpr=np.array([0.1, 0.5]))
    assert missed[0] > missed[1] > 0


@pytest.mark.parametrize("fpr", [-0.1, 1.1, math.nan, True, "0.1"])
def test_fpr_is_a_rate(fpr):
    with pytest.raises(InvalidArgument, match=r"'fpr'"):
        gaussian().tpr(fpr=fpr)


@pytest.mark.parametrize("delta", [-1e-9, 1.0, 2.0, math.nan, math.inf, True, None])
def test_delta_is_a_probability(delta):
    with pytest.raises(InvalidArgument, match=r"'delta'"):
        gaussian().epsilon(delta=delta)


@pytest.mark.parametrize("epsilon", [-1e-9, math.nan, math.inf, True, None])
def test_epsilon_is_not_negative(epsilon):
    with pytest.raises(InvalidArgument, match=r"'epsilon'"):
        gaussian().delta(epsilon=epsilon)


@pytest.mark.parametrize("prior", [0.0, 1.0, -0.1, math.nan])
def test_priors_are_probabilities_inside(prior):
    with pytest.raises(InvalidArgument, match=r"'prior'"):
        gaussian().posterior(prior=prior, delta=1e-5)


def test_posteriors_stay_probabilities_at_any_epsilon():
    belief = opaque(5000.0).posterior(prior=1e-6, delta=0.0)
    assert 0 <= belief.lower <= 1e-6 <= belief.upper <= 1


def test_answers_are_plain_floats():
    """A numpy scalar in a report or a document is a surprise."""
    claim = gaussian()
    answers = (
        *claim.epsilon_bounds(delta=1e-5),
        *claim.delta_bounds(epsilon=1.0),
        *claim.tpr_bounds(fpr=0.1),
    )
    assert {type(value) for value in answers} == {float}


def test_the_bound_that_an_audit_tests():
    claim = gaussian()
    assert claim.bound(delta=1e-5) == EpsilonBound(
        value=claim.epsilon(delta=1e-5), delta=1e-5, side=Side.UPPER
    )


def test_moments_have_no_histogram():
    with pytest.raises(NotProved, match=r"does not know its law"):
        account(Gaussian(1.0), adjacency=AddRemove(), accountant=Renyi()).privacy_loss()


def test_a_histogram_holds_all_of_the_probability():
    for claim in (gaussian(), account(Laplace(1.0), adjacency=AddRemove())):
        seen = claim.privacy_loss(bins=50)
        assert seen.edges.size == 51
        assert (seen.probability >= 0).all()
        assert seen.probability.sum() + seen.infinity == pytest.approx(1.0, abs=1e-6)


def test_a_delta_that_is_too_large_is_warned_of():
    """SPEC C8: warn when δ ≥ 1/(10 n)."""
    assert delta_warning(1e-5, 10_000) == {Caveat.DELTA_TOO_LARGE}
    assert delta_warning(0.99e-5, 10_000) == frozenset()


def test_gaussian_dp_has_an_upper_and_a_lower_bound():
    bounds = account(Gaussian(1.0), adjacency=AddRemove(), accountant=GaussianDP()).epsilon_bounds(delta=1e-6)
    assert 0 < bounds.lower <= bounds.upper < bounds.lower * (1 + 1e-9)
