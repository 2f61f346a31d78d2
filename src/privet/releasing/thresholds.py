"""Keys that nobody listed: a key is shown only if enough units have it.

*Guarantee*: Let a unit be in at most g groups. A key that only this unit has exists in one of two neighbours
and not in the other. Its number of units is 1, and it is shown if 1 + noise ≥ τ. All other keys exist in both
tables, and their counts get noise. So the release is noise on the common keys and, independently, an event of
probability at most 1 − (1 − P[noise ≥ τ − 1])^g that tells the neighbours apart for certain. The second part
is dominated by a (0, δ) mechanism, so the whole is ``Compose((noise, Opaque(epsilon=0, delta=δ)))``. In an
exchange, each of the two units has such keys in its own table: again a (0, δ) mechanism.

*Reference*: Korolova et al. 2009, "Releasing search queries and clicks privately"; Google's partition
selection, Desfontaines, Voss & Gipson 2022, adds the union over g.

*Leaks*: with probability δ, that somebody has a rare key.
"""

import math

from privet.releasing.noise_distributions import IntegerNoise

__all__ = ["find_threshold"]


def find_threshold(noise: IntegerNoise, *, groups: int, delta: float) -> int:
    """τ − 1: the smallest noise that shows any of g keys, each of one unit, with probability at most δ.

    >>> from privet.releasing.noise_distributions import DiscreteLaplaceNoise
    >>> find_threshold(DiscreteLaplaceNoise(1.0), groups=1, delta=1e-6)
    14
    """
    low, high = 1, 1
    while _shown_probability(noise, high, groups) > delta:
        low, high = high, 2 * high
    while low < high:
        middle = (low + high) // 2
        low, high = (
            (low, middle) if _shown_probability(noise, middle, groups) <= delta else (middle + 1, high)
        )
    return high


def _shown_probability(noise: IntegerNoise, distance: int, groups: int) -> float:
    """The probability that one of g keys, each of one unit, gets noise of at least this."""
    single = noise.above(distance)
    return 1.0 if single >= 1 else -math.expm1(groups * math.log1p(-single))
