"""Keys that nobody listed: a key is shown only if enough units have it.

*Guarantee*: Let a unit be in at most g groups. A key that only this unit has exists in one of two neighbours and not
in the other. Its number of units is 1, and it is shown if 1 + noise ≥ τ. All other keys exist in both, with noise
between them. So what is shown is noise on the common keys, and independently of it something with probability
at most 1 − (1 − P[noise ≥ τ − 1])^g that tells the neighbours apart for certain. The pair of the second part can be
made from that of a (0, δ) mechanism, and the whole is ``Compose((noise, Opaque(epsilon=0, delta=δ)))``. For an
exchange, each of the two units has such keys, each in its own table: again the pair of (0, δ).

*Reference*: Korolova et al. 2009, "Releasing search queries and clicks privately"; Google's partition selection,
Desfontaines, Voss & Gipson 2022, adds the union over g.

*Leaks*: with probability δ, that somebody has a rare key.
"""

import math

from privet.releasing.noise_distributions import Law

__all__ = ["threshold"]


def threshold(law: Law, *, groups: int, delta: float) -> int:
    """τ − 1: the smallest noise that shows a key of one unit, with probability δ at most for g keys together.

    >>> from privet.releasing.noise_distributions import LaplaceLaw
    >>> threshold(LaplaceLaw(1.0), groups=1, delta=1e-6)
    14
    """
    low, high = 1, 1
    while _shown(law, high, groups) > delta:
        low, high = high, 2 * high
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if _shown(law, middle, groups) <= delta else (middle + 1, high)
    return high


def _shown(law: Law, distance: int, groups: int) -> float:
    """The probability that one of g keys, each of one unit, gets noise of at least this."""
    single = law.above(distance)
    return 1.0 if single >= 1 else -math.expm1(groups * math.log1p(-single))
