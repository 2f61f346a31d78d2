"""Which rows count: conditions on public columns, as WHERE has them.

A condition looks at one row and at public values, so a table and its neighbour are still neighbours after it:
the rows that pass are the same, but for those of one unit. It is applied before contributions are bounded. So
sensitivity and noise are those of the same question without it, whether many rows pass, or none.

A row whose value is missing is *unknown* to a condition, as in SQL: it passes neither the condition nor its
opposite. Only ``IsMissing`` sees it.
"""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import final

from privet.arguments import format_value
from privet.errors import InvalidArgument
from privet.releasing.keys import Category
from privet.releasing.validation import check_categories, check_column

__all__ = [
    "Above",
    "AllHold",
    "AnyHold",
    "AtLeast",
    "AtMost",
    "Below",
    "Bound",
    "BoundComparison",
    "IsIn",
    "IsMissing",
    "Negated",
    "RowCondition",
]

Bound = int | float | str
"""What an ordered column is compared with: a number, or a date as text (``2024-05-31``)."""
_DEEPEST, _MOST_PARTS = 16, 1000


@dataclass(frozen=True)
class RowCondition(ABC):
    """A condition on a row: a frozen value that holds public parameters only."""

    @abstractmethod
    def columns(self) -> tuple[str, ...]:
        """The columns that it looks at."""

    @abstractmethod
    def to_plain(self) -> dict[str, object]:
        """The condition as JSON can hold it."""

    @abstractmethod
    def negate(self) -> "RowCondition":
        """The opposite, which passes the rows that are known not to pass this."""

    @property
    def depth(self) -> int:
        """How many conditions stand in each other."""
        return 1

    @property
    def parts(self) -> int:
        """How many conditions it is made of."""
        return 1


@final
@dataclass(frozen=True)
class IsIn(RowCondition):
    """The value is one of the listed categories."""

    column: str
    categories: tuple[Category, ...]

    def __post_init__(self) -> None:
        check_column("column", self.column)
        check_categories("categories", self.categories)

    def columns(self) -> tuple[str, ...]:
        return (self.column,)

    def to_plain(self) -> dict[str, object]:
        return {"column": self.column, "in": list(self.categories)}

    def negate(self) -> RowCondition:
        return Negated(self)


@final
@dataclass(frozen=True)
class IsMissing(RowCondition):
    """There is no value."""

    column: str

    def __post_init__(self) -> None:
        check_column("column", self.column)

    def columns(self) -> tuple[str, ...]:
        return (self.column,)

    def to_plain(self) -> dict[str, object]:
        return {"column": self.column, "missing": True}

    def negate(self) -> RowCondition:
        return Negated(self)


@dataclass(frozen=True)
class BoundComparison(RowCondition):
    """The value is on one side of a bound."""

    column: str
    bound: Bound

    def __post_init__(self) -> None:
        check_column("column", self.column)
        bound = self.bound
        if isinstance(bound, bool) or not isinstance(bound, (int, float, str)):
            raise InvalidArgument(
                f"'bound' must be a number or a date as text, got {format_value(bound)}. Write 18 or "
                f"'2024-05-31'."
            )
        if not isinstance(bound, str) and not (abs(bound) < 2**63 and math.isfinite(bound)):
            raise InvalidArgument(
                f"'bound' must be a number within ±2^63, got {format_value(bound)}. Give an ordinary number."
            )

    def columns(self) -> tuple[str, ...]:
        return (self.column,)

    def to_plain(self) -> dict[str, object]:
        return {"column": self.column, _WORDS[type(self)]: self.bound}

    def negate(self) -> RowCondition:
        return _OPPOSITES[type(self)](self.column, self.bound)


@final
@dataclass(frozen=True)
class AtLeast(BoundComparison):
    """The value is not below the bound."""


@final
@dataclass(frozen=True)
class Above(BoundComparison):
    """The value is above the bound."""


@final
@dataclass(frozen=True)
class AtMost(BoundComparison):
    """The value is not above the bound."""


@final
@dataclass(frozen=True)
class Below(BoundComparison):
    """The value is below the bound."""


_WORDS: dict[type[BoundComparison], str] = {
    AtLeast: "at_least",
    Above: "above",
    AtMost: "at_most",
    Below: "below",
}
_OPPOSITES: dict[type[BoundComparison], type[BoundComparison]] = {
    AtLeast: Below,
    Below: AtLeast,
    Above: AtMost,
    AtMost: Above,
}


@dataclass(frozen=True)
class Combination(RowCondition):
    """Several conditions together."""

    conditions: tuple[RowCondition, ...]

    def __post_init__(self) -> None:
        _check_conditions(self.conditions)
        if self.depth > _DEEPEST or self.parts > _MOST_PARTS:
            raise InvalidArgument(
                f"A condition must have at most {_DEEPEST} levels and {_MOST_PARTS} parts, and has more. "
                f"List values with IsIn instead."
            )

    def columns(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(name for one in self.conditions for name in one.columns()))

    @property
    def depth(self) -> int:
        return 1 + max(one.depth for one in self.conditions)

    @property
    def parts(self) -> int:
        return 1 + sum(one.parts for one in self.conditions)


@final
@dataclass(frozen=True)
class AllHold(Combination):
    """Every condition holds."""

    def to_plain(self) -> dict[str, object]:
        return {"all": [one.to_plain() for one in self.conditions]}

    def negate(self) -> RowCondition:
        return AnyHold(tuple(one.negate() for one in self.conditions))


@final
@dataclass(frozen=True)
class AnyHold(Combination):
    """At least one condition holds."""

    def to_plain(self) -> dict[str, object]:
        return {"any": [one.to_plain() for one in self.conditions]}

    def negate(self) -> RowCondition:
        return AllHold(tuple(one.negate() for one in self.conditions))


@final
@dataclass(frozen=True)
class Negated(RowCondition):
    """The condition is known not to hold."""

    condition: RowCondition

    def __post_init__(self) -> None:
        _check_conditions((self.condition,))

    def columns(self) -> tuple[str, ...]:
        return self.condition.columns()

    def to_plain(self) -> dict[str, object]:
        return {"not": self.condition.to_plain()}

    def negate(self) -> RowCondition:
        return self.condition

    @property
    def depth(self) -> int:
        return 1 + self.condition.depth

    @property
    def parts(self) -> int:
        return 1 + self.condition.parts


def _check_conditions(conditions: object) -> None:
    if (
        not isinstance(conditions, tuple)
        or not conditions
        or not all(isinstance(one, RowCondition) for one in conditions)
    ):
        raise InvalidArgument(
            f"'conditions' must be a tuple of conditions, got {format_value(conditions)}. "
            f'Write (IsIn("city", ("Bern",)), AtLeast("age", 18)).'
        )
