"""What a solver is given, and what it must decide before it looks at the data."""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import lru_cache
from typing import final

import numpy as np

from privet.accounting import EpsilonTarget, calibrate
from privet.adjacency import Adjacency
from privet.arguments import at_least, open_fraction, positive, whole
from privet.caveats import Caveat
from privet.errors import InvalidArgument, NotProved
from privet.events import Event, Gaussian, Repeat
from privet.learning.hyperparameters import least_strength
from privet.learning.losses import ConvexLoss, Floats
from privet.learning.risk import summation_error
from privet.mechanisms.grids import StepGrid, grid_below
from privet.mechanisms.rounded import rounded_gaussian
from privet.randomness import NoiseSource

__all__ = [
    "MORE_ROWS",
    "SLACK",
    "PreparedFit",
    "Problem",
    "Solver",
    "add_gaussian_noise",
    "choose_norm_grid",
    "gaussian_multiplier",
    "gradient_tolerance",
]

SLACK = 2.0**-40  # relative to a noise scale: more than the round-off of computing it
MORE_ROWS = 4  # times the population is the largest number of rows
_NORM_BITS = 24


@final
@dataclass(frozen=True, kw_only=True)
class Problem:
    """The public side of a problem: θ minimises Σᵢ f(zᵢᵀθ; yᵢ)/population + ½ regularization ‖θ‖², ‖zᵢ‖ ≤ 1.

    ``population`` is a public number. Under replace-one and zero-out the number of rows is public, and can be
    the population. Under add-remove the number of rows is secret, so ``population`` must be chosen without
    it; a row then still counts 1/population.
    """

    loss: ConvexLoss
    dimension: int
    population: int
    regularization: float
    adjacency: Adjacency

    def __post_init__(self) -> None:
        whole("dimension", self.dimension)
        whole("population", self.population)
        at_least("regularization", self.regularization, 0)

    @property
    def strength(self) -> float:
        """The regularisation beside the *sum* of losses."""
        return self.population * self.regularization

    @property
    def gradient_distance(self) -> float:
        """How far apart the sums of gradients of neighbours are at most, at any θ."""
        return self.adjacency.contribution_distance * self.loss.lipschitz

    def check_rows(self, rows: int, most: int) -> None:
        """Refuse more rows than the bounds on round-off are for."""
        if rows > most:
            raise InvalidArgument(
                f"'population' must be at least 1/{MORE_ROWS} of the number of rows, got {self.population}, "
                f"because round-off is bounded for at most {most} rows. Give a number nearer to the size of "
                f"the table."
            )


class PreparedFit(ABC):
    """One private fit, with all of its noise decided from public numbers."""

    @property
    @abstractmethod
    def event(self) -> Event:
        """What one ``run`` does, under the adjacency of the problem."""

    @property
    def caveats(self) -> frozenset[Caveat]:
        """Caveats that the ledger gets with the event."""
        return frozenset()

    @property
    @abstractmethod
    def regularization(self) -> float:
        """The λ that is used: that of the problem, or more where a theorem needs more."""

    @abstractmethod
    def run(self, rows: Floats, targets: Floats, noise: NoiseSource) -> Floats:
        """The private weights. Every call spends ``event`` once more."""


class Solver(ABC):
    """A way to minimise a sum of losses privately; a frozen object."""

    def count_most_rows(self, problem: Problem) -> int:
        """For how many rows its bounds on round-off are."""
        return MORE_ROWS * problem.population

    @abstractmethod
    def prepare(self, problem: Problem, *, epsilon: float, delta: float, times: int = 1) -> PreparedFit:
        """A fit that may run ``times`` times for (ε, δ) together; refuses what no theorem covers."""

    def choose_regularization(
        self, problem: Problem, *, epsilon: float, delta: float, times: int = 1
    ) -> float:
        """λ for a problem that has none, from public numbers: as much as the noise of (ε, δ) calls for."""
        self.check_budget(epsilon, delta)
        noise = gaussian_multiplier(epsilon, delta, whole("times", times), problem.adjacency)
        return least_strength(problem.loss, noise) / problem.population

    def check_budget(self, epsilon: float, delta: float) -> None:
        """Refuse an (ε, δ) that Gaussian noise cannot have."""
        positive("epsilon", epsilon)
        if delta == 0:
            raise NotProved(
                f"'delta' must be above 0 for {type(self).__name__}, got 0, because its noise is Gaussian. "
                f"Choose a δ far below 1/n."
            )
        open_fraction("delta", delta)


@lru_cache(maxsize=512)
def gaussian_multiplier(epsilon: float, delta: float, times: int, adjacency: Adjacency) -> float:
    """σ/C for which so many Gaussian releases are (ε, δ)-DP together: the analytic mechanism, for every ε."""
    distance, tail = adjacency.contribution_distance * math.sqrt(times), 2 * math.log(1 / delta)
    # Concentrated DP proves that the upper end is enough. At the lower end the mean of the loss is far above
    # ε.
    enough, little = math.sqrt(2 * epsilon + tail) - math.sqrt(tail), math.sqrt(2 * epsilon) + 8
    if enough <= 0:
        raise InvalidArgument(
            f"'epsilon' must be large enough for float64, got {epsilon!r}, whose noise would be infinite. "
            f"Give an ε above 1e-10."
        )
    return calibrate(
        lambda noise: Repeat(Gaussian(noise), times),
        EpsilonTarget(epsilon=epsilon, delta=delta),
        adjacency=adjacency,
        between=(distance / little, 1.001 * distance / enough),
    ).value


def gradient_tolerance(problem: Problem, tolerance: float) -> float:
    """The norm that the gradient of the sum must reach: ``tolerance`` · L, or more if float64 needs more.

    It is public: it holds for as many rows as the population, and for weights of a norm up to 1000.
    """
    certain = summation_error(
        problem.loss, rows=problem.population, dimension=problem.dimension, radius=1000.0
    )
    return max(tolerance * problem.loss.lipschitz, 4 * certain)


def choose_norm_grid(length: float, dimension: int, scale: float) -> StepGrid:
    """A grid so fine that rounding a vector to it moves it by less than 2⁻²⁵ of ``length``.

    It is coarser if noise of about this scale would otherwise exceed 2⁴⁵ steps, the most that 64 bits allow
    for.
    """
    return grid_below(max(length / math.sqrt(dimension), scale * 2.0 ** (_NORM_BITS - 45)), _NORM_BITS)


def add_gaussian_noise(vector: Floats, grid: StepGrid, scale: float, noise: NoiseSource) -> Floats:
    """The vector rounded to the grid, plus real Gaussian noise of this scale rounded to the grid.

    A vector on the grid plus rounded noise is the rounding of that vector plus noise. So, once the
    sensitivity covers the rounding of the vector, this is the Gaussian mechanism with post-processing. The
    noise is drawn exactly.
    """
    # Clipping to a box increases no distance. An error instead would depend on the data.
    steps = np.clip(np.rint(vector / grid.granularity), -(2.0**61), 2.0**61)
    released = steps.astype(np.int64) + rounded_gaussian(scale / grid.granularity, vector.size, noise)
    return np.asarray(released * grid.granularity)
