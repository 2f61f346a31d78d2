"""What every solver is told, and what it must say before it looks at the data."""

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
from privet.learning.choosing import least_strength
from privet.learning.losses import Floats, Loss
from privet.learning.risk import summation_error
from privet.mechanisms.grids import Grid, grid_below
from privet.mechanisms.rounded import rounded_gaussian
from privet.randomness import NoiseSource

__all__ = [
    "MORE_ROWS",
    "SLACK",
    "Prepared",
    "Solver",
    "Terms",
    "gaussian_multiplier",
    "noisy",
    "norm_grid",
    "reachable",
]

SLACK = 2.0**-40  # of a noise scale: more than the round-off of computing it
MORE_ROWS = 4  # times the population: so many rows at most
_NORM_BITS = 24


@final
@dataclass(frozen=True, kw_only=True)
class Terms:
    """The public side of a problem: θ minimises Σᵢ f(zᵢᵀθ; yᵢ)/population + ½ regularization ‖θ‖², ‖zᵢ‖ ≤ 1.

    ``population`` is a public number. Where one unit is replaced or left blank the number of rows is public, and can
    be it. Where one is added or removed the number of rows is a secret, and somebody must have chosen ``population``
    without it; a row then still counts 1/population.
    """

    loss: Loss
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
    def apart(self) -> float:
        """How far one unit moves the sum of gradients between neighbours, at any θ."""
        return self.adjacency.contribution_distance * self.loss.lipschitz

    def check_rows(self, rows: int) -> None:
        """Refuses a population that is far too small, because bounds of round-off are made from it."""
        if rows > MORE_ROWS * self.population:
            raise InvalidArgument(
                f"'population' must be at least 1/{MORE_ROWS} of the number of rows, got {self.population}, because "
                f"round-off is bounded by it. Give a number nearer to the size of the table."
            )


class Prepared(ABC):
    """One private fit, with all its noise decided by public numbers."""

    @property
    @abstractmethod
    def event(self) -> Event:
        """What one ``run`` does, to be read under the adjacency of the terms."""

    @property
    def caveats(self) -> frozenset[Caveat]:
        """What the ledger must say beside the event."""
        return frozenset()

    @property
    @abstractmethod
    def regularization(self) -> float:
        """The λ that is used: that of the terms, or more where a theorem needs more."""

    @abstractmethod
    def run(self, rows: Floats, targets: Floats, noise: NoiseSource) -> Floats:
        """The private weights. Every call spends ``event`` once more."""


class Solver(ABC):
    """A way to minimise a sum of losses privately; a frozen object."""

    @abstractmethod
    def prepare(self, terms: Terms, *, epsilon: float, delta: float, times: int = 1) -> Prepared:
        """A fit that may run ``times`` times for (ε, δ) together; refuses what no theorem covers."""

    def choose_regularization(self, terms: Terms, *, epsilon: float, delta: float, times: int = 1) -> float:
        """λ for terms that have none, by public numbers: as much as the noise of (ε, δ) calls for."""
        self.check_budget(epsilon, delta)
        noise = gaussian_multiplier(epsilon, delta, whole("times", times), terms.adjacency)
        return least_strength(terms.loss, noise) / terms.population

    def check_budget(self, epsilon: float, delta: float) -> None:
        """Refuses an (ε, δ) that Gaussian noise cannot have."""
        positive("epsilon", epsilon)
        if delta == 0:
            raise NotProved(
                f"'delta' must be above 0 for {type(self).__name__}, got 0, because its noise is Gaussian. "
                f"Choose a δ far below 1/n."
            )
        open_fraction("delta", delta)


@lru_cache(maxsize=512)
def gaussian_multiplier(epsilon: float, delta: float, times: int, adjacency: Adjacency) -> float:
    """σ/C for which that many Gaussian releases are (ε, δ)-DP together: the analytic mechanism, for every ε."""
    reach, tail = adjacency.contribution_distance * math.sqrt(times), 2 * math.log(1 / delta)
    # Concentrated DP says that this much is enough; where the mean of the loss is far above ε, it is too little.
    enough, little = math.sqrt(2 * epsilon + tail) - math.sqrt(tail), math.sqrt(2 * epsilon) + 8
    return calibrate(
        lambda noise: Repeat(Gaussian(noise), times),
        EpsilonTarget(epsilon=epsilon, delta=delta),
        adjacency=adjacency,
        between=(reach / little, 1.001 * reach / enough),
    ).value


def reachable(terms: Terms, tolerance: float) -> float:
    """How small the gradient of the sum must become: ``tolerance`` · L, or what float64 can certify if that is more.

    Public: made for as many rows as the population, and for weights of a norm up to 1000.
    """
    certain = summation_error(terms.loss, rows=terms.population, dimension=terms.dimension, radius=1000.0)
    return max(tolerance * terms.loss.lipschitz, 4 * certain)


def norm_grid(length: float, dimension: int, scale: float) -> Grid:
    """A grid so fine that rounding a vector to it moves it by less than 2⁻²⁵ of ``length``.

    Unless noise of about this scale would then be more than 2⁴⁵ steps, which is all that 64 bits are good for.
    """
    return grid_below(max(length / math.sqrt(dimension), scale * 2.0 ** (_NORM_BITS - 45)), _NORM_BITS)


def noisy(vector: Floats, grid: Grid, scale: float, noise: NoiseSource) -> Floats:
    """The vector rounded to the grid, plus real Gaussian noise of this scale rounded to the grid.

    A whole vector plus rounded noise is the rounding of the vector plus noise; so after the rounding of the vector,
    which belongs into the sensitivity, this is the Gaussian mechanism and post-processing. The noise is drawn exactly.
    """
    # A box keeps distances, so that this does not need to be an error, which could depend on the data.
    steps = np.clip(np.rint(vector / grid.granularity), -(2.0**61), 2.0**61)
    moved = steps.astype(np.int64) + rounded_gaussian(scale / grid.granularity, vector.size, noise)
    return np.asarray(moved * grid.granularity)
