"""Table C of the specification, check by check, and the reference table of issue 2."""

import math

import pytest

from privet.accounting import (
    Advanced,
    Basic,
    EpsilonTarget,
    GaussianDP,
    Optimal,
    Pure,
    account,
    calibrate,
)
from privet.accounting.theorems import Claim, amplify
from privet.adjacency import AddRemove, ReplaceOne
from privet.events import (
    FixedSize,
    Gaussian,
    Laplace,
    Opaque,
    Parallel,
    Poisson,
    RandomizedResponse,
    Repeat,
    dp_sgd,
)


@pytest.mark.parametrize("size", [1, 2, 5, 40])
def test_c1_a_group_of_k_pays_k_times_epsilon(size):
    """Dwork & Roth 2014, Theorem 2.2."""
    one = account(Laplace(2.0), adjacency=AddRemove())
    assert one.group(size=size).epsilon(delta=0.0) == pytest.approx(size * 0.5, rel=1e-14)


def test_c1_a_group_under_gaussian_dp_pays_k_times_mu():
    """Dong, Roth & Su 2022, Theorem 2.14: the exact group profile is that of kμ."""
    group = account(Gaussian(4.0), adjacency=AddRemove()).group(size=2).epsilon_bounds(delta=1e-6)
    exact = account(Gaussian(2.0), adjacency=AddRemove()).epsilon(delta=1e-6)
    assert group.lower <= exact <= group.upper


def test_c2_disjoint_parts_pay_the_maximum_not_the_sum():
    """McSherry 2009, Theorem 4."""
    parts = Parallel((Laplace(2.0), Laplace(4.0), Laplace(5.0)))
    assert account(parts, adjacency=AddRemove(), accountant=Pure()).epsilon(delta=0.0) == 0.5
    assert account(parts, adjacency=AddRemove()).epsilon(delta=0.0) == pytest.approx(0.5, rel=1e-12)


_MANY = Repeat(Opaque(epsilon=1 / 1000), 500)


def test_c3_basic_composition_is_one_half():
    """SPEC C3: ε = 1/1000, T = 500, so Σε = 0.5."""
    claim = account(_MANY, adjacency=AddRemove(), accountant=Basic())
    assert claim.epsilon(delta=0.0) == pytest.approx(0.5, rel=1e-14)


def test_c3_advanced_composition():
    """SPEC C3: ε√(2T ln 1/δ′) + Tε(e^ε−1)/(e^ε+1) = 0.1178 at δ′ = 1e-6 (Kairouz et al. 2015)."""
    found = account(_MANY, adjacency=AddRemove(), accountant=Advanced()).epsilon(delta=1e-6)
    by_hand = 1e-3 * math.sqrt(1000 * math.log(1e6)) + 0.5 * math.expm1(1e-3) / (math.exp(1e-3) + 1)
    assert found == pytest.approx(by_hand, rel=1e-12)
    assert found == pytest.approx(0.1178, abs=5e-5)


def test_c3_optimal_composition():
    """Issue 2: 0.0798 at T = 500, ε = 1/1000, δ = 1e-6 (Kairouz et al. 2015, Theorem 3.3)."""
    found = account(_MANY, adjacency=AddRemove(), accountant=Optimal()).epsilon(delta=1e-6)
    assert found == pytest.approx(0.0798, abs=5e-5)
    assert found < 0.1


@pytest.mark.parametrize("rate", [1e-3, 0.1, 0.5, 1.0])
@pytest.mark.parametrize("epsilon", [0.01, 1.0, 5.0])
def test_c4_amplification_by_sampling(rate, epsilon):
    """ε′ = ln(1 + q(e^ε − 1)), δ′ = qδ: Balle, Barthe & Gaboardi 2018, Theorems 8 and 9."""
    expected = math.log(1 + rate * (math.exp(epsilon) - 1))
    assert amplify(Claim(epsilon=epsilon, delta=1e-6), rate).epsilon == pytest.approx(expected, rel=1e-12)
    assert amplify(Claim(epsilon=epsilon, delta=1e-6), rate).delta == rate * 1e-6
    sampled = Poisson(rate, Opaque(epsilon=epsilon))
    assert account(sampled, adjacency=AddRemove(), accountant=Pure()).epsilon(delta=0.0) == pytest.approx(
        expected, rel=1e-12
    )


def test_c4_a_fixed_size_sample_is_amplified_under_replace_one():
    """Balle, Barthe & Gaboardi 2018, Theorem 9: the rate is size / population."""
    claim = account(FixedSize(10, 100, Laplace(2.0)), adjacency=ReplaceOne(), accountant=Pure())
    assert claim.epsilon(delta=0.0) == pytest.approx(math.log(1 + 0.1 * (math.e - 1)), rel=1e-12)


def test_c5_one_gaussian_is_the_same_in_every_exact_language():
    """Dong, Roth & Su 2022, Corollary 2.13: μ-GDP and the privacy-loss distribution agree."""
    event = Repeat(Gaussian(7.0), 20)
    exact = account(event, adjacency=AddRemove())
    gaussian = account(event, adjacency=AddRemove(), accountant=GaussianDP())
    assert exact.epsilon(delta=1e-6) == pytest.approx(gaussian.epsilon(delta=1e-6), rel=1e-9)


def test_c5_the_privacy_loss_can_be_looked_at():
    """The loss of N(μ, 1) against N(0, 1) is N(μ²/2, μ²) (Dwork & Rothblum 2016)."""
    seen = account(Gaussian(1.0), adjacency=AddRemove()).privacy_loss(bins=400)
    middle = 0.5 * (seen.edges[1:] + seen.edges[:-1])
    mean = float(middle @ seen.probability)
    assert seen.probability.sum() == pytest.approx(1.0, abs=1e-6)
    assert mean == pytest.approx(0.5, abs=2e-2)
    assert float((middle - mean) ** 2 @ seen.probability) == pytest.approx(1.0, abs=2e-2)


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 3.0])
def test_c7_posterior_of_a_reader_with_prior_two_fifths(epsilon):
    """SPEC C7: prior 0.4 → posterior within [p/(p+(1−p)e^ε), p/(p+(1−p)e^−ε)]."""
    belief = account(Opaque(epsilon=epsilon), adjacency=AddRemove()).posterior(prior=0.4, delta=0.0)
    assert belief.lower == pytest.approx(0.4 / (0.4 + 0.6 * math.exp(epsilon)), rel=1e-12)
    assert belief.upper == pytest.approx(0.4 / (0.4 + 0.6 * math.exp(-epsilon)), rel=1e-12)


def test_p1_coin_flip_is_log_three():
    """SPEC P1 (Warner 1965): truth with probability ¾ is ε = ln 3."""
    coin = account(RandomizedResponse(0.75), adjacency=ReplaceOne())
    assert coin.epsilon(delta=0.0) == pytest.approx(math.log(3), rel=1e-14)


_TABLE = [
    (dp_sgd(noise_multiplier=1.1, sampling_rate=256 / 60_000, steps=14_062), 1e-5, 2.38160, 5e-6),
    (dp_sgd(noise_multiplier=0.6, sampling_rate=1e-4, steps=100_000), 1e-6, 0.963278, 5e-7),
    (dp_sgd(noise_multiplier=0.7, sampling_rate=1024 / 1e6, steps=10_000), 1e-7, 2.13720, 5e-6),
    (dp_sgd(noise_multiplier=20.0, sampling_rate=0.5, steps=1_000), 1e-6, 3.75509, 5e-6),
    (dp_sgd(noise_multiplier=10.0, sampling_rate=1e-3, steps=1_000), 1e-8, 0.0133524, 5e-8),
    (dp_sgd(noise_multiplier=0.4, sampling_rate=0.01, steps=2_000), 1e-5, 38.7360, 5e-5),
    (Repeat(Gaussian(10.0), 100), 1e-6, 4.886554, 5e-7),
    (Repeat(Laplace(10.0), 100), 1e-6, 4.69267, 5e-6),
    (Repeat(Laplace(10.0), 1_000), 1e-6, 18.9503, 5e-5),
]


@pytest.mark.parametrize(("event", "delta", "exact", "last_digit"), _TABLE)
def test_reference_table_of_issue_2(event, delta, exact, last_digit):
    """Computed to 30 digits for issue 2, and given there to the digits shown."""
    found = account(event, adjacency=AddRemove()).epsilon_bounds(delta=delta)
    assert found.lower <= exact + last_digit
    assert found.upper >= exact - last_digit
    assert found.upper == pytest.approx(exact, rel=1e-5)
    assert found.lower == pytest.approx(exact, rel=1e-5)


@pytest.mark.parametrize(
    ("rate", "steps", "epsilon", "delta", "sigma"),
    [(256 / 60_000, 14_062, 2.0, 1e-5, 1.22415), (1e-4, 100_000, 1.0, 1e-6, 0.596787)],
)
def test_reference_calibrations_of_issue_2(rate, steps, epsilon, delta, sigma):
    """Issue 2, last two rows of its table."""
    found = calibrate(
        lambda noise: dp_sgd(noise_multiplier=noise, sampling_rate=rate, steps=steps),
        EpsilonTarget(epsilon=epsilon, delta=delta),
        adjacency=AddRemove(),
    )
    assert found.value == pytest.approx(sigma, rel=1e-5)
    assert found.guarantee.epsilon(delta=delta) <= epsilon * (1 + 1e-12)
