"""What every statistic can do, whichever it is.

The rest of ``releasing`` calls these methods and tells no types apart.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass, fields
from typing import ClassVar, Self, final

import numpy as np
from numpy.typing import NDArray

from privet.releasing.engines.aggregates import Grouping
from privet.releasing.keys import Category, Number, Values
from privet.releasing.queries import NoiseKind, StatisticQueries
from privet.releasing.sensitivity import UnitBounds
from privet.releasing.statistics.option_words import read_bounded_column
from privet.releasing.validation import check_bounds

__all__ = ["BoundedScalar", "NamedStatistic", "RequiredColumn", "Scalar", "Statistic"]


@final
@dataclass(frozen=True)
class RequiredColumn:
    """A column that a statistic reads."""

    name: str
    numeric: bool
    """Whether the statistic needs numbers in it; otherwise any plain value will do."""


@dataclass(frozen=True)
class Statistic(ABC):
    """A question about a table: a frozen dataclass that holds public parameters only.

    ``__post_init__`` refuses parameters that make no sense. The name of the class and its fields are the text
    under which a ledger keeps the answer. So neither changes after a release.
    """

    @abstractmethod
    def required_columns(self) -> tuple[RequiredColumn, ...]:
        """The columns that it reads. A table that lacks one is refused before anything is spent."""

    @abstractmethod
    def queries(self, bounds: UnitBounds, kind: NoiseKind) -> StatisticQueries:
        """The sums that get noise of this kind, their sensitivity, and how an answer is made of them."""

    @property
    @abstractmethod
    def grouping(self) -> Grouping:
        """The groups that it answers."""

    @property
    def counts_rows(self) -> bool:
        """Whether the answer for a group is its number of rows.

        If each unit has one row, then that is also its number of units. Where keys are found, these numbers
        are released anyway, so no second query is needed.
        """
        return False

    def simultaneous_noises(self, numbers: int) -> int:
        """How many noises an error bar must hold for at once; an answer is made of ``numbers`` of them."""
        return max(numbers, 1)

    @abstractmethod
    def arrange(
        self, keys: tuple[tuple[Category, ...], ...], numbers: list[Number], answers: NDArray[np.float64]
    ) -> Values:
        """The numbers of all groups as one value.

        They are answers or error bars; ``answers`` ranks the groups.
        """

    def to_plain(self) -> dict[str, object]:
        """The statistic as JSON can hold it: the class as ``kind``, and every field."""
        return {
            "kind": type(self).__name__,
            **{field.name: _to_plain(getattr(self, field.name)) for field in fields(self)},
        }


@dataclass(frozen=True)
class NamedStatistic(Statistic):
    """A statistic that has an option of its own on the command line, such as ``--mean age:0:100``."""

    option: ClassVar[str]
    """The option without its dashes.

    ``privet.cli.options_tables`` lists it with its help, and does not load this package.
    """

    @classmethod
    @abstractmethod
    def from_words(cls, option: str, words: str) -> Self:
        """The statistic that the words after the option describe. ``option`` is for error messages."""

    @property
    @abstractmethod
    def subject(self) -> str:
        """What a label says after the name of the option: the columns, as a rule."""


@dataclass(frozen=True)
class Scalar(NamedStatistic):
    """A statistic whose answer is one number. So it can also be asked for each group, by ``GroupBy``."""

    @property
    def grouping(self) -> Grouping:
        return Grouping()

    def arrange(
        self, keys: tuple[tuple[Category, ...], ...], numbers: list[Number], answers: NDArray[np.float64]
    ) -> Values:
        del keys, answers
        (number,) = numbers
        return number


@dataclass(frozen=True)
class BoundedScalar(Scalar):
    """One number about one column, whose values are clamped to [lower, upper]."""

    column: str
    lower: float
    upper: float

    def __post_init__(self) -> None:
        check_bounds(self.column, self.lower, self.upper)

    def required_columns(self) -> tuple[RequiredColumn, ...]:
        return (RequiredColumn(self.column, numeric=True),)

    @classmethod
    def from_words(cls, option: str, words: str) -> Self:
        return cls(*read_bounded_column(option, words))

    @property
    def subject(self) -> str:
        return self.column


def _to_plain(value: object) -> object:
    match value:
        case Statistic():
            return value.to_plain()
        case tuple():
            return [_to_plain(item) for item in value]
    return value
