"""Output perturbation: minimise, then add noise for how far one unit can move the minimiser."""

import math
from dataclasses import dataclass
from typing import final

from privet.arguments import open_fraction, positive, whole
from privet.errors import InvalidArgument
from privet.events import Event, Gaussian
from privet.learning.choosing import strength_for_noisy_weights
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

__all__ = ["OutputPerturbation", "PreparedOutput", "classic_scale"]


def classic_scale(*, population: int, regularization: float, epsilon: float, delta: float) -> float:
    """σ = 2√(2 ln(1.25/δ))/(nλε): the textbook's noise for a 1-Lipschitz loss under replace-one; needs ε < 1.

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
            f"'epsilon' must lie strictly between 0 and 1 for the classic Gaussian mechanism, got {epsilon!r}. "
            f"Use OutputPerturbation, whose noise is exact for every ε."
        )
    return 2 * math.sqrt(2 * math.log(1.25 / delta)) / (population * regularization * epsilon)


@final
@dataclass(frozen=True)
class OutputPerturbation(Solver):
    """θ̂ + N(0, σ² I), with θ̂ the minimiser of Σ f/n + ½λ‖θ‖².

    *Guarantee.* Let neighbours' sums of gradients differ by at most kL at every θ: k = 2 where a unit is replaced,
    and 1 where it is left blank, added or removed (``Terms`` says what n is then). At the minimiser of one of them
    the other's gradient has norm ≤ kL, and its objective is nλ-strongly convex, so the minimisers are at most
    kL/(nλ) apart: the 2L/(nλ) of Chaudhuri et al. for k = 2. A solver stops early. It stops where the gradient of the
    sum is certainly at most τ = ``tolerance`` · L (more for millions of rows), float64's rounding included, which is within τ/(nλ) of the
    minimiser, and both neighbours do. So Δ₂ = (kL + 2τ)/(nλ) + √d g, where g is the grid on which the noise is exact.
    The noise is that of the analytic Gaussian mechanism at Δ₂; the event is ``Gaussian``.

    λ = 0 is refused: without strong convexity one unit can move the minimiser any distance.

    *Reference.* Chaudhuri, Monteleoni & Sarwate 2011, Algorithm 1 and Corollary 8, with Gaussian noise instead of a
    density ∝ e^{−‖b‖}; Wu et al. 2017 on early stopping; Balle & Wang 2018, Theorem 8.
    """

    tolerance: float = 1e-7

    def __post_init__(self) -> None:
        open_fraction("tolerance", self.tolerance)

    def choose_regularization(self, terms: Terms, *, epsilon: float, delta: float, times: int = 1) -> float:
        self.check_budget(epsilon, delta)
        noise = gaussian_multiplier(epsilon, delta, whole("times", times), terms.adjacency)
        strength = strength_for_noisy_weights(
            terms.loss, noise, population=terms.population, dimension=terms.dimension
        )
        return strength / terms.population

    def prepare(self, terms: Terms, *, epsilon: float, delta: float, times: int = 1) -> "PreparedOutput":
        self.check_budget(epsilon, delta)
        whole("times", times)
        if terms.regularization == 0:
            raise InvalidArgument(
                "'alpha' must be above 0 for OutputPerturbation, got 0, because without regularization one person "
                "can move the minimiser any distance and no noise hides that. Give a positive alpha, or use NoisySGD."
            )
        return PreparedOutput(
            terms, self.tolerance, gaussian_multiplier(epsilon, delta, times, terms.adjacency) * (1 + SLACK)
        )


@final
@dataclass(frozen=True)
class PreparedOutput(Prepared):
    """Output perturbation for known terms."""

    terms: Terms
    tolerance: float
    noise_multiplier: float

    @property
    def event(self) -> Event:
        return Gaussian(self.noise_multiplier)

    @property
    def regularization(self) -> float:
        return self.terms.regularization

    @property
    def gradient_bound(self) -> float:
        """τ: the gradient of the sum of losses must be this small where the solver stops."""
        return reachable(self.terms, self.tolerance)

    @property
    def grid(self) -> Grid:
        """Where the weights are rounded to before noise is added."""
        length = self.terms.loss.lipschitz / self.terms.strength
        return norm_grid(length, self.terms.dimension, self.noise_multiplier * length)

    @property
    def sensitivity(self) -> float:
        """How far apart what ``approximate`` finds for two neighbours can be."""
        stopped = (self.terms.apart + 2 * self.gradient_bound) / self.terms.strength
        return (stopped + math.sqrt(self.terms.dimension) * self.grid.granularity) * (1 + SLACK)

    @property
    def scale(self) -> float:
        """σ. The multiplier is relative to one unit's contribution, which is 1/k of the distance of neighbours."""
        return self.noise_multiplier * self.sensitivity / self.terms.adjacency.contribution_distance

    def approximate(self, rows: Floats, targets: Floats) -> Floats:
        """What noise is added to: not private."""
        return minimum(Risk(self.terms.loss, rows, targets, self.terms.strength), self.gradient_bound)

    def run(self, rows: Floats, targets: Floats, noise: NoiseSource) -> Floats:
        return noisy(self.approximate(rows, targets), self.grid, self.scale, noise)
