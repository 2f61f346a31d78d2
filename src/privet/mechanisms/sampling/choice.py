"""One of many candidates, with probability proportional to e^w, exactly."""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from fractions import Fraction
from itertools import accumulate

import numpy as np
import numpy.typing as npt

from privet.errors import InvalidArgument
from privet.mechanisms.sampling.exponentials import RELATIVE_ERROR, exponential_bounds, exponentials
from privet.mechanisms.sampling.sources import check_source
from privet.randomness import NoiseSource

__all__ = ["choose"]

_WORD = 64
_EXACT = 53  # bits that float64 holds
_GUARD = 64


def choose(log_weights: Sequence[float] | npt.NDArray[np.float64], source: NoiseSource) -> int:
    """The index i of a candidate, drawn with probability e^{wᵢ} / Σ e^{wⱼ}, exactly, for the given floats.

    −inf makes a candidate impossible. NaN, +inf and a list without a possible candidate are refused. A
    refusal must not depend on private data, so a mechanism checks its scores before it calls this.

    One word of U, uniform on [0, 1), is drawn. If U Σ e^{w−max} in float64 falls between two cumulative sums,
    farther from both than their error, then that candidate is certain. Otherwise, once in about 10⁵ draws
    among 10⁵ candidates, the decision is made with exact integers and as many further bits as it takes.

    Leaks: how long it took.

    >>> from privet.randomness import SecureNoise
    >>> choose([0.0, float("-inf"), -1e300], SecureNoise())
    0
    """
    weights = _check_weights(log_weights)
    check_source(source)
    with np.errstate(over="ignore"):  # infinity is far enough
        falls = weights.max() - weights
    sums = np.cumsum(exponentials(falls))
    total = float(sums[-1])
    word = int(source.bits(1)[0])
    target = (word >> (_WORD - _EXACT)) * 2.0**-_EXACT * total
    error = _error_bound(weights.size) * total
    first, last = np.searchsorted(sums, (target - error, target + error), side="right")
    return int(first) if first == last else _choose_exactly(weights, word, source)


def _error_bound(count: int) -> float:
    """The largest error of a sum, or of U times the total, relative to the total; with a margin.

    Each weight: ``RELATIVE_ERROR``, and 2⁻⁴⁸ for the rounding of w − max, which is below 64 ln 2 where it
    matters, or 2⁻⁶⁴ in total where it does not. A cumulative sum of n: n roundings of 2⁻⁵³. U beyond 53 bits:
    2⁻⁵³.
    """
    return 4 * (2 * RELATIVE_ERROR + (count + 8) * 2.0**-_EXACT)


def _choose_exactly(weights: npt.NDArray[np.float64], first: int, source: NoiseSource) -> int:
    """The candidate of a uniform number with this first word."""
    highest = Fraction(float(weights.max()))
    kinds, which = np.unique(weights, return_inverse=True)
    falls = [None if kind == -np.inf else highest - Fraction(float(kind)) for kind in kinds]
    kind_of = which.tolist()
    bits = _WORD
    while True:
        precision = bits + _GUARD
        bounds = [(0, 0) if fall is None else exponential_bounds(fall, precision) for fall in falls]
        lower = list(accumulate(bounds[kind][0] for kind in kind_of))
        upper = list(accumulate(bounds[kind][1] for kind in kind_of))
        # U times the total lies in [first, first + 1) 2^−bits times the total: above sums that end before
        # that, and below sums that begin after it.
        least = bisect_right(upper, first * lower[-1] >> bits)
        most = bisect_left(lower, -(-(first + 1) * upper[-1] >> bits))
        if least == most:
            return least
        first = first << _WORD | int(source.bits(1)[0])
        bits += _WORD


def _check_weights(log_weights: Sequence[float] | npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    try:
        weights = np.asarray(log_weights, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        weights = np.empty((0, 0))
    if weights.ndim != 1 or weights.size == 0:
        raise InvalidArgument(
            "'log_weights' must be a list of real numbers with one entry for each candidate, got something "
            "else. Give at least one number."
        )
    if np.isnan(weights).any() or (weights == np.inf).any() or (weights == -np.inf).all():
        raise InvalidArgument(
            "'log_weights' must be finite, or -inf for an impossible candidate, and at least one must be "
            "finite. Take out NaN and +inf."
        )
    return weights
