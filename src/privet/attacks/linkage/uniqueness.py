"""The share of rows that are unique under each set of quasi-identifiers.

A quasi-identifier is a column that others can know of a person: zip code, birth date, sex. A person whose
values nobody else has can be found by anyone who knows them (Sweeney 2000: zip code, birth date and sex are
unique for 87 % of the people of the United States; Golle 2006 measured 63 %).

>>> table = PublishedTable.of({"zip": ["a", "a", "b", "b"], "sex": ["f", "m", "f", "f"]})
>>> found = measure_uniqueness(table, ["zip", "sex"])
>>> found.share, found.share_of(["zip"]), found.share_of(["sex"])
(0.5, 0.0, 0.25)
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, final

import numpy as np
from numpy.typing import NDArray

from privet.arguments import format_value, whole
from privet.attacks.linkage.unique_counts import count_sets, count_unique_sets, number_classes
from privet.errors import InvalidArgument
from privet.public_calls import check_public_calls
from privet.published_tables import PublishedTable

__all__ = ["ColumnSet", "SizeCurve", "Uniqueness", "check_number", "check_quasi", "measure_uniqueness"]

MOST_QUASI = 100
_SETS = 1000  # unless told otherwise, sets grow as long as there are no more of them than this
_LARGEST = 4


class ColumnSet(NamedTuple):
    """A set of columns, and how many rows are unique under it."""

    columns: tuple[str, ...]
    unique: int


class SizeCurve(NamedTuple):
    """All sets of one size: the lowest, the median and the highest share unique, and the worst sets."""

    size: int
    sets: int
    lowest: float
    median: float
    highest: float
    worst: tuple[ColumnSet, ...]


@final
@dataclass(frozen=True, eq=False)
class Uniqueness:
    """How many rows are unique under each set of up to ``largest`` quasi-identifiers, and under all of them.

    ``class_sizes`` are the sizes of the classes of rows that agree in all quasi-identifiers.
    """

    quasi: tuple[str, ...]
    rows: int
    largest: int
    sets: tuple[ColumnSet, ...]
    class_sizes: NDArray[np.int64]

    def __repr__(self) -> str:
        return (
            f"Uniqueness({self.unique:,} of {self.rows:,} rows unique by {len(self.quasi)} quasi-identifiers)"
        )

    @cached_property
    def unique(self) -> int:
        """How many rows are unique by all quasi-identifiers."""
        return int(np.count_nonzero(self.class_sizes == 1))

    @property
    def share(self) -> float:
        """The share of rows that are unique by all quasi-identifiers."""
        return self.unique / self.rows

    def share_of(self, columns: Sequence[str]) -> float:
        """The share of rows that are unique by these columns."""
        wanted = frozenset(columns)
        if wanted == frozenset(self.quasi):
            return self.share
        for found in self.sets:
            if frozenset(found.columns) == wanted:
                return found.unique / self.rows
        raise InvalidArgument(
            f"'columns' must be 1 to {self.largest} of the quasi-identifiers, got another set. Measure again "
            f"with these columns."
        )

    def curve(self, worst: int = 3) -> tuple[SizeCurve, ...]:
        """The shares by the number of columns, with the ``worst`` sets of each size; the last is all."""
        sizes = [self._of_size(size, worst) for size in range(1, self.largest + 1)]
        if self.largest < len(self.quasi):
            everything = ColumnSet(self.quasi, self.unique)
            sizes.append(SizeCurve(len(self.quasi), 1, self.share, self.share, self.share, (everything,)))
        return tuple(sizes)

    def _of_size(self, size: int, worst: int) -> SizeCurve:
        found = [each for each in self.sets if len(each.columns) == size]
        shares = np.array([each.unique for each in found]) / self.rows
        ranked = sorted(found, key=lambda each: -each.unique)
        return SizeCurve(
            size,
            len(found),
            float(shares.min()),
            float(np.median(shares)),
            float(shares.max()),
            tuple(ranked[:worst]),
        )


def measure_uniqueness(
    table: PublishedTable, quasi: Sequence[str], *, largest: int | None = None
) -> Uniqueness:
    """Count the unique rows under every set of 1 to ``largest`` quasi-identifiers, and under all of them.

    Without ``largest``, sets have up to 4 columns, and fewer where that would be more than 1,000 sets.
    """
    names = check_quasi(table, quasi)
    if largest is None:
        fitting = [size for size in range(1, _LARGEST + 1) if count_sets(len(names), size) <= _SETS]
        most = max(fitting, default=1)
    else:
        most = whole("largest", largest)
    most = min(most, len(names))
    counted = count_unique_sets([table[name].codes for name in names], most)
    return Uniqueness(
        quasi=names,
        rows=len(table),
        largest=most,
        sets=tuple(ColumnSet(tuple(names[place] for place in each.columns), each.unique) for each in counted),
        class_sizes=number_classes(table.combine(names))[1],
    )


def check_quasi(table: PublishedTable, quasi: Sequence[str], secret: str | None = None) -> tuple[str, ...]:
    """The quasi-identifiers, after what cannot be measured was refused."""
    names = check_number(quasi)

    for name in (*names, *([] if secret is None else [secret])):
        if name not in table:
            asked = "secret" if name == secret and name not in names else "quasi"
            raise InvalidArgument(
                f"'{asked}' must name columns of the table, got {format_value(name)}. It has "
                f"{_list_names(table)}."
            )
    if secret in names:
        raise InvalidArgument(
            f"'secret' must not be a quasi-identifier, got {format_value(secret)} as both. A secret that "
            f"others know is none: take it out of one of them."
        )
    if len(table) < 2:
        raise InvalidArgument(
            f"'table' must have at least 2 rows, got {len(table)}. Nobody can be told apart in it: give the "
            f"table that is to be published."
        )
    return names


def check_number(quasi: Sequence[str]) -> tuple[str, ...]:
    """The names without repetition: at least one, and not more than can be measured."""
    names = tuple(dict.fromkeys(quasi))
    if not names:
        raise InvalidArgument(
            "'quasi' must name at least one quasi-identifier, got none. Name the columns that others can "
            "know of a person, such as zip code, birth date and sex."
        )
    if len(names) > MOST_QUASI:
        raise InvalidArgument(
            f"'quasi' must name at most {MOST_QUASI} columns, got {len(names):,}. Name only those that "
            f"others can know of a person."
        )
    return names


def _list_names(table: PublishedTable) -> str:
    more = f" and {len(table.names) - 8:,} more" if len(table.names) > 8 else ""
    return f"{', '.join(map(format_value, table.names[:8]))}{more}"


check_public_calls(__name__)
