"""A quantile by the exponential mechanism over equal cells of a public interval, in whole numbers.

Let a be the weight of all rows below a cell, and b the weight below its upper end. Its utility is −max(0, a −
pn, pn − b): minus the number of rows between the cell and the quantile, 0 for the cell that holds it. One
unit moves a − pn by at most max(p, 1 − p) times its weight if it is added or removed, and by its weight if it
is exchanged.

All of it is exact. Weights, p as a multiple of 2⁻¹⁶, and utilities are whole numbers. The logarithms of the
probabilities are products that float64 holds without rounding.

*Reference*: McSherry & Talwar 2007; Smith 2011, Algorithm 2, which chooses among the intervals between data
points. *Deviation*: the cells are public, so that the possible answers do not depend on where the data lie.
"""

import math
from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import NDArray

from privet.events import Event, ExponentialMechanism, Repeat
from privet.mechanisms import sampling
from privet.randomness import NoiseSource
from privet.releasing.engines.aggregates import WEIGHT
from privet.releasing.queries import CellChoice

__all__ = ["CellChooser"]

_PROBABILITY_STEPS = 1 << 16
_UTILITY_STEPS = 1 << 10  # by which one unit moves a utility
_FURTHEST = 1 << 40  # steps below the best utility; cells beyond are all equally unlikely
_DIGITS = 12  # binary digits of the rate: 12 + 40 fit into the 53 of a float


@final
@dataclass(frozen=True)
class CellChooser:
    """The choice at a given ε. Each of the groups that a unit is in gets an equal share of it."""

    choice: CellChoice
    rows: int
    epsilon: float

    @property
    def event(self) -> Event:
        """What one release of all groups spends."""
        single = ExponentialMechanism(epsilon=self._epsilon_per_group)
        return single if self.choice.coordinates == 1 else Repeat(single, self.choice.coordinates)

    def choose(self, counts: NDArray[np.int64], source: NoiseSource) -> float:
        """The centre of the cell that was chosen, for one group."""
        cells = self.choice.cells
        index = sampling.choose(self._log_weights(counts), source)
        return cells.lower + (cells.upper - cells.lower) * ((index + 0.5) / cells.count)

    def half_width(self, confidence: float) -> float:
        """How many rows may lie between the answer's cell and the quantile.

        P[utility < best − (2Δ/ε)(ln(cells) + t)] ≤ exp(−t), and the best utility is 0, that of the right
        cell.
        """
        steps = (math.log(self.choice.cells.count) - math.log1p(-confidence)) / self._rate
        return (steps + 1) * self._grain / (_PROBABILITY_STEPS * WEIGHT)

    @property
    def _epsilon_per_group(self) -> float:
        return self.epsilon / self.choice.coordinates

    @property
    def _target(self) -> int:
        """p in steps, kept away from 0 and 1."""
        return min(max(round(self.choice.probability * _PROBABILITY_STEPS), 1), _PROBABILITY_STEPS - 1)

    @property
    def _grain(self) -> int:
        """How many of the finest steps make one step of a utility."""
        target = self._target
        share = _PROBABILITY_STEPS if self.choice.exchanged else max(target, _PROBABILITY_STEPS - target)
        return -(-share * self.rows * WEIGHT // _UTILITY_STEPS)

    @property
    def _rate(self) -> float:
        """ε/2Δ in steps, rounded down to a few binary digits."""
        mantissa, exponent = math.frexp(self._epsilon_per_group / (2 * _UTILITY_STEPS))
        return math.ldexp(math.floor(mantissa * 2**_DIGITS), exponent - _DIGITS)

    def _log_weights(self, counts: NDArray[np.int64]) -> NDArray[np.float64]:
        total = int(counts.sum())
        # Python's whole numbers where 64 bits are not enough.
        exact = counts if total < 2**46 else counts.astype(object)
        ends = np.cumsum(exact)
        target = self._target * total
        above = ends * _PROBABILITY_STEPS
        below = above - exact * _PROBABILITY_STEPS
        away = np.maximum(np.maximum(below - target, target - above), 0)
        steps = away // self._grain
        near = np.minimum(steps - steps.min(), _FURTHEST)
        return np.asarray(near, dtype=np.float64) * -self._rate
