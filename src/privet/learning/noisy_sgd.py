"""Noisy projected stochastic gradient descent with the averaged iterate, as the theory has it."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import final

import numpy as np

from privet.accounting import EpsilonTarget, calibrate
from privet.adjacency import Adjacency
from privet.arguments import fraction, open_fraction, positive, whole
from privet.errors import InvalidArgument
from privet.events import Event, FixedSize, Gaussian, Repeat, dp_sgd
from privet.learning.losses import Floats
from privet.learning.risk import Risk, summation_error
from privet.learning.solver import (
    MORE_ROWS,
    SLACK,
    Prepared,
    Solver,
    Terms,
    gaussian_multiplier,
    noisy,
    norm_grid,
)
from privet.mechanisms.grids import Grid
from privet.mechanisms.sampling import bernoulli
from privet.randomness import NoiseSource

__all__ = ["NoisySGD", "PreparedSGD", "averaged_descent", "theory_event", "theory_scale"]


def theory_scale(*, lipschitz: float, steps: int, population: int, epsilon: float, delta: float) -> float:
    """σ = 16 l √(T ln(2/δ) ln(2.5T/δn))/(nε): noise on the gradient of one row out of n, drawn afresh for each step.

    Under replace-one: the classic Gaussian mechanism at Δ₂ = 2l and ε₀ = nε/(4√(2T ln(2/δ))), which must be below 1,
    amplified by sampling to 2ε₀/n, and advanced composition over T steps. The event is ``theory_event``; accounted
    tightly it costs several times less.

    *Reference.* Bassily, Smith & Thakurta 2014, Theorem 2.1, with constants written out.

    >>> f"{theory_scale(lipschitz=1.0, steps=10**6, population=1000, epsilon=1.0, delta=1e-6):.1f}"
    '283.5'
    """
    positive("lipschitz", lipschitz)
    whole("steps", steps)
    whole("population", population)
    positive("epsilon", epsilon)
    open_fraction("delta", delta)
    each = population * epsilon / (4 * math.sqrt(2 * steps * math.log(2 / delta)))
    if each >= 1:
        least = math.ceil(population**2 * epsilon**2 / (32 * math.log(2 / delta)))
        raise InvalidArgument(
            f"'steps' must be above {least} for the theory's noise, got {steps}, because the classic Gaussian "
            f"mechanism needs ε < 1 in each step. Take more steps, or NoisySGD, whose noise is exact."
        )
    logs = math.log(2 / delta) * math.log(2.5 * steps / (delta * population))
    return 16 * lipschitz * math.sqrt(steps * logs) / (population * epsilon)


def theory_event(*, noise_multiplier: float, steps: int, population: int) -> Event:
    """What the theory's algorithm does: the gradient of one row of n plus noise, T times. Read it under replace-one."""
    return Repeat(FixedSize(1, population, Gaussian(noise_multiplier)), steps)


def averaged_descent(
    gradient: Callable[[Floats], Floats],
    *,
    dimension: int,
    steps: int,
    radius: float,
    step_size: float,
    averaged_share: float = 1.0,
) -> Floats:
    """The mean of θ₁ = 0, …, θ_T with θ_{t+1} = Π(θ_t − η ĝ(θ_t)), Π onto the ball of this radius.

    Or of the last ones: as many as ``averaged_share`` says.

    For a convex function and an unbiased ĝ with E‖ĝ‖² ≤ G², η = R/(G√T) gives an expected excess over the best
    point of the ball of at most RG/√T. *Reference.* Zinkevich 2003; Shalev-Shwartz & Ben-David 2014, Theorem 14.8.
    """
    here, total = np.zeros(dimension), np.zeros(dimension)
    counted = max(1, round(averaged_share * steps))
    for step in range(steps):
        total += here * (step >= steps - counted)
        here = here - step_size * gradient(here)
        norm = float(np.linalg.norm(here))
        if norm > radius:
            here *= radius / norm
    return total / counted


@final
@dataclass(frozen=True)
class NoisySGD(Solver):
    """T steps along noisy sums of gradients over Poisson lots, projected onto a ball; the mean of all iterates.

    *Guarantee.* ‖z‖ ≤ 1, so each row's gradient has norm at most L = sup |f′|: there is nothing to clip. Each step adds
    N(0, (m C)² I) to the lot's sum, where kC = kL + 2ρ + √d g bounds the distance of neighbours' sums: ρ is a bound on
    float64's rounding and g the grid on which the noise is exact. The event is ``dp_sgd`` at m, and m is the
    least for (ε, δ) by the privacy-loss distribution. Step, radius and regularisation are post-processing.

    *Utility.* η = R/(G√T), where G² bounds the second moment of the noisy gradient; the expected excess risk in the ball
    of radius R is then at most RG/√T. ``step_size`` overrules η: a larger one often does better where the gradient is
    far below its bound. ``averaged_share`` below 1 averages the last iterates only, which forgets the start sooner, but the
    bound is for 1. ``sampling_rate`` 1 looks at every row in every step, which costs time but no privacy to speak of.

    *Reference.* Bassily, Smith & Thakurta 2014, Algorithm 1; lots and accounting: Abadi et al. 2016.
    ``theory_scale`` has the theory's own noise for lots of one.
    """

    steps: int = 200
    sampling_rate: float = 1.0
    radius: float = 10.0
    step_size: float | None = None
    averaged_share: float = 1.0

    def __post_init__(self) -> None:
        whole("steps", self.steps)
        fraction("sampling_rate", self.sampling_rate)
        positive("radius", self.radius)
        fraction("averaged_share", self.averaged_share)
        if self.step_size is not None:
            positive("step_size", self.step_size)

    def prepare(self, terms: Terms, *, epsilon: float, delta: float, times: int = 1) -> "PreparedSGD":
        self.check_budget(epsilon, delta)
        whole("times", times)
        if self.sampling_rate * terms.population < 1:
            raise InvalidArgument(
                f"'sampling_rate' times the number of rows must be at least 1, got {self.sampling_rate!r} with "
                f"n_samples = {terms.population}, because most lots would be empty. Raise the rate, or bring more rows."
            )
        noise = _multiplier(epsilon, delta, self.sampling_rate, self.steps * times, terms.adjacency)
        return PreparedSGD(terms, self, noise * (1 + SLACK))


@final
@dataclass(frozen=True)
class PreparedSGD(Prepared):
    """Noisy gradient descent for known terms."""

    terms: Terms
    solver: NoisySGD
    noise_multiplier: float

    @property
    def event(self) -> Event:
        if self.solver.sampling_rate == 1:
            return Repeat(Gaussian(self.noise_multiplier), self.solver.steps)
        return dp_sgd(
            noise_multiplier=self.noise_multiplier,
            sampling_rate=self.solver.sampling_rate,
            steps=self.solver.steps,
        )

    @property
    def lot(self) -> float:
        """The expected number of rows in a lot, of a table of the public size."""
        return self.solver.sampling_rate * self.terms.population

    @property
    def grid(self) -> Grid:
        """Where sums of gradients are rounded to before noise is added."""
        length = self.terms.loss.lipschitz
        return norm_grid(length, self.terms.dimension, self.noise_multiplier * length)

    @property
    def sensitivity(self) -> float:
        """How far apart two neighbours' computed sums of gradients can be, at one θ of the ball."""
        terms = self.terms
        rows, radius = MORE_ROWS * terms.population, self.solver.radius * (1 + 1e-9)
        rounding = summation_error(terms.loss, rows=rows, dimension=terms.dimension, radius=radius)
        fine = math.sqrt(terms.dimension) * self.grid.granularity
        return (terms.apart + 2 * rounding + fine) * (1 + SLACK)

    @property
    def scale(self) -> float:
        """σ on the sum of a lot."""
        return self.noise_multiplier * self.sensitivity / self.terms.adjacency.contribution_distance

    @property
    def second_moment(self) -> float:
        """G²: of the mean gradient with its regularisation, plus the variances of sampling and of noise."""
        terms, rate = self.terms, self.solver.sampling_rate
        mean = terms.loss.lipschitz + terms.regularization * self.solver.radius
        sampling = (1 - rate) * terms.loss.lipschitz**2 / self.lot
        return mean**2 + sampling + terms.dimension * (self.scale / self.lot) ** 2

    @property
    def step_size(self) -> float:
        """η."""
        if self.solver.step_size is not None:
            return self.solver.step_size
        return self.solver.radius / math.sqrt(self.second_moment * self.solver.steps)

    @property
    def excess_bound(self) -> float:
        """RG/√T: the expected excess of the mean risk over the best in the ball, for the theory's η."""
        return self.solver.radius * math.sqrt(self.second_moment / self.solver.steps)

    def run(self, rows: Floats, targets: Floats, noise: NoiseSource) -> Floats:
        self.terms.check_rows(rows.shape[0])

        def gradient(weights: Floats) -> Floats:
            risk = self._lot(rows, targets, noise)
            pull = noisy(risk.pull(weights), self.grid, self.scale, noise)
            return pull / self.lot + self.terms.regularization * weights

        return averaged_descent(
            gradient,
            dimension=self.terms.dimension,
            steps=self.solver.steps,
            radius=self.solver.radius,
            step_size=self.step_size,
            averaged_share=self.solver.averaged_share,
        )

    def _lot(self, rows: Floats, targets: Floats, noise: NoiseSource) -> Risk:
        if self.solver.sampling_rate < 1:
            drawn = bernoulli(self.solver.sampling_rate, rows.shape[0], noise)
            rows, targets = rows[drawn], targets[drawn]
        return Risk(self.terms.loss, rows, targets, 0.0)


@lru_cache(maxsize=128)
def _multiplier(epsilon: float, delta: float, rate: float, steps: int, adjacency: Adjacency) -> float:
    most = gaussian_multiplier(epsilon, delta, steps, adjacency)  # without sampling nothing is amplified
    if rate == 1:
        return most
    return calibrate(
        lambda noise: dp_sgd(noise_multiplier=noise, sampling_rate=rate, steps=steps),
        EpsilonTarget(epsilon=epsilon, delta=delta),
        adjacency=adjacency,
        between=(min(max(0.1 * rate * most, 0.25), 0.5 * most), 1.001 * most),
    ).value
