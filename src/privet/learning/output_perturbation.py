"""Output perturbation: minimise, then add noise for the distance that one unit can move the minimiser."""

import math
from dataclasses import dataclass
from typing import final

from privet.arguments import open_fraction, positive, whole
from privet.errors import InvalidArgument
from privet.events import Event, Gaussian
from privet.learning.hyperparameters import strength_for_noisy_weights
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

__all__ = ["OutputPerturbation", "PreparedOutput", "classic_scale"]


def classic_scale(*, population: int, regularization: float, epsilon: float, delta: float) -> float:
    """σ = 2√(2 ln(1.25/δ))/(nλε): the textbook noise for a 1-Lipschitz loss under replace-one; needs ε < 1.

    ``OutputPerturbation`` adds less. *Reference*: Chaudhuri et al. 2011, Corollary 8, with Dwork & Roth 2014,
    Theorem A.1.

    >>> f"{classic_scale(population=1000, regularization=0.01, epsilon=0.5, delta=1e-5):.4f}"
    '1.9379'
    """
    whole("population", population)
    positive("regularization", regularization)
    open_fraction("delta", delta)
    if not 0 < epsilon < 1:
        raise InvalidArgument(
            f"'epsilon' must lie strictly between 0 and 1 for the classic Gaussian mechanism, got "
            f"{epsilon!r}. Use OutputPerturbation, whose noise is exact for every ε."
        )
    return 2 * math.sqrt(2 * math.log(1.25 / delta)) / (population * regularization * epsilon)


@final
@dataclass(frozen=True)
class OutputPerturbation(Solver):
    """θ̂ + N(0, σ² I), with θ̂ the minimiser of Σ f/n + ½λ‖θ‖².

    *Guarantee.* Let neighbours' sums of gradients differ by at most kL at every θ: k = 2 if a unit is
    replaced, and 1 if it is zeroed out, added or removed (``Problem`` says what n is then). At the minimiser
    of one of them the other's gradient has norm ≤ kL, and its objective is nλ-strongly convex, so the
    minimisers are at most kL/(nλ) apart: the 2L/(nλ) of Chaudhuri et al. for k = 2. The solver stops early,
    where the gradient of the sum is certainly at most τ = ``tolerance`` · L (more for millions of rows),
    float64's round-off included. That is within τ/(nλ) of the minimiser, for both neighbours. So Δ₂ = (kL +
    2τ)/(nλ) + √d g, where g is the grid on which the noise is exact. The noise is that of the analytic
    Gaussian mechanism at Δ₂; the event is ``Gaussian``.

    λ = 0 is refused: without strong convexity one unit can move the minimiser any distance.

    *Reference.* Chaudhuri, Monteleoni & Sarwate 2011, Algorithm 1 and Corollary 8, with Gaussian noise
    instead of a density ∝ e^{−‖b‖}; Wu et al. 2017 on early stopping; Balle & Wang 2018, Theorem 8.
    """

    tolerance: float = 1e-7

    def __post_init__(self) -> None:
        open_fraction("tolerance", self.tolerance)

    def choose_regularization(
        self, problem: Problem, *, epsilon: float, delta: float, times: int = 1
    ) -> float:
        self.check_budget(epsilon, delta)
        noise = gaussian_multiplier(epsilon, delta, whole("times", times), problem.adjacency)
        strength = strength_for_noisy_weights(
            problem.loss, noise, population=problem.population, dimension=problem.dimension
        )
        return strength / problem.population

    def prepare(self, problem: Problem, *, epsilon: float, delta: float, times: int = 1) -> "PreparedOutput":
        self.check_budget(epsilon, delta)
        whole("times", times)
        if problem.regularization == 0:
            raise InvalidArgument(
                "'alpha' must be above 0 for OutputPerturbation, got 0, because without regularization one "
                "person can move the minimiser any distance and no noise hides that. Give a positive alpha, "
                "or use NoisySGD."
            )
        return PreparedOutput(
            problem,
            self.tolerance,
            gaussian_multiplier(epsilon, delta, times, problem.adjacency) * (1 + SLACK),
        )


@final
@dataclass(frozen=True)
class PreparedOutput(PreparedFit):
    """Output perturbation for one problem."""

    problem: Problem
    tolerance: float
    noise_multiplier: float

    @property
    def event(self) -> Event:
        return Gaussian(self.noise_multiplier)

    @property
    def regularization(self) -> float:
        return self.problem.regularization

    @property
    def gradient_bound(self) -> float:
        """τ: the gradient of the sum of losses must be this small where the solver stops."""
        return gradient_tolerance(self.problem, self.tolerance)

    @property
    def grid(self) -> StepGrid:
        """The grid that the weights are rounded to before noise is added."""
        length = self.problem.loss.lipschitz / self.problem.strength
        return choose_norm_grid(length, self.problem.dimension, self.noise_multiplier * length)

    @property
    def sensitivity(self) -> float:
        """How far apart the results of ``approximate`` for two neighbours can be."""
        distance = (self.problem.gradient_distance + 2 * self.gradient_bound) / self.problem.strength
        return (distance + math.sqrt(self.problem.dimension) * self.grid.granularity) * (1 + SLACK)

    @property
    def scale(self) -> float:
        """σ.

        The multiplier is relative to one unit's contribution, which is 1/k of the distance of neighbours.
        """
        return self.noise_multiplier * self.sensitivity / self.problem.adjacency.contribution_distance

    def approximate(self, rows: Floats, targets: Floats) -> Floats:
        """The weights before noise, which are not private."""
        return minimize(Risk(self.problem.loss, rows, targets, self.problem.strength), self.gradient_bound)

    def run(self, rows: Floats, targets: Floats, noise: NoiseSource) -> Floats:
        return add_gaussian_noise(self.approximate(rows, targets), self.grid, self.scale, noise)
