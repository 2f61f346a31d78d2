"""What a reader may come to believe: the interval holds with the stated probability, also after post-processing.

The numbers are those of the Gaussian mechanism in closed form, worked out here with scipy's normal law alone.
"""

import math

import pytest
from scipy.optimize import brentq
from scipy.stats import norm

from privet.accounting import PosteriorTarget, account, calibrate
from privet.adjacency import AddRemove
from privet.errors import NotProved
from privet.events import Gaussian, Opaque
from privet.guarantees import Guarantee, PairCurve

_DELTA = 1e-5


def _gaussian(sigma):
    return account(Gaussian(sigma), adjacency=AddRemove())


def _log_odds(probability):
    return math.log(probability) - math.log1p(-probability)


def _joined_loss(mu, delta):
    """ln P(S)/Q(S) of the upper set S of N(μ, 1) against N(0, 1) with P(S) (1 + Q(S)/P(S)) = δ."""

    def outside(share):
        return share + norm.sf(norm.isf(share) + mu) - delta

    share = brentq(outside, 0.1 * delta, delta, xtol=1e-30, rtol=1e-14)
    return math.log(share) - norm.logsf(norm.isf(share) + mu)


@pytest.mark.parametrize(("sigma", "times"), [(1.0, 5.28), (10.0, 39.4), (50.0, 174.0)])
def test_the_loss_exceeds_epsilon_far_more_often_than_delta(sigma, times):
    """Why ε(δ) is not the answer: L is N(μ²/2, μ²) under "in", μ = 1/σ."""
    mu = 1 / sigma
    beyond = norm.sf((_gaussian(sigma).epsilon(delta=_DELTA) - 0.5 * mu * mu) / mu)
    assert beyond / _DELTA == pytest.approx(times, rel=2e-3)


@pytest.mark.parametrize(("sigma", "bound"), [(1.0, 4.961401), (10.0, 0.463002), (50.0, 0.0924994)])
def test_gaussian_posteriors(sigma, bound):
    claim = _gaussian(sigma)
    assert _joined_loss(1 / sigma, _DELTA) == pytest.approx(bound, rel=1e-5)
    for prior in (0.01, 0.4, 0.5):
        belief = claim.posterior(prior=prior, delta=_DELTA)
        assert _log_odds(belief.upper) - _log_odds(prior) == pytest.approx(bound, rel=1e-5)
        assert _log_odds(prior) - _log_odds(belief.lower) == pytest.approx(bound, rel=1e-5)
    assert claim.loss_bound(delta=_DELTA) >= _joined_loss(1 / sigma, _DELTA) * (1 - 1e-13)


@pytest.mark.parametrize("sigma", [1.0, 10.0, 50.0])
def test_who_sees_the_output_itself_leaves_the_interval_with_at_most_delta(sigma):
    """The failing case of ε(δ): the probability that |L| is beyond what the posterior allows, by the law of L."""
    mu, prior = 1 / sigma, 0.3
    gain = _log_odds(_gaussian(sigma).posterior(prior=prior, delta=_DELTA).upper) - _log_odds(prior)
    above, below = norm.sf((gain - 0.5 * mu * mu) / mu), norm.cdf((-gain - 0.5 * mu * mu) / mu)
    assert above + below <= _DELTA


def test_a_claim_alone_says_nothing_at_its_own_delta():
    """Outputs of probability δ may tell everything, and joined with any other output they tell a little less."""
    claim = Guarantee(PairCurve(1.0, 1e-6), AddRemove(), "as claimed")
    with pytest.raises(NotProved, match="larger δ"):
        claim.posterior(prior=0.5, delta=1e-6)
    kept = claim.kept_loss(delta=1e-6)
    assert kept.failure == 2e-6
    # δ (1 + exp(−ε′)) = 2 δ (1 − exp(ε − ε′))
    assert kept.loss == pytest.approx(math.log(1 + 2 * math.e), rel=1e-6)
    # δ₀ (1 + exp(−ε′)) = δ (1 − exp(ε − ε′)) at ten times the δ₀ of the claim
    assert claim.loss_bound(delta=1e-5) == pytest.approx(math.log((1 + 10 * math.e) / 9), rel=1e-6)


def test_a_pure_guarantee_holds_for_every_output_at_any_delta():
    claim = account(Opaque(epsilon=1.0), adjacency=AddRemove())
    assert claim.loss_bound(delta=0.0) == claim.loss_bound(delta=1e-3) == 1.0


def test_calibration_by_a_posterior_reaches_it():
    found = calibrate(
        Gaussian, PosteriorTarget(prior=0.5, posterior=0.6, delta=_DELTA), adjacency=AddRemove()
    )
    assert found.guarantee.posterior(prior=0.5, delta=_DELTA).upper <= 0.6
    assert _joined_loss(1 / found.value, _DELTA) == pytest.approx(math.log(1.5), rel=1e-5)
