"""How far one unit can move correlated-noise training: the sensitivity of the strategy matrix C.

Noise C⁻¹z on the gradients is post-processing of C G + z, a Gaussian mechanism whose sensitivity is the largest
norm of Σ C[:, i] over the steps i at which a unit may take part, relative to the bound on one contribution.
"""

import numpy as np

from privet.bounds import Interval
from privet.events import BandedNoise, TreeNoise

__all__ = ["banded_sensitivity", "tree_sensitivity"]


def banded_sensitivity(event: BandedNoise) -> float:
    """Exact: for a Toeplitz C with falling, non-negative entries the earliest participations are the worst.

    Reference: Kalinin & Lampert 2024, Theorem 2.
    """
    column = np.array(event.coefficients)
    total = np.zeros(event.steps)
    for turn in range(event.participations):
        start = turn * event.separation
        length = min(column.size, event.steps - start)
        total[start : start + length] += column[:length]
    return float(np.linalg.norm(total))


def tree_sensitivity(event: TreeNoise) -> Interval:
    """Bounds of √(Σ over nodes of (participations below it)²).

    *Upper*: on a level with blocks of 2ˡ leaves, a block holds at most min(k, ⌈2ˡ/b⌉) of the k participations,
    and all blocks together hold k. *Lower*: the earliest participations, b apart. Both are √(levels) for k = 1.

    Reference: Kairouz et al. 2021, Appendix D (one participation).
    """
    turns = np.arange(event.participations) * event.separation
    blocks = 2 ** np.arange(int(event.steps - 1).bit_length() + 1)
    whole = blocks[blocks <= event.steps]
    most = np.minimum(event.participations, -(-whole // event.separation))
    upper = np.sqrt(np.sum(event.participations * most))
    lower = np.sqrt(
        sum(float(np.sum(np.unique(turns // size, return_counts=True)[1] ** 2.0)) for size in whole)
    )
    return Interval(min(float(lower), float(upper)), float(upper))
