"""Noisy sums → answers with error bars. All of it is post-processing: no row is seen here.

An error bar holds for the noise alone. Its truth is the statistic of the *bounded* table: values clamped,
units scale_to_row_limit down. Ratios use a union bound over their parts and interval arithmetic: no delta
method, no assumption. What is special to a statistic is in its own module (``statistics``).
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import NDArray

from privet.releasing.answers import ErrorKind

__all__ = [
    "Estimates",
    "Floats",
    "NoisySum",
    "PlainSums",
    "PostProcessing",
    "divide",
    "divide_sums",
    "scale_share",
]

Floats = NDArray[np.float64]


@final
@dataclass(frozen=True)
class NoisySum:
    """A released sum for each group, and the width that its noise stays within at the given confidence."""

    values: Floats
    half_width: float


@final
@dataclass(frozen=True)
class Estimates:
    """Values and error bars, group by group."""

    values: Floats
    errors: Floats


class PostProcessing(ABC):
    """How an answer is made of noisy sums."""

    @abstractmethod
    def estimate(self, sums: tuple[NoisySum, ...]) -> Estimates:
        """The answer and its error bar, which holds if every noise is within its width."""

    @abstractmethod
    def expected_error(self, half_widths: tuple[float, ...]) -> tuple[float, ErrorKind]:
        """The error that can be promised before any row is read."""


@final
@dataclass(frozen=True)
class PlainSums(PostProcessing):
    """Counts and sums, as they are: they may be negative, and they are unbiased."""

    def estimate(self, sums: tuple[NoisySum, ...]) -> Estimates:
        (total,) = sums
        return Estimates(total.values, np.full_like(total.values, total.half_width))

    def expected_error(self, half_widths: tuple[float, ...]) -> tuple[float, ErrorKind]:
        return half_widths[0], ErrorKind.NOISE_LAW


def divide(numerator: Floats, denominator: Floats, otherwise: float) -> Floats:
    """The ratio where the denominator is above 0, and ``otherwise`` elsewhere."""
    result = np.full_like(numerator, otherwise)
    np.divide(numerator, denominator, out=result, where=denominator > 0)
    return result


def divide_sums(total: NoisySum, rows: NoisySum) -> tuple[Floats, Floats]:
    """A mean between −1 and 1 and its error bar.

    If the number of rows may be 0, then every mean is possible.
    """
    value = np.clip(divide(total.values, rows.values, 0.0), -1, 1)
    least = rows.values - rows.half_width
    sure = least > 0
    # (T ± t)/(n ± s) is smallest and largest at ends of both intervals.
    ends = [
        divide(total.values + sign * total.half_width, rows.values + way * rows.half_width, 0.0)
        for sign in (-1, 1)
        for way in (-1, 1)
    ]
    low = np.where(sure, np.clip(np.minimum.reduce(ends), -1, 1), -1.0)
    high = np.where(sure, np.clip(np.maximum.reduce(ends), -1, 1), 1.0)
    return value, np.maximum(np.maximum(high - value, value - low), 0)


def scale_share(share: Floats, error: Floats, lower: float, upper: float) -> Estimates:
    """From [0, 1] to [lower, upper]; an error is never larger than what the bounds leave."""
    inside = np.clip(share, 0, 1)
    # The interval is around the value before it was clipped, and is cut at the bounds as well.
    most = np.maximum(np.clip(share + error, 0, 1) - inside, inside - np.clip(share - error, 0, 1))
    # If the interval misses the bounds, then the noise was wider than it should be, and nothing is known.
    outside = (share - error > 1) | (share + error < 0)
    most = np.where(outside, np.maximum(inside, 1 - inside), most)
    width = upper - lower
    return Estimates(lower + inside * width, most * width)
