"""The sum of a column."""

from dataclasses import dataclass
from typing import ClassVar, final

from privet.releasing.engines.aggregates import ValueSum
from privet.releasing.queries import LinearCombination, NoiseKind, StatisticQueries, SumQuery
from privet.releasing.sensitivity import Sensitivity, UnitBounds
from privet.releasing.statistics.statistic import BoundedScalar

__all__ = ["Sum"]


@final
@dataclass(frozen=True)
class Sum(BoundedScalar):
    """The sum of a column whose values are clamped to [lower, upper]."""

    option: ClassVar[str] = "sum"

    def queries(self, bounds: UnitBounds, kind: NoiseKind) -> StatisticQueries:
        steps, rows = ValueSum.fitting(self.column, self.lower, self.upper), bounds.contribution.rows
        low, high = steps.bounds
        sensitivity = _smallest_sensitivity(rows * low, rows * high, bounds, kind)
        return StatisticQueries((SumQuery((LinearCombination.of(steps),), sensitivity, 2.0**steps.exponent),))


def _smallest_sensitivity(low: int, high: int, bounds: UnitBounds, kind: NoiseKind) -> Sensitivity:
    """For Laplace noise on values of both signs, an exchange may cost less as a sum of absolute values."""
    alone = bounds.one_number(low, high)
    if kind is NoiseKind.GAUSSIAN or not low < 0 < high:
        return alone
    joint = bounds.several_numbers(max(-low, high))
    return min((alone, joint), key=lambda sensitivity: sensitivity.distance * sensitivity.coordinates)
