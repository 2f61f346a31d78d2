"""The normal distribution where it is hard: differences of tails that agree in many digits."""

from functools import lru_cache
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.special import erfcx, log_ndtr, ndtr

__all__ = ["gaussian_delta"]

Reals: TypeAlias = NDArray[Any]  # of float64; scipy's functions do not say so

_NARROW = 0.1  # below this μ the difference of two Mills ratios loses digits and is integrated instead


def gaussian_delta(mu: float, epsilon: Reals) -> Reals:
    """δ(ε) = Φ(μ/2 − ε/μ) − exp(ε) Φ(−μ/2 − ε/μ) with a small relative error in both tails.

    With a, b = ε/μ ∓ μ/2 and Mills' ratio R(x) = Φ(−x)/φ(x) this is φ(a) (R(a) − R(b)); the difference is
    ∫ₐᵇ (1 − x R(x)) dx where μ is small.

    Reference: Balle & Wang 2018, Theorem 5.
    """
    a = epsilon / mu - 0.5 * mu
    b = epsilon / mu + 0.5 * mu
    left = a < -8.0  # here δ is close to 1 − exp(ε) or to 1 and nothing cancels
    safe = np.where(left, 0.0, a)
    difference = _mills_step(safe, mu) if mu < _NARROW else _mills(safe) - _mills(safe + mu)
    tail = np.exp(-0.5 * safe * safe) / np.sqrt(2 * np.pi) * difference
    if not np.any(left):
        return np.asarray(tail)
    with np.errstate(over="ignore"):
        bulk = ndtr(-a) - np.exp(np.minimum(epsilon, 700.0) + log_ndtr(-b))
    return np.where(left, np.maximum(bulk, 0.0), tail)


def _mills(x: Reals) -> Reals:
    """Φ(−x)/φ(x)."""
    return np.asarray(np.sqrt(np.pi / 2) * erfcx(x / np.sqrt(2)))


def _mills_step(a: Reals, width: float) -> Reals:
    """R(a) − R(a + width), as the integral of −R′ = 1 − x R(x) over a narrow interval."""
    points, weights = _five_points()
    total = np.zeros_like(a)
    for point, weight in zip(points, weights, strict=True):
        total += weight * _mills_slope(a + width * point)
    return width * total


def _mills_slope(x: Reals) -> Reals:
    """1 − x R(x); by its asymptotic series where x R(x) is close to 1."""
    far = x > 60.0
    near = 1.0 - x * _mills(np.where(far, 0.0, x))
    if not np.any(far):
        return np.asarray(near)
    inverse = 1.0 / np.where(far, x, 60.0) ** 2
    series = inverse * (1 - 3 * inverse * (1 - 5 * inverse * (1 - 7 * inverse)))
    return np.where(far, series, near)


@lru_cache(maxsize=1)
def _five_points() -> tuple[Reals, Reals]:
    points, weights = np.polynomial.legendre.leggauss(5)
    return 0.5 * (points + 1), 0.5 * weights
