"""Scales and quantiles of noise: how much noise an (ε, δ) needs, and how far it reaches.

It shares no code with the accountant. Tests compare what is calibrated here with the accountant's answer.
"""

import math
from fractions import Fraction

import numpy as np
from scipy.special import log_ndtr, ndtri

from privet.arguments import open_fraction, positive
from privet.errors import InvalidArgument, OutOfReach

__all__ = [
    "analytic_noise_multiplier",
    "check_scale",
    "classic_noise_multiplier",
    "discrete_gaussian_quantile",
    "discrete_gaussian_scale",
    "discrete_laplace_quantile",
    "divide_up",
    "split_failure",
]

_MARGIN = 1e-6  # of the scale: more than the gap between the accountant's bounds
_REACH = 39.0  # standard deviations; a normal distribution has no mass beyond in float64
_NORMAL = 4096.0  # from this scale on, a discrete Gaussian's quantile is a normal one within a step
_MOST_STEPS = 2.0**50  # of any noise
_LARGEST_SCALE = 1e5  # of a discrete Gaussian that is accounted exactly


def divide_up(numerator: int, denominator: float | Fraction) -> float:
    """The smallest float that is not below the quotient.

    >>> divide_up(1, 0.1)
    10.0
    """
    exact = numerator / Fraction(denominator)
    rounded = float(exact)
    return rounded if Fraction(rounded) >= exact else math.nextafter(rounded, math.inf)


def check_scale(steps: float) -> float:
    """A noise scale in steps that fits into 64 bits with all of its tails."""
    if steps > _MOST_STEPS:
        raise OutOfReach(
            f"Noise must have a scale of at most 2^50 steps to fit into 64 bits, got {steps:.3g} steps. "
            f"Ask for a larger ε or a smaller scale."
        )
    return steps


def split_failure(failure: float, times: int) -> float:
    """The failure probability of one of ``times`` independent parts, so that any fails with ``failure``."""
    return -math.expm1(math.log1p(-min(failure, 1 - 2.0**-53)) / times)


def discrete_laplace_quantile(scale: float, failure: float) -> int:
    """The smallest t with P[|X| > t] ≤ failure; P[|X| > t] = 2 q^(t+1)/(1 + q), q = exp(−1/scale).

    >>> discrete_laplace_quantile(10.0, 0.05)
    30
    """
    above = scale * math.log(2 / (failure * (1 + math.exp(-1 / scale)))) - 1
    return max(0, math.ceil(above * (1 + 1e-12)))


def discrete_gaussian_quantile(scale: float, failure: float) -> int:
    """The smallest t with P[|X| > t] ≤ failure; for a large scale it may be one step more."""
    if scale >= _NORMAL:
        return math.ceil(-scale * float(ndtri(0.5 * failure))) + 1
    x = np.arange(0, math.ceil(_REACH * scale) + 2)
    heights = np.exp(-0.5 * (x / scale) ** 2)
    beyond = np.cumsum(heights[::-1])[::-1]  # Σ over x, x + 1, …
    tails = 2 * beyond[1:] / (2 * beyond[0] - heights[0])
    return int(np.argmax(tails * (1 + 1e-12) <= failure))


def classic_noise_multiplier(epsilon: float, delta: float) -> float:
    """σ/Δ₂ = √(2 ln(1.25/δ))/ε, for ε < 1 (Dwork & Roth 2014, Theorem A.1)."""
    positive("epsilon", epsilon)
    open_fraction("delta", delta)
    if epsilon >= 1:
        raise InvalidArgument(
            f"'epsilon' must be below 1 for the classic Gaussian mechanism, got {epsilon!r}, because its "
            f"theorem does not hold there. Use Gaussian.analytic, which is exact for every ε and needs less "
            f"noise."
        )
    return math.sqrt(2 * math.log(1.25 / delta)) / epsilon


def analytic_noise_multiplier(epsilon: float, delta: float) -> float:
    """The smallest σ/Δ₂ with Φ(μ/2 − ε/μ) − exp(ε) Φ(−μ/2 − ε/μ) ≤ δ at μ = Δ₂/σ, rounded up by 1e-10.

    In logarithms, so that neither exp(ε) overflows nor a tail of 1e-300 is lost.

    Reference: Balle & Wang 2018, Theorem 8. Their change of variables is not needed where tails are
    logarithms.
    """
    positive("epsilon", epsilon)
    open_fraction("delta", delta)
    target = math.log(delta)
    low, high = -60.0, 60.0  # of ln μ; δ rises with μ
    for _ in range(200):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if _log_delta(epsilon, math.exp(middle)) <= target else (low, middle)
    return math.exp(-low) * (1 + 1e-10)


def _log_delta(epsilon: float, mu: float) -> float:
    """ln δ(ε) of N(μ, 1) against N(0, 1), rounded up by more than the round-off."""
    first = float(log_ndtr(0.5 * mu - epsilon / mu))
    second = epsilon + float(log_ndtr(-0.5 * mu - epsilon / mu))
    lost = 1e-14 * (1 + abs(second))  # of the difference below
    return first + math.log(-math.expm1(min(second - first, 0.0) - lost))


def discrete_gaussian_scale(epsilon: float, delta: float, steps: int, coordinates: int) -> float:
    """A scale whose discrete Gaussian noise, on each of ``coordinates`` that move by ``steps``, is (ε, δ)-DP.

    The privacy loss depends on the sum of the coordinates' noise alone. That sum is discrete Gaussian with
    scale σ√l, up to a factor of 1 ± 10 l exp(−π²σ²), which is 1 in float64 from σ = 3 on. For a smaller σ and
    several coordinates, the bound by concentrated DP is used, which needs a little more noise. A millionth is
    added.

    Reference: Canonne, Kamath & Steinke 2020, Theorem 7 and Proposition 12; Kairouz, Liu & Steinke 2021,
    Theorem 1.
    """
    start = math.sqrt(coordinates) * steps * analytic_noise_multiplier(epsilon, delta)
    log_target = math.log(delta) - 1e-9

    def enough(scale: float) -> bool:
        if coordinates == 1 or scale >= 3:
            return (
                _log_lattice_delta(epsilon, scale * math.sqrt(coordinates), steps * coordinates) <= log_target
            )
        return _log_concentrated_delta(epsilon, 0.5 * coordinates * (steps / scale) ** 2) <= log_target

    low, high = 0.98 * start, 1.02 * start
    while not enough(high):
        low, high = high, 1.1 * high
    while enough(low) and low > 0.05:  # a smaller discrete Gaussian is nearly always 0
        low, high = 0.9 * low, low
    while high - low > 1e-9 * high:
        middle = 0.5 * (low + high)
        low, high = (low, middle) if enough(middle) else (middle, high)
    scale = high * (1 + _MARGIN)
    if scale > _LARGEST_SCALE:
        raise OutOfReach(
            f"An ε of {epsilon:g} at this δ needs a discrete Gaussian of scale {scale:.3g} steps, and "
            f"scales beyond {_LARGEST_SCALE:g} are not accounted exactly. Ask for a larger ε, or use "
            f"Laplace."
        )
    return scale


def _log_lattice_delta(epsilon: float, scale: float, shift: int) -> float:
    """ln δ(ε) of a shifted discrete Gaussian: Σ P[x] (1 − exp(ε − loss(x)))₊, without cancellation."""
    threshold = epsilon * scale**2 / shift - 0.5 * shift  # where the loss (2x + shift)·shift/2σ² is ε
    first = math.floor(threshold) + 1
    if first > _REACH * scale:
        return -math.inf
    last = first + math.ceil(scale * (math.hypot(threshold / scale, 9.0) - max(threshold, 0.0) / scale)) + 2
    last = max(last, math.ceil(9 * scale))
    stride = max(1, math.ceil((last - first) / 400_000))
    if stride > 1:
        return _log_delta(epsilon * (1 - 1e-9), shift / scale * (1 + 1e-9))
    x = np.arange(first, last, dtype=np.float64)
    gains = -np.expm1(np.minimum((threshold - x) * shift / scale**2, 0.0))
    peak = max(first, 0) / scale
    total = float((np.exp(-0.5 * ((x / scale) ** 2 - peak**2)) * gains).sum())
    return math.log(total) - 0.5 * peak**2 - _log_normalizer(scale) if total > 0 else -math.inf


def _log_normalizer(scale: float) -> float:
    """ln Σ exp(−x²/2σ²), which is σ√(2π) from a small scale on (Poisson's summation)."""
    if scale >= 3:
        return math.log(scale * math.sqrt(2 * math.pi))
    x = np.arange(-math.ceil(_REACH * scale) - 1, math.ceil(_REACH * scale) + 2)
    return math.log(float(np.exp(-0.5 * (x / scale) ** 2).sum()))


def _log_concentrated_delta(epsilon: float, rho: float) -> float:
    """ln δ of ρ-concentrated DP: min over α > 1 of (α − 1)(αρ − ε) + (α − 1) ln(1 − 1/α) − ln α."""
    orders = 1 + np.geomspace(1e-4, 1e8, 4001)
    bounds = (orders - 1) * (orders * rho - epsilon + np.log1p(-1 / orders)) - np.log(orders)
    return float(bounds.min())
