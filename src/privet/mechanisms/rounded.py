"""Gaussian noise on the real line, rounded to the nearest whole number: drawn exactly, without a float.

Rounding commutes with whole steps: a vector of whole numbers plus this noise is the rounding of the vector
plus real Gaussian noise. Rounding is post-processing, so the exact guarantee of the *real* Gaussian mechanism
holds, in any dimension and for the Euclidean norm. A discrete Gaussian has no such theorem beyond
concentrated DP.

*How*. Write the real noise as x + u with x whole and −½ ≤ u < ½. Draw x from a discrete Gaussian with a
slightly larger scale s′, u uniformly, and accept x with probability exp(−γ), γ = (x+u)²/2s² − x²/2s′² +
1/8(s′² − s²), which is never negative. The accepted x has exactly the distribution of the rounded noise. A
decision that is not certain in float64, one in about 10¹¹, is made with as many more bits as it takes.

*Reference*: Karney 2016 for normal deviates by exact rejection; this form is our own.
"""

import math
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from privet.mechanisms.records import Floats
from privet.mechanisms.sampling import discrete_gaussian
from privet.randomness import NoiseSource

__all__ = ["rounded_gaussian"]

_UNSURE = 1e-11  # relative: far above the round-off of exp(−γ)
_WORD, _SPAN = 1 << 64, 2.0**64


def rounded_gaussian(scale: float, size: int, source: NoiseSource) -> NDArray[np.int64]:
    """``size`` independent values of ⌊Z + ½⌋ with Z ~ N(0, scale²); the scale's float64 is taken as exact."""
    wide = max(scale * (1 + 2.0**-11), math.sqrt(scale * scale + 1))
    draws = np.empty(0, dtype=np.int64)
    while draws.size < size:
        missing = size - draws.size
        x = discrete_gaussian(wide, missing + missing // 8 + 4, source)
        draws = np.concatenate([draws, x[_accept(x, scale, wide, source)]])
    return draws[:size]


def _accept(x: NDArray[np.int64], scale: float, wide: float, source: NoiseSource) -> NDArray[np.bool_]:
    """Which proposals are accepted."""
    words = source.bits(2 * x.size)
    offsets, coins = words[: x.size], words[x.size :]
    chance = np.exp(-_exponents(x.astype(np.float64), offsets / _SPAN - 0.5, scale, wide))
    coin = coins / _SPAN
    accepted = coin + 1 / _SPAN <= chance * (1 - _UNSURE)
    rejected = coin >= chance * (1 + _UNSURE)
    for index in np.flatnonzero(~accepted & ~rejected):
        accepted[index] = _decide(int(x[index]), int(offsets[index]), int(coins[index]), scale, wide, source)
    return np.asarray(accepted)


def _exponents(x: Floats, u: Floats, scale: float, wide: float) -> Floats:
    gap = float(Fraction(wide) ** 2 - Fraction(scale) ** 2)
    quadratic = 0.5 * gap * (x / scale / wide) ** 2
    return np.asarray(quadratic + (x / scale + 0.5 * u / scale) * (u / scale) + 0.125 / gap)


def _decide(x: int, offset: int, coin: int, scale: float, wide: float, source: NoiseSource) -> bool:
    """Whether coin < exp(−γ), both with more and more bits until the answer is certain."""
    narrow, broad, bits = Fraction(scale) ** 2, Fraction(wide) ** 2, 64
    while True:
        more = [int(word) for word in source.bits(8)]
        for word in more[:4]:
            offset = offset * _WORD + word
        for word in more[4:]:
            coin = coin * _WORD + word
        bits += 256
        ends = [Fraction(offset + end, 1 << bits) - Fraction(1, 2) for end in (0, 1)]
        sizes = [(x + u) ** 2 / (2 * narrow) - x * x / (2 * broad) + 1 / (8 * (broad - narrow)) for u in ends]
        least, most = _exponential(max(sizes), bits), _exponential(min(sizes), bits)
        slack = Fraction(1, 1 << (bits - 16))
        if Fraction(coin + 1, 1 << bits) <= least - slack:
            return True
        if Fraction(coin, 1 << bits) >= most + slack:
            return False


def _exponential(size: Fraction, bits: int) -> Fraction:
    """exp(−size), off by less than 2^−bits."""
    with localcontext() as context:
        context.prec = bits // 3 + 20
        return Fraction((-Decimal(size.numerator) / Decimal(size.denominator)).exp())
