"""Does the table have the columns that a plan needs? Asked of the schema, which is public, before anything is
spent."""

from collections.abc import Iterator, Mapping

from privet.errors import InvalidArgument
from privet.releasing.questions import Part
from privet.releasing.statistics import (
    Count,
    GroupBy,
    Histogram,
    Marginal,
    Mean,
    Quantile,
    Statistic,
    Sum,
    TopK,
    Variance,
)
from privet.releasing.tables.column_kind import ColumnKind

__all__ = ["check_columns"]


def check_columns(parts: tuple[Part, ...], schema: Mapping[str, ColumnKind]) -> None:
    """Refuse columns that are not there, and numbers of what has none."""
    for part in parts:
        named = [(part.unit, False)] if part.unit is not None else []
        for column, numeric in (*named, *_columns(part.statistic)):
            if column not in schema:
                raise InvalidArgument(
                    f"{part.label!r} needs the column {column!r}, and the table has {_listed(schema)}. "
                    f"Check the name."
                )
            if column == "*" or (column.startswith("^") and column.endswith("$")):
                raise InvalidArgument(
                    f"{part.label!r} needs a column whose name is no pattern, got {column!r}. Rename the column."
                )
            kind = schema[column]
            if kind is ColumnKind.NESTED or (numeric and kind is ColumnKind.OTHER):
                raise InvalidArgument(
                    f"{part.label!r} needs {'numbers' if numeric else 'plain values'} in the column {column!r}, and "
                    f"its type has none. Convert the column first."
                )


def _columns(statistic: Statistic) -> Iterator[tuple[str, bool]]:
    """The columns of a statistic, and whether their values are numbers."""
    match statistic:
        case Sum(column) | Mean(column) | Variance(column) | Quantile(column):
            yield column, True
        case Histogram(column) | TopK(column):
            yield column, False
        case Marginal(columns):
            yield from ((column, False) for column, _ in columns)
        case GroupBy():
            yield from ((column, False) for column in statistic.columns)
            yield from _columns(statistic.statistic)
        case Count():
            return


def _listed(schema: Mapping[str, ColumnKind]) -> str:
    names = ", ".join(repr(name) for name in schema)
    return names if len(names) <= 300 else f"{names[:300]}… ({len(schema)} columns)"
