"""e^{−x} between two bounds: whole numbers of any precision, and float64 for arrays.

Nothing here depends on a mathematical library. The whole numbers are rounded outwards at every step, so the
enclosure is proved. The floats use +, − and × only, whose rounding IEEE 754 fixes.
"""

import math
from fractions import Fraction

import numpy as np
import numpy.typing as npt

__all__ = [
    "RELATIVE_ERROR",
    "SMALL",
    "exponential_bounds",
    "exponentials",
    "small_exponentials",
]

_GUARD = 16  # bits for rounding, beside those for squaring
_COEFFICIENTS = tuple((-1.0) ** order / math.factorial(order) for order in range(21))

# The range of ``small_exponentials``, and the largest relative error of it and of ``exponentials``.
SMALL = 1.25
RELATIVE_ERROR = 2.0**-46

# ln 2 in two parts: n times the first, of 40 bits, is exact in float64 for every n below 2¹³.
_LN2 = 0.6931471805599453
_LN2_HEAD = round(_LN2 * 2.0**40) / 2.0**40
_LN2_REST = float(Fraction("0.693147180559945309417232121458176568") - Fraction(_LN2_HEAD))
_FAR = 64 * _LN2  # e^{−x} is below 2⁻⁶⁴ beyond

Floats = npt.NDArray[np.float64]


def exponential_bounds(x: Fraction, bits: int) -> tuple[int, int]:
    """Whole numbers with lower ≤ e^{−x} 2^bits ≤ upper, at most 2 apart, for a rational x ≥ 0.

    e^{−x} = (e^{−y})^(2^h) with y = x/2^h ≤ 1/128. The Taylor polynomials of e^{−y} lie alternately above and
    below it. Every product is rounded down for the lower end and up for the upper end. Squaring doubles the
    error, for which h more bits are used.

    >>> exponential_bounds(Fraction(1), 20)  # 2²⁰/e = 385749.39…
    (385749, 385750)
    """
    if x == 0:
        return 1 << bits, 1 << bits
    if x >= bits:  # e^{−x} < 2^{−bits}
        return 0, 1
    halvings = max(0, x.numerator.bit_length() - x.denominator.bit_length() + 8)
    precision = bits + halvings + _GUARD
    denominator = x.denominator << halvings
    y_lower = (x.numerator << precision) // denominator
    y_upper = y_lower + 1
    lower = upper = term_lower = term_upper = 1 << precision
    order = 0
    while term_upper > 1:
        order += 1
        term_lower = (term_lower * y_lower >> precision) // order
        term_upper = -(-(term_upper * y_upper) // (order << precision))
        if order % 2:
            lower, upper = lower - term_upper, upper - term_lower
        else:
            lower, upper = lower + term_lower, upper + term_upper
    lower, upper = lower - term_upper, upper + term_upper  # the rest of the series is below its first term
    for _ in range(halvings):
        lower = lower * lower >> precision
        upper = -(-(upper * upper) >> precision)
    extra = precision - bits
    return lower >> extra, min(-(-upper >> extra), 1 << bits)


def small_exponentials(x: Floats) -> Floats:
    """e^{−x} for 0 ≤ x ≤ ``SMALL``, off by a factor of at most 1 ± ``RELATIVE_ERROR``.

    The Taylor polynomial of degree 20 leaves out less than 1.25²¹/21! < 2⁻⁵⁸. In Horner's rule the power
    x^k/k! meets at most 2k + 2 roundings of u = 2⁻⁵³, which add up to less than u(2 + 2x)e^x ≤ 16u beside
    e^{−x} > ¼.
    """
    return _polynomial(x, 20)


def exponentials(x: Floats) -> Floats:
    """e^{−x} for x ≥ 0, up to a factor of 1 ± ``RELATIVE_ERROR``; 0 from x = 64 ln 2 on, off by 2⁻⁶⁴.

    e^{−x} = 2^{−n} e^{−f} with x = n ln 2 + f and |f| < 0.35. As n ln 2 is subtracted in two parts, of which
    the first is exact, f is off by less than u = 2⁻⁵³. The polynomial of degree 13 leaves out less than
    0.35¹⁴ e^{0.35}/14! < u/8 and its roundings are below 6u, as above. The power of two is exact.

    >>> exponentials(np.array([0.0, 1.0, 1e3]))
    array([1.        , 0.36787944, 0.        ])
    """
    near = np.minimum(x, _FAR)
    turns = np.rint(near * (1 / _LN2))
    values = _polynomial((near - turns * _LN2_HEAD) - turns * _LN2_REST, 13)
    return np.where(x < _FAR, np.ldexp(values, -turns.astype(np.int32)), 0.0)


def _polynomial(x: Floats, degree: int) -> Floats:
    """The Taylor polynomial of e^{−x}, by Horner's rule."""
    value = np.full_like(x, _COEFFICIENTS[degree])
    for coefficient in _COEFFICIENTS[degree - 1 :: -1]:
        value *= x
        value += coefficient
    return value
