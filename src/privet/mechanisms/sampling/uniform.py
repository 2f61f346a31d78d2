"""Uniform integers and biased coins, exactly."""

from fractions import Fraction

import numpy as np
import numpy.typing as npt

from privet.arguments import finite, format_value, whole
from privet.errors import InvalidArgument
from privet.mechanisms.sampling.sources import check_source
from privet.randomness import NoiseSource

__all__ = ["bernoulli", "uniform_integers"]

_WORD = 64
_CHUNK = 1 << 14


def uniform_integers(bound: int, size: int, source: NoiseSource) -> npt.NDArray[np.int64]:
    """Independent integers from 0 to ``bound`` − 1, each with probability 1/``bound``, exactly.

    As many bits are drawn as ``bound`` − 1 has. Too large a number is drawn again: at most every other time.

    >>> from privet.randomness import SeededNoise
    >>> uniform_integers(6, 5, SeededNoise(1)) < 6
    array([ True,  True,  True,  True,  True])
    """
    if whole("bound", bound) >= 2**63:
        raise InvalidArgument(
            f"'bound' must be at most 2^63 - 1, got {format_value(bound)}, because the numbers are 64-bit "
            f"integers. Draw the high and the low digits apart."
        )
    whole("size", size, least=0)
    check_source(source)
    # A shift by 64 is not defined, so a bound of 1 uses one bit, and a 1 is drawn again.
    shift = np.uint64(_WORD - max(1, (bound - 1).bit_length()))
    numbers = np.empty(size, dtype=np.int64)
    done = 0
    while done < size:
        draws = source.bits(min(size - done, _CHUNK)) >> shift
        accepted = draws[draws < np.uint64(bound)]
        numbers[done : done + accepted.size] = accepted
        done += accepted.size
    return numbers


def bernoulli(probability: float, size: int, source: NoiseSource) -> npt.NDArray[np.bool_]:
    """Independent coins, each True with exactly this probability; the float64 is taken as exact.

    A uniform U is compared with p. One word decides, unless it agrees with the first 64 bits of p and p has
    more bits; then further words are drawn. This happens with probability 2⁻⁶⁴ at most, and never for p ≥
    2⁻¹¹. Otherwise the time does not depend on the coins.

    >>> from privet.randomness import SeededNoise
    >>> bernoulli(1.0, 3, SeededNoise(1)), bernoulli(0.0, 3, SeededNoise(1))
    (array([ True,  True,  True]), array([False, False, False]))
    """
    if not 0 <= finite("probability", probability) <= 1:
        raise InvalidArgument(
            f"'probability' must lie between 0 and 1, got {format_value(probability)}. Give a probability."
        )
    whole("size", size, least=0)
    check_source(source)
    if probability == 1:
        return np.ones(size, dtype=np.bool_)
    exact = Fraction(probability)
    edge = np.uint64(_floor(exact, _WORD))
    undecidable = exact.denominator > 1 << _WORD
    coins = np.empty(size, dtype=np.bool_)
    for start in range(0, size, _CHUNK):
        words = source.bits(min(size - start, _CHUNK))
        chunk = words < edge
        if undecidable:
            for index in np.flatnonzero(words == edge):
                chunk[index] = _below_rest(exact, source)
        coins[start : start + chunk.size] = chunk
    return coins


def _below_rest(probability: Fraction, source: NoiseSource) -> bool:
    """Whether U < p, for a uniform U that agrees with p in its first word."""
    bits = _WORD
    while probability.denominator > 1 << bits:
        bits += _WORD
        word = int(source.bits(1)[0])
        digit = _floor(probability, bits) & ((1 << _WORD) - 1)
        if word != digit:
            return word < digit
    return False


def _floor(probability: Fraction, bits: int) -> int:
    """⌊p 2^bits⌋."""
    return (probability.numerator << bits) // probability.denominator
