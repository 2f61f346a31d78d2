"""How far a law's Fourier transform has faded at a frequency *and at all beyond it*, by a shifted path.

For a loss ℓ(z), z ~ N(0, 1), with tilted weight w(z) > 0 the transform is ∫ w(z) exp(itℓ(z)) dz / ∫ w. Where both are
analytic the path may be moved to z = x + i a(x), and

    |∫ w exp(itℓ) dz| ≤ ∫ |w(z)| exp(−t Im ℓ(z)) |dz|,

which falls in t wherever Im ℓ ≥ 0. So one number bounds the transform at every frequency from t on. The path
a = b ℓ′/(ℓ′ + λ) is close to the best one for a large λ where t is small, and for a small λ where t is large; every path
that keeps clear of the zeros of Λ, at Im z = π/μ, is valid.

Losses with atoms, or pairs of which nothing is known, do not fade: the bound is 1.
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple, TypeAlias

import numpy as np
from scipy.special import expit, log_ndtr

from privet.accounting.pairs import GaussianPair, Pair, Reals, legendre
from privet.accounting.sampled import Cut, FixedSizePair, ReplacedGaussianPair, SampledPair, SampledSwapped
from privet.accounting.tilted import Complexes, log1p

__all__ = ["CLEAR", "LEVELS", "RISES", "ROUND_OFF", "log_fading"]

Analytic: TypeAlias = Callable[[Complexes], Complexes]

_FEWEST, _MOST = 400, 4000  # points on a path
CLEAR = 0.9  # of the way to the nearest zero of Λ
_BENDS = (0.3, 1.0, 3.0)  # of the path that is the best one for a small loss
RISES = (0.1, 0.5, 1.5, 3.0)
LEVELS = (1.0, 1e-1, 1e-2, 1e-4)  # λ, of the steepest ℓ′
ROUND_OFF = 1e-9


class _Law(NamedTuple):
    """ln w and ℓ as analytic functions of z, and the first two derivatives of ℓ on the real axis."""

    weight: Analytic
    loss: Analytic
    slope: Callable[[Reals], tuple[Reals, Reals]]
    mu: float
    far: float  # |x| beyond which there is no weight


def log_fading(pair: Pair, point: float, frequency: float) -> float:
    """ln of a bound on |M(c + it)|/M(c), for every |t| at or above ``frequency``."""
    match pair:
        case GaussianPair(mu):
            return -0.5 * (mu * frequency) ** 2
        case SampledPair(GaussianPair(mu), rate, cut) if rate < 1:
            return _faded(_mixture(mu, rate, point + 1, cut), frequency)
        case SampledSwapped(GaussianPair(mu), rate) if rate < 1:
            return _faded(_mixture(mu, rate, -point, None), frequency)
        case ReplacedGaussianPair(mu, rate, cut) if rate < 1:
            return _faded(_exchange(mu, rate, point, cut), frequency)
        case FixedSizePair(GaussianPair(mu), rate, place) if rate < 1:
            return _half_faded(mu, rate, point, place, frequency)
    return 0.0


def _mixture(mu: float, rate: float, power: float, cut: Cut | None) -> _Law:
    """w = φ(z) Λ(z)^power, ℓ = ln Λ, Λ = 1 − q + q exp(μz − μ²/2); the sign of ℓ does not matter to a modulus."""
    loss = _loss(mu, rate)

    def weight(z: Complexes) -> Complexes:
        return np.asarray(-0.5 * z * z + power * loss(z) + _kept(z, cut))

    def slope(x: Reals) -> tuple[Reals, Reals]:
        share = _share(x, mu, rate)
        return mu * share, mu**2 * share * (1 - share)

    return _Law(weight, loss, slope, mu, 12.0 + (abs(power) + 1) * mu)


def _exchange(mu: float, rate: float, point: float, cut: Cut | None) -> _Law:
    """w = φ(z) Λ(z)^(1+c) Λ(−z)^(−c), ℓ = ln Λ(z) − ln Λ(−z)."""
    loss = _loss(mu, rate)

    def slope(x: Reals) -> tuple[Reals, Reals]:
        here, there = _share(x, mu, rate), _share(-x, mu, rate)
        return mu * (here + there), mu**2 * (here * (1 - here) - there * (1 - there))

    return _Law(
        lambda z: np.asarray(-0.5 * z * z + (point + 1) * loss(z) - point * loss(-z) + _kept(z, cut)),
        lambda z: np.asarray(loss(z) - loss(-z)),
        slope,
        mu,
        12.0 + (2 * point + 2) * mu,
    )


def _kept(z: Complexes, cut: Cut | None) -> Reals | float:
    """ln of what is kept by a soft cut, or above it: |Φ(x + iy)| ≤ Φ(x) exp(y²/2)."""
    if cut is None:
        return 0.0
    return np.asarray(log_ndtr((cut.place - z.real) / cut.edge) + 0.5 * (z.imag / cut.edge) ** 2)


def _loss(mu: float, rate: float) -> Analytic:
    """ln Λ, whose imaginary part is between 0 and π where that of μz is."""

    def loss(z: Complexes) -> Complexes:
        inner = mu * (z - 0.5 * mu)
        large = inner.real > 0
        small = log1p(rate * np.expm1(np.where(large, 0j, inner)))
        return np.where(
            large, inner + np.log(rate + (1 - rate) * np.exp(-np.where(large, inner, 0.0))), small
        )

    return loss


def _share(x: Reals, mu: float, rate: float) -> Reals:
    """q exp(μx − μ²/2)/Λ."""
    return np.asarray(expit(mu * (x - 0.5 * mu) + np.log(rate) - np.log1p(-rate)))


def _paths(slope: Reals, curvature: Reals, mu: float, frequency: float) -> Iterator[tuple[Reals, Reals]]:
    """Some a(x) and a′(x). A loss k exp(μz) has its best path at about a = ℓ′ t/(1 + μ²), while that is small."""
    steepest = float(slope.max())
    most = CLEAR * np.pi / mu
    for bend in _BENDS:
        rise = bend * frequency / (1 + mu * mu)
        if rise * steepest <= most:
            yield rise * slope, rise * curvature
    for level in LEVELS:
        below = slope + level * steepest
        for wanted in RISES:
            rise = min(wanted, most)
            yield rise * slope / below, rise * level * steepest * curvature / below**2


@np.errstate(over="ignore", under="ignore", invalid="ignore", divide="ignore")
def _faded(law: _Law, frequency: float) -> float:
    """The least bound over some paths."""
    x = _reach(law)
    level = law.weight(x + 0j).real
    top = float(level.max())
    total = np.exp(level - top).sum()
    slope, curvature = law.slope(x)
    best = 0.0
    for rise, tilt in _paths(slope, curvature, law.mu, frequency):
        z = x + 1j * rise
        turned = law.loss(z).imag
        if np.any(turned < 0):  # round-off, or a branch of the logarithm: this path proves nothing
            continue
        held = np.exp(law.weight(z).real - top - frequency * turned) * np.hypot(1.0, tilt)
        bound = float(np.log(held.sum() / total))
        if np.isfinite(bound):
            best = min(best, bound + ROUND_OFF)
    return best


@np.errstate(over="ignore", under="ignore", invalid="ignore", divide="ignore")
def _half_faded(mu: float, rate: float, point: float, place: float, frequency: float) -> float:
    """A fixed-size sample: an atom at 0, the losses above 0 of a mixture, and their mirror image.

    Both of the latter are integrals from z = μ/2 on, so the path also has two upright ends.
    """
    start, stop = 0.5 * mu, min(place, 12.0 + (point + 2) * mu)
    x, spread = _interval(start, stop, (stop - start) * (10 + 4 * mu))
    x, spread = np.concatenate([[start], x, [stop]]), np.concatenate([[0.0], spread, [0.0]])
    loss, share = _loss(mu, rate), _share(x, mu, rate)
    plain, height = loss(x + 0j).real, np.exp(-0.5 * x * x)
    atom = max(1.0 - float(spread @ (height * (1 + np.exp(plain)))), 0.0)
    total = atom + sum(float(spread @ (height * np.exp(power * plain))) for power in (point + 1, -point))
    best = 0.0
    for rise, tilt in _paths(mu * share, mu**2 * share * (1 - share), mu, frequency):
        path, length = x + 1j * rise, spread * np.hypot(1.0, tilt)
        bound, turned = atom, loss(path).imag
        for power in (point + 1, -point):
            bound += float(length @ _height(path, loss, power, frequency))
            for end, up in ((start, float(rise[0])), (stop, float(rise[-1]))):
                upwards, widths = _interval(0.0, up, 64)
                bound += float(widths @ _height(end + 1j * upwards, loss, power, frequency))
        if bound < total and np.all(turned >= 0):
            best = min(best, float(np.log(bound / total)) + ROUND_OFF)
    return best


def _interval(start: float, stop: float, count: float) -> tuple[Reals, Reals]:
    """Points and weights for an integral over φ, by panels of Gauss and Legendre."""
    points, weights = legendre(int(np.clip(count, 64, _MOST)))
    half = 0.5 * (stop - start)
    return start + half * (points + 1), half * weights / np.sqrt(2 * np.pi)


def _height(z: Complexes, loss: Analytic, power: float, frequency: float) -> Reals:
    turned = loss(z)
    return np.asarray(np.exp((-0.5 * z * z + power * turned).real - frequency * turned.imag))


def _reach(law: _Law) -> Reals:
    """Equally spaced x around all that carries weight."""
    x = np.linspace(-law.far, law.far, _FEWEST)
    level = law.weight(x + 0j).real
    held = np.flatnonzero(level > level.max() - 80.0)
    low, high = x[max(held[0] - 1, 0)], x[min(held[-1] + 1, x.size - 1)]
    return np.linspace(low, high, int(np.clip((high - low) * (10 + 4 * law.mu), _FEWEST, _MOST)))
