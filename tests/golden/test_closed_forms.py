"""Continuous and discrete mechanisms against their definitions, summed or integrated with mpmath.

Two looks: δ₂(ε) = E_P δ₁(ε − L), since H(P×P ‖ Q×Q) conditioned on the first outcome is a single look.
Nothing here uses the accountants' formulas.
"""

import math
from fractions import Fraction

import pytest
from mpmath import mp, mpf

from privet.accounting import account
from privet.adjacency import AddRemove, ReplaceOne, ZeroOut
from privet.events import (
    DiscreteGaussian,
    DiscreteLaplace,
    Gaussian,
    Laplace,
    RandomizedResponse,
    Repeat,
)


@pytest.fixture(autouse=True)
def _thirty_digits():
    with mp.workdps(30):
        yield


def assert_encloses(found, exact, *, gap=1e-4):
    assert found.lower <= float(exact) * (1 + 1e-15), (found, exact)
    assert found.upper >= float(exact) * (1 - 1e-15), (found, exact)
    assert found.upper <= float(exact) * (1 + gap) + 1e-300, (found, exact)
    assert found.lower >= float(exact) * (1 - gap), (found, exact)


def gaussian_profile(mu, epsilon):
    """Balle & Wang 2018, Theorem 5, at a precision that survives the cancellation."""
    with mp.workdps(120):
        mu, epsilon = mpf(mu), mpf(epsilon)
        return mp.ncdf(mu / 2 - epsilon / mu) - mp.exp(epsilon) * mp.ncdf(-mu / 2 - epsilon / mu)


@pytest.mark.parametrize("sigma", [0.1, 0.5, 1.0, 3.0, 30.0, 1000.0])
@pytest.mark.parametrize("share", [0.0, 0.01, 0.3, 1.0, 2.5, 6.0, 11.0])
def test_gaussian_profile(sigma, share):
    """δ(ε) from 1 to below 1e-30; ``share`` counts standard deviations of the loss above its mean."""
    epsilon = max(share / sigma + 0.5 / sigma**2, 0.0) if share else 0.0
    found = account(Gaussian(sigma), adjacency=AddRemove()).delta_bounds(epsilon=epsilon)
    assert_encloses(found, gaussian_profile(1 / mpf(sigma), epsilon), gap=1e-9)


@pytest.mark.parametrize("delta", [0.3, 1e-5, 1e-12, 1e-20, 1e-30])
@pytest.mark.parametrize("sigma", [0.3, 2.0, 100.0])
def test_gaussian_epsilon_at_tiny_delta(sigma, delta):
    found = account(Gaussian(sigma), adjacency=AddRemove()).epsilon_bounds(delta=delta)
    if found.upper == 0:
        assert gaussian_profile(1 / mpf(sigma), 0) <= delta
        return
    assert gaussian_profile(1 / mpf(sigma), found.upper) <= mpf(delta) * (1 + mpf("1e-14"))
    assert gaussian_profile(1 / mpf(sigma), found.lower) >= mpf(delta) * (1 - mpf("1e-14"))
    assert found.relative_gap < 1e-9


def laplace_profile(scale, epsilon):
    """∫ (p − e^ε q)₊ with p, q the densities of Laplace(1, b) and Laplace(0, b), by quadrature."""
    scale, factor = mpf(scale), mp.exp(epsilon)

    def integrand(x):
        gap = mp.exp(-abs(x - 1) / scale) - factor * mp.exp(-abs(x) / scale)
        return max(gap, mpf(0)) / (2 * scale)

    crossing = (1 + scale * epsilon) / 2
    stops = sorted({p for p in (mpf(0), crossing, mpf(1)) if 0 <= p <= 1})
    return mp.quad(integrand, [-200 * scale, *stops, 1 + 200 * scale])


@pytest.mark.parametrize("scale", [0.5, 1.0, 7.0])
@pytest.mark.parametrize("share", [0.0, 0.4, 0.95])
def test_laplace_once(scale, share):
    epsilon = share / scale
    found = account(Laplace(scale), adjacency=AddRemove()).delta_bounds(epsilon=epsilon)
    assert_encloses(found, laplace_profile(scale, mpf(epsilon)), gap=1e-9)


def laplace_twice(scale, epsilon):
    """∫ p(x) δ₁(ε − L(x)) dx; left of 0 and right of 1 the loss is constant."""
    scale = mpf(scale)
    top = 1 / scale

    def once(at):
        if at >= top:
            return mpf(0)
        return -mp.expm1((at - top) / 2) if at > -top else -mp.expm1(at)

    def integrand(x):
        return mp.exp((x - 1) / scale) / (2 * scale) * once(epsilon - (2 * x - 1) / scale)

    stops = sorted({(1 + scale * (epsilon + end)) / 2 for end in (top, -top)})
    inner = [mpf(0), *(p for p in stops if 0 < p < 1), mpf(1)]
    ends = mp.exp(-top) / 2 * once(epsilon + top) + once(epsilon - top) / 2
    return ends + mp.quad(integrand, inner)


@pytest.mark.parametrize("scale", [0.5, 2.0, 10.0])
@pytest.mark.parametrize("share", [0.0, 0.7, 1.3, 1.98])
def test_laplace_twice(scale, share):
    epsilon = share / scale
    found = account(Repeat(Laplace(scale), 2), adjacency=AddRemove()).delta_bounds(epsilon=epsilon)
    assert_encloses(found, laplace_twice(scale, mpf(epsilon)))


def finite_profile(law, times, epsilon):
    """Σ (P − e^ε Q)₊ over outcomes of ``times`` draws; ``law`` lists (p, q) as fractions, both orders."""
    states = {tuple([0] * len(law)): Fraction(1)}
    for _ in range(times):
        grown = {}
        for counts, ways in states.items():
            for place in range(len(law)):
                key = tuple(c + (k == place) for k, c in enumerate(counts))
                grown[key] = grown.get(key, 0) + ways
        states = grown
    factor = mp.exp(epsilon)
    best = mpf(0)
    for order in (0, 1):
        total = mpf(0)
        for counts, ways in states.items():
            p = math.prod((law[k][order] ** c for k, c in enumerate(counts)), start=Fraction(1)) * ways
            q = math.prod((law[k][1 - order] ** c for k, c in enumerate(counts)), start=Fraction(1)) * ways
            gap = mpf(p.numerator) / p.denominator - factor * q.numerator / q.denominator
            total += max(gap, mpf(0))
        best = max(best, total)
    return best


def replaced_answers(truth, categories):
    other = (1 - truth) / (categories - 1)
    return [(truth, other), (other, truth)] + [(other, other)] * (categories - 2)


def missing_answer(truth, categories):
    chance = Fraction(1, categories)
    other = (1 - truth) / (categories - 1)
    return [(truth, chance)] + [(other, chance)] * (categories - 1)


_ADJACENT = {ReplaceOne(): replaced_answers, ZeroOut(): missing_answer}


@pytest.mark.parametrize(
    ("truth", "categories", "times"),
    [(0.75, 2, 1), (0.75, 2, 3), (0.625, 2, 40), (0.5, 3, 6), (0.5, 4, 4)],
)
@pytest.mark.parametrize("share", [0.0, 0.3, 0.8, 0.999])
@pytest.mark.parametrize("adjacency", _ADJACENT, ids=str)
def test_randomised_response(truth, categories, times, share, adjacency):
    """The truths are binary fractions, so the sums are exact."""
    law = _ADJACENT[adjacency](Fraction(truth), categories)
    largest = max(abs(math.log(p / q)) for p, q in law) * times
    epsilon = share * largest
    exact = finite_profile(law, times, mpf(epsilon))
    claim = account(Repeat(RandomizedResponse(truth, categories), times), adjacency=adjacency)
    assert_encloses(claim.delta_bounds(epsilon=epsilon), exact)
    if epsilon > 0 and exact > mpf("1e-25"):
        found = claim.epsilon_bounds(delta=float(exact))
        assert found.lower <= epsilon * (1 + 1e-12)
        assert found.upper >= epsilon * (1 - 1e-12)


def discrete_profile(heights, shift, times, epsilon):
    """Σ over x (and y) of (P − e^ε Q)₊ for a symmetric law on the whole numbers, moved by ``shift``."""
    factor = mp.exp(epsilon)
    low, high = min(heights), max(heights)
    p = {x: heights.get(x - shift, mpf(0)) for x in range(low, high + shift + 1)}
    q = {x: heights.get(x, mpf(0)) for x in range(low, high + shift + 1)}
    if times == 1:
        return sum((max(p[x] - factor * q[x], mpf(0)) for x in p), mpf(0))
    return sum((max(p[x] * p[y] - factor * q[x] * q[y], mpf(0)) for x in p for y in p), mpf(0))


def normalised(weights):
    total = sum(weights.values(), mpf(0))
    return {x: value / total for x, value in weights.items()}


@pytest.mark.parametrize(("scale", "contribution"), [(0.5, 1), (2.0, 1), (3.0, 2), (2.5, 3)])
@pytest.mark.parametrize("times", [1, 2])
@pytest.mark.parametrize("epsilon", [0.0, 0.3, 0.9, 1.9])
def test_discrete_laplace(scale, contribution, times, epsilon):
    with mp.workdps(20):
        reach = int(45 * scale) if times == 1 else int(28 * scale)
        heights = normalised({x: mp.exp(-abs(x) / mpf(scale)) for x in range(-reach, reach + 1)})
        exact = discrete_profile(heights, contribution, times, mpf(epsilon))
    found = account(Repeat(DiscreteLaplace(scale, contribution), times), adjacency=AddRemove())
    bounds = found.delta_bounds(epsilon=epsilon)
    assert bounds.lower <= float(exact) + 1e-11
    assert bounds.upper >= float(exact) - 1e-11
    assert bounds.upper - bounds.lower <= 1e-4 * bounds.upper


@pytest.mark.parametrize(("scale", "contribution"), [(0.7, 1), (2.0, 1), (3.0, 2)])
@pytest.mark.parametrize("times", [1, 2])
@pytest.mark.parametrize("epsilon", [0.0, 0.3, 1.0, 4.0])
def test_discrete_gaussian(scale, contribution, times, epsilon):
    with mp.workdps(25):
        reach = int(14 * scale) + 1
        heights = normalised({x: mp.exp(-(x**2) / (2 * mpf(scale) ** 2)) for x in range(-reach, reach + 1)})
        exact = discrete_profile(heights, contribution, times, mpf(epsilon))
    claim = account(Repeat(DiscreteGaussian(scale, contribution), times), adjacency=AddRemove())
    assert_encloses(claim.delta_bounds(epsilon=epsilon), exact)


@pytest.mark.parametrize(
    ("scale", "exact"), [(1.001, "4.4907708372391"), (1.0894969665588636, "4.53225939768289")]
)
def test_more_discrete_gaussian_noise_can_cost_more(scale, exact):
    """On whole numbers the losses are few and far between, and ε(1e-6) is not monotone in the scale.

    The numbers are bisections of the sum above, to 15 digits.
    """
    claim = account(DiscreteGaussian(scale), adjacency=AddRemove())
    assert_encloses(claim.epsilon_bounds(delta=1e-6), mpf(exact), gap=1e-9)
    with mp.workdps(25):
        heights = normalised({x: mp.exp(-(x**2) / (2 * mpf(scale) ** 2)) for x in range(-20, 21)})
        assert abs(discrete_profile(heights, 1, 1, mpf(exact)) / mpf("1e-6") - 1) < mpf("1e-11")
