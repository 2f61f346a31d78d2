"""Sampled mechanisms against quadratures of their mixtures, both orders of neighbours, one and two looks.

With p, q the densities of the pair, δ₁(ε) = ∫ (p − e^ε q)₊ and δ₂(ε) = ∫ p(x) δ₁(ε − ln p(x)/q(x)) dx. Each
density is written from the definition of the sampling; no formula of the accountants is used.
"""

import pytest
from mpmath import mp, mpf

from privet.accounting import account
from privet.adjacency import AddRemove, ReplaceOne, ZeroOut
from privet.events import FixedSize, Gaussian, Laplace, Poisson, Repeat


def normal(x):
    return mp.exp(-x * x / 2) / mp.sqrt(2 * mp.pi)


class Mixture:
    """Σ wᵢ N(mᵢ, 1)."""

    def __init__(self, *parts):
        self.parts = [(mpf(w), mpf(m)) for w, m in parts]

    def density(self, x):
        return sum(w * normal(x - m) for w, m in self.parts)

    def above(self, x):
        return sum(w * mp.ncdf(m - x) for w, m in self.parts)


class Ordered:
    """A pair of mixtures whose loss ln p/q rises (or falls) with x.

    ``crossing`` inverts the loss; ``least`` is a limit of the loss, where the profile has a kink.
    """

    def __init__(self, p, q, crossing, *, rising, least=0):
        self.p, self.q, self.crossing, self.rising, self.least = p, q, crossing, rising, least

    def loss(self, x):
        return mp.log(self.p.density(x) / self.q.density(x))

    def once(self, epsilon):
        """P[beyond] − e^ε Q[beyond], beyond the point where the loss is ε."""
        x = self.crossing(epsilon)
        if x is None:
            return max(-mp.expm1(epsilon), mpf(0))
        value = self.p.above(x) - mp.exp(epsilon) * self.q.above(x)
        return value if self.rising else -mp.expm1(epsilon) - value

    def twice(self, epsilon):
        def integrand(x):
            return self.p.density(x) * self.once(epsilon - self.loss(x))

        kink = self.crossing(epsilon - self.least)
        stops = {*(mpf(k) / 2 for k in range(-22, 31)), kink if kink is not None else mpf(0)}
        return quadrature(integrand, sorted(stops))


def quadrature(integrand, stops):
    """Gauss–Legendre on panels that are short beside the scale of the integrand; kinks are at the stops."""
    return mp.quad(integrand, stops, method="gauss-legendre", maxdegree=4)


def poisson_removed(rate, mu):
    rate, mu = mpf(rate), mpf(mu)

    def crossing(epsilon):
        odds = (mp.exp(epsilon) - 1 + rate) / rate
        return mp.log(odds) / mu + mu / 2 if odds > 0 else None

    return Ordered(
        Mixture((1 - rate, 0), (rate, mu)), Mixture((1, 0)), crossing, rising=True, least=mp.log(1 - rate)
    )


def poisson_added(rate, mu):
    removed = poisson_removed(rate, mu)
    least = -removed.least
    return Ordered(
        removed.q, removed.p, lambda epsilon: removed.crossing(-epsilon), rising=False, least=least
    )


def added_or_removed(rate, mu):
    return [poisson_removed(rate, mu), poisson_added(rate, mu)]


def poisson_replaced(rate, mu):
    rate, mu = mpf(rate), mpf(mu)
    rest, part = 1 - rate, rate * mp.exp(-mu * mu / 2)

    def crossing(epsilon):
        """rest + part E = y (rest + part / E) with E = exp(μ x): a quadratic in E."""
        y = mp.exp(epsilon)
        half = rest * (y - 1) / (2 * part)
        return mp.log(half + mp.sqrt(half * half + y)) / mu

    p, q = Mixture((rest, 0), (rate, mu)), Mixture((rest, 0), (rate, -mu))
    return Ordered(p, q, crossing, rising=True)


def assert_encloses(found, exact, *, gap=1e-4):
    assert found.lower <= float(exact) * (1 + 1e-11), (found, exact)
    assert found.upper >= float(exact) * (1 - 1e-11), (found, exact)
    assert found.upper - found.lower <= gap * found.upper, (found, exact)


def worst(ways, look, epsilon):
    return max(getattr(way, look)(mpf(epsilon)) for way in ways)


_SETTINGS = [(0.1, 1.0), (0.5, 0.7), (0.01, 0.5)]


@pytest.mark.parametrize(("rate", "sigma"), _SETTINGS)
@pytest.mark.parametrize("epsilon", [0.0, 0.1, 0.8, 3.0])
def test_poisson_gaussian_once(rate, sigma, epsilon):
    """Zhu, Dong & Wang 2022, Theorem 11."""
    with mp.workdps(30):
        exact = worst(
            [poisson_removed(rate, 1 / mpf(sigma)), poisson_added(rate, 1 / mpf(sigma))], "once", epsilon
        )
    for adjacency in (AddRemove(), ZeroOut()):
        found = account(Poisson(rate, Gaussian(sigma)), adjacency=adjacency).delta_bounds(epsilon=epsilon)
        assert_encloses(found, exact, gap=1e-9)


@pytest.mark.parametrize(("rate", "sigma"), _SETTINGS)
@pytest.mark.parametrize("epsilon", [0.0, 0.1, 0.8, 3.0])
def test_poisson_gaussian_replaced_once(rate, sigma, epsilon):
    """Lebeda, Regehr, Kamath & Steinke 2024: both sides of a replacement are sampled."""
    with mp.workdps(30):
        exact = worst([poisson_replaced(rate, 1 / mpf(sigma))], "once", epsilon)
    found = account(Poisson(rate, Gaussian(sigma)), adjacency=ReplaceOne()).delta_bounds(epsilon=epsilon)
    assert_encloses(found, exact, gap=1e-9)


@pytest.mark.parametrize(("rate", "sigma", "epsilon"), [(0.1, 1.0, 0.5), (0.5, 0.8, 0.2)])
def test_poisson_gaussian_twice(rate, sigma, epsilon):
    with mp.workdps(20):
        exact = worst(
            [poisson_removed(rate, 1 / mpf(sigma)), poisson_added(rate, 1 / mpf(sigma))], "twice", epsilon
        )
    found = account(Repeat(Poisson(rate, Gaussian(sigma)), 2), adjacency=AddRemove()).delta_bounds(
        epsilon=epsilon
    )
    assert_encloses(found, exact)


@pytest.mark.parametrize(("rate", "sigma", "epsilon"), [(0.1, 1.0, 0.5), (0.5, 0.8, 0.2)])
def test_poisson_gaussian_replaced_twice(rate, sigma, epsilon):
    with mp.workdps(20):
        exact = worst([poisson_replaced(rate, 1 / mpf(sigma))], "twice", epsilon)
    found = account(Repeat(Poisson(rate, Gaussian(sigma)), 2), adjacency=ReplaceOne()).delta_bounds(
        epsilon=epsilon
    )
    assert_encloses(found, exact)


@pytest.mark.parametrize(("size", "sigma"), [(10, 1.0), (50, 0.7)])
@pytest.mark.parametrize("epsilon", [0.0, 0.1, 0.8, 3.0])
def test_fixed_size_gaussian_once(size, sigma, epsilon):
    """A unit that leaves the sample is replaced: the mixture of Q and P a replacement (2/σ) apart."""
    rate, mu = mpf(size) / 100, 2 / mpf(sigma)
    with mp.workdps(30):
        exact = worst(added_or_removed(rate, mu), "once", epsilon)
    for adjacency in (AddRemove(), ReplaceOne()):
        found = account(FixedSize(size, 100, Gaussian(sigma)), adjacency=adjacency)
        assert_encloses(found.delta_bounds(epsilon=epsilon), exact, gap=1e-9)


@pytest.mark.parametrize(("size", "sigma", "epsilon"), [(10, 2.0, 0.5), (50, 3.0, 0.2)])
def test_fixed_size_gaussian_twice_add_remove(size, sigma, epsilon):
    rate, mu = mpf(size) / 100, 2 / mpf(sigma)
    with mp.workdps(20):
        exact = worst(added_or_removed(rate, mu), "twice", epsilon)
    found = account(Repeat(FixedSize(size, 100, Gaussian(sigma)), 2), adjacency=AddRemove())
    assert_encloses(found.delta_bounds(epsilon=epsilon), exact)


def fixed_size_replaced_twice(rate, mu, epsilon):
    """Losses above 0 as when the unit is removed, their mirror image below 0, and the rest of the mass at 0.

    Zhu, Dong & Wang 2022, Proposition 30: the larger of both profiles on either side of 0.
    """
    way = poisson_removed(rate, mu)

    def once(at):
        return way.once(at) if at >= 0 else -mp.expm1(at) + mp.exp(at) * way.once(-at)

    def above(x):
        return way.p.density(x) * once(epsilon - way.loss(x))

    def below(x):
        return way.q.density(x) * once(epsilon + way.loss(x))

    start = mu / 2
    kink = way.crossing(epsilon)
    stops = sorted({*(start + mpf(k) / 2 for k in range(25)), kink})
    rest = 1 - way.p.above(start) - way.q.above(start)
    return quadrature(above, stops) + quadrature(below, stops) + rest * once(epsilon)


@pytest.mark.parametrize(("size", "sigma", "epsilon"), [(10, 2.0, 0.5), (50, 3.0, 0.2)])
def test_fixed_size_gaussian_twice_replace_one(size, sigma, epsilon):
    """The upper bound is the dominating pair's; the lower one that of an attained pair, and looser."""
    rate, mu = mpf(size) / 100, 2 / mpf(sigma)
    with mp.workdps(20):
        exact = float(fixed_size_replaced_twice(rate, mu, mpf(epsilon)))
        attained = float(worst(added_or_removed(rate, mu), "twice", epsilon))
    claim = account(Repeat(FixedSize(size, 100, Gaussian(sigma)), 2), adjacency=ReplaceOne())
    found = claim.delta_bounds(epsilon=epsilon)
    assert exact * (1 - 1e-9) <= found.upper <= exact * (1 + 1e-4)
    assert attained * (1 - 1e-4) <= found.lower <= attained * (1 + 1e-9)


@pytest.mark.parametrize("rate", [0.01, 0.3])
@pytest.mark.parametrize("epsilon", [0.0, 0.05, 0.2])
def test_poisson_laplace_once(rate, epsilon):
    """∫ (p − e^ε q)₊ over a grid of panels that holds every kink."""
    scale, factor = mpf("1.5"), mp.exp(mpf(epsilon))

    def density(x, centre):
        return mp.exp(-abs(x - centre) / scale) / (2 * scale)

    def gap(x):
        out = density(x, 0)
        mixed = (1 - mpf(rate)) * out + rate * density(x, 1)
        return mixed - factor * out, out - factor * mixed

    with mp.workdps(20):
        kinks = [mpf(0), mpf(1)]
        for sign in (1, -1):
            ratio = (mp.exp(sign * mpf(epsilon)) - 1) / rate + 1
            kinks += [(1 + scale * mp.log(ratio)) / 2] if ratio > 0 else []
        stops = [mpf(-80), *sorted(k for k in kinks if -80 < k < 80), mpf(80)]
        exact = max(mp.quad(lambda x, way=way: max(gap(x)[way], mpf(0)), stops) for way in (0, 1))
    found = account(Poisson(rate, Laplace(1.5)), adjacency=AddRemove()).delta_bounds(epsilon=epsilon)
    assert_encloses(found, exact, gap=1e-9)
