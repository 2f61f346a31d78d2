"""A whole composition as one pair, for where a theorem wants a pair: sampling it, or splitting the data."""

from dataclasses import dataclass
from typing import final

import numpy as np

from privet.accounting.cumulant import Composition, derivatives
from privet.accounting.lattice import Grid, compose
from privet.accounting.pairs import FinitePair, GaussianPair, Nodes, Pair, Reals

__all__ = ["EnvelopePair", "as_pair", "larger"]

_ATOMS = 1 << 14
_FAR = 34.0


@final
@dataclass(frozen=True)
class EnvelopePair(Pair):
    """The larger of two profiles: dominates both, whichever of the two a unit meets."""

    first: Pair
    second: Pair

    @property
    def infinity(self) -> float:
        return max(self.first.infinity, self.second.infinity)

    @property
    def largest_loss(self) -> float | None:
        both = self.first.largest_loss, self.second.largest_loss
        return None if both[0] is None or both[1] is None else max(both[0], both[1])

    def delta(self, epsilon: Reals) -> Reals:
        both = [pair.delta(epsilon) + pair.infinity for pair in (self.first, self.second)]
        return np.maximum(np.maximum(*both) - self.infinity, 0.0)

    def tail(self, epsilon: Reals) -> Reals:
        first, second = (pair.delta(epsilon) + pair.infinity for pair in (self.first, self.second))
        return np.where(first >= second, self.first.tail(epsilon), self.second.tail(epsilon))

    def nodes(self, tilt: float, frequency: float, digits: float) -> Nodes | None:
        return None

    def swapped(self) -> "EnvelopePair":
        return EnvelopePair(self.first.swapped(), self.second.swapped())


def larger(first: Pair, second: Pair) -> Pair:
    """A pair that dominates both; one of the two where that is plain to see."""
    match first, second:
        case GaussianPair(one), GaussianPair(other):
            return first if one >= other else second
        case _ if first == second:
            return first
    return EnvelopePair(first, second)


@np.errstate(over="ignore", under="ignore", divide="ignore", invalid="ignore")
def as_pair(composition: Composition, *, above: bool) -> Pair:
    """One pair that dominates the composition, or that it dominates.

    The law of the summed loss is computed on a grid without a tilt, so masses below about 1e-15 are lost in
    round-off; 1e-13 of P is moved to infinity (above) or dropped (below) for it.
    """
    if not composition.parts:
        return FinitePair((0.0,), (1.0,))
    if len(composition.parts) == 1 and composition.parts[0][1] == 1:
        return composition.parts[0][0]
    ahead = [(c, derivatives(composition, c)) for c in np.geomspace(0.05, 200.0, 24)]
    ends = [(k.value + _FAR) / c for c, k in ahead if k is not None]
    start, end = -_FAR, max(min(ends), 1e-6)  # E_P exp(−L) ≤ 1, so P[L < −34] < exp(−34)
    grid = Grid((end - start) / _ATOMS, _ATOMS, start, 1e-9, 0.0, 1.0)
    law = compose(composition, grid, above=above, negligible=1e-14)
    masses = np.maximum(law.weights, 0.0)
    kept = masses > 1e-17
    losses, masses = law.losses[kept], masses[kept] * (1 - 1e-13) * (1 - law.infinity) / masses.sum()
    lost = (law.infinity + 1e-13) if above else 0.0
    return FinitePair(tuple(map(float, losses)), tuple(map(float, masses)), lost)
