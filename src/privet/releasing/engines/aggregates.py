"""What a plan asks of an engine: sums of whole numbers over bounded contributions.

An engine knows rows, units and groups. It knows no noise and no budget. Its results are private.
"""

from abc import ABC
from dataclasses import dataclass
from enum import StrEnum
from math import floor, frexp
from typing import final

import numpy as np
from numpy.typing import NDArray

from privet.releasing.contribution import Contribution
from privet.releasing.keys import Category
from privet.releasing.row_filters import RowCondition

__all__ = [
    "MOST_ROWS",
    "SHARE_STEPS",
    "WEIGHT",
    "Aggregate",
    "AggregateRequest",
    "CellCountRequest",
    "Cells",
    "Grouping",
    "KeyColumn",
    "KeyKind",
    "RowAggregate",
    "RowCount",
    "ShareFactor",
    "ShareSum",
    "Sums",
    "Totals",
    "UnitCount",
    "ValueCount",
    "ValueSum",
    "bound_contributions",
    "check_rows",
    "list_row_aggregates",
    "scale_to_row_limit",
]

SHARE_STEPS = 1 << 30
"""Steps in the interval [lower, upper] of a share."""
WEIGHT = 1 << 20
"""The weight of one row in a cell: so large that a unit with a million rows still counts."""
MOST_ROWS = 1 << 32
"""Rows of one table, so that no sum leaves 64 bits.

*Proof.* A row adds at most 2³⁰ in absolute value to any aggregate: 1 to a count, ``SHARE_STEPS`` to a share,
and at most 2³⁰ to ``ValueSum.fitting``; it adds at most ``WEIGHT`` to a cell. So every sum over rows is
within 2³² · 2³⁰ = 2⁶². Scaling down (``scale_to_row_limit``) makes no sum larger. In it, a weight is at most
10⁶ < 2²⁰ (``Contribution``): times a quotient it is below 2²⁰ · 2³⁰, and times a remainder it is below 2²⁰ ·
2³². Engines call ``check_rows``, because a library's own limit may change. What is made of these sums
afterwards (``executor``, ``quantiles``) takes Python's whole numbers where 64 bits may not do.
"""


class Aggregate(ABC):  # noqa: B024 - a closed family of frozen dataclasses, told apart by their type
    """A whole number for each unit and group. An engine adds these numbers up over the units."""


@final
@dataclass(frozen=True)
class UnitCount(Aggregate):
    """1 for each unit that is in the group."""


@final
@dataclass(frozen=True)
class RowCount(Aggregate):
    """The unit's number of rows in the group, at most ``rows``."""


@final
@dataclass(frozen=True)
class ValueCount(Aggregate):
    """The unit's number of rows with a value in each of the columns, at most ``rows``."""

    columns: tuple[str, ...]


@final
@dataclass(frozen=True)
class ValueSum(Aggregate):
    """The unit's sum of values, clamped to [lower, upper], in steps of 2^exponent, scaled down to ``rows``
    rows.

    A value v counts ⌊clamp(v)/step + ½⌋ steps. Division by a power of two and rounding are monotone in
    float64. So the steps of the bounds bound the steps of every value.
    """

    column: str
    lower: float
    upper: float
    exponent: int

    @property
    def per_unit(self) -> float:
        """The number of steps in 1."""
        return 2.0**-self.exponent

    @property
    def bounds(self) -> tuple[int, int]:
        """The steps of the bounds."""
        return floor(self.lower * self.per_unit + 0.5), floor(self.upper * self.per_unit + 0.5)

    @property
    def present(self) -> ValueCount:
        """The rows that have a value."""
        return ValueCount((self.column,))

    @staticmethod
    def fitting(column: str, lower: float, upper: float) -> "ValueSum":
        """The finest power of two at which both bounds are within 2³⁰ steps.

        Whole numbers lie on that grid exactly if the bounds are below 2³⁰.
        """
        _, exponent = frexp(max(abs(lower), abs(upper)))
        return ValueSum(column, lower, upper, max(exponent - 30, -1000))


@final
@dataclass(frozen=True)
class ShareFactor:
    """A power of a = (clamp(v) − lower)/(upper − lower), the share of the interval that lies below a value v.

    With power 0 the factor is 1, in rows that have a value.
    """

    column: str
    lower: float
    upper: float
    power: int = 1


@final
@dataclass(frozen=True)
class ShareSum(Aggregate):
    """The unit's sum of a product of shares, in 2⁻³⁰, scale_to_row_limit down to ``rows`` rows.

    The sum is over the rows that have a value in the column of every factor, so that a and ab are about the
    same rows.
    """

    factors: tuple[ShareFactor, ...]

    @property
    def present(self) -> ValueCount:
        """The rows that have all values."""
        return ValueCount(tuple(factor.column for factor in self.factors))


RowAggregate = ValueCount | ValueSum | ShareSum
Sums = dict[Aggregate, NDArray[np.int64]]


@final
class KeyKind(StrEnum):
    """The type as which the values of a column are compared with public keys."""

    TEXT = "text"
    WHOLE = "whole"
    REAL = "real"
    BOOLEAN = "boolean"

    @staticmethod
    def of(category: Category) -> "KeyKind":
        """The kind of a public key."""
        kinds = {str: KeyKind.TEXT, bool: KeyKind.BOOLEAN, int: KeyKind.WHOLE, float: KeyKind.REAL}
        return kinds[type(category)]


@final
@dataclass(frozen=True)
class KeyColumn:
    """A column of a group's key. Without a kind, a value is the key that it is in its own type."""

    column: str
    kind: KeyKind | None = None


@final
@dataclass(frozen=True)
class Grouping:
    """The groups: one for each public key, one for each key in the table (``keys`` is None), or one of all
    rows (no columns)."""

    columns: tuple[KeyColumn, ...] = ()
    keys: tuple[tuple[Category, ...], ...] | None = ((),)

    @property
    def single(self) -> bool:
        """Whether all rows are one group."""
        return not self.columns

    def bounding(self, contribution: Contribution) -> bool:
        """Whether a unit can be in more groups than count."""
        return self.keys is None or len(self.keys) > contribution.groups


@final
@dataclass(frozen=True)
class Cells:
    """A public interval in cells of equal width, and the column whose values fall into them."""

    column: str
    lower: float
    upper: float
    count: int


@final
@dataclass(frozen=True)
class AggregateRequest:
    """A request: sums of aggregates in each group, over bounded units. ``salt`` keys the choice of groups.

    Only rows that pass ``where`` count, as if the table had no others.
    """

    unit: str | None
    grouping: Grouping
    aggregates: tuple[Aggregate, ...]
    contribution: Contribution
    salt: int
    where: RowCondition | None = None


@final
@dataclass(frozen=True)
class CellCountRequest:
    """A request: weighted numbers of rows in each cell of each group.

    A row weighs ⌊WEIGHT · min(n, rows) / n⌋, where n is its unit's number of rows with a value in the group.
    Only rows that pass ``where`` count.
    """

    unit: str | None
    grouping: Grouping
    cells: Cells
    contribution: Contribution
    salt: int
    where: RowCondition | None = None


@final
@dataclass(frozen=True)
class Totals:
    """Private sums for each key. Public keys are all there, in their order."""

    keys: tuple[tuple[Category, ...], ...]
    sums: Sums


def check_rows(count: int) -> None:
    """Fail for a table with more rows than the proof at ``MOST_ROWS`` covers: a sum might wrap around."""
    if count > MOST_ROWS:
        raise OverflowError("more rows than 64-bit sums are proved for")


def scale_to_row_limit(total: NDArray[np.int64], rows: NDArray[np.int64], most: int) -> NDArray[np.int64]:
    """⌊total · min(rows, most) / rows⌋ without overflow: each unit's sum as if it had at most ``most``
    rows."""
    weight = np.minimum(rows, most)
    divisor = np.maximum(rows, 1)
    quotient = total // divisor
    remainder = total - quotient * divisor
    return np.asarray(weight * quotient + weight * remainder // divisor, dtype=np.int64)


def list_row_aggregates(aggregates: tuple[Aggregate, ...]) -> tuple[RowAggregate, ...]:
    """The aggregates for which rows have values, with the counts of values that they are scale_to_row_limit
    by.
    """
    valued = [
        aggregate for aggregate in aggregates if isinstance(aggregate, (ValueCount, ValueSum, ShareSum))
    ]
    return tuple(dict.fromkeys([*map(_present, valued), *valued]))


def _present(aggregate: RowAggregate) -> ValueCount:
    return aggregate if isinstance(aggregate, ValueCount) else aggregate.present


def bound_contributions(
    aggregate: Aggregate, sums: Sums, sizes: NDArray[np.int64], most: int
) -> NDArray[np.int64]:
    """What each pair of a unit and a group adds to an aggregate: from the sums over its rows, and its number
    of rows."""
    match aggregate:
        case UnitCount():
            return np.ones_like(sizes)
        case RowCount():
            return np.minimum(sizes, most)
        case ValueCount():
            return np.minimum(sums[aggregate], most)
        case ValueSum() | ShareSum():
            return scale_to_row_limit(sums[aggregate], sums[aggregate.present], most)
    raise AssertionError(f"{type(aggregate).__name__} is no aggregate")
