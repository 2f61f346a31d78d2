"""The attack on the last bits of floating-point noise, after Mironov (2012).

The textbook draws Laplace noise as ±b ln U with U = j/2⁵³. That is at most 2⁵⁴ numbers out of 2⁶⁴, and in many places
fewer than there are floats. Adding them to a value rounds to the floats near the sum. So the outputs that can
come from the value 0 and those that can come from 1 are two different sets with gaps, and an output in a gap of
the first tells for certain that the value was not 0. No ε allows that.

Everything here is what an attacker knows: the algorithm, the scale, and one output. *Reference*: I. Mironov, *On
significance of the least significant bits for differential privacy*, CCS 2012, sections 4 and 5. He shows it
for several textbook samplers; here it is the one with a separate sign.
"""

from collections.abc import Callable

import numpy as np
from scipy.stats import beta

_UNIT = 2.0**-53
_NEAR = 24  # neighbours of U that are tried: e^{−|y|/b} and ln U are off by a few units each


def textbook_laplace(value: float, scale: float, words: np.ndarray) -> np.ndarray:
    """value ± scale · ln U in float64, with U on the grid of 2⁻⁵³; one output for each 64-bit word."""
    magnitudes = _magnitudes((words >> np.uint64(11)) + np.uint64(1), scale)
    return value + np.where(words & np.uint64(1), magnitudes, -magnitudes)


def cannot_come_from_zero(outputs: np.ndarray, scale: float) -> np.ndarray:
    """Whether no U gives this output from the value 0, where the output is the noise itself.

    From 0, an output y needs −b ln(j/2⁵³) = |y| in float64. That function is monotone, so j lies next to 2⁵³ e^{−|y|/b},
    and all j that come into question are tried.
    """
    sizes = np.abs(np.asarray(outputs, dtype=np.float64))
    middle = np.rint(np.exp(-sizes / scale) / _UNIT).astype(np.int64)
    found = np.zeros(sizes.shape, dtype=np.bool_)
    for shift in range(-_NEAR, _NEAR + 1):
        candidates = np.clip(middle + shift, 1, 2**53).astype(np.uint64)
        found |= _magnitudes(candidates, scale) == sizes
    return ~found


def largest_epsilon(
    outputs: np.ndarray, others: np.ndarray, event: Callable[[np.ndarray], np.ndarray], false_alarm: float
) -> float:
    """A lower bound on ε from how often an event is seen in the outputs of two neighbours.

    ε-DP says P[E | first] ≤ e^ε P[E | second], and the other way round. Each probability is bounded by Clopper & Pearson
    (1934) with a quarter of the false-alarm rate.
    """
    seen, seen_of_others = int(event(outputs).sum()), int(event(others).sum())
    return max(
        _log_ratio(seen, outputs.size, seen_of_others, others.size, false_alarm / 4),
        _log_ratio(seen_of_others, others.size, seen, outputs.size, false_alarm / 4),
    )


def _log_ratio(seen: int, size: int, other: int, other_size: int, alpha: float) -> float:
    lower = beta.ppf(alpha, seen, size - seen + 1) if seen else 0.0
    upper = beta.isf(alpha, other + 1, other_size - other) if other < other_size else 1.0
    return float(np.log(lower / upper)) if lower > 0 else -np.inf


def _magnitudes(grid: np.ndarray, scale: float) -> np.ndarray:
    return -scale * np.log(grid.astype(np.float64) * _UNIT)
