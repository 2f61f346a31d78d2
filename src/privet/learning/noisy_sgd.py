"""Noisy gradient descent in a ball, with momentum and averaged iterates."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import final

import numpy as np

from privet.accounting import EpsilonTarget, calibrate
from privet.adjacency import AddRemove, Adjacency
from privet.arguments import fraction, open_fraction, positive, whole
from privet.errors import InvalidArgument
from privet.events import Event, FixedSize, Gaussian, Repeat, dp_sgd
from privet.learning.hyperparameters import DescentPlan, least_strength, starting_radius
from privet.learning.losses import Floats
from privet.learning.risk import Risk, summation_error
from privet.learning.solver import (
    MORE_ROWS,
    SLACK,
    PreparedFit,
    Problem,
    Solver,
    add_gaussian_noise,
    choose_norm_grid,
    gaussian_multiplier,
)
from privet.mechanisms.grids import StepGrid
from privet.mechanisms.sampling import bernoulli
from privet.randomness import NoiseSource

__all__ = ["NoisySGD", "PreparedSGD", "descend", "theory_event", "theory_scale"]


_MOST_ROWS = 1 << 28  # more than a table in memory has


def theory_scale(*, lipschitz: float, steps: int, population: int, epsilon: float, delta: float) -> float:
    """σ = 16 l √(T ln(2/δ) ln(2.5T/δn))/(nε): noise on the gradient of one row out of n, in each step.

    Under replace-one: the classic Gaussian mechanism at Δ₂ = 2l and ε₀ = nε/(4√(2T ln(2/δ))), which must be
    below 1, amplified by sampling to 2ε₀/n, and advanced composition over T steps. The event is
    ``theory_event``; accounted tightly it costs several times less.

    *Reference.* Bassily, Smith & Thakurta 2014, Theorem 2.1, with constants written out.

    >>> f"{theory_scale(lipschitz=1.0, steps=10**6, population=1000, epsilon=1.0, delta=1e-6):.1f}"
    '283.5'
    """
    positive("lipschitz", lipschitz)
    whole("steps", steps)
    whole("population", population)
    positive("epsilon", epsilon)
    open_fraction("delta", delta)
    single = population * epsilon / (4 * math.sqrt(2 * steps * math.log(2 / delta)))
    if single >= 1:
        least = math.ceil(population**2 * epsilon**2 / (32 * math.log(2 / delta)))
        raise InvalidArgument(
            f"'steps' must be above {least} for the theory's noise, got {steps}, because the classic "
            f"Gaussian mechanism needs ε < 1 in each step. Take more steps, or NoisySGD, whose noise is "
            f"exact."
        )
    logs = math.log(2 / delta) * math.log(2.5 * steps / (delta * population))
    return 16 * lipschitz * math.sqrt(steps * logs) / (population * epsilon)


def theory_event(*, noise_multiplier: float, steps: int, population: int) -> Event:
    """What the theory's algorithm does: the gradient of one row of n plus noise, T times. For replace-one."""
    return Repeat(FixedSize(1, population, Gaussian(noise_multiplier)), steps)


def descend(
    gradient: Callable[[Floats], Floats],
    *,
    dimension: int,
    steps: int,
    radius: float,
    step_size: float,
    averaged_share: float = 1.0,
    momentum: float = 0.0,
) -> Floats:
    """The mean of θ₁, …, θ_T with θ_{t+1} = Π(ϑ_t − η ĝ(ϑ_t)), θ₀ = ϑ₀ = 0, Π onto the ball of this radius.

    ϑ_{t+1} = Π(θ_{t+1} + m_t(θ_{t+1} − θ_t)) looks ahead by the momentum m_t = min(``momentum``, t/(t + 3)).
    Without momentum ϑ is θ. With ``averaged_share`` below 1 only the last iterates, as many as this share,
    are averaged.

    For a convex, β-smooth function on the ball, no momentum, and an unbiased ĝ with E‖ĝ − g‖² ≤ v², the step
    η = 1/(β + v√T/R) gives an expected excess of the mean of all iterates over the best point of at most
    Rv/√T + βR²/(2T). *Reference.* Bubeck 2015, Theorem 6.3 (his R² is our ½R²); momentum: Nesterov 2004,
    section 2.2.
    """
    here, ahead, total = np.zeros(dimension), np.zeros(dimension), np.zeros(dimension)
    counted = max(1, round(averaged_share * steps))
    for step in range(steps):
        after = _project_to_ball(ahead - step_size * gradient(ahead), radius)
        ahead = _project_to_ball(after + min(momentum, step / (step + 3)) * (after - here), radius)
        here = after
        total += here * (step >= steps - counted)
    return total / counted


def _project_to_ball(point: Floats, radius: float) -> Floats:
    norm = float(np.linalg.norm(point))
    return point * (radius / norm) if norm > radius else point


@final
@dataclass(frozen=True)
class NoisySGD(Solver):
    """T steps along noisy sums of gradients over Poisson lots, in a ball; the mean of the last iterates.

    *Guarantee.* ‖z‖ ≤ 1, so each row's gradient has norm at most L = sup |f′|: there is nothing to clip. Each
    step adds N(0, (m C)² I) to the lot's sum, where kC = kL + 2ρ + √d g bounds the distance of neighbours'
    sums: ρ is a bound on float64's round-off and g the grid on which the noise is exact. The event is
    ``dp_sgd`` at m, and m is the least for (ε, δ) by the privacy-loss distribution. Step, radius, momentum,
    mean and regularisation are post-processing. The number of steps is public: it is chosen from n, d, ε, δ
    and λ.

    *Utility.* A number that is None is chosen by the rules of ``privet.learning.hyperparameters``. ``steps``:
    as many as bring the excess risk down to that of the noise, which are more for a larger ε. ``momentum``:
    Nesterov's for the condition number, or 0 where lots are sampled, because their sampling noise does not
    fall with ε. ``radius``: a ball that holds the minimiser. ``step_size``: 1/(β + λ) with momentum; without,
    the η of ``descend``. An ``averaged_share`` of 0.5 forgets the start and still averages the noise out. As
    ε grows, the weights converge to the minimiser of the regularised risk, if ``sampling_rate`` is 1 and the
    limit of 1000 steps is not reached.

    *Reference.* Bassily, Smith & Thakurta 2014, Algorithm 1; lots and accounting: Abadi et al. 2016.
    Deviations: momentum, and the mean of the last iterates. ``theory_scale`` has the theory's own noise for
    lots of one.
    """

    steps: int | None = None
    sampling_rate: float = 1.0
    radius: float | None = None
    step_size: float | None = None
    averaged_share: float = 0.5
    momentum: float | None = None

    def __post_init__(self) -> None:
        if self.steps is not None:
            whole("steps", self.steps)
        fraction("sampling_rate", self.sampling_rate)
        if self.radius is not None:
            positive("radius", self.radius)
        fraction("averaged_share", self.averaged_share)
        if self.step_size is not None:
            positive("step_size", self.step_size)
        if self.momentum is not None and self.momentum != 0:
            open_fraction("momentum", self.momentum)

    def count_most_rows(self, problem: Problem) -> int:
        """Where the number of rows is secret, no fewer than a constant: a refusal would tell whether it is
        above a number that the caller chooses.
        """
        least = _MOST_ROWS if isinstance(problem.adjacency, AddRemove) else 0
        return max(least, MORE_ROWS * problem.population)

    def prepare(self, problem: Problem, *, epsilon: float, delta: float, times: int = 1) -> "PreparedSGD":
        self.check_budget(epsilon, delta)
        whole("times", times)
        if self.sampling_rate * problem.population < 1:
            raise InvalidArgument(
                f"'sampling_rate' times the number of rows must be at least 1, got {self.sampling_rate!r} "
                f"with n_samples = {problem.population}, because most lots would be empty. Raise the rate, "
                f"or bring more rows."
            )
        once = gaussian_multiplier(epsilon, delta, times, problem.adjacency)
        strength = max(problem.strength, least_strength(problem.loss, once))
        radius, momentum = self.radius, self.momentum
        if radius is None:
            radius = starting_radius(problem.loss, strength=strength, population=problem.population)
        if momentum is None and self.sampling_rate < 1:
            momentum = 0.0
        pace = DescentPlan.choose(
            problem.loss,
            strength=strength,
            noise_multiplier=once,
            population=problem.population,
            dimension=problem.dimension,
            momentum=momentum,
        )
        steps = pace.steps if self.steps is None else self.steps
        noise = _multiplier(epsilon, delta, self.sampling_rate, steps * times, problem.adjacency)
        return PreparedSGD(problem, self, steps, radius, pace.momentum, noise * (1 + SLACK))


@final
@dataclass(frozen=True)
class PreparedSGD(PreparedFit):
    """Noisy gradient descent for one problem."""

    problem: Problem
    solver: NoisySGD
    steps: int
    radius: float
    momentum: float
    noise_multiplier: float

    @property
    def event(self) -> Event:
        if self.solver.sampling_rate == 1:
            return Repeat(Gaussian(self.noise_multiplier), self.steps)
        return dp_sgd(
            noise_multiplier=self.noise_multiplier,
            sampling_rate=self.solver.sampling_rate,
            steps=self.steps,
        )

    @property
    def regularization(self) -> float:
        return self.problem.regularization

    @property
    def lot(self) -> float:
        """The expected number of rows in a lot, for a table of the public size."""
        return self.solver.sampling_rate * self.problem.population

    @property
    def grid(self) -> StepGrid:
        """The grid that sums of gradients are rounded to before noise is added."""
        length = self.problem.loss.lipschitz
        noise = self.noise_multiplier * (length + 2 * self._rounding)
        return choose_norm_grid(length, self.problem.dimension, noise)

    @property
    def sensitivity(self) -> float:
        """How far apart the computed sums of gradients of two neighbours can be, at one θ in the ball."""
        problem = self.problem
        fine = math.sqrt(problem.dimension) * self.grid.granularity
        return (problem.gradient_distance + 2 * self._rounding + fine) * (1 + SLACK)

    @property
    def _rounding(self) -> float:
        """ρ."""
        rows, radius = self.solver.count_most_rows(self.problem), self.radius * (1 + 1e-9)
        return summation_error(self.problem.loss, rows=rows, dimension=self.problem.dimension, radius=radius)

    @property
    def scale(self) -> float:
        """σ on the sum of a lot."""
        return self.noise_multiplier * self.sensitivity / self.problem.adjacency.contribution_distance

    @property
    def gradient_variance(self) -> float:
        """v²: the mean squared error of the noisy gradient of the mean risk, by sampling and by noise."""
        sampling = (1 - self.solver.sampling_rate) * self.problem.loss.lipschitz**2 / self.lot
        return sampling + self.problem.dimension * (self.scale / self.lot) ** 2

    @property
    def smoothness(self) -> float:
        """β of the mean risk with its regularisation."""
        return self.problem.loss.smoothness + self.problem.regularization

    @property
    def step_size(self) -> float:
        """η."""
        if self.solver.step_size is not None:
            return self.solver.step_size
        if self.momentum > 0:
            return 1 / self.smoothness
        return 1 / (self.smoothness + math.sqrt(self.gradient_variance * self.steps) / self.radius)

    @property
    def excess_bound(self) -> float:
        """(Rv/√T + βR²/(2T))/share: the expected excess of the mean risk over the best point in the ball.

        It is the bound of ``descend``, for the η given there, divided by the share, because no iterate's
        excess is negative. It is infinite with momentum or a given step size, for which no bound is proved
        here.
        """
        if self.momentum > 0 or self.solver.step_size is not None:
            return math.inf
        noise = self.radius * math.sqrt(self.gradient_variance / self.steps)
        start = 0.5 * self.smoothness * self.radius**2 / self.steps
        return (noise + start) * self.steps / max(1, round(self.solver.averaged_share * self.steps))

    def run(self, rows: Floats, targets: Floats, noise: NoiseSource) -> Floats:
        self.problem.check_rows(rows.shape[0], self.solver.count_most_rows(self.problem))

        def gradient(weights: Floats) -> Floats:
            risk = self._sample_lot(rows, targets, noise)
            total = add_gaussian_noise(risk.loss_gradient(weights), self.grid, self.scale, noise)
            return total / self.lot + self.problem.regularization * weights

        return descend(
            gradient,
            dimension=self.problem.dimension,
            steps=self.steps,
            radius=self.radius,
            step_size=self.step_size,
            averaged_share=self.solver.averaged_share,
            momentum=self.momentum,
        )

    def _sample_lot(self, rows: Floats, targets: Floats, noise: NoiseSource) -> Risk:
        if self.solver.sampling_rate < 1:
            lot = bernoulli(self.solver.sampling_rate, rows.shape[0], noise)
            rows, targets = rows[lot], targets[lot]
        return Risk(self.problem.loss, rows, targets, 0.0)


@lru_cache(maxsize=128)
def _multiplier(epsilon: float, delta: float, rate: float, steps: int, adjacency: Adjacency) -> float:
    most = gaussian_multiplier(epsilon, delta, steps, adjacency)  # enough without amplification by sampling
    if rate == 1:
        return most
    return calibrate(
        lambda noise: dp_sgd(noise_multiplier=noise, sampling_rate=rate, steps=steps),
        EpsilonTarget(epsilon=epsilon, delta=delta),
        adjacency=adjacency,
        between=(min(max(0.1 * rate * most, 0.25), 0.5 * most), 1.001 * most),
    ).value
