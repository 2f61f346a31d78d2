"""Histories of people: who rated, bought or visited what, how, and when. Most people have few of all items.

>>> histories = Histories.of(["ann", "ann", "bob"], ["Alien", "Brazil", "Alien"], value=[5, 3, 1])
>>> histories
Histories(2 people, 2 items, 3 entries, with values)
>>> histories.supports.tolist()
[2, 1]
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from privet.errors import InvalidArgument
from privet.published_tables import PublishedTable, ValueKind
from privet.scores import Bits
from privet.views import Numbers

__all__ = ["Histories"]

_TOO_LARGE = 1e100


@final
@dataclass(frozen=True, eq=False)
class Histories:
    """One entry for each thing that a person did, as arrays.

    ``person`` and ``item`` are numbers from 0, ``value`` is a rating or an amount, ``day`` a date as a number
    of days; the last two may be None. ``people`` and ``items`` are the names behind the numbers.
    """

    person: NDArray[np.int64]
    item: NDArray[np.int64]
    value: Numbers | None
    day: Numbers | None
    people: NDArray[Any]
    items: NDArray[Any]

    def __post_init__(self) -> None:
        count = len(self.person)
        for name in ("item", "value", "day"):
            values = getattr(self, name)
            if values is not None and values.shape != (count,):
                raise InvalidArgument(
                    f"'{name}' must have one entry for each of {count} entries, got an array of shape "
                    f"{values.shape}. Give one axis of that length."
                )
        for name, numbers, names in (("person", self.person, self.people), ("item", self.item, self.items)):
            if numbers.ndim != 1 or ((numbers < 0) | (numbers >= len(names))).any():
                raise InvalidArgument(
                    f"'{name}' must be numbers below {len(names)}, the number of names, got others. Let "
                    f"Histories.of number them."
                )
        for name in ("value", "day"):
            values = getattr(self, name)
            if values is not None and not np.isfinite(values).all():
                raise InvalidArgument(
                    f"'{name}' must be finite numbers, got missing or infinite ones. Leave these entries out."
                )
            if values is not None and (np.abs(values) >= _TOO_LARGE).any():
                raise InvalidArgument(
                    f"'{name}' must be below {_TOO_LARGE:g} in size, got larger numbers, whose products are "
                    f"infinite. Write them in a larger unit."
                )

    @classmethod
    def of(
        cls,
        person: ArrayLike,
        item: ArrayLike,
        *,
        value: ArrayLike | None = None,
        day: ArrayLike | None = None,
    ) -> "Histories":
        """Histories of arrays: who, what, and, where they are known, the value and the day of each entry.

        Days are numbers, or dates as numpy has them.
        """
        people, persons = np.unique(_to_array("person", person), return_inverse=True)
        items, numbers = np.unique(_to_array("item", item), return_inverse=True)
        if len(people) == 0:
            raise InvalidArgument(
                "'person' must name somebody for each entry, got no entry. Give the histories."
            )
        return cls(
            persons.astype(np.int64),
            numbers.astype(np.int64),
            None if value is None else _to_numbers("value", value),
            None if day is None else _to_numbers("day", day),
            people,
            items,
        )

    @classmethod
    def read(
        cls,
        table: PublishedTable,
        *,
        person: str,
        item: str,
        value: str | None = None,
        day: str | None = None,
    ) -> "Histories":
        """Histories of a table with one row for each entry, by the names of its columns.

        Rows with a missing value in one of these columns are left out.
        """
        named = [name for name in (person, item, value, day) if name is not None]
        whole = np.flatnonzero(~np.any([table[name].missing for name in named], axis=0))
        if len(whole) == 0:
            raise InvalidArgument(
                "'table' must have entries without missing values, got none. Give the histories, or leave "
                "out a column that is empty."
            )
        for name, column in (("value", value), ("day", day)):
            if column is not None and table[column].kind is ValueKind.TEXT:
                raise InvalidArgument(
                    f"'{name}' must be a column of numbers or dates, got text. Convert it first, or leave it "
                    f"out."
                )
        rows = table.take(whole)
        return cls.of(
            _names(rows, person),
            _names(rows, item),
            value=None if value is None else rows[value].values,
            day=None if day is None else rows[day].values,
        )

    def __len__(self) -> int:
        return len(self.person)

    def __repr__(self) -> str:
        parts = [("values", self.value), ("days", self.day)]
        has = " and ".join(name for name, values in parts if values is not None)
        return (
            f"Histories({len(self.people):,} people, {len(self.items):,} items, {len(self):,} entries"
            f"{', with ' + has if has else ''})"
        )

    @cached_property
    def supports(self) -> NDArray[np.int64]:
        """How many people have each item."""
        pairs = np.unique(self.item * len(self.people) + self.person)
        return np.bincount(pairs // len(self.people), minlength=len(self.items)).astype(np.int64)

    @cached_property
    def has_repeats(self) -> bool:
        """Whether somebody has several entries about the same item."""
        return int(self.supports.sum()) < len(self)

    @cached_property
    def sizes(self) -> NDArray[np.int64]:
        """How many entries each person has."""
        return np.bincount(self.person, minlength=len(self.people)).astype(np.int64)

    def without_people(self, left_out: Bits) -> "Histories":
        """The histories of the other people. Numbers and names stay, so that both can be compared."""
        kept = ~np.asarray(left_out)[self.person]
        return self.take(np.flatnonzero(kept))

    def take(self, entries: NDArray[np.intp]) -> "Histories":
        """These entries; numbers and names stay."""
        return Histories(
            self.person[entries],
            self.item[entries],
            None if self.value is None else self.value[entries],
            None if self.day is None else self.day[entries],
            self.people,
            self.items,
        )

    def without(self, *, values: bool = False, days: bool = False) -> "Histories":
        """The same entries without their values, their days, or both."""
        return Histories(
            self.person,
            self.item,
            None if values else self.value,
            None if days else self.day,
            self.people,
            self.items,
        )


def _names(table: PublishedTable, name: str) -> NDArray[Any]:
    column = table[name]
    if column.kind is ValueKind.TEXT:
        return column.values.astype(np.str_)
    # Numbers that float64 cannot tell apart are different names.
    return column.values if column.exact is None else column.exact.astype(np.str_)[column.codes - 1]


def _to_array(name: str, values: ArrayLike) -> NDArray[Any]:
    try:
        return np.asarray(values)
    except ValueError as error:
        raise InvalidArgument(
            f"'{name}' must have one entry for each entry of the histories, got sequences of different "
            f"lengths. Give one axis."
        ) from error


def _to_numbers(name: str, values: ArrayLike) -> Numbers:
    array = _to_array(name, values)
    if array.dtype.kind == "M":
        return np.asarray((array - np.datetime64("1970-01-01")) / np.timedelta64(1, "D"), dtype=np.float64)
    try:
        return array.astype(np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise InvalidArgument(
            f"'{name}' must be numbers or dates of numpy, got values of type {array.dtype}. Convert them "
            f"first."
        ) from error
