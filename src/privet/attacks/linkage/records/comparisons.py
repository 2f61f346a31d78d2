"""How alike two values of a column are, as a few levels: equal, near in some way, different.

A comparison sorts each pair of values into one level, the best first. Level 0 is equality and the last level
is "differs"; what is between depends on the kind of values. The levels are fixed beforehand; what each of
them is worth is learnt from the tables (``agreement``).

>>> NameComparison().levels
('equal', 'similarity at least 0.92', 'similarity at least 0.88', 'similarity at least 0.7', 'differs')
>>> names = np.array(["JONES", "JOHNSON", "WILLIAMS"], dtype=object)
>>> NameComparison().grade(names, np.array([0, 0]), np.array([1, 2])).tolist()
[3, 4]
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from privet.arguments import open_fraction, positive, whole
from privet.attacks.linkage.records.strings import Spellings, compare_edits, compare_jaro_winkler
from privet.errors import InvalidArgument
from privet.published_tables import PublishedColumn, ValueKind

__all__ = [
    "CodeComparison",
    "DateComparison",
    "ExactComparison",
    "NameComparison",
    "NumberComparison",
    "ValueComparison",
    "choose_comparison",
]

Grades = NDArray[np.int8]
Places = NDArray[np.intp]

_EQUAL, _DIFFERS = "equal", "differs"
_CODES_FROM = 0.95  # share of distinct texts that are digits, from which a column is one of codes


class ValueComparison(ABC):
    """Levels of agreement of two values, and the level of each pair."""

    @property
    @abstractmethod
    def near(self) -> tuple[str, ...]:
        """The levels between equality and difference, in words, the best first."""

    @abstractmethod
    def grade(self, categories: NDArray[Any], first: Places, second: Places) -> Grades:
        """The level of each pair of different values: 1 for the best, ``len(near) + 1`` if they differ."""

    @final
    @property
    def levels(self) -> tuple[str, ...]:
        """All levels, in words, the best first."""
        return (_EQUAL, *self.near, _DIFFERS)


@final
@dataclass(frozen=True)
class ExactComparison(ValueComparison):
    """Equal or not."""

    @property
    def near(self) -> tuple[str, ...]:
        return ()

    def grade(self, categories: NDArray[Any], first: Places, second: Places) -> Grades:
        del categories, second
        return np.ones(len(first), dtype=np.int8)


@final
@dataclass(frozen=True)
class NameComparison(ValueComparison):
    """Names and other text, by Jaro–Winkler similarity. The limits are those of Splink's names."""

    at_least: tuple[float, ...] = (0.92, 0.88, 0.7)

    def __post_init__(self) -> None:
        for limit in self.at_least:
            open_fraction("at_least", limit)
        if list(self.at_least) != sorted(set(self.at_least), reverse=True):
            raise InvalidArgument(
                "'at_least' must fall from one similarity to the next, got another order. Sort the limits."
            )

    @property
    def near(self) -> tuple[str, ...]:
        return tuple(f"similarity at least {limit:g}" for limit in self.at_least)

    def grade(self, categories: NDArray[Any], first: Places, second: Places) -> Grades:
        similar = compare_jaro_winkler(_spell(categories), first, second)
        rising = np.array(sorted(self.at_least))
        above = np.searchsorted(rising, similar + 1e-12, side="right")
        return (len(rising) + 1 - above).astype(np.int8)


@final
@dataclass(frozen=True)
class CodeComparison(ValueComparison):
    """Codes such as zip codes and house numbers, by edits: one wrong, missing or exchanged digit."""

    edits: int = 1

    def __post_init__(self) -> None:
        whole("edits", self.edits, least=1)

    @property
    def near(self) -> tuple[str, ...]:
        return tuple("one edit" if count == 1 else f"{count} edits" for count in range(1, self.edits + 1))

    def grade(self, categories: NDArray[Any], first: Places, second: Places) -> Grades:
        edits = compare_edits(_spell(categories), first, second)
        return np.clip(edits, 1, self.edits + 1).astype(np.int8)


@final
@dataclass(frozen=True)
class NumberComparison(ValueComparison):
    """Numbers: nearly equal, one digit wrong, or not far apart.

    ``tolerance`` is relative to the larger of the two numbers, in absolute value.
    """

    tolerance: float = 0.1

    def __post_init__(self) -> None:
        positive("tolerance", self.tolerance)

    @property
    def near(self) -> tuple[str, ...]:
        return (
            f"within {self.tolerance / 10:.2g} of itself",
            "one edit",
            f"within {self.tolerance:.2g} of itself",
        )

    def grade(self, categories: NDArray[Any], first: Places, second: Places) -> Grades:
        numbers = np.asarray(categories, dtype=np.float64)
        a, b = numbers[first], numbers[second]
        larger = np.maximum(np.abs(a), np.abs(b))
        with np.errstate(invalid="ignore", over="ignore"):
            gap = np.abs(a - b)
            close, fair = gap <= self.tolerance / 10 * larger, gap <= self.tolerance * larger
        texts = np.array([f"{number:.12g}" for number in numbers], dtype=object)
        edited = compare_edits(_spell(texts), first, second) <= 1
        return np.select([close, edited, fair], [1, 2, 3], default=4).astype(np.int8)


@final
@dataclass(frozen=True)
class DateComparison(ValueComparison):
    """Dates: day and month exchanged, one digit wrong, two of year, month and day the same, or near in time.

    Text is read as year, month and day if it has eight digits; other text is compared by its digits only.
    """

    @property
    def near(self) -> tuple[str, ...]:
        return ("day and month exchanged", "one digit", "two of year, month and day", "within a year")

    def grade(self, categories: NDArray[Any], first: Places, second: Places) -> Grades:
        digits = _write_dates(categories)
        spelt = Spellings(digits)
        edits = compare_edits(spelt, first, second)
        is_date = np.char.str_len(digits) == 8
        number = np.where(is_date, digits, "0").astype(np.int64)
        year, month, day = number // 10000, number // 100 % 100, number % 100
        both = is_date[first] & is_date[second]
        same_year = year[first] == year[second]
        exchanged = same_year & (month[first] == day[second]) & (day[first] == month[second])
        months = np.abs(12 * (year[first] - year[second]) + month[first] - month[second])
        parts = 1 * same_year + (month[first] == month[second]) + (day[first] == day[second])
        return np.select(
            [both & exchanged, edits <= 1, both & (parts == 2), both & (months <= 12)],
            [1, 2, 3, 4],
            default=5,
        ).astype(np.int8)


def choose_comparison(column: PublishedColumn) -> ValueComparison:
    """The comparison of a column that nobody chose one for, by the kind of its values.

    Text of which nearly all values are digits is a column of codes.

    >>> from privet.published_tables import PublishedTable
    >>> table = PublishedTable.of({"zip": ["02139", "02138"], "name": ["Ann", "Bob"]})
    >>> choose_comparison(table["zip"]), choose_comparison(table["name"])
    (CodeComparison(edits=1), NameComparison(at_least=(0.92, 0.88, 0.7)))
    """
    match column.kind:
        case ValueKind.NUMBER:
            return NumberComparison()
        case ValueKind.DATE:
            return DateComparison()
        case ValueKind.TEXT:
            digits = sum(text.isdecimal() for text in column.categories)
            return CodeComparison() if digits > _CODES_FROM * len(column.categories) else NameComparison()


def _spell(categories: NDArray[Any]) -> Spellings:
    return Spellings(np.asarray(categories).astype(np.str_))


def _write_dates(categories: NDArray[Any]) -> NDArray[np.str_]:
    """Dates as eight digits; of other values the digits that are there."""
    texts = np.asarray(categories).astype(np.str_)
    return np.array(["".join(filter(str.isdecimal, text))[:8] for text in texts.tolist()], dtype=np.str_)
