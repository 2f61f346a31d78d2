"""Conditions on rows as Polars expressions: true, false, or null where a value is missing.

A comparison reads numbers as sums do, and categories as keys do (``columns``). So a value has one meaning,
whether it is counted or asked for. No value makes an expression fail.
"""

from functools import reduce
from operator import and_, or_

from privet.releasing.engines.aggregates import KeyColumn, KeyKind
from privet.releasing.engines.columns import ColumnExpressions
from privet.releasing.row_filters import (
    Above,
    AllHold,
    AnyHold,
    AtLeast,
    AtMost,
    Below,
    BoundComparison,
    IsIn,
    IsMissing,
    Negated,
    RowCondition,
)
from privet.releasing.tables.sources import pl

__all__ = ["row_condition"]


def row_condition(columns: ColumnExpressions, condition: RowCondition) -> pl.Expr:
    """Whether a row passes."""
    match condition:
        case IsIn(column, categories):
            codec = columns.key(KeyColumn(column, KeyKind.of(categories[0])))
            codes = [code for code in map(codec.encode, categories) if code is not None]
            listed = pl.Series(codes, dtype=codec.type)
            return codec.expression.is_in(listed.implode())
        case IsMissing(column):
            return columns.unit(column).is_null()
        case BoundComparison():
            return _compare(columns, condition)
        case AllHold(conditions):
            return reduce(and_, (row_condition(columns, one) for one in conditions))
        case AnyHold(conditions):
            return reduce(or_, (row_condition(columns, one) for one in conditions))
        case Negated(inner):
            return ~row_condition(columns, inner)
    raise AssertionError(f"{type(condition).__name__} is no condition")


def _compare(columns: ColumnExpressions, comparison: BoundComparison) -> pl.Expr:
    bound = comparison.bound
    if isinstance(bound, str):
        codec = columns.key(KeyColumn(comparison.column, KeyKind.TEXT))
        value, limit = codec.expression, pl.lit(codec.encode(bound), dtype=codec.type)
    else:
        value, limit = columns.number(comparison.column), pl.lit(float(bound), dtype=pl.Float64)
    match comparison:
        case AtLeast():
            return value >= limit
        case Above():
            return value > limit
        case AtMost():
            return value <= limit
        case Below():
            return value < limit
    raise AssertionError(f"{type(comparison).__name__} is no comparison")
