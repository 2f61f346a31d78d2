"""One statistic as JSON: read with the metadata, and written in its one form.

A histogram and a marginal are counts by their columns, and are written so. Categories and keys are sorted,
and the columns of a grouping, too: the order of what is asked is not a part of the question.
"""

from collections.abc import Callable
from dataclasses import asdict, dataclass
from itertools import product
from typing import Any, final

from privet.arguments import format_value
from privet.curator.questions.conditions import read_category
from privet.curator.questions.fields import Fields
from privet.curator.questions.metadata import ColumnMetadata, DatasetMetadata
from privet.errors import InvalidArgument
from privet.releasing import (
    Count,
    Covariance,
    GroupBy,
    Mean,
    Quantile,
    Statistic,
    Sum,
    TopK,
    Variance,
)
from privet.releasing.keys import Category, Key
from privet.releasing.statistics.statistic import BoundedScalar, Scalar
from privet.releasing.validation import MOST_CELLS

__all__ = [
    "DISCOVER",
    "QuestionScope",
    "columns_of",
    "describe_statistic",
    "read_statistic",
    "write_statistic",
]

DISCOVER = "discover"
"""The word for keys that are to be found in the data."""
_BOUNDED: dict[str, type[BoundedScalar]] = {"sum": Sum, "mean": Mean, "variance": Variance}
_COUNTS = ("histogram", "marginal")


@final
@dataclass(frozen=True)
class QuestionScope:
    """Where names are looked up: the dataset, and the tables that are joined."""

    dataset: DatasetMetadata
    joins: tuple[str, ...]

    def column(self, given: Fields, name: str) -> ColumnMetadata:
        """The column that a field names."""
        return self.dataset.find_column(given.text(name), self.joins)


def read_statistic(given: Fields, scope: QuestionScope) -> Statistic:
    """The statistic that JSON describes; what it leaves out comes from the metadata."""
    kind = given.text("kind")
    known = [name for name in scope.dataset.kinds if name not in ("synthetic", "model")]
    if kind not in known:
        raise InvalidArgument(
            f"{given.place}: 'kind' must be one of {', '.join(known)}, got {format_value(kind)}. Choose one "
            f"that "
            f"this dataset allows."
        )
    if kind == "top_k":
        return _read_top(given, scope)
    if kind in _COUNTS:
        return _group(given, scope, Count(), _read_count_columns(given, scope, kind))
    by = (
        ()
        if "by" not in given
        else tuple(scope.dataset.find_column(n, scope.joins) for n in given.texts("by"))
    )
    statistic = _READERS[kind](given, scope, kind)
    if not by and "keys" in given:
        raise InvalidArgument(f"{given.place} must have 'by' with 'keys', and has not. Name the columns.")
    return _group(given, scope, statistic, by) if by else statistic


def write_statistic(statistic: Statistic) -> dict[str, Any]:
    """The statistic in its one form."""
    match statistic:
        case Count():
            return {"kind": "count"}
        case Sum() | Mean() | Variance():
            kind = type(statistic).__name__.lower()
            return {
                "kind": kind,
                "column": statistic.column,
                "lower": statistic.lower,
                "upper": statistic.upper,
            }
        case Covariance():
            return {"kind": "covariance", **asdict(statistic)}
        case Quantile():
            return {"kind": "quantile", **asdict(statistic)}
        case TopK(column, k, categories):
            listed = DISCOVER if categories is None else list(categories)
            return {"kind": "top_k", "column": column, "k": k, "categories": listed}
        case GroupBy(by, inner, keys):
            columns = [by] if isinstance(by, str) else list(by)
            written = None if keys is None else [list(k) if isinstance(k, tuple) else [k] for k in keys]
            return {**write_statistic(inner), "by": columns, "keys": written or DISCOVER}
    raise AssertionError(f"{type(statistic).__name__} has no form")


def describe_statistic(statistic: Statistic) -> str:
    """A label that says what is released."""
    match statistic:
        case Count():
            return "count"
        case Sum() | Mean() | Variance():
            return f"{type(statistic).__name__.lower()} of {statistic.column}"
        case Covariance():
            return f"covariance of {statistic.x} and {statistic.y}"
        case Quantile():
            return f"{statistic.probability:g} quantile of {statistic.column}"
        case TopK():
            return f"top {statistic.k} of {statistic.column}"
        case GroupBy():
            return f"{describe_statistic(statistic.statistic)} by {', '.join(statistic.columns)}"
    raise AssertionError(f"{type(statistic).__name__} has no label")


def columns_of(statistic: Statistic) -> tuple[str, ...]:
    """The columns of its keys, in the order in which a key has them."""
    match statistic:
        case GroupBy():
            return statistic.columns
        case TopK():
            return (statistic.column,)
    return ()


def _read_count(given: Fields, scope: QuestionScope, kind: str) -> Scalar:
    del scope, kind
    for name in ("column", "lower", "upper"):
        if name in given:
            raise InvalidArgument(f"{given.place}: a count has no '{name}'. Remove it, or count by a column.")
    return Count()


def _read_bounded(given: Fields, scope: QuestionScope, kind: str) -> Scalar:
    column = scope.column(given, "column")
    return _BOUNDED[kind](column.name, *_read_bounds(given, column))


def _read_quantile(given: Fields, scope: QuestionScope, kind: str) -> Scalar:
    del kind
    column = scope.column(given, "column")
    lower, upper = _read_bounds(given, column)
    candidates = given.whole("candidates", 4096, least=2)
    return Quantile(column.name, given.number("probability"), lower, upper, candidates)


def _read_covariance(given: Fields, scope: QuestionScope, kind: str) -> Scalar:
    del kind
    (x, y), bounds = sorted(("x", "y"), key=given.text), []
    for name in (x, y):
        column = scope.column(given, name)
        bounds.append((column.name, *_read_bounds(given, column, f"{name}_")))
    return Covariance(*bounds[0], *bounds[1])


_READERS: dict[str, Callable[[Fields, QuestionScope, str], Scalar]] = {
    "count": _read_count,
    **dict.fromkeys(_BOUNDED, _read_bounded),
    "quantile": _read_quantile,
    "covariance": _read_covariance,
}


def _read_bounds(given: Fields, column: ColumnMetadata, prefix: str = "") -> tuple[float, float]:
    """The bounds that are asked for, or those of the metadata; never those of the data."""
    if not column.type.numeric:
        raise InvalidArgument(
            f"{given.place}: the column {column.name!r} must hold numbers, and is of the type {column.type}. "
            f"Choose another one, or count by it."
        )
    if column.lower is None and f"{prefix}lower" not in given:
        raise InvalidArgument(
            f"{given.place}: the column {column.name!r} has no declared bounds, so '{prefix}lower' and "
            f"'{prefix}upper' are needed. Give those that public knowledge allows."
        )
    return given.number(f"{prefix}lower", column.lower), given.number(f"{prefix}upper", column.upper)


def _read_count_columns(given: Fields, scope: QuestionScope, kind: str) -> tuple[ColumnMetadata, ...]:
    if kind == "histogram":
        return (scope.column(given, "column"),)
    return tuple(scope.dataset.find_column(name, scope.joins) for name in given.texts("columns"))


def _group(
    given: Fields, scope: QuestionScope, statistic: Scalar, by: tuple[ColumnMetadata, ...]
) -> Statistic:
    asked = given.raw("categories") if given.raw("kind") == "histogram" else given.raw("keys")
    ordered = tuple(sorted(by, key=lambda column: column.name))
    names: str | tuple[str, ...] = tuple(column.name for column in ordered)
    names = names[0] if len(names) == 1 else names
    if asked == DISCOVER:
        for column in by:
            _check_discovery(given, column)
        _check_cells(given, statistic, scope.dataset.limits.keys)
        return GroupBy(names, statistic, None)
    keys = _list_declared(given, scope, by) if asked is None else _list_asked(given, scope, by, asked)
    _check_cells(given, statistic, len(keys))
    places = [by.index(column) for column in ordered]
    sorted_keys = sorted(tuple(key[place] for place in places) for key in keys)
    shown: tuple[Key, ...] = tuple(key[0] if len(key) == 1 else key for key in sorted_keys)
    return GroupBy(names, statistic, shown)


def _list_declared(
    given: Fields, scope: QuestionScope, by: tuple[ColumnMetadata, ...]
) -> list[tuple[Category, ...]]:
    for column in by:
        if column.keys is None:
            raise InvalidArgument(
                f"{given.place}: the column {column.name!r} has no declared keys, so they are needed. List "
                f"them, "
                f'or write "{DISCOVER}" where the dataset allows it.'
            )
    _check_number(given, scope, scope.dataset.list_keys(by))
    return [tuple(key) for key in product(*(column.keys or () for column in by))]


def _list_asked(
    given: Fields, scope: QuestionScope, by: tuple[ColumnMetadata, ...], asked: object
) -> list[tuple[Category, ...]]:
    if not isinstance(asked, list) or not asked:
        raise InvalidArgument(
            f'{given.place}: keys must be a list that is not empty, or "{DISCOVER}", got '
            f'{format_value(asked)}. Write [["a"], ["b"]].'
        )
    _check_number(given, scope, len(asked))
    keys: dict[tuple[Category, ...], None] = {}
    for one in asked:
        values = one if isinstance(one, list) else [one]
        if len(values) != len(by):
            raise InvalidArgument(
                f"{given.place}: a key must have a value for each of {len(by)} columns, got "
                f"{format_value(one)}. "
                f"Correct it."
            )
        key = tuple(
            read_category(given.place, column, value) for column, value in zip(by, values, strict=True)
        )
        for column, value in zip(by, key, strict=True):
            if column.keys is not None and value not in column.keys:
                raise InvalidArgument(
                    f"{given.place}: {format_value(value)} is no declared key of {column.name!r}. Choose "
                    f"from the "
                    f"metadata's."
                )
        keys[key] = None
    return list(keys)


def _check_discovery(given: Fields, column: ColumnMetadata) -> None:
    if not column.discover:
        raise InvalidArgument(
            f"{given.place}: the keys of {column.name!r} may not be found in the data. List them."
        )


def _check_number(given: Fields, scope: QuestionScope, count: int) -> None:
    if count > scope.dataset.limits.keys:
        raise InvalidArgument(
            f"{given.place} must ask for at most {scope.dataset.limits.keys} keys, got {count}. Ask for "
            f"fewer."
        )


def _check_cells(given: Fields, statistic: Scalar, keys: int) -> None:
    """Refuse quantiles of so many groups that the worker could not hold their cells."""
    if isinstance(statistic, Quantile) and keys * statistic.candidates > MOST_CELLS:
        raise InvalidArgument(
            f"{given.place} must have at most {MOST_CELLS:.0e} cells, keys times candidates, got "
            f"{keys * statistic.candidates:.0e}. Ask for fewer 'candidates' or keys."
        )


def _read_top(given: Fields, scope: QuestionScope) -> Statistic:
    column, k = scope.column(given, "column"), given.whole("k")
    asked = given.raw("categories")
    if asked == DISCOVER:
        _check_discovery(given, column)
        return TopK(column.name, k, None)
    by = (column,)
    keys = _list_declared(given, scope, by) if asked is None else _list_asked(given, scope, by, asked)
    return TopK(column.name, k, tuple(sorted(key[0] for key in keys)))
