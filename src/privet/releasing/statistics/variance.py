"""The population variance of a column, by the same idea as the mean's.

The parts ((1 − a)², 2a(1 − a), a²) of a row, the polynomials of Bernstein, are not negative and add up to 1.
So Laplace noise with the *whole* ε hides number of rows, sum, and sum of squares together. Gaussian noise
goes on the number of rows, the sum of 2a − 1 and the sum of 1 − 8a(1 − a), each between −1 and 1 for a row.
"""

from dataclasses import dataclass
from typing import ClassVar, final

import numpy as np

from privet.releasing.answers import ErrorKind
from privet.releasing.engines.aggregates import SHARE_STEPS, ShareFactor, ShareSum, ValueCount
from privet.releasing.postprocessing import (
    Estimates,
    Floats,
    NoisySum,
    PostProcessing,
    divide,
    divide_sums,
)
from privet.releasing.queries import LinearCombination, NoiseKind, StatisticQueries, SumQuery
from privet.releasing.sensitivity import UnitBounds
from privet.releasing.statistics.statistic import BoundedScalar
from privet.releasing.validation import check_squared_bounds

__all__ = ["Variance", "VarianceOfMoments", "VarianceOfParts"]


@final
@dataclass(frozen=True)
class Variance(BoundedScalar):
    """The population variance of a column whose values are clamped to [lower, upper]."""

    option: ClassVar[str] = "variance"

    def __post_init__(self) -> None:
        check_squared_bounds(self.column, self.lower, self.upper)

    def queries(self, bounds: UnitBounds, kind: NoiseKind) -> StatisticQueries:
        rows, present = bounds.contribution.rows, ValueCount((self.column,))
        share = ShareSum((ShareFactor(self.column, self.lower, self.upper),))
        square = ShareSum((ShareFactor(self.column, self.lower, self.upper, 2),))
        most = rows * SHARE_STEPS
        # Shares and squares are rounded one by one, and rounded down when a unit is scale_to_row_limit: three
        # steps for
        # each row, and four for each unit, are more than enough.
        slack = 3 * rows + 4
        if kind is NoiseKind.LAPLACE:
            parts = (
                LinearCombination(((present, SHARE_STEPS), (share, -2), (square, 1))),
                LinearCombination(((share, 2), (square, -2))),
                LinearCombination.of(square),
            )
            query = SumQuery(parts, bounds.several_numbers(most + slack), 1 / SHARE_STEPS)
            return StatisticQueries((query,), postprocessing=VarianceOfParts(self.lower, self.upper))
        centered = LinearCombination(((share, 2), (present, -SHARE_STEPS)))
        wave = LinearCombination(((present, SHARE_STEPS), (share, -8), (square, 8)))
        wide = most + 4 * slack
        queries = (
            SumQuery((LinearCombination.of(present),), bounds.one_number(0, rows), 1.0, 1 / 3),
            SumQuery((centered,), bounds.one_number(-most, most), 1 / SHARE_STEPS, 1 / 3),
            SumQuery((wave,), bounds.one_number(-wide, wide), 1 / SHARE_STEPS, 1 / 3),
        )
        return StatisticQueries(queries, postprocessing=VarianceOfMoments(self.lower, self.upper))


@final
@dataclass(frozen=True)
class VarianceOfParts(PostProcessing):
    """(upper − lower)² · f, with f = (X₀X₂ − X₁²/4)/n² and n = X₀ + X₁ + X₂.

    The noisy sums X are those of (1 − a)², 2a(1 − a) and a². With u = X/n, the derivatives of f are (u₂ −
    2f)/n, (−u₁/2 − 2f)/n and (u₀ − 2f)/n. The error bar is the largest that these get to be within the noise,
    times the noise (the mean value theorem), and never more than t/n.
    """

    lower: float
    upper: float

    def estimate(self, sums: tuple[NoisySum, ...]) -> Estimates:
        values, half = [noisy.values for noisy in sums], max(noisy.half_width for noisy in sums)
        rows = values[0] + values[1] + values[2]
        shares = [divide(value, rows, 0.0) for value in values]
        variance = np.clip(shares[0] * shares[2] - np.square(shares[1]) / 4, 0, 0.25)
        least, most = rows - 3 * half, rows + 3 * half
        low = [np.clip(divide(value - half, most, 0.0), 0, 1) for value in values]
        high = [np.clip(divide(value + half, least, 1.0), 0, 1) for value in values]
        smallest = np.clip(low[0] * low[2] - np.square(high[1]) / 4, 0, 0.25)
        largest = np.clip(high[0] * high[2] - np.square(low[1]) / 4, 0, 0.25)
        slopes = [
            np.maximum(np.abs(high[2] - 2 * smallest), np.abs(low[2] - 2 * largest)),
            high[1] / 2 + 2 * largest,
            np.maximum(np.abs(high[0] - 2 * smallest), np.abs(low[0] - 2 * largest)),
        ]
        error = divide(half * (slopes[0] + slopes[1] + slopes[2]), least, np.inf)
        return _within_a_quarter(variance, error, self.upper - self.lower)

    def expected_error(self, half_widths: tuple[float, ...]) -> tuple[float, ErrorKind]:
        return (self.upper - self.lower) ** 2 * max(half_widths), ErrorKind.OVER_COUNT


@final
@dataclass(frozen=True)
class VarianceOfMoments(PostProcessing):
    """(upper − lower)²/4 · ((1 + w)/2 − m²), with m = T/n and w = W/n.

    The noisy sums are n, T = Σ(2a − 1) and W = Σ(1 − 8a(1 − a)). The derivatives are 1/2n in W, −2m/n in T
    and (2m² − w/2)/n in n; the error bar is made of them as above.
    """

    lower: float
    upper: float

    def estimate(self, sums: tuple[NoisySum, ...]) -> Estimates:
        rows, total, wave = sums
        mean, mean_error = divide_sums(total, rows)
        bend, bend_error = divide_sums(wave, rows)
        variance = np.clip(((1 + bend) / 2 - np.square(mean)) / 4, 0, 0.25)
        furthest = np.minimum(np.abs(mean) + mean_error, 1)
        slope = np.minimum(2 * np.square(furthest) - (bend - bend_error) / 2, 1.5)
        error = divide(
            wave.half_width / 2
            + 2 * furthest * total.half_width
            + np.maximum(slope, (bend + bend_error) / 2) * rows.half_width,
            rows.values - rows.half_width,
            np.inf,
        )
        return _within_a_quarter(variance, error / 4, self.upper - self.lower)

    def expected_error(self, half_widths: tuple[float, ...]) -> tuple[float, ErrorKind]:
        rows, total, wave = half_widths
        return (self.upper - self.lower) ** 2 / 4 * (wave / 2 + 2 * total + 1.5 * rows), ErrorKind.OVER_COUNT


def _within_a_quarter(variance: Floats, error: Floats, width: float) -> Estimates:
    """A variance on [0, 1] is at most a quarter."""
    furthest = np.maximum(variance, 0.25 - variance)
    return Estimates(variance * width**2, np.minimum(error, furthest) * width**2)
