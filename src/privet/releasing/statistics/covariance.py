"""The population covariance of two columns, by the same idea as the mean's and the variance's.

Let a and b be the shares of a row's two values, each in [0, 1]. The parts ((1 − a)(1 − b), (1 − a)b, a(1 −
b), ab) of a row are not negative and add up to 1. So Laplace noise with the *whole* ε hides the sums of all
four. They are like the cells of a two-by-two table, and the covariance is its determinant. Gaussian noise
goes on the number of rows and on the sums of 2a − 1, 2b − 1 and (2a − 1)(2b − 1), each between −1 and 1 for a
row.

Only rows that have both values count, also in the sums of a and of b.
"""

from dataclasses import dataclass
from typing import ClassVar, Self, final

import numpy as np

from privet.errors import InvalidArgument
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
from privet.releasing.statistics.option_words import read_bounded_column, require_parts
from privet.releasing.statistics.statistic import RequiredColumn, Scalar
from privet.releasing.validation import check_squared_bounds

__all__ = ["Covariance", "CovarianceOfMoments", "CovarianceOfParts"]


@final
@dataclass(frozen=True)
class Covariance(Scalar):
    """The population covariance of two columns, whose values are clamped to [lower, upper] of each.

    RowCount in which either value is missing do not count.

    >>> Covariance("age", 0, 100, "income", 0, 200_000).subject
    'age income'
    """

    option: ClassVar[str] = "covariance"

    x: str
    x_lower: float
    x_upper: float
    y: str
    y_lower: float
    y_upper: float

    def __post_init__(self) -> None:
        check_squared_bounds(self.x, self.x_lower, self.x_upper, prefix="x_")
        check_squared_bounds(self.y, self.y_lower, self.y_upper, prefix="y_")
        if self.x == self.y:
            raise InvalidArgument(
                f"'x' and 'y' must be two columns, got {self.x!r} for both. Ask for the variance of one "
                f"column."
            )

    def required_columns(self) -> tuple[RequiredColumn, ...]:
        return RequiredColumn(self.x, numeric=True), RequiredColumn(self.y, numeric=True)

    def queries(self, bounds: UnitBounds, kind: NoiseKind) -> StatisticQueries:
        rows, present = bounds.contribution.rows, ValueCount((self.x, self.y))
        x_share, y_share, product = self._share(1, 0), self._share(0, 1), self._share(1, 1)
        most, area = rows * SHARE_STEPS, (self.x_upper - self.x_lower) * (self.y_upper - self.y_lower)
        if kind is NoiseKind.LAPLACE:
            parts = (
                LinearCombination(((present, SHARE_STEPS), (x_share, -1), (y_share, -1), (product, 1))),
                LinearCombination(((y_share, 1), (product, -1))),
                LinearCombination(((x_share, 1), (product, -1))),
                LinearCombination.of(product),
            )
            # The parts add up to SHARE_STEPS for each row, exactly. Rounding is monotone, so only the first
            # part can be negative: by 1 for a row (three roundings of ½ each), and by 1 more for a unit that
            # is scale_to_row_limit down.
            query = SumQuery(parts, bounds.several_numbers(most + 2 * (rows + 1)), 1 / SHARE_STEPS)
            return StatisticQueries((query,), postprocessing=CovarianceOfParts(area))
        centered_x = LinearCombination(((x_share, 2), (present, -SHARE_STEPS)))
        centered_y = LinearCombination(((y_share, 2), (present, -SHARE_STEPS)))
        centered_product = LinearCombination(
            ((product, 4), (x_share, -2), (y_share, -2), (present, SHARE_STEPS))
        )
        # Roundings of ½, times 4 + 2 + 2, for each row, and of less than 1 downwards for a unit that is
        # scale_to_row_limit down.
        wide = most + 4 * (rows + 1)
        queries = (
            SumQuery((LinearCombination.of(present),), bounds.one_number(0, rows), 1.0, 1 / 4),
            SumQuery((centered_x,), bounds.one_number(-most, most), 1 / SHARE_STEPS, 1 / 4),
            SumQuery((centered_y,), bounds.one_number(-most, most), 1 / SHARE_STEPS, 1 / 4),
            SumQuery((centered_product,), bounds.one_number(-wide, wide), 1 / SHARE_STEPS, 1 / 4),
        )
        return StatisticQueries(queries, postprocessing=CovarianceOfMoments(area))

    def _share(self, x_power: int, y_power: int) -> ShareSum:
        return ShareSum(
            (
                ShareFactor(self.x, self.x_lower, self.x_upper, x_power),
                ShareFactor(self.y, self.y_lower, self.y_upper, y_power),
            )
        )

    @classmethod
    def from_words(cls, option: str, words: str) -> Self:
        x, y = require_parts(
            option, words, words.split(";"), 2, "COL:LOW:HIGH;COL:LOW:HIGH, as in 'age:0:100;income:0:200000'"
        )
        return cls(*read_bounded_column(option, x), *read_bounded_column(option, y))

    @property
    def subject(self) -> str:
        return f"{self.x} {self.y}"


@final
@dataclass(frozen=True)
class CovarianceOfParts(PostProcessing):
    """area · f, f = (X₁₁X₀₀ − X₁₀X₀₁)/n², from noisy sums X of the four parts, n = X₀₀ + X₀₁ + X₁₀ + X₁₁.

    The true sums are not negative, so noisy sums below 0 are set to 0, which brings them no further from the
    truth. With u = X/n, the derivatives of f are (u₀₀ − 2f)/n in X₁₁, (u₁₁ − 2f)/n in X₀₀, −(u₀₁ + 2f)/n in
    X₁₀ and −(u₁₀ + 2f)/n in X₀₁. The error bar is the largest that these get to be within the noise t, times
    the noise (the mean value theorem on the segment between true and noisy sums), or the range of f within
    the noise, if that is smaller. The sizes of the derivatives add up to at most 5/4n, at u₀₀ = 1/4 and u₁₁ =
    3/4.
    """

    area: float

    def estimate(self, sums: tuple[NoisySum, ...]) -> Estimates:
        half = max(noisy.half_width for noisy in sums)
        values = np.maximum(np.stack([noisy.values for noisy in sums]), 0)
        least = np.maximum(np.stack([noisy.values - half for noisy in sums]), 0)
        most = np.maximum(np.stack([noisy.values + half for noisy in sums]), 0)
        low = divide(least, least + most.sum(axis=0) - most, 0.0)
        high = divide(most, most + least.sum(axis=0) - least, 1.0)
        shares = divide(values, np.broadcast_to(values.sum(axis=0), values.shape), 0.0)
        covariance = _determinant(shares, shares)
        smallest = np.maximum(_determinant(low, high), -0.25)
        largest = np.minimum(_determinant(high, low), 0.25)
        # |u₀₀ − 2f| and |u₁₁ − 2f|, then |u₀₁ + 2f| and |u₁₀ + 2f|
        diagonal = sum(np.maximum(high[cell] - 2 * smallest, 2 * largest - low[cell]) for cell in (0, 3))
        across = sum(np.maximum(high[cell] + 2 * largest, -low[cell] - 2 * smallest) for cell in (1, 2))
        error = divide(half * (diagonal + across), least.sum(axis=0), np.inf)
        return _within_range(covariance, smallest, largest, error, self.area)

    def expected_error(self, half_widths: tuple[float, ...]) -> tuple[float, ErrorKind]:
        return self.area * 1.25 * max(half_widths), ErrorKind.OVER_COUNT


@final
@dataclass(frozen=True)
class CovarianceOfMoments(PostProcessing):
    """area/4 · (w − mk), with m = T/n, k = U/n and w = W/n.

    The noisy sums are n, T = Σ(2a − 1), U = Σ(2b − 1) and W = Σ(2a − 1)(2b − 1).
    The derivatives are 1/n in W, −k/n in T, −m/n in U and (2mk − w)/n in n; the error bar is made of them as
    above. On the segment between true and noisy sums, each ratio lies between its two ends. A ratio beyond ±1
    is set to ±1; this moves a sum by no more than the wider of its own noise and that of n. For the moments
    of a table |2mk − w| ≤ 1.
    """

    area: float

    def estimate(self, sums: tuple[NoisySum, ...]) -> Estimates:
        rows, x_total, y_total, product = sums
        x_mean, x_error = divide_sums(x_total, rows)
        y_mean, y_error = divide_sums(y_total, rows)
        moment, moment_error = divide_sums(product, rows)
        x_low, x_high = np.maximum(x_mean - x_error, -1), np.minimum(x_mean + x_error, 1)
        y_low, y_high = np.maximum(y_mean - y_error, -1), np.minimum(y_mean + y_error, 1)
        corners = [x * y for x in (x_low, x_high) for y in (y_low, y_high)]
        least, most = np.minimum.reduce(corners), np.maximum.reduce(corners)
        low, high = np.maximum(moment - moment_error, -1), np.minimum(moment + moment_error, 1)
        x_width, y_width, width = (
            max(noisy.half_width, rows.half_width) for noisy in (x_total, y_total, product)
        )
        error = divide(
            width
            + np.maximum(-y_low, y_high) * x_width
            + np.maximum(-x_low, x_high) * y_width
            + np.maximum(2 * most - low, high - 2 * least) * rows.half_width,
            rows.values - rows.half_width,
            np.inf,
        )
        covariance = np.clip((moment - x_mean * y_mean) / 4, -0.25, 0.25)
        smallest, largest = np.maximum((low - most) / 4, -0.25), np.minimum((high - least) / 4, 0.25)
        return _within_range(covariance, smallest, largest, error / 4, self.area)

    def expected_error(self, half_widths: tuple[float, ...]) -> tuple[float, ErrorKind]:
        rows, *others = half_widths
        widest = rows + sum(max(width, rows) for width in others)
        return self.area / 4 * widest, ErrorKind.OVER_COUNT


def _determinant(diagonal: Floats, across: Floats) -> Floats:
    """u₀₀u₁₁ − u₀₁u₁₀, of shares in this order."""
    return np.asarray(diagonal[0] * diagonal[3] - across[1] * across[2])


def _within_range(
    covariance: Floats, smallest: Floats, largest: Floats, error: Floats, area: float
) -> Estimates:
    """The error bar, cut to the range that the covariance can have."""
    furthest = np.maximum(np.maximum(largest - covariance, covariance - smallest), 0)
    return Estimates(covariance * area, np.minimum(error, furthest) * area)
