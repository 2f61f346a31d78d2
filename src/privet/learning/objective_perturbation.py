"""Objective perturbation: add a random linear term to the objective, then minimise."""

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import final

import numpy as np

from privet.accounting import EpsilonTarget, account, calibrate
from privet.adjacency import AddRemove, Adjacency
from privet.arguments import open_fraction, positive, whole
from privet.caveats import Caveat
from privet.errors import NotProved
from privet.events import Compose, Event, Gaussian, Opaque, Repeat
from privet.learning.losses import Floats
from privet.learning.risk import Risk, minimum
from privet.learning.solver import (
    SLACK,
    Prepared,
    Solver,
    Terms,
    gaussian_multiplier,
    noisy,
    norm_grid,
    reachable,
)
from privet.mechanisms.grids import Grid
from privet.randomness import NoiseSource

__all__ = ["ObjectivePerturbation", "PreparedObjective", "profile"]

_MOST_CURVATURE = (
    7.0  # with less regularisation than this costs, the error of the minimiser would need much noise
)
_MARGIN = (
    2.0**-20
)  # of ε and δ: more than what the accountant adds when it composes the two events on its grid
_ENOUGH = 1e-9  # how closely a noise multiplier is found


def profile(
    *,
    epsilon: float,
    noise_multiplier: float,
    strength: float,
    smoothness: float,
    monotone: bool,
    adjacency: Adjacency,
) -> float:
    """δ(ε) of the exact minimiser of Σ f(zᵢᵀθ; yᵢ) + ½Λ‖θ‖² + bᵀθ, b ~ N(0, σ² I): an upper bound.

    Write μ = L/σ = 1/noise_multiplier, β = ``smoothness``, Λ = ``strength``, and H(a) for the δ of a Gaussian
    mechanism with Δ₂/σ = a at ε − c, c = ln(1 + β/Λ), which must not be negative. The bound is

    =====================  =======================  =====================
    f′(·; y)               added, removed, blank    replaced
    =====================  =======================  =====================
    keeps its sign         H(μ)                     H(2μ) + 2 H(μ)
    may change it          2 H(μ)                   2 H(2μ) + 2 H(√2 μ)
    =====================  =======================  =====================

    *Proof.* For given data θ and b determine each other: b = −∇Σf − Λθ, which is bi-Lipschitz, so θ has the density
    φ(b/σ) · det(∇²Σf + ΛI) almost everywhere (f″ may jump; the scores where it does are null sets of θ). Let v be the
    difference of the neighbours' sums of gradients at θ. The ratio of densities is
    exp((2bᵀv + ‖v‖²)/2σ²), for one sign of v, times the ratio of determinants. Hessians of single persons have rank one
    and norm at most β, so by the matrix determinant lemma that ratio is at most 1 + β/Λ = e^c. Now v depends on b
    through θ, but only by its slopes: v = f′₁z₁ − f′₂z₂ (or one of them) lies in a polytope that z₁, z₂, y₁, y₂ fix. The
    exponent is convex in v, so it is at most its maximum over the corners, of which each is the privacy loss of a
    Gaussian mechanism; and the hockey-stick divergence of a maximum is at most the sum of those of the corners. Slopes
    of one sign give the corners 0, Lz₁, −Lz₂, Lz₁ − Lz₂; slopes of both give ±Lz₁ ± Lz₂, two of norm at most √2 L and two
    of norm at most 2L. ∎

    *Reference.* Chaudhuri, Monteleoni & Sarwate 2011 and Kifer, Smith & Thakurta 2012 for the method; Redberg, Koskela &
    Wang 2023 for the profile of linear models, which is 2 H(μ) with c = −ln(1 − β/Λ) under add-remove. The corners, and
    so the case of one sign and that of replace-one, and the smaller c, are by the proof above.
    """
    rest = epsilon - math.log1p(smoothness / positive("strength", strength))
    if rest < 0:
        raise NotProved(
            f"'strength' must be at least β/(e^ε − 1) = {smoothness / math.expm1(epsilon):.3g} for this ε, "
            f"got {strength!r}, because curvature alone costs ln(1 + β/strength). Regularize more."
        )
    return math.fsum(
        count * account(Gaussian(noise_multiplier / far), adjacency=AddRemove()).delta(epsilon=rest)
        for count, far in _corners(monotone, adjacency)
    )


def _corners(monotone: bool, adjacency: Adjacency) -> tuple[tuple[int, float], ...]:
    """How many corners there are, and how long each can be in units of L."""
    if adjacency.contribution_distance == 1:
        return ((1, 1.0),) if monotone else ((2, 1.0),)
    return ((1, 2.0), (2, 1.0)) if monotone else ((2, 2.0), (2, math.sqrt(2)))


@final
@dataclass(frozen=True)
class ObjectivePerturbation(Solver):
    """The minimiser of Σ f + ½Λ‖θ‖² + bᵀθ with b ~ N(0, σ² I), found nearly, plus a very little noise.

    *Guarantee.* The exact minimiser is (ε₁, δ₁)-DP by ``profile``. Λ is n·λ, or as much more as keeps the price of
    curvature ln(1 + β/Λ) at ``curvature_share`` of ε₁ and at 7, which is Λ = β/1096: so for a large ε, Λ is n·λ. The minimiser that is released is off by at most
    r = (τ + ½√d g)/Λ: the gradient was certainly at most τ = ``tolerance`` · L, rounding included, and b was drawn on a
    grid g, exactly as the rounding of real Gaussian noise. Two neighbours' errors are at most 2r apart, so they are
    covered by Gaussian noise for ``finish_share`` of ε and δ, which is tiny because r is. The events are
    ``Opaque(ε₁, δ₁)`` and ``Gaussian``, composed.

    *Reference.* See ``profile``; Iyengar et al. 2019, Algorithm 1 (AMP), for approximate minima. Deviations: 2r where
    they have r, and the analytic Gaussian mechanism.
    """

    curvature_share: float = 0.25
    finish_share: float = 5e-3
    tolerance: float = 1e-7

    def __post_init__(self) -> None:
        open_fraction("curvature_share", self.curvature_share)
        open_fraction("finish_share", self.finish_share)
        open_fraction("tolerance", self.tolerance)

    def prepare(self, terms: Terms, *, epsilon: float, delta: float, times: int = 1) -> "PreparedObjective":
        self.check_budget(epsilon, delta)
        whole("times", times)
        last, first = self.finish_share * (1 - _MARGIN), (1 - self.finish_share) * (1 - _MARGIN)
        finish = gaussian_multiplier(last * epsilon, last * delta, times, terms.adjacency) * (1 + SLACK)
        each_epsilon, each_delta = _shares(first * epsilon, first * delta, times)
        smoothness, monotone = terms.loss.smoothness, terms.loss.monotone
        strength = max(
            terms.strength, smoothness / math.expm1(min(self.curvature_share * each_epsilon, _MOST_CURVATURE))
        )
        noise = _multiplier(each_epsilon, each_delta, strength, smoothness, monotone, terms.adjacency)
        spent = Opaque(epsilon=each_epsilon, delta=each_delta)
        return PreparedObjective(terms, self.tolerance, strength, noise, finish, spent)


@final
@dataclass(frozen=True)
class PreparedObjective(Prepared):
    """Objective perturbation for known terms."""

    terms: Terms
    tolerance: float
    strength: float
    noise_multiplier: float
    finish_multiplier: float
    minimising: Opaque

    @property
    def event(self) -> Event:
        return Compose((self.minimising, Gaussian(self.finish_multiplier)))

    @property
    def caveats(self) -> frozenset[Caveat]:
        return frozenset(
            {Caveat.UNVETTED}
        )  # the proof in ``profile`` is our own, and nobody else has read it yet

    @property
    def regularization(self) -> float:
        return self.strength / self.terms.population

    @property
    def scale(self) -> float:
        """σ of the linear term, beside the sum of losses."""
        return self.noise_multiplier * self.terms.loss.lipschitz

    @property
    def gradient_bound(self) -> float:
        """τ: the gradient of the perturbed sum of losses must be this small where the solver stops."""
        return reachable(self.terms, self.tolerance)

    @property
    def tilt_grid(self) -> Grid:
        """Where the linear term lies."""
        return norm_grid(self.gradient_bound, self.terms.dimension, self.scale)

    @property
    def grid(self) -> Grid:
        """Where the weights are rounded to before the last noise is added."""
        length = self.gradient_bound / self.strength
        return norm_grid(length, self.terms.dimension, self.finish_multiplier * 2 * length)

    @property
    def off(self) -> float:
        """How far from the exact minimiser for real noise the rounded weights can be."""
        root = math.sqrt(self.terms.dimension)
        stopped = (self.gradient_bound + 0.5 * root * self.tilt_grid.granularity) / self.strength
        return (stopped + 0.5 * root * self.grid.granularity) * (1 + SLACK)

    @property
    def finish_scale(self) -> float:
        """σ of the noise on the weights."""
        return self.finish_multiplier * 2 * self.off / self.terms.adjacency.contribution_distance

    def run(self, rows: Floats, targets: Floats, noise: NoiseSource) -> Floats:
        tilt = noisy(np.zeros(self.terms.dimension), self.tilt_grid, self.scale, noise)
        risk = Risk(self.terms.loss, rows, targets, self.strength, tilt)
        return noisy(minimum(risk, self.gradient_bound), self.grid, self.finish_scale, noise)


def _shares(epsilon: float, delta: float, times: int) -> tuple[float, float]:
    """(ε, δ) of each of several fits: equal parts, or what optimal composition allows, if that is more."""
    equal = epsilon / times * (1 - SLACK), delta / times * (1 - SLACK)
    return equal if times == 1 else max(equal, _composed(epsilon, delta, times))


@lru_cache(maxsize=512)
def _composed(epsilon: float, delta: float, times: int) -> tuple[float, float]:
    each = delta / (2 * times)
    target = EpsilonTarget(epsilon=epsilon, delta=delta)
    found = calibrate(
        lambda value: Repeat(Opaque(epsilon=value, delta=each), times), target, adjacency=AddRemove()
    )
    return found.value, each


@lru_cache(maxsize=512)
def _multiplier(
    epsilon: float, delta: float, strength: float, smoothness: float, monotone: bool, adjacency: Adjacency
) -> float:
    """The least σ/L for which ``profile`` is at most δ, from above: it falls with the noise."""

    def leak(noise: float) -> float:
        return profile(
            epsilon=epsilon,
            noise_multiplier=noise,
            strength=strength,
            smoothness=smoothness,
            monotone=monotone,
            adjacency=adjacency,
        )

    low, high = 0.0, 1.0
    while leak(high) > delta:
        low, high = high, 2 * high
    while high - low > _ENOUGH * high:
        middle = 0.5 * (low + high)
        low, high = (low, middle) if leak(middle) <= delta else (middle, high)
    return high * (1 + SLACK)
