"""The only queries of a table for synthetic data: a noisy count or marginal, and the choice of a marginal.

The ledger gets each query before its noise is drawn, so that nothing spent is forgotten if a run fails.

*Guarantee.* A row is in one cell of a marginal. A unit that is added, removed or zeroed moves one cell by
one; a unit that is replaced moves at most two cells by one each. Both samplers are exact on the integers.

A choice scores a marginal r by w_r (‖M_r(D) − M_r(p)‖₁ − penalty_r). Model answers and penalties are rounded
to eighths first, so that the scores are whole numbers, and one unit moves them by at most max w_r · 8 eighths
(twice that if replaced), in the computer as well as on paper. ε/2Δ is rounded down to 16 bits, so that its
product with a score is exact in float64 up to 2³⁷. The ledger holds the resulting ε.
"""

import math
from collections.abc import Callable, Sequence
from typing import final

import numpy as np

from privet.adjacency import Adjacency
from privet.caveats import Caveat
from privet.events import DiscreteGaussian, DiscreteLaplace, Event, ExponentialMechanism, Repeat
from privet.ledger import Ledger
from privet.mechanisms.sampling import choose, discrete_gaussian, discrete_laplace
from privet.randomness import NoiseSource
from privet.releasing.synthetic.marginals import Axes, ExactMarginals

__all__ = ["CellNoise", "NoisyAccess", "cell_event", "selection_factor"]

_EIGHTHS = 8  # the grid of the scores
_BITS = 16  # of ε/2Δ

CellNoise = type[DiscreteLaplace] | type[DiscreteGaussian]
_SAMPLERS: dict[CellNoise, Callable[[float, int, NoiseSource], np.ndarray]] = {
    DiscreteLaplace: discrete_laplace,
    DiscreteGaussian: discrete_gaussian,
}


def cell_event(kind: CellNoise, scale: float, adjacency: Adjacency) -> Event:
    """A marginal with noise on every cell; one unit moves one cell, or two if it is replaced.

    >>> from privet.adjacency import AddRemove, ReplaceOne
    >>> cell_event(DiscreteGaussian, 10.0, AddRemove())
    DiscreteGaussian(scale=10.0, contribution=1)
    >>> cell_event(DiscreteGaussian, 10.0, ReplaceOne())
    Repeat(inner=DiscreteGaussian(scale=10.0, contribution=0.5), times=2)
    """
    cells = adjacency.contribution_distance
    return kind(scale, 1) if cells == 1 else Repeat(kind(scale, 1 / cells), cells)


def selection_factor(epsilon: float, sensitivity: int) -> float:
    """ε/2Δ rounded down to few bits, so that its product with a whole-number score is exact.

    >>> selection_factor(0.1, 8) <= 0.1 / 16, selection_factor(0.1, 8) > 0.0999 / 16
    (True, True)
    """
    mantissa, exponent = math.frexp(epsilon / (2 * sensitivity))
    return math.ldexp(math.floor(math.ldexp(mantissa, _BITS)), exponent - _BITS)


@final
class NoisyAccess:
    """The only access to a private table: noisy answers, and the ledger of what they cost."""

    def __init__(
        self, counts: ExactMarginals, adjacency: Adjacency, noise: NoiseSource, caveats: frozenset[Caveat]
    ) -> None:
        self._counts, self._noise = counts, noise
        self.ledger = Ledger(adjacency, caveats=noise.caveats | caveats)

    def total(self, scale: float) -> int:
        """The number of rows, with discrete Laplace noise."""
        # A replaced unit may leave the domain or enter it, which moves the number by one.
        distance = self.ledger.adjacency.contribution_distance
        event = DiscreteLaplace(scale, 1 if distance == 1 else 1 / distance)
        self.ledger = self.ledger.spend("number of rows", event)
        return self._counts.total() + int(discrete_laplace(scale, 1, self._noise)[0])

    def measure(self, axes: Axes, label: str, kind: CellNoise, scale: float) -> np.ndarray:
        """A marginal with independent noise on every cell."""
        self.ledger = self.ledger.spend(
            f"marginal of {label}", cell_event(kind, scale, self.ledger.adjacency)
        )
        exact = self._counts.marginal(axes)
        return np.asarray(exact + _SAMPLERS[kind](scale, exact.size, self._noise).reshape(exact.shape))

    def choose(
        self,
        candidates: Sequence[Axes],
        answers: Sequence[np.ndarray],
        penalties: Sequence[float],
        weights: Sequence[int],
        epsilon: float,
    ) -> int:
        """The candidate with the largest error of the model, by the exponential mechanism."""
        sensitivity = max(weights) * _EIGHTHS * self.ledger.adjacency.contribution_distance
        factor = selection_factor(epsilon, sensitivity)
        self.ledger = self.ledger.spend(
            f"choice among {len(candidates)} marginals",
            ExponentialMechanism(epsilon=2 * sensitivity * factor),
        )
        scores = [
            weight * (self._distance(axes, answer) - round(_EIGHTHS * penalty))
            for axes, answer, penalty, weight in zip(candidates, answers, penalties, weights, strict=True)
        ]
        best = max(scores)
        return choose(np.array([factor * (score - best) for score in scores]), self._noise)

    def _distance(self, axes: Axes, answer: np.ndarray) -> int:
        model = np.rint(_EIGHTHS * answer).astype(np.int64)
        return int(np.abs(_EIGHTHS * self._counts.marginal(axes) - model).sum())
