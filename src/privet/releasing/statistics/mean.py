"""The mean of a column: a noisy sum over a noisy count, at √2 less error than with half of ε for each.

With a = (v − lower)/(upper − lower) in [0, 1], the two parts (1 − a, a) of a row are not negative and add up
to 1. So the vector of their sums moves by 1 for each row, in the sum of absolute values. Laplace noise with
the *whole* ε hides both sums, and with them the number of rows. Gaussian noise counts squares. It goes on the
number of rows and on the sum of 2a − 1, which is between −1 and 1 for a row.

*Deviation from the usual*: libraries split ε between sum and count.
"""

from dataclasses import dataclass
from typing import ClassVar, final

import numpy as np

from privet.releasing.answers import ErrorKind
from privet.releasing.engines.aggregates import SHARE_STEPS, ShareFactor, ShareSum, ValueCount
from privet.releasing.postprocessing import (
    Estimates,
    NoisySum,
    PostProcessing,
    divide,
    divide_sums,
    scale_share,
)
from privet.releasing.queries import LinearCombination, NoiseKind, StatisticQueries, SumQuery
from privet.releasing.sensitivity import UnitBounds
from privet.releasing.statistics.statistic import BoundedScalar

__all__ = ["Mean", "MeanOfMoments", "MeanOfParts"]


@final
@dataclass(frozen=True)
class Mean(BoundedScalar):
    """The mean of a column whose values are clamped to [lower, upper]: a noisy sum over a noisy count."""

    option: ClassVar[str] = "mean"

    def queries(self, bounds: UnitBounds, kind: NoiseKind) -> StatisticQueries:
        rows, present = bounds.contribution.rows, ValueCount((self.column,))
        share = ShareSum((ShareFactor(self.column, self.lower, self.upper),))
        most = rows * SHARE_STEPS
        if kind is NoiseKind.LAPLACE:
            below = LinearCombination(((present, SHARE_STEPS), (share, -1)))
            above = LinearCombination.of(share)
            query = SumQuery((below, above), bounds.several_numbers(most), 1 / SHARE_STEPS)
            return StatisticQueries((query,), postprocessing=MeanOfParts(self.lower, self.upper))
        centered = LinearCombination(((share, 2), (present, -SHARE_STEPS)))
        queries = (
            SumQuery((LinearCombination.of(present),), bounds.one_number(0, rows), 1.0, 0.5),
            SumQuery((centered,), bounds.one_number(-most, most), 1 / SHARE_STEPS, 0.5),
        )
        return StatisticQueries(queries, postprocessing=MeanOfMoments(self.lower, self.upper))


@final
@dataclass(frozen=True)
class MeanOfParts(PostProcessing):
    """lower + (upper − lower) · A/(A + B), from noisy A = Σa and B = Σ(1 − a).

    A/(A + B) rises in A and falls in B, so with both noises within t it lies within t/(A + B) of the answer.
    """

    lower: float
    upper: float

    def estimate(self, sums: tuple[NoisySum, ...]) -> Estimates:
        below, above = sums
        rows = below.values + above.values
        share = divide(above.values, rows, 0.5)
        error = divide(np.full_like(rows, max(below.half_width, above.half_width)), rows, np.inf)
        return scale_share(share, error, self.lower, self.upper)

    def expected_error(self, half_widths: tuple[float, ...]) -> tuple[float, ErrorKind]:
        return (self.upper - self.lower) * max(half_widths), ErrorKind.OVER_COUNT


@final
@dataclass(frozen=True)
class MeanOfMoments(PostProcessing):
    """The middle + half the width · T/n, from noisy n and T = Σ(2a − 1)."""

    lower: float
    upper: float

    def estimate(self, sums: tuple[NoisySum, ...]) -> Estimates:
        rows, total = sums
        mean, error = divide_sums(total, rows)
        return scale_share((mean + 1) / 2, error / 2, self.lower, self.upper)

    def expected_error(self, half_widths: tuple[float, ...]) -> tuple[float, ErrorKind]:
        return (self.upper - self.lower) / 2 * sum(half_widths), ErrorKind.OVER_COUNT
