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
from privet.learning.risk import Risk, minimize
from privet.learning.solver import (
    SLACK,
    PreparedFit,
    Problem,
    Solver,
    add_gaussian_noise,
    choose_norm_grid,
    gaussian_multiplier,
    gradient_tolerance,
)
from privet.mechanisms.grids import StepGrid
from privet.randomness import NoiseSource

__all__ = ["ObjectivePerturbation", "PreparedObjective", "profile"]

_MOST_CURVATURE = 7.0  # ln(1 + β/Λ): with less regularisation the minimiser's error would need much noise
_MARGIN = 2.0**-20  # of ε and δ: more than the accountant adds when it composes the two events on its grid
_PRECISION = 1e-9  # relative, of a noise multiplier


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
    f′(·; y)               added, removed, zeroed   replaced
    =====================  =======================  =====================
    keeps its sign         H(μ)                     H(2μ) + 2 H(μ)
    may change it          2 H(μ)                   2 H(2μ) + 2 H(√2 μ)
    =====================  =======================  =====================

    *Proof.* For given data θ and b determine each other: b = −∇Σf − Λθ, which is bi-Lipschitz, so θ has the
    density φ(b/σ) · det(∇²Σf + ΛI) almost everywhere (f″ may jump; the scores where it does are null sets of
    θ). Let v be the difference of the neighbours' sums of gradients at θ. The ratio of densities is exp((2bᵀv
    + ‖v‖²)/2σ²), for one sign of v, times the ratio of determinants. Hessians of single rows have rank one
    and norm at most β, so by the matrix determinant lemma that ratio is at most 1 + β/Λ = e^c. Now v depends
    on b through θ, but only by its derivatives: v = f′₁z₁ − f′₂z₂ (or one of them) lies in a polytope that
    z₁, z₂, y₁, y₂ fix. The exponent is convex in v, so it is at most its maximum over the corners. Each
    corner is the privacy loss of a Gaussian mechanism, and the hockey-stick divergence of a maximum is at
    most the sum of those of the corners. Derivatives of one sign give the corners 0, Lz₁, −Lz₂, Lz₁ − Lz₂.
    Derivatives of both signs give ±Lz₁ ± Lz₂, two of norm at most √2 L and two of norm at most 2L. ∎

    *Reference.* Chaudhuri, Monteleoni & Sarwate 2011 and Kifer, Smith & Thakurta 2012 for the method;
    Redberg, Koskela & Wang 2023 for the profile of linear models, which is 2 H(μ) with c = −ln(1 − β/Λ) under
    add-remove. The corners, so the case of one sign and that of replace-one, and the smaller c are by the
    proof above.
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
    """How many corners there are, and how long each can be, in units of L."""
    if adjacency.contribution_distance == 1:
        return ((1, 1.0),) if monotone else ((2, 1.0),)
    return ((1, 2.0), (2, 1.0)) if monotone else ((2, 2.0), (2, math.sqrt(2)))


@final
@dataclass(frozen=True)
class ObjectivePerturbation(Solver):
    """The minimiser of Σ f + ½Λ‖θ‖² + bᵀθ with b ~ N(0, σ² I), found approximately, plus very little noise.

    *Guarantee.* The exact minimiser is (ε₁, δ₁)-DP by ``profile``. Λ is n·λ, or more if the price of
    curvature ln(1 + β/Λ) would otherwise exceed ``curvature_share`` of ε₁, or 7, which is Λ = β/1096. So for
    a large ε, Λ is n·λ. The minimiser that is released is off by at most r = (τ + ½√d g)/Λ: the gradient is
    certainly at most τ = ``tolerance`` · L, round-off included, and b is drawn on a grid g, exactly as the
    rounding of real Gaussian noise. Two neighbours' errors are at most 2r apart, so Gaussian noise for
    ``finish_share`` of ε and δ covers them. It is tiny because r is. The events are ``Opaque(ε₁, δ₁)`` and
    ``Gaussian``, composed.

    *Reference.* See ``profile``; Iyengar et al. 2019, Algorithm 1 (AMP), for approximate minima. Deviations:
    2r where they have r, and the analytic Gaussian mechanism.
    """

    curvature_share: float = 0.25
    finish_share: float = 5e-3
    tolerance: float = 1e-7

    def __post_init__(self) -> None:
        open_fraction("curvature_share", self.curvature_share)
        open_fraction("finish_share", self.finish_share)
        open_fraction("tolerance", self.tolerance)

    def prepare(
        self, problem: Problem, *, epsilon: float, delta: float, times: int = 1
    ) -> "PreparedObjective":
        self.check_budget(epsilon, delta)
        whole("times", times)
        last, first = self.finish_share * (1 - _MARGIN), (1 - self.finish_share) * (1 - _MARGIN)
        finish = gaussian_multiplier(last * epsilon, last * delta, times, problem.adjacency) * (1 + SLACK)
        single_epsilon, single_delta = _split_budget(first * epsilon, first * delta, times)
        smoothness, monotone = problem.loss.smoothness, problem.loss.monotone
        strength = max(
            problem.strength,
            smoothness / math.expm1(min(self.curvature_share * single_epsilon, _MOST_CURVATURE)),
        )
        noise = _multiplier(single_epsilon, single_delta, strength, smoothness, monotone, problem.adjacency)
        spent = Opaque(epsilon=single_epsilon, delta=single_delta)
        return PreparedObjective(problem, self.tolerance, strength, noise, finish, spent)


@final
@dataclass(frozen=True)
class PreparedObjective(PreparedFit):
    """Objective perturbation for one problem."""

    problem: Problem
    tolerance: float
    strength: float
    noise_multiplier: float
    finish_multiplier: float
    minimization: Opaque

    @property
    def event(self) -> Event:
        return Compose((self.minimization, Gaussian(self.finish_multiplier)))

    @property
    def caveats(self) -> frozenset[Caveat]:
        return frozenset({Caveat.UNVETTED})  # nobody else has checked the proof in ``profile`` yet

    @property
    def regularization(self) -> float:
        return self.strength / self.problem.population

    @property
    def scale(self) -> float:
        """σ of the linear term, which is added to the sum of losses."""
        return self.noise_multiplier * self.problem.loss.lipschitz

    @property
    def gradient_bound(self) -> float:
        """τ: the gradient of the perturbed sum of losses must be this small where the solver stops."""
        return gradient_tolerance(self.problem, self.tolerance)

    @property
    def linear_term_grid(self) -> StepGrid:
        """The grid of the linear term."""
        return choose_norm_grid(self.gradient_bound, self.problem.dimension, self.scale)

    @property
    def grid(self) -> StepGrid:
        """The grid that the weights are rounded to before the last noise is added."""
        length = self.gradient_bound / self.strength
        return choose_norm_grid(length, self.problem.dimension, self.finish_multiplier * 2 * length)

    @property
    def weight_error(self) -> float:
        """How far the rounded weights can be from the exact minimiser for real noise."""
        root = math.sqrt(self.problem.dimension)
        distance = (self.gradient_bound + 0.5 * root * self.linear_term_grid.granularity) / self.strength
        return (distance + 0.5 * root * self.grid.granularity) * (1 + SLACK)

    @property
    def finish_scale(self) -> float:
        """σ of the noise on the weights."""
        return self.finish_multiplier * 2 * self.weight_error / self.problem.adjacency.contribution_distance

    def run(self, rows: Floats, targets: Floats, noise: NoiseSource) -> Floats:
        linear = add_gaussian_noise(
            np.zeros(self.problem.dimension), self.linear_term_grid, self.scale, noise
        )
        risk = Risk(self.problem.loss, rows, targets, self.strength, linear)
        return add_gaussian_noise(minimize(risk, self.gradient_bound), self.grid, self.finish_scale, noise)


def _split_budget(epsilon: float, delta: float, times: int) -> tuple[float, float]:
    """(ε, δ) of each of several fits: equal parts, or the shares of optimal composition, if larger."""
    equal = epsilon / times * (1 - SLACK), delta / times * (1 - SLACK)
    return equal if times == 1 else max(equal, _split_by_composition(epsilon, delta, times))


@lru_cache(maxsize=512)
def _split_by_composition(epsilon: float, delta: float, times: int) -> tuple[float, float]:
    single = delta / (2 * times)
    target = EpsilonTarget(epsilon=epsilon, delta=delta)
    calibrated = calibrate(
        lambda value: Repeat(Opaque(epsilon=value, delta=single), times), target, adjacency=AddRemove()
    )
    return calibrated.value, single


@lru_cache(maxsize=512)
def _multiplier(
    epsilon: float, delta: float, strength: float, smoothness: float, monotone: bool, adjacency: Adjacency
) -> float:
    """The least σ/L for which ``profile``, which falls with the noise, is at most δ; rounded up."""

    def delta_at(noise: float) -> float:
        return profile(
            epsilon=epsilon,
            noise_multiplier=noise,
            strength=strength,
            smoothness=smoothness,
            monotone=monotone,
            adjacency=adjacency,
        )

    low, high = 0.0, 1.0
    while delta_at(high) > delta:
        low, high = high, 2 * high
    while high - low > _PRECISION * high:
        middle = 0.5 * (low + high)
        low, high = (low, middle) if delta_at(middle) <= delta else (middle, high)
    return high * (1 + SLACK)
