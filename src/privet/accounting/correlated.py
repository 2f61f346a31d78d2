"""How far one unit can move correlated-noise training: the sensitivity of the strategy matrix C.

Noise C⁻¹z on the gradients is post-processing of C G + z. That is a Gaussian mechanism. Its sensitivity,
relative to the bound on one contribution, is the largest norm of Σ C[:, i] over the steps i at which a unit
may take part. The run time of both functions does not depend on the number of steps.
"""

import math

import numpy as np

from privet.bounds import Interval, enclosure
from privet.events import BandedNoise, TreeNoise

__all__ = ["banded_sensitivity", "tree_sensitivity"]


def banded_sensitivity(event: BandedNoise) -> float:
    """Exact: for a Toeplitz C with falling, non-negative entries the earliest participations are the worst.

    The k participations are b steps apart. So on every block of b steps the sum of the shifted columns is a
    sum of pieces of the column, each of length b. From the block that has all pieces until the last
    participation it is the same.

    Reference: Kalinin & Lampert 2024, Theorem 2.
    """
    column, turns = np.array(event.coefficients, dtype=float), event.participations
    width = min(event.separation, column.size)
    pieces = -(-column.size // width) if event.separation < column.size else 1
    padded = np.zeros(pieces * width)
    padded[: column.size] = column
    begun = np.cumsum(padded.reshape(pieces, width), axis=0)

    def block(index: int) -> float:
        """The squared norm of the sum on one block."""
        total = begun[min(index, pieces - 1)].copy()
        if index >= turns:
            total -= begun[min(index - turns, pieces - 1)]
        return float(np.sum(total[: event.steps - index * event.separation] ** 2))

    last = min(turns + pieces - 2, (event.steps - 1) // event.separation)
    alike = range(pieces - 1, min(turns, last))  # blocks with all pieces, none of them cut off
    rest = [*range(min(alike.start, last + 1)), *range(max(alike.stop, alike.start), last + 1)]
    return math.sqrt(math.fsum(map(block, rest)) + (len(alike) * block(alike.start) if alike else 0.0))


def tree_sensitivity(event: TreeNoise) -> Interval:
    """Bounds of √(Σ over nodes of (participations below it)²).

    *Upper*: on a level with blocks of 2ˡ leaves, a block holds at most min(k, ⌈2ˡ/b⌉) of the k
    participations, and all blocks together hold k. *Lower*: the earliest participations, b apart, and only
    nodes whose leaves have all been seen. Both are √(levels) for k = 1.

    Reference: Kairouz et al. 2021, Appendix D (one participation).
    """
    upper = lower = 0
    for level in range(event.steps.bit_length()):
        upper += event.participations * min(event.participations, -(-(2**level) // event.separation))
        lower += _earliest(event, 2**level)
    return enclosure(math.sqrt(lower), math.sqrt(upper))


def _earliest(event: TreeNoise, size: int) -> int:
    """Σ (participations in the block)² over the complete blocks of one size, with a participation every b
    steps from the first step on.

    The first n blocks hold ⌈n · size/b⌉ together, each ⌊size/b⌋ or one more.
    """
    complete, share = event.steps // size, size // event.separation
    full = min(event.participations * event.separation // size, complete)
    held = -(-full * size // event.separation)
    larger = held - full * share
    begun = (event.participations - held) ** 2 if full < complete else 0
    return larger * (share + 1) ** 2 + (full - larger) * share**2 + begun
