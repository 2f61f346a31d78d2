"""Functions that are inlined into compiled loops: sums of squares, exp, sigmoid, tanh. Imports numba."""

import numpy as np
import numpy.typing as npt

from privet.training.compilation import compile_inline

__all__ = ["FASTMATH", "Floats", "Integers", "Norms", "exponential", "sigmoid", "sum_of_squares", "tanh"]

_F, _I = np.float32, np.int32
_BLOCK = (
    1024  # squares that are added in float32 before the sum continues in float64, as in ``gradient_form``
)

Floats = npt.NDArray[np.float32]
Integers = npt.NDArray[np.int64]
Norms = npt.NDArray[np.float64]

# Without "nnan" and "ninf", so NaN and infinity are handled as usual.
FASTMATH = {"contract", "reassoc", "nsz"}


def _sum_of_squares(row: Floats) -> float:
    """‖row‖². Parts are slices, indexed from 0: for other ranges numba checks for negative indices."""
    total = 0.0
    for start in range(0, row.size, _BLOCK):
        part = row[start : min(row.size, start + _BLOCK)]
        partial = _F(0)
        for i in range(part.size):
            partial += part[i] * part[i]
        total += np.float64(partial)
    return total


sum_of_squares = compile_inline(_sum_of_squares, FASTMATH)


def _exponential(x: np.float32) -> np.float32:
    """exp(x) for x ≤ 0, to 2 units in the last place, with the polynomial of Moshier's Cephes library."""
    x = _F(-88) if x < _F(-88) else x
    n = _F(np.floor(x * _F(1.44269504088896341) + _F(0.5)))
    r = x - n * _F(0.693359375) + n * _F(2.12194440e-4)
    p = _F(1.9875691500e-4) * r + _F(1.3981999507e-3)
    p = p * r + _F(8.3334519073e-3)
    p = p * r + _F(4.1665795894e-2)
    p = p * r + _F(1.6666665459e-1)
    p = p * r + _F(5.0000001201e-1)
    power = _I(_I(_I(n) + _I(127)) << _I(23)).view(_F)  # numba would use 64 bits
    return (p * r * r + r + _F(1)) * power


exponential = compile_inline(_exponential, FASTMATH)


def _sigmoid(x: np.float32) -> np.float32:
    small = exponential(-abs(x))
    run_parts = _F(1) / (_F(1) + small)
    return small * run_parts if x < _F(0) else run_parts  # type: ignore[no-any-return]


def _tanh(x: np.float32) -> np.float32:
    """tanh from exp(−2|x|). Near 0, where that cancels, a polynomial of the same library."""
    z = x * x
    p = _F(-5.70498872745e-3) * z + _F(2.06390887954e-2)
    p = p * z - _F(5.37397155531e-2)
    p = p * z + _F(1.33314422036e-1)
    p = p * z - _F(3.33332819422e-1)
    near = p * z * x + x
    small = exponential(_F(-2) * abs(x))
    far = (_F(1) - small) / (_F(1) + small)
    far = -far if x < _F(0) else far
    return near if abs(x) < _F(0.625) else far


sigmoid = compile_inline(_sigmoid, FASTMATH)
tanh = compile_inline(_tanh, FASTMATH)
