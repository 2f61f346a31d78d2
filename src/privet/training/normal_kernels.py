"""The loops of ``compiled_normals``. Importing this module imports numba, so nothing else imports it before it must.

Logarithm, sine and cosine are polynomials, with errors below 2 units in the last place.

*Reference*: the polynomials are those of Moshier's Cephes library for single precision.
"""

import math

import numpy as np
import numpy.typing as npt

from privet.training.compiling import compiled, wide
from privet.training.normals import COARSE

__all__ = ["finish"]

_F, _I = np.float32, np.int32
_LN2_HEAD, _LN2_REST = _F(0.693359375), _F(-2.12194440e-4)
_HALF_TURN = _F(math.pi * 2.0**-31)

Floats = npt.NDArray[np.float32]


def _finish(
    uniform: npt.NDArray[np.int32],
    angles: npt.NDArray[np.int32],
    dithers: npt.NDArray[np.int16],
    out: Floats,
    deviation: np.float32,
    per_cell: np.float32,
    cell: np.float32,
    refined: bool,
) -> int:
    """The numbers, in cells, and the rounded sum; or, unless ``refined``, how many words are too coarse, if any are.

    The words are cut to the 31 bits of U. Those that were refined are negative, and hold U 2³¹ as a float32.
    """
    # Numba computes with 64 bits unless told otherwise, which would halve the lanes: hence _I around everything.
    if not refined:
        coarse = _I(0)
        for i in range(uniform.size):
            units = _I(uniform[i] & _I(0x7FFFFFFF))
            uniform[i] = units
            coarse = _I(coarse + _I(units < _I(COARSE)))
        if coarse > _I(0):
            return int(coarse)
    wide()
    pairs, twice = uniform.size, _F(-2) * deviation * deviation
    first, second = out[:pairs], out[pairs : 2 * pairs]
    dither, other = dithers[:pairs], dithers[pairs : 2 * pairs]
    for i in range(pairs):
        word = uniform[i]
        bits = _F(word).view(_I) if word >= _I(0) else _I(word & _I(0x7FFFFFFF))
        # U 2³¹ = (1 + m) 2^e with 1 + m between √½ and √2
        exponent = _I(_I(bits - _I(0x3F3504F3)) >> _I(23))
        m = _I(bits - _I(exponent << _I(23))).view(_F) - _F(1)
        e = _F(_I(exponent - _I(31)))
        p = _F(7.0376836292e-2) * m - _F(1.1514610310e-1)
        p = p * m + _F(1.1676998740e-1)
        p = p * m - _F(1.2420140846e-1)
        p = p * m + _F(1.4249322787e-1)
        p = p * m - _F(1.6668057665e-1)
        p = p * m + _F(2.0000714765e-1)
        p = p * m - _F(2.4999993993e-1)
        p = p * m + _F(3.3333331174e-1)
        square = m * m
        logarithm = m + (m * square * p + e * _LN2_REST - _F(0.5) * square) + e * _LN2_HEAD
        r = _F(math.sqrt(twice * logarithm))  # U ≤ 1, and the logarithm of 1 is exactly 0
        # The nearest quarter turn, and the angle from there.
        angle = angles[i]
        quarter = _I(_I(angle + _I(1 << 29)) >> _I(30))
        x = _F(_I(angle - _I(quarter << _I(30)))) * _HALF_TURN
        y = x * x
        s = x + x * y * (_F(-1.6666654611e-1) + y * (_F(8.3321608736e-3) - y * _F(1.9515295891e-4)))
        c = _F(4.166664568298827e-2) + y * (_F(-1.388731625493765e-3) + y * _F(2.443315711809948e-5))
        c = _F(1) - _F(0.5) * y + y * y * c
        odd = _I(quarter & _I(1)) != _I(0)
        cosine, sine = (s if odd else c), (c if odd else s)
        cosine = -cosine if _I(_I(quarter + _I(1)) & _I(2)) != _I(0) else cosine
        sine = -sine if _I(quarter & _I(2)) != _I(0) else sine
        first[i] = cell * np.rint((r * cosine + _F(dither[i])) + first[i] * per_cell)
        second[i] = cell * np.rint((r * sine + _F(other[i])) + second[i] * per_cell)
    return 0


finish = compiled(_finish, {"contract", "nsz", "nnan", "arcp"})
