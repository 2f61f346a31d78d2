"""A quantile by the exponential mechanism over equal cells of a public interval, in whole numbers.

Cell i with weight a below it and b below its upper end has utility −max(0, a − pn, pn − b): how many rows the
quantile is away from the cell, 0 for the cell that holds it. One unit moves a − pn by at most max(p, 1 − p) times its
weight where it comes or goes, and by its weight where it is exchanged.

All of it is exact: weights, p as a multiple of 2⁻¹⁶ and utilities are whole numbers, and the logarithms of the
probabilities are products that float64 holds without rounding.

*Reference*: McSherry & Talwar 2007; Smith 2011, Algorithm 2, which chooses among the intervals between data points. The
public cells make that choice independent of where the data lie.
"""

import math
from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import NDArray

from privet.events import Event, ExponentialMechanism, Repeat
from privet.randomness import NoiseSource
from privet.releasing.engines.aggregates import WEIGHT
from privet.releasing.queries import Choice

__all__ = ["Chooser"]

_PROBABILITY_STEPS = 1 << 16
_UTILITY_STEPS = 1 << 10  # that one unit moves a utility by
_FURTHEST = 1 << 40  # steps below the best, beyond which all cells are equally unlikely
_DIGITS = 12  # binary, of the rate: 12 + 40 stay within the 53 of a float


@final
@dataclass(frozen=True)
class Chooser:
    """The choice at a given ε, which each of the groups that a unit is in gets an equal share of."""

    choice: Choice
    rows: int
    epsilon: float

    @property
    def event(self) -> Event:
        """What one release of all groups spends."""
        one = ExponentialMechanism(epsilon=self._each)
        return one if self.choice.coordinates == 1 else Repeat(one, self.choice.coordinates)

    def choose(self, counts: NDArray[np.int64], source: NoiseSource) -> float:
        """The centre of the cell that was chosen, for one group."""
        from privet.mechanisms import sampling

        cells = self.choice.cells
        place = sampling.choose(self._log_weights(counts), source)
        return cells.lower + (cells.upper - cells.lower) * ((place + 0.5) / cells.count)

    def half_width(self, confidence: float) -> float:
        """How many rows may lie between the answer's cell and the quantile.

        P[utility < best − (2Δ/ε)(ln(cells) + t)] ≤ exp(−t), and the best is 0: that of the right cell.
        """
        steps = (math.log(self.choice.cells.count) - math.log1p(-confidence)) / self._rate
        return (steps + 1) * self._grain / (_PROBABILITY_STEPS * WEIGHT)

    @property
    def _each(self) -> float:
        return self.epsilon / self.choice.coordinates

    @property
    def _target(self) -> int:
        """p in steps, kept away from 0 and 1."""
        return min(max(round(self.choice.probability * _PROBABILITY_STEPS), 1), _PROBABILITY_STEPS - 1)

    @property
    def _grain(self) -> int:
        """How many of the finest steps are one step of a utility."""
        target = self._target
        share = _PROBABILITY_STEPS if self.choice.exchanged else max(target, _PROBABILITY_STEPS - target)
        return -(-share * self.rows * WEIGHT // _UTILITY_STEPS)

    @property
    def _rate(self) -> float:
        """ε/2Δ in steps, rounded down to a few binary digits."""
        mantissa, exponent = math.frexp(self._each / (2 * _UTILITY_STEPS))
        return math.ldexp(math.floor(mantissa * 2**_DIGITS), exponent - _DIGITS)

    def _log_weights(self, counts: NDArray[np.int64]) -> NDArray[np.float64]:
        total = int(counts.sum())
        # Whole numbers of any size, where 64 bits would not do.
        exact = counts if total < 2**46 else counts.astype(object)
        ends = np.cumsum(exact)
        target = self._target * total
        above = ends * _PROBABILITY_STEPS
        below = above - exact * _PROBABILITY_STEPS
        away = np.maximum(np.maximum(below - target, target - above), 0)
        steps = away // self._grain
        near = np.minimum(steps - steps.min(), _FURTHEST)
        return np.asarray(near, dtype=np.float64) * -self._rate
