"""What can be asked of a table. A statistic holds public parameters only; the table is an argument elsewhere.

Bounds, categories and keys are public inputs: they come from what everybody knows about the subject, never from
a look at the rows. Values beyond the bounds count as the bound; values that are missing (null, NaN, not a
number) do not count; rows whose category is not listed do not count.
"""

from abc import ABC
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import Self, final

from privet.arguments import finite, open_fraction, shown, whole
from privet.errors import InvalidArgument

__all__ = [
    "Category",
    "Count",
    "GroupBy",
    "Histogram",
    "Key",
    "Marginal",
    "Mean",
    "Quantile",
    "Scalar",
    "Statistic",
    "Sum",
    "TopK",
    "Variance",
]

Category = str | int | float | bool
Key = Category | tuple[Category, ...]

_NARROWEST, _WIDEST = 1e-290, 1e290  # of an interval, so that its reciprocal is a number
_NARROWEST_SQUARED, _WIDEST_SQUARED = 1e-140, 1e140  # the same for its square, times any noise
_MOST_CELLS = 10**7  # of one answer, which is held in memory


class Statistic(ABC):  # noqa: B024 - a closed family of frozen dataclasses, told apart by their type
    """A question about a table."""

    def __new__(cls, *_: object, **__: object) -> Self:
        if cls in (Statistic, Scalar):
            raise InvalidArgument(
                "A statistic must be one of those that there are, got their family. Write Count()."
            )
        return super().__new__(cls)


class Scalar(Statistic):
    """A question whose answer is one number, so that it can also be asked for each group."""


@final
@dataclass(frozen=True)
class Count(Scalar):
    """The number of rows."""


@final
@dataclass(frozen=True)
class Sum(Scalar):
    """The sum of a column whose values are clamped to [lower, upper]."""

    column: str
    lower: float
    upper: float

    def __post_init__(self) -> None:
        _check_bounded(self.column, self.lower, self.upper)


@final
@dataclass(frozen=True)
class Mean(Scalar):
    """The mean of a column whose values are clamped to [lower, upper]: a noisy sum over a noisy count."""

    column: str
    lower: float
    upper: float

    def __post_init__(self) -> None:
        _check_bounded(self.column, self.lower, self.upper)


@final
@dataclass(frozen=True)
class Variance(Scalar):
    """The population variance of a column whose values are clamped to [lower, upper]."""

    column: str
    lower: float
    upper: float

    def __post_init__(self) -> None:
        _check_bounded(self.column, self.lower, self.upper, _NARROWEST_SQUARED, _WIDEST_SQUARED)


@final
@dataclass(frozen=True)
class Quantile(Scalar):
    """The value that a share ``probability`` of a column lies below, sought in [lower, upper].

    ``candidates`` equal cells of the interval are the possible answers, and the centre of one is the answer.
    """

    column: str
    probability: float
    lower: float
    upper: float
    candidates: int = 4096

    def __post_init__(self) -> None:
        _check_bounded(self.column, self.lower, self.upper)
        open_fraction("probability", self.probability)
        whole("candidates", self.candidates, least=2)
        if self.candidates > 2**20:
            raise InvalidArgument(
                f"'candidates' must be at most {2**20}, got {self.candidates}. Narrow the interval instead."
            )


@final
@dataclass(frozen=True)
class Histogram(Statistic):
    """The number of rows in each of the listed categories of a column."""

    column: str
    categories: tuple[Category, ...]

    def __post_init__(self) -> None:
        _check_column("column", self.column)
        _check_categories("categories", self.categories)


@final
@dataclass(frozen=True)
class Marginal(Statistic):
    """The number of rows in each combination of the listed categories of several columns.

    >>> Marginal((("sex", ("f", "m")), ("smokes", (True, False)))).cells
    4
    """

    columns: tuple[tuple[str, tuple[Category, ...]], ...]

    def __post_init__(self) -> None:
        if not isinstance(self.columns, tuple) or not self.columns:
            raise InvalidArgument(
                f"'columns' must be a tuple of pairs (column, categories), got {shown(self.columns)}. "
                f'Write (("sex", ("f", "m")), …).'
            )
        for pair in self.columns:
            if not isinstance(pair, tuple) or len(pair) != 2:
                raise InvalidArgument(
                    f"'columns' must hold pairs (column, categories), got {shown(pair)}. "
                    f'Write (("sex", ("f", "m")), …).'
                )
            _check_column("columns", pair[0])
            _check_categories("columns", pair[1])
        _check_distinct("columns", tuple(name for name, _ in self.columns))
        if self.cells > _MOST_CELLS:
            raise InvalidArgument(
                f"'columns' must have at most {_MOST_CELLS:.0e} combinations, got {self.cells:.0e}. "
                f"Ask for a marginal of fewer columns."
            )

    @property
    def cells(self) -> int:
        """How many combinations there are."""
        return prod(len(categories) for _, categories in self.columns)

    @property
    def keys(self) -> tuple[tuple[Category, ...], ...]:
        """Every combination."""
        return tuple(product(*(categories for _, categories in self.columns)))


@final
@dataclass(frozen=True)
class GroupBy(Statistic):
    """A statistic for each group of rows with the same value of ``by``, a column or a tuple of columns.

    With ``keys`` these groups are answered, whether the table has them or not. Without, the keys of the table are
    themselves private: a key is shown only if enough units have it, which needs δ > 0.
    """

    by: str | tuple[str, ...]
    statistic: Scalar
    keys: tuple[Key, ...] | None = None

    def __post_init__(self) -> None:
        columns = self.columns
        if not columns:
            raise InvalidArgument("'by' must name a column, got (). Leave the grouping out, or name one.")
        for column in columns:
            _check_column("by", column)
        _check_distinct("by", columns)
        if not isinstance(self.statistic, Scalar):
            raise InvalidArgument(
                f"'statistic' must be a count, sum, mean, variance or quantile, got {shown(self.statistic)}. "
                f"Give several columns in 'by' for groups within groups."
            )
        if self.keys is not None:
            _check_keys(self.keys, len(columns), isinstance(self.by, str))

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that make a group."""
        return (self.by,) if isinstance(self.by, str) else self.by


@final
@dataclass(frozen=True)
class TopK(Statistic):
    """The ``k`` listed categories of a column with the most rows, largest first, and how many each has.

    Without ``categories`` the categories of the table are private, as the keys of a ``GroupBy`` are.
    """

    column: str
    k: int
    categories: tuple[Category, ...] | None = None

    def __post_init__(self) -> None:
        _check_column("column", self.column)
        whole("k", self.k)
        if self.categories is None:
            return
        _check_categories("categories", self.categories)
        if self.k > len(self.categories):
            raise InvalidArgument(
                f"'k' must be at most the number of categories, {len(self.categories)}, got {self.k}. "
                f"Ask for a histogram to see all of them."
            )


def _check_bounded(
    column: object, lower: float, upper: float, narrowest: float = _NARROWEST, widest: float = _WIDEST
) -> None:
    _check_column("column", column)
    if finite("lower", lower) >= finite("upper", upper):
        raise InvalidArgument(
            f"'lower' must be below 'upper', got {shown(lower)} and {shown(upper)}. Swap the bounds."
        )
    if not narrowest <= float(upper) - float(lower) <= widest or max(abs(lower), abs(upper)) > widest:
        raise InvalidArgument(
            f"'lower' and 'upper' must differ by {narrowest:g} to {widest:g} and lie within ±{widest:g}, got "
            f"{shown(lower)} and {shown(upper)}. Give bounds that values of the column can really have."
        )


def _check_column(name: str, column: object) -> None:
    if not isinstance(column, str) or not column:
        raise InvalidArgument(f"'{name}' must name a column, got {shown(column)}. Give its name as text.")


def _check_distinct(name: str, values: tuple[object, ...]) -> None:
    if len(set(values)) < len(values):
        raise InvalidArgument(f"'{name}' must not name anything twice, and does. Name each once.")


def _check_categories(name: str, categories: object) -> None:
    if not isinstance(categories, tuple) or not categories:
        raise InvalidArgument(
            f"'{name}' must be a tuple of categories, got {shown(categories)}. List the values that can occur."
        )
    if len(categories) > _MOST_CELLS:
        raise InvalidArgument(
            f"'{name}' must be at most {_MOST_CELLS:.0e}, got {len(categories):.0e}. List fewer."
        )
    for kind in (str, bool, int, float):
        if all(type(category) is kind for category in categories):
            break
    else:
        raise InvalidArgument(
            f"'{name}' must be all text, all whole numbers, all floats or all true and false, got "
            f"{shown(categories)}. Write them in one way."
        )
    if isinstance(categories[0], float):
        for category in categories:
            finite(name, category)
    elif type(categories[0]) is int and any(abs(category) >= 2**63 for category in categories):
        raise InvalidArgument(
            f"'{name}' must hold numbers below 2^63, and does not. Give larger ones as text."
        )
    _check_distinct(name, categories)


def _check_keys(keys: object, width: int, single: bool) -> None:
    if not isinstance(keys, tuple) or not keys:
        raise InvalidArgument(
            f"'keys' must be a tuple of keys, got {shown(keys)}. List the groups that can occur, or leave it out."
        )
    if single:
        _check_categories("keys", keys)
        return
    for key in keys:
        if not isinstance(key, tuple) or len(key) != width:
            raise InvalidArgument(
                f"'keys' must hold tuples of {width} values, one for each column of 'by', got {shown(key)}. "
                f'Write (("a", 1), …).'
            )
    _check_distinct("keys", keys)
    for place in range(width):
        _check_categories("keys", tuple(dict.fromkeys(key[place] for key in keys)))
