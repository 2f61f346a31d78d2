"""Noise in shares: what a sum of independent discrete Gaussians proves.

Let p be the law of x + Z₁ + … + Zₙ with Zᵢ ~ N_ℤ(0, v) and a whole number x. Write ρ_w(z) = exp(−z²/2w).
Two of them convolve on the whole numbers to

    Σₖ ρ_v(k) ρ_w(z − k) = ρ_{v+w}(z) Σₖ exp(−(k − zv/(v+w))²/2u),    u = vw/(v+w),

and by Poisson summation the sum on the right is √(2πu) (1 + e), |e| ≤ η(u) = 2 Σ_{m≥1} exp(−2π²um²),
wherever its centre lies. Merging n shares one by one, with u = v k/(k+1) for k = 1 … n−1, gives p(z) ∝
ρ_{nv}(z − x) times a factor within Π (1 ± η(vk/(k+1))).

Let q be the law of a discrete Gaussian N_ℤ(Y, r²) whose centre is Y ~ N(x, s²), a real number, with s² + r²
= nv. The same two steps give q(z) ∝ ρ_{nv}(z − x) times a factor within 1/(1 ± η(r²)). Both laws sum to 1,
so

    p(z) ≥ exp(−T) q(z),    T = Σ_{k<n} ln (1 + η(vk/(k+1)))/(1 − η(vk/(k+1))) + ln (1 + η(r²))/(1 − η(r²)).

On d coordinates p ≥ exp(−dT) q. For neighbours x, x′ and each y ≥ 0

    1 − H_y(p_x ‖ p_x′) = Σ min(p_x, y p_x′) ≥ exp(−dT) Σ min(q_x, y q_x′) = exp(−dT) (1 − H_y(q_x ‖ q_x′)),

and q is post-processing of Y. So with a = 1 − exp(−dT), H_y(p_x ‖ p_x′) ≤ a + (1 − a) H_y(N(x, s²) ‖ N(x′,
s²)). That is the profile of a Gaussian pair with μ = ‖x − x′‖/s, composed with a loss that is infinite with
probability a. The price of the shares is r² of nv in variance and a in δ; both fall as the grid of the
whole numbers gets finer.

The noise on each coordinate is that of the shares of honest parties. More shares are more noise, which is
post-processing: the bound for ``shares`` of them holds for every larger number.

The theorem that was published says less about δ: ``concentrate``. It is what the accountant of concentrated
DP uses.
"""

import math

from privet.accounting.atoms import gaussian_pair
from privet.accounting.pairs import FinitePair, GaussianPair
from privet.adjacency import AddRemove, Adjacency
from privet.errors import NotProved
from privet.events import DiscreteGaussianShares

__all__ = ["concentrate", "dominate_shares"]

_NATS = 46.0  # d · 4 exp(−2π²r²) ≤ exp(−46) = 1e-20
_ROUND_OFF = 1 + 1e-9
_SMALLEST = 1e-300  # in place of what is too small for float64


def dominate_shares(event: DiscreteGaussianShares, adjacency: Adjacency) -> tuple[GaussianPair, FinitePair]:
    """Two pairs whose product dominates the event; see the module for the proof.

    >>> from privet.adjacency import Unit, ZeroOut
    >>> event = DiscreteGaussianShares(scale=10.0, shares=100, contribution=50.0, coordinates=1000)
    >>> normal, nothing = dominate_shares(event, ZeroOut(Unit.CLIENT))
    >>> f"{normal.mu:.4f}"  # 50/100, and a little more
    '0.5001'
    """
    distance = _distance(event, adjacency)
    square = event.scale**2 * event.shares
    rounding = (_NATS + math.log(4 * event.coordinates)) / (2 * math.pi**2)  # r²
    gap = _gap(rounding) + sum(_gap(event.scale**2 * k / (k + 1)) for k in range(1, event.shares))
    if not square > 2 * rounding or not gap * event.coordinates < 0.5:
        raise NotProved(
            f"Shares of noise of scale {event.scale:g} are too small on a grid of whole numbers to be "
            f"accounted for {event.shares} shares and {event.coordinates} coordinates. Take a finer grid, "
            "on which the same noise has a larger scale."
        )
    normal = gaussian_pair(distance / math.sqrt(square - rounding) * _ROUND_OFF)
    leak = -math.expm1(-max(event.coordinates * gap * _ROUND_OFF, _SMALLEST))
    return normal, FinitePair((0.0,), (1 - leak,), leak, leak)


def concentrate(event: DiscreteGaussianShares, adjacency: Adjacency) -> float:
    """ρ = ε²/2 of concentrated DP.

    ε = min(√(Δ²/nσ² + τd/2), Δ/(√n σ) + τ√d) with τ = 10 Σ_{k<n} exp(−2π²σ² k/(k+1)).

    Reference: Kairouz, Liu & Steinke 2021, Theorem 1 and Proposition 14, which needs σ ≥ ½.
    """
    if event.scale < 0.5:
        raise NotProved(
            f"Shares of discrete Gaussian noise must have a scale of at least ½ on the grid, got "
            f"{event.scale:g}. Take a finer grid."
        )
    shift = _distance(event, adjacency) / (math.sqrt(event.shares) * event.scale)
    tau = 10 * sum(math.exp(-2 * math.pi**2 * event.scale**2 * k / (k + 1)) for k in range(1, event.shares))
    squared = shift**2 + 0.5 * tau * event.coordinates
    summed = (shift + tau * math.sqrt(event.coordinates)) ** 2
    return 0.5 * min(squared, summed) * _ROUND_OFF


def _distance(event: DiscreteGaussianShares, adjacency: Adjacency) -> float:
    if isinstance(adjacency, AddRemove):
        raise NotProved(
            "Noise in shares has no guarantee under add-remove adjacency, because a unit that is absent "
            "adds no share, and because it is seen who contributed. Account under zero-out or replace-one "
            "adjacency."
        )
    return adjacency.contribution_distance * event.contribution


def _gap(variance: float) -> float:
    """ln (1 + η)/(1 − η), rounded up; infinite where η is 1 or more.

    η = 2 Σ_{m≥1} q^(m²) ≤ 2q/(1 − q³), because m² ≥ 1 + 3 (m − 1).
    """
    q = math.exp(-2 * math.pi**2 * variance)
    wave = 2 * q / (1 - q**3) if q < 0.4 else 1.0
    return (math.log1p(wave) - math.log1p(-wave)) * _ROUND_OFF if wave < 1 else math.inf
