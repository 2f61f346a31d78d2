"""What a row adds to an aggregate, as SQL: the formulas of ``columns`` in the arithmetic of PostgreSQL.

Both compute in IEEE 754 doubles, one operation after the other, so equal formulas give equal floats, and
rounding down makes equal whole numbers of them. Two things differ. ``least`` and ``greatest`` skip NULL, so a
missing number is looked at first. And PostgreSQL raises an error where a product of two numbers that are not
0 rounds to 0: such an error would tell of a row. So a value so small that the whole number is 0 anyway is
never multiplied.

- *Steps.* |v| < 2^(exponent − 2) has |v/step| < 1/4, and ⌊v/step + ½⌋ = 0.
- *Shares.* A share is at most 1. If one factor is below 2⁻⁴⁰, so is the product, and ⌊2³⁰ · 2⁻⁴⁰ + ½⌋ = 0.
  Otherwise a product of up to 20 factors is above 2⁻⁸⁰⁰, which is no rounding to 0.
"""

from collections.abc import Mapping

from privet.releasing.engines.aggregates import (
    SHARE_STEPS,
    Cells,
    RowAggregate,
    ShareFactor,
    ShareSum,
    ValueCount,
    ValueSum,
)

__all__ = ["cell_sql", "row_value_sql"]

_SMALLEST_SHARE = 2.0**-41  # with room for the rounding of the product


def row_value_sql(aggregate: RowAggregate, numbers: Mapping[str, str]) -> str:
    """What one row adds, as a whole number of 64 bits. ``numbers`` names the number of each column."""
    present = " AND ".join(f"{numbers[name]} IS NOT NULL" for name in _columns(aggregate))
    match aggregate:
        case ValueCount():
            value = "1"
        case ValueSum(column, lower, upper, exponent):
            clamped = _clamp(numbers[column], lower, upper)
            steps = f"floor({clamped} * {_literal(aggregate.per_unit)} + 0.5::float8)::int8"
            value = f"CASE WHEN abs({clamped}) < {_literal(2.0 ** (exponent - 2))} THEN 0 ELSE {steps} END"
        case ShareSum(factors):
            used = [factor for factor in factors for _ in range(factor.power)]
            small = " OR ".join(_is_small(numbers[one.column], one.lower, one.upper) for one in used)
            product = " * ".join(_factor(numbers, one) for one in used)
            steps = f"floor({product} * {_literal(float(SHARE_STEPS))} + 0.5::float8)::int8"
            value = f"CASE WHEN {small} THEN 0 ELSE {steps} END"
    return f"(CASE WHEN {present} THEN {value} ELSE 0 END)::int8"


def cell_sql(cells: Cells, number: str) -> str:
    """The cell that a row's value falls into, as SQL; NULL where it has none."""
    share = _share(number, cells.lower, cells.upper)
    place = f"least(greatest(floor({share} * {_literal(float(cells.count))}), 0), {cells.count - 1})::int8"
    small = _is_small(number, cells.lower, cells.upper)
    return f"CASE WHEN {number} IS NULL THEN NULL WHEN {small} THEN 0 ELSE {place} END"


def _columns(aggregate: RowAggregate) -> tuple[str, ...]:
    return aggregate.columns if isinstance(aggregate, ValueCount) else aggregate.present.columns


def _factor(numbers: Mapping[str, str], factor: ShareFactor) -> str:
    return _share(numbers[factor.column], factor.lower, factor.upper)


def _above(number: str, lower: float, upper: float) -> str:
    return f"({_clamp(number, lower, upper)} - {_literal(float(lower))})"


def _is_small(number: str, lower: float, upper: float) -> str:
    width = float(upper) - float(lower)
    return f"{_above(number, lower, upper)} < {_literal(width * _SMALLEST_SHARE)}"


def _share(number: str, lower: float, upper: float) -> str:
    reciprocal = _literal(1.0 / (float(upper) - float(lower)))
    return f"least(greatest({_above(number, lower, upper)} * {reciprocal}, 0::float8), 1::float8)"


def _clamp(number: str, lower: float, upper: float) -> str:
    return f"least(greatest({number}, {_literal(float(lower))}), {_literal(float(upper))})"


def _literal(number: float) -> str:
    """A float that PostgreSQL reads as exactly this one: the shortest text that names it."""
    return f"'{number!r}'::float8"
