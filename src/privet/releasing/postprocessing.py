"""Noisy sums → answers with error bars. All of it is post-processing: no row is seen here.

An error bar holds for the noise alone. Its truth is the statistic of the *bounded* table: values clamped, units
weighed down. Ratios use a union bound over their parts and interval arithmetic: no delta method, no assumption.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import NDArray

from privet.releasing.answers import ErrorKind

__all__ = [
    "Finish",
    "Finished",
    "MeanOfMoments",
    "MeanOfParts",
    "Noisy",
    "Plain",
    "VarianceOfMoments",
    "VarianceOfParts",
]

Floats = NDArray[np.float64]


@final
@dataclass(frozen=True)
class Noisy:
    """A released sum for each group, and what its noise stays within at the confidence that was asked for."""

    values: Floats
    half: float


@final
@dataclass(frozen=True)
class Finished:
    """Values and error bars, group by group."""

    values: Floats
    errors: Floats


class Finish(ABC):
    """How an answer is made of noisy sums."""

    @abstractmethod
    def finish(self, parts: tuple[Noisy, ...]) -> Finished:
        """The answer."""

    @abstractmethod
    def quote(self, halves: tuple[float, ...]) -> tuple[float, ErrorKind]:
        """The error that can be promised before any row is read."""


@final
@dataclass(frozen=True)
class Plain(Finish):
    """Counts and sums, as they are: they may be negative, and their mean over many releases is right."""

    def finish(self, parts: tuple[Noisy, ...]) -> Finished:
        (total,) = parts
        return Finished(total.values, np.full_like(total.values, total.half))

    def quote(self, halves: tuple[float, ...]) -> tuple[float, ErrorKind]:
        return halves[0], ErrorKind.NOISE_LAW


@final
@dataclass(frozen=True)
class MeanOfParts(Finish):
    """lower + (upper − lower) · A/(A + B), from noisy A = Σa and B = Σ(1 − a).

    A/(A + B) rises in A and falls in B, so with both noises within t it lies within t/(A + B) of the answer.
    """

    lower: float
    upper: float

    def finish(self, parts: tuple[Noisy, ...]) -> Finished:
        below, above = parts
        rows = below.values + above.values
        share = _ratio(above.values, rows, 0.5)
        error = _ratio(np.full_like(rows, max(below.half, above.half)), rows, np.inf)
        return _scaled(share, error, self.lower, self.upper)

    def quote(self, halves: tuple[float, ...]) -> tuple[float, ErrorKind]:
        return (self.upper - self.lower) * max(halves), ErrorKind.OVER_COUNT


@final
@dataclass(frozen=True)
class MeanOfMoments(Finish):
    """The middle + half the width · T/n, from noisy n and T = Σ(2a − 1)."""

    lower: float
    upper: float

    def finish(self, parts: tuple[Noisy, ...]) -> Finished:
        rows, total = parts
        mean, spread = _quotient(total, rows)
        return _scaled((mean + 1) / 2, spread / 2, self.lower, self.upper)

    def quote(self, halves: tuple[float, ...]) -> tuple[float, ErrorKind]:
        return (self.upper - self.lower) / 2 * sum(halves), ErrorKind.OVER_COUNT


@final
@dataclass(frozen=True)
class VarianceOfParts(Finish):
    """(upper − lower)² · f, f = (X₀X₂ − X₁²/4)/n², from noisy sums X of (1 − a)², 2a(1 − a) and a², n = X₀ + X₁ + X₂.

    With u = X/n, the derivatives of f are (u₂ − 2f)/n, (−u₁/2 − 2f)/n and (u₀ − 2f)/n. The error bar is the largest
    that these get to be within the noise, times the noise (the mean value theorem), and never more than t/n.
    """

    lower: float
    upper: float

    def finish(self, parts: tuple[Noisy, ...]) -> Finished:
        sums, half = [part.values for part in parts], max(part.half for part in parts)
        rows = sums[0] + sums[1] + sums[2]
        shares = [_ratio(part, rows, 0.0) for part in sums]
        value = np.clip(shares[0] * shares[2] - np.square(shares[1]) / 4, 0, 0.25)
        least, most = rows - 3 * half, rows + 3 * half
        low = [np.clip(_ratio(part - half, most, 0.0), 0, 1) for part in sums]
        high = [np.clip(_ratio(part + half, least, 1.0), 0, 1) for part in sums]
        smallest = np.clip(low[0] * low[2] - np.square(high[1]) / 4, 0, 0.25)
        largest = np.clip(high[0] * high[2] - np.square(low[1]) / 4, 0, 0.25)
        slopes = [
            np.maximum(np.abs(high[2] - 2 * smallest), np.abs(low[2] - 2 * largest)),
            high[1] / 2 + 2 * largest,
            np.maximum(np.abs(high[0] - 2 * smallest), np.abs(low[0] - 2 * largest)),
        ]
        error = _ratio(half * (slopes[0] + slopes[1] + slopes[2]), least, np.inf)
        return _within_quarter(value, error, self.upper - self.lower)

    def quote(self, halves: tuple[float, ...]) -> tuple[float, ErrorKind]:
        return (self.upper - self.lower) ** 2 * max(halves), ErrorKind.OVER_COUNT


@final
@dataclass(frozen=True)
class VarianceOfMoments(Finish):
    """(upper − lower)²/4 · ((1 + w)/2 − m²), m = T/n and w = W/n, from noisy n, T = Σ(2a − 1), W = Σ(1 − 8a(1 − a)).

    The derivatives are 1/2n in W, −2m/n in T and (2m² − w/2)/n in n; the error bar is made of them as above.
    """

    lower: float
    upper: float

    def finish(self, parts: tuple[Noisy, ...]) -> Finished:
        rows, total, wave = parts
        mean, mean_error = _quotient(total, rows)
        bend, bend_error = _quotient(wave, rows)
        value = np.clip(((1 + bend) / 2 - np.square(mean)) / 4, 0, 0.25)
        furthest = np.minimum(np.abs(mean) + mean_error, 1)
        slope = np.minimum(2 * np.square(furthest) - (bend - bend_error) / 2, 1.5)
        error = _ratio(
            wave.half / 2
            + 2 * furthest * total.half
            + np.maximum(slope, (bend + bend_error) / 2) * rows.half,
            rows.values - rows.half,
            np.inf,
        )
        return _within_quarter(value, error / 4, self.upper - self.lower)

    def quote(self, halves: tuple[float, ...]) -> tuple[float, ErrorKind]:
        rows, total, wave = halves
        return (self.upper - self.lower) ** 2 / 4 * (wave / 2 + 2 * total + 1.5 * rows), ErrorKind.OVER_COUNT


def _within_quarter(value: Floats, error: Floats, width: float) -> Finished:
    """A variance on [0, 1] is at most a quarter."""
    return Finished(value * width**2, np.minimum(error, np.maximum(value, 0.25 - value)) * width**2)


def _quotient(total: Noisy, rows: Noisy) -> tuple[Floats, Floats]:
    """A mean between −1 and 1, and how far it may be off; everything is possible where no row is certain."""
    value = np.clip(_ratio(total.values, rows.values, 0.0), -1, 1)
    least = rows.values - rows.half
    sure = least > 0
    # Of (T ± t)/(n ± s) an end is at an end of both.
    ends = [
        _ratio(total.values + sign * total.half, rows.values + way * rows.half, 0.0)
        for sign in (-1, 1)
        for way in (-1, 1)
    ]
    low = np.where(sure, np.clip(np.minimum.reduce(ends), -1, 1), -1.0)
    high = np.where(sure, np.clip(np.maximum.reduce(ends), -1, 1), 1.0)
    return value, np.maximum(np.maximum(high - value, value - low), 0)


def _ratio(top: Floats, bottom: Floats, otherwise: float) -> Floats:
    result = np.full_like(top, otherwise)
    np.divide(top, bottom, out=result, where=bottom > 0)
    return result


def _scaled(share: Floats, error: Floats, lower: float, upper: float) -> Finished:
    """From [0, 1] to [lower, upper]; an error is never larger than what the bounds leave."""
    inside = np.clip(share, 0, 1)
    # The interval is around the value before it was clipped, and is cut at the bounds as well.
    most = np.maximum(np.clip(share + error, 0, 1) - inside, inside - np.clip(share - error, 0, 1))
    # An interval beside the bounds says that the noise was larger than it mostly is: then nothing is known.
    beside = (share - error > 1) | (share + error < 0)
    most = np.where(beside, np.maximum(inside, 1 - inside), most)
    width = upper - lower
    return Finished(lower + inside * width, most * width)
