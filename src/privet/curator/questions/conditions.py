"""WHERE as JSON: a condition on public columns, and the one form that equal conditions have.

The canonical form has no negation but of a list or of *missing*, no condition twice, and an order of its own.
Two conditions that pass the same rows on every table, but look different in another way, keep different
forms: then the same question may be paid for twice, which is safe.
"""

from datetime import date
from typing import Any, cast

from privet.arguments import finite, format_value
from privet.curator.questions.fields import Fields
from privet.curator.questions.metadata import ColumnMetadata, ColumnType, DatasetMetadata
from privet.errors import InvalidArgument
from privet.lineage import canonical
from privet.releasing import (
    Above,
    AllHold,
    AnyHold,
    AtLeast,
    AtMost,
    Below,
    IsIn,
    IsMissing,
    Negated,
    RowCondition,
)
from privet.releasing.keys import Category
from privet.releasing.row_filters import BoundComparison

__all__ = ["normalize_condition", "read_category", "read_condition"]

_COMPARISONS: dict[str, type[BoundComparison]] = {
    "at_least": AtLeast,
    "above": Above,
    "at_most": AtMost,
    "below": Below,
}
_DEEPEST = 15
_MOST_LISTED = 1000


def read_condition(given: Fields, dataset: DatasetMetadata, joins: tuple[str, ...]) -> RowCondition:
    """The condition that JSON describes, on columns that are public and may be filtered."""
    return _read(given, dataset, joins, 0)


def read_category(place: str, column: ColumnMetadata, value: Any) -> Category:  # noqa: ANN401 - as it was sent
    """A value of a column, as a category of the column's type."""
    match column.type:
        case ColumnType.TEXT if isinstance(value, str):
            return value
        case ColumnType.TRUTH if isinstance(value, bool):
            return value
        case ColumnType.WHOLE if type(value) is int or (type(value) is float and value.is_integer()):
            return int(value)
        case ColumnType.NUMBER if type(value) in (int, float):
            return float(finite(f"{place}: in", value)) + 0.0
        case ColumnType.DATE if isinstance(value, str):
            return read_date(place, value)
    raise InvalidArgument(
        f"{place}: a value of {column.name!r} must be of the type {column.type}, got {format_value(value)}. "
        f"Write it so."
    )


def read_date(place: str, text: str) -> str:
    """A date as text, in the one form that it has."""
    try:
        if date.fromisoformat(text).isoformat() == text:
            return text
    except ValueError:
        pass
    raise InvalidArgument(
        f"{place}: a date must be written 2024-05-31, got {format_value(text)}. Write it so."
    )


def normalize_condition(condition: RowCondition | None) -> RowCondition | None:
    """The same condition in its canonical form."""
    return None if condition is None else _normalize(condition)


def _read(given: Fields, dataset: DatasetMetadata, joins: tuple[str, ...], depth: int) -> RowCondition:
    if depth > _DEEPEST:
        raise InvalidArgument(f"'where' must have at most {_DEEPEST} levels, and has more. Simplify it.")
    for name, combine in (("all", AllHold), ("any", AnyHold)):
        if name in given:
            parts = [
                _read(Fields(part, f"{given.place}: {name}[{place}]"), dataset, joins, depth + 1)
                for place, part in enumerate(given.read_list(name))
            ]
            given.close()
            return combine(tuple(parts))
    if "not" in given:
        inner = _read(given.inner("not"), dataset, joins, depth + 1)
        given.close()
        return Negated(inner)
    return _read_leaf(given, dataset, joins)


def _read_leaf(given: Fields, dataset: DatasetMetadata, joins: tuple[str, ...]) -> RowCondition:
    column = dataset.find_column(given.raw("column"), joins)
    if not column.filter:
        raise InvalidArgument(
            f"{given.place}: the column {column.name!r} is not for filters. Ask without it."
        )
    asked = [name for name in ("in", "missing", *_COMPARISONS) if name in given]
    if len(asked) != 1:
        raise InvalidArgument(
            f"{given.place} must have one of in, missing, {', '.join(_COMPARISONS)}, got "
            f'{" and ".join(asked) or "none"}. Write several conditions as {{"all": […]}}.'
        )
    (name,) = asked
    condition: RowCondition
    if name == "missing":
        condition = IsMissing(column.name)
        if not given.truth(name):
            condition = Negated(condition)
    elif name == "in":
        values = given.read_list(name)
        if len(values) > _MOST_LISTED:
            raise InvalidArgument(
                f"{given.place}: 'in' must list at most {_MOST_LISTED} values, got {len(values)}. List fewer."
            )
        condition = IsIn(
            column.name, tuple(dict.fromkeys(read_category(given.place, column, value) for value in values))
        )
    else:
        condition = _COMPARISONS[name](column.name, _read_bound(given, column, given.raw(name)))
    given.close()
    return condition


def _read_bound(given: Fields, column: ColumnMetadata, value: object) -> float | str:
    if not column.type.ordered:
        raise InvalidArgument(
            f'{given.place}: values of {column.name!r}, of the type {column.type}, have no order. Use "in".'
        )
    if column.type is ColumnType.DATE:
        return cast(str, read_category(given.place, column, value))
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise InvalidArgument(
            f"{given.place}: a bound of {column.name!r} must be a number, got {format_value(value)}. Give "
            "one."
        )
    if not abs(value) < 2**63:  # also NaN
        raise InvalidArgument(
            f"{given.place}: a bound of {column.name!r} must be within ±2^63, got "
            f"{format_value(value)}. Give an ordinary number."
        )
    return float(value) + 0.0


def _normalize(condition: RowCondition) -> RowCondition:
    match condition:
        case Negated(inner) if isinstance(inner, (IsIn, IsMissing)):
            return Negated(_normalize(inner))
        case Negated(inner):
            return _normalize(inner.negate())
        case IsIn(column, categories):
            return IsIn(column, tuple(sorted(categories)))
        case AllHold(parts):
            return _combine(AllHold, parts)
        case AnyHold(parts):
            return _combine(AnyHold, parts)
    return condition


def _combine(kind: type[AllHold] | type[AnyHold], parts: tuple[RowCondition, ...]) -> RowCondition:
    flat: dict[str, RowCondition] = {}
    waiting = list(parts)
    while waiting:
        part = _normalize(waiting.pop())
        if isinstance(part, kind):
            waiting.extend(part.conditions)
        else:
            flat[canonical(part.to_plain())] = part
    if kind is AnyHold:
        flat = _join_lists(flat)
    kept = tuple(flat[text] for text in sorted(flat))
    return kept[0] if len(kept) == 1 else kind(kept)


def _join_lists(flat: dict[str, RowCondition]) -> dict[str, RowCondition]:
    """``x in a or x in b`` as ``x in a, b``."""
    lists: dict[str, set[Category]] = {}
    rest: dict[str, RowCondition] = {}
    for text, part in flat.items():
        if isinstance(part, IsIn):
            lists.setdefault(part.column, set()).update(part.categories)
        else:
            rest[text] = part
    for column, values in lists.items():
        joined = IsIn(column, tuple(sorted(values)))
        rest[canonical(joined.to_plain())] = joined
    return rest
