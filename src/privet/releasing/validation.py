"""Checks of the public parameters of statistics: columns, bounds, categories and keys."""

from privet.arguments import finite, format_value
from privet.errors import InvalidArgument

__all__ = [
    "MOST_CELLS",
    "check_bounds",
    "check_categories",
    "check_column",
    "check_distinct",
    "check_keys",
    "check_squared_bounds",
]

MOST_CELLS = 10**7
"""Of one answer, which is held in memory."""
_NARROWEST, _WIDEST = 1e-290, 1e290  # of an interval, so that its reciprocal is a number
_NARROWEST_SQUARED, _WIDEST_SQUARED = 1e-140, 1e140  # the same for its square, times any noise


def check_bounds(column: object, lower: float, upper: float, *, prefix: str = "") -> None:
    """A column and an interval that its values are clamped to; ``prefix`` is that of the arguments' names."""
    _check_interval(column, lower, upper, prefix, _NARROWEST, _WIDEST)


def check_squared_bounds(column: object, lower: float, upper: float, *, prefix: str = "") -> None:
    """The same for a statistic that multiplies two widths."""
    _check_interval(column, lower, upper, prefix, _NARROWEST_SQUARED, _WIDEST_SQUARED)


def _check_interval(
    column: object, lower: float, upper: float, prefix: str, narrowest: float, widest: float
) -> None:
    low, high = f"{prefix}lower", f"{prefix}upper"
    check_column(prefix.removesuffix("_") or "column", column)
    if finite(low, lower) >= finite(high, upper):
        raise InvalidArgument(
            f"'{low}' must be below '{high}', got {format_value(lower)} and {format_value(upper)}. Swap "
            "the bounds."
        )
    if not narrowest <= float(upper) - float(lower) <= widest or max(abs(lower), abs(upper)) > widest:
        raise InvalidArgument(
            f"'{low}' and '{high}' must differ by {narrowest:g} to {widest:g} and lie within ±{widest:g}, "
            f"got {format_value(lower)} and {format_value(upper)}. Give bounds that values of the column "
            "can really have."
        )


def check_column(name: str, column: object) -> None:
    """The name of a column."""
    if not isinstance(column, str) or not column:
        raise InvalidArgument(
            f"'{name}' must name a column, got {format_value(column)}. Give its name as text."
        )


def check_distinct(name: str, values: tuple[object, ...]) -> None:
    """Values of which no two are equal."""
    if len(set(values)) < len(values):
        raise InvalidArgument(f"'{name}' must not name anything twice, and does. Name each once.")


def check_categories(name: str, categories: object) -> None:
    """A tuple of distinct categories of one type."""
    if not isinstance(categories, tuple) or not categories:
        raise InvalidArgument(
            f"'{name}' must be a tuple of categories, got {format_value(categories)}. List the values that "
            f"can occur."
        )
    if len(categories) > MOST_CELLS:
        raise InvalidArgument(
            f"'{name}' must be at most {MOST_CELLS:.0e}, got {len(categories):.0e}. List fewer."
        )
    if not any(all(type(category) is kind for category in categories) for kind in (str, bool, int, float)):
        raise InvalidArgument(
            f"'{name}' must be all text, all whole numbers, all floats or all true and false, got "
            f"{format_value(categories)}. Write them in one way."
        )
    if isinstance(categories[0], float):
        for category in categories:
            finite(name, category)
    elif type(categories[0]) is int and any(abs(category) >= 2**63 for category in categories):
        raise InvalidArgument(
            f"'{name}' must hold numbers below 2^63, and does not. Give larger ones as text."
        )
    check_distinct(name, categories)


def check_keys(keys: object, width: int, *, single: bool) -> None:
    """A tuple of distinct keys: categories of one column, or tuples of categories of ``width`` columns."""
    if not isinstance(keys, tuple) or not keys:
        raise InvalidArgument(
            f"'keys' must be a tuple of keys, got {format_value(keys)}. List the groups that can occur, or "
            f"leave it out."
        )
    if single:
        check_categories("keys", keys)
        return
    for key in keys:
        if not isinstance(key, tuple) or len(key) != width:
            raise InvalidArgument(
                f"'keys' must hold tuples of {width} values, one for each column of 'by', got "
                f"{format_value(key)}. "
                f'Write (("a", 1), …).'
            )
    check_distinct("keys", keys)
    for column in range(width):
        check_categories("keys", tuple(dict.fromkeys(key[column] for key in keys)))
