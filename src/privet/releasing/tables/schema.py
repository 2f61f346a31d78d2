"""Does the table have the columns that a plan needs? Asked of the schema, which is public, before anything is
spent."""

from collections.abc import Mapping

from privet.errors import InvalidArgument
from privet.releasing.questions import Question
from privet.releasing.statistics import RequiredColumn
from privet.releasing.tables.column_kind import ColumnKind

__all__ = ["check_columns"]


def check_columns(questions: tuple[Question, ...], schema: Mapping[str, ColumnKind]) -> None:
    """Refuse columns that the table does not have, and numbers from columns that have none."""
    for question in questions:
        unit = [RequiredColumn(question.unit, numeric=False)] if question.unit is not None else []
        names = () if question.where is None else question.where.columns()
        filtered = [RequiredColumn(name, numeric=False) for name in names]
        for required in (*unit, *question.statistic.required_columns(), *filtered):
            column, numeric = required.name, required.numeric
            if column not in schema:
                raise InvalidArgument(
                    f"{question.label!r} needs the column {column!r}, and the table has "
                    f"{_list_names(schema)}. Check the name."
                )
            if column == "*" or (column.startswith("^") and column.endswith("$")):
                raise InvalidArgument(
                    f"{question.label!r} needs a column whose name is no pattern, got {column!r}. Rename "
                    "the column."
                )
            kind = schema[column]
            if kind is ColumnKind.NESTED or (numeric and kind is ColumnKind.OTHER):
                raise InvalidArgument(
                    f"{question.label!r} needs {'numbers' if numeric else 'plain values'} in the column "
                    f"{column!r}, and its type has none. Convert the column first."
                )


def _list_names(schema: Mapping[str, ColumnKind]) -> str:
    names = ", ".join(repr(name) for name in schema)
    return names if len(names) <= 300 else f"{names[:300]}… ({len(schema)} columns)"
