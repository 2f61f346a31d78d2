"""How many, and which: exact binomial counts and exact uniform subsets, from random bits.

Flipping a coin for each of a hundred million records takes a second, and skipping by float logarithms is not exact.
A count and a subset of that size are the same law: given how many records a Poisson sample has, all sets of that
size are equally likely. Where there are few records the coins themselves are quicker; both ways are exact.
"""

from fractions import Fraction

import numpy as np
import numpy.typing as npt

from privet.mechanisms.sampling import bernoulli, uniform_integers
from privet.randomness import NoiseSource

__all__ = ["Indices", "binomial", "poisson_sample", "subset"]

_WORD = 64
_CHUNK = 1 << 15  # words at a time
_FEW = 1 << 18  # records for which coins are quicker than counts
_SHORT = 8  # bits that settle most coins

Indices = npt.NDArray[np.int64]


def poisson_sample(population: int, rate: float, source: NoiseSource) -> Indices:
    """Each of the numbers below ``population`` with exactly this probability, independently; in rising order."""
    if population > _FEW:
        return subset(population, binomial(population, rate, source), source)
    return _coins(population, rate, source)


def _coins(population: int, rate: float, source: NoiseSource) -> Indices:
    """A uniform U for each number. Its first 8 bits settle whether U < p, unless they agree with those of p."""
    if rate == 1:
        return np.arange(population, dtype=np.int64)
    whole, rest = divmod(Fraction(rate) * 2**_SHORT, 1)
    shorts = source.bits(-(-population * _SHORT // _WORD)).view(np.uint8)[:population]
    found = np.flatnonzero(shorts <= np.uint8(whole))
    open_ = np.flatnonzero(shorts[found] == np.uint8(whole))
    kept = np.ones(found.size, dtype=np.bool_)
    kept[open_] = bernoulli(
        float(rest), open_.size, source
    )  # exact: dropping leading bits of a float64 leaves one
    return found[kept]


def binomial(trials: int, probability: float, source: NoiseSource) -> int:
    """How many of ``trials`` independent coins show heads, each with exactly this probability; the float is exact.

    Every coin is a uniform U that is compared with p, a bit at a time, for all coins together. Of m coins that agree
    with p so far, Binomial(m, ½) have a next bit of 1: as many as there are ones among m random bits. If p's next bit is
    1, those with a 0 are below p and done; if it is 0, those with a 1 are above it. About 2 bits are used for a
    coin, so a hundred million coins take 25 MB of bits and some ten milliseconds.

    >>> from privet.randomness import SeededNoise
    >>> binomial(10, 1.0, SeededNoise(1)), binomial(0, 0.5, SeededNoise(1))
    (10, 0)
    """
    rest, undecided, below = Fraction(probability), trials, 0
    if rest >= 1:
        return trials
    while undecided and rest:
        ones = _heads(undecided, source)
        rest *= 2
        if rest >= 1:
            rest -= 1
            below += undecided - ones
            undecided = ones
        else:
            undecided -= ones
    return below


def subset(population: int, size: int, source: NoiseSource) -> Indices:
    """A set of ``size`` of the numbers below ``population``, each such set with equal probability; in rising order.

    Uniform numbers are drawn until that many different ones have come up. More than half are had by leaving out the others.

    >>> from privet.randomness import SeededNoise
    >>> subset(5, 5, SeededNoise(1))
    array([0, 1, 2, 3, 4])
    """
    if 2 * size > population:
        kept = np.ones(population, dtype=np.bool_)
        kept[_distinct(population, population - size, source)] = False
        return np.flatnonzero(kept)
    return _distinct(population, size, source)


def _distinct(population: int, size: int, source: NoiseSource) -> Indices:
    found = np.sort(uniform_integers(population, size, source))
    found = found[np.diff(found, prepend=-1) != 0]
    while found.size < size:
        # No more than are missing are drawn, so that none that came up is ever dropped.
        drawn = np.sort(uniform_integers(population, size - found.size, source))
        drawn = drawn[np.diff(drawn, prepend=-1) != 0]
        places = np.searchsorted(found, drawn)
        fresh = drawn[found[np.minimum(places, found.size - 1)] != drawn]
        found = np.sort(np.concatenate((found, fresh)))
    return found


def _heads(coins: int, source: NoiseSource) -> int:
    """How many of so many random bits are ones."""
    words, last = divmod(coins, _WORD)
    found = 0
    for start in range(0, words, _CHUNK):
        found += int(np.bitwise_count(source.bits(min(_CHUNK, words - start))).sum(dtype=np.int64))
    if last:
        found += int(source.bits(1)[0] >> np.uint64(_WORD - last)).bit_count()
    return found
