"""Exact binomial counts and exact uniform subsets, from random bits.

Skipping records by float logarithms is not exact. A binomial count and a uniform subset of that size have the
same distribution as one coin flip for each record: given the size of a Poisson sample, all sets of that size
are equally likely. A coin takes about 0.7 ns, and a member of a subset about 100 ns, because subsets are
sorted. So few records, and samples of more than one record in a hundred, are drawn by coins. Both ways are
exact.
"""

from fractions import Fraction

import numpy as np
import numpy.typing as npt

from privet.mechanisms.sampling import bernoulli, uniform_integers
from privet.randomness import NoiseSource

__all__ = ["Indices", "draw_binomial", "draw_poisson_sample", "draw_subset"]

_WORD = 64
_CHUNK = 1 << 15  # words at a time
_COINS = 1 << 18  # at a time: they stay in the cache. For fewer records coins are faster than a subset
_COIN_RATE = 1 / 128  # from this rate on, coins are faster for any number of records
_SHORT = 8  # bits that decide most coins

Indices = npt.NDArray[np.int64]


def draw_poisson_sample(population: int, rate: float, source: NoiseSource) -> Indices:
    """Include each number below ``population`` with exactly this probability, in rising order."""
    if population <= _COINS:
        return _flip_coins(population, rate, source)
    if rate < _COIN_RATE:
        return draw_subset(population, draw_binomial(population, rate, source), source)
    parts: list[Indices] = []
    for start in range(0, population, _COINS):
        part = _flip_coins(min(_COINS, population - start), rate, source)
        part += start
        parts.append(part)
    return np.concatenate(parts)


def _flip_coins(population: int, rate: float, source: NoiseSource) -> Indices:
    """Compare one uniform U with p for each number.

    The first 8 bits of U decide whether U < p, unless they equal the first 8 bits of p.
    """
    if rate == 1:
        return np.arange(population, dtype=np.int64)
    whole, rest = divmod(Fraction(rate) * 2**_SHORT, 1)
    first_bits = source.bits(-(-population * _SHORT // _WORD)).view(np.uint8)[:population]
    candidates = np.flatnonzero(first_bits <= np.uint8(whole))
    undecided = np.flatnonzero(first_bits[candidates] == np.uint8(whole))
    mask = np.ones(candidates.size, dtype=np.bool_)
    # float(rest) is exact: a float64 without its leading bits is a float64.
    mask[undecided] = bernoulli(float(rest), undecided.size, source)
    return candidates[mask]


def draw_binomial(trials: int, probability: float, source: NoiseSource) -> int:
    """Count the heads of ``trials`` independent coins with exactly this probability (the float itself).

    Each coin is a uniform U that is compared with p, one bit at a time, for all coins together. Of m coins
    that agree with p so far, Binomial(m, ½) have a next bit of 1: the number of ones among m random bits. If
    the next bit of p is 1, the coins with a 0 are below p and decided. If it is 0, the coins with a 1 are
    above p. A coin uses about 2 bits, so a hundred million coins take 25 MB of bits and about ten
    milliseconds.

    >>> from privet.randomness import SeededNoise
    >>> draw_binomial(10, 1.0, SeededNoise(1)), draw_binomial(0, 0.5, SeededNoise(1))
    (10, 0)
    """
    rest, undecided, below = Fraction(probability), trials, 0
    if rest >= 1:
        return trials
    while undecided and rest:
        ones = _count_ones(undecided, source)
        rest *= 2
        if rest >= 1:
            rest -= 1
            below += undecided - ones
            undecided = ones
        else:
            undecided -= ones
    return below


def draw_subset(population: int, size: int, source: NoiseSource) -> Indices:
    """Draw ``size`` of the numbers below ``population``, each set with equal probability; in rising order.

    Uniform numbers are drawn until there are ``size`` different ones. For size > n/2 the complement is drawn.

    >>> from privet.randomness import SeededNoise
    >>> draw_subset(5, 5, SeededNoise(1))
    array([0, 1, 2, 3, 4])
    """
    if 2 * size > population:
        mask = np.ones(population, dtype=np.bool_)
        mask[_draw_distinct(population, population - size, source)] = False
        return np.flatnonzero(mask)
    return _draw_distinct(population, size, source)


def _draw_distinct(population: int, size: int, source: NoiseSource) -> Indices:
    chosen = np.sort(uniform_integers(population, size, source))
    chosen = chosen[np.diff(chosen, prepend=-1) != 0]
    while chosen.size < size:
        # Draw no more than are missing, so that no number that came up is ever dropped.
        drawn = np.sort(uniform_integers(population, size - chosen.size, source))
        drawn = drawn[np.diff(drawn, prepend=-1) != 0]
        positions = np.searchsorted(chosen, drawn)
        fresh = drawn[chosen[np.minimum(positions, chosen.size - 1)] != drawn]
        chosen = np.sort(np.concatenate((chosen, fresh)))
    return chosen


def _count_ones(bits: int, source: NoiseSource) -> int:
    """Count the ones among this number of random bits."""
    words, remainder = divmod(bits, _WORD)
    ones = 0
    for start in range(0, words, _CHUNK):
        ones += int(np.bitwise_count(source.bits(min(_CHUNK, words - start))).sum(dtype=np.int64))
    if remainder:
        ones += int(source.bits(1)[0] >> np.uint64(_WORD - remainder)).bit_count()
    return ones
