"""How far apart two rows of mixed columns are, without a distance for every pair in memory at once.

Gower's distance is the mean over the columns of a part in [0, 1]: for numbers and dates |a − b| over the
range of the column, at most 1; for text 0 where equal and 1 otherwise. A missing value is at distance 0 from
a missing one and 1 from any other. The range is that of the table that is searched, so that nothing about the
people who are judged enters the scale.

Distances come in blocks of rows. ``nearest_rows`` keeps the few smallest of each row.

*Reference*: Gower 1971, "A general coefficient of similarity and some of its properties". Deviations: a
column in which a value is missing counts instead of being left out, because the pattern of missing values
tells people apart; a number outside of the range of the searched table is at most 1 away.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, final

import numpy as np
from numpy.typing import NDArray

from privet.published_tables import PublishedColumn, PublishedTable, ValueKind
from privet.views import Numbers

__all__ = ["DistanceBlock", "NearestRows", "distance_blocks", "nearest_rows", "numbers_of"]

_BLOCK_BYTES = 2**24  # of one block of float32 distances
Distances = NDArray[np.float32]


class DistanceBlock(NamedTuple):
    """Distances of some rows, from ``start`` on, to every row of the searched table."""

    start: int
    distances: Distances


class NearestRows(NamedTuple):
    """The nearest rows of each row, the nearest first: their distances and their positions."""

    distances: Numbers
    places: NDArray[np.intp]


def numbers_of(column: PublishedColumn) -> Numbers:
    """A number for each row: the value, or the day of a date; NaN where it is missing."""
    if column.kind is ValueKind.DATE:
        days = column.values.astype(np.int64).astype(np.float64)
        days[column.missing] = np.nan
        return days
    return np.asarray(column.values, dtype=np.float64)


@final
@dataclass(frozen=True, eq=False)
class _ScaledColumn:
    """A column of both tables, scaled: numbers whose differences count, or codes that are equal or not."""

    of_rows: NDArray[np.generic]
    of_searched: NDArray[np.generic]
    missing_rows: NDArray[np.bool_] | None  # None where the part needs no look at missing values
    missing_searched: NDArray[np.bool_] | None

    @classmethod
    def of(
        cls, column: PublishedColumn, searched: PublishedColumn, scale: PublishedColumn
    ) -> "_ScaledColumn":
        if column.kind is ValueKind.TEXT:
            return cls(column.codes.astype(np.int32), searched.codes.astype(np.int32), None, None)
        here, there = numbers_of(column), numbers_of(searched)
        known = numbers_of(scale)
        known = known[np.isfinite(known)]
        low, high = (float(known.min()), float(known.max())) if len(known) else (0.0, 0.0)
        width = high - low
        if not 0 < width < np.inf:
            return cls(column.codes.astype(np.int32), searched.codes.astype(np.int32), None, None)
        scaled = [
            np.nan_to_num((values - low) / width, nan=0.0, posinf=3.0, neginf=-3.0).clip(-3.0, 3.0)
            for values in (here, there)
        ]
        gaps = column.missing.any() or searched.missing.any()
        return cls(
            scaled[0].astype(np.float32),
            scaled[1].astype(np.float32),
            column.missing if gaps else None,
            searched.missing if gaps else None,
        )

    def add(self, total: Distances, part: Distances, rows: slice) -> None:
        """Add the part of this column to ``total``; ``part`` is room to work in."""
        if self.of_rows.dtype == np.int32:
            total += self.of_rows[rows, None] != self.of_searched
            return
        np.subtract(self.of_rows[rows, None], self.of_searched, out=part)
        np.abs(part, out=part)
        np.minimum(part, 1.0, out=part)
        if self.missing_rows is not None and self.missing_searched is not None:
            here = self.missing_rows[rows, None]
            part[here != self.missing_searched] = 1.0
            part[here & self.missing_searched] = 0.0
        total += part


def distance_blocks(
    rows: PublishedTable,
    searched: PublishedTable,
    names: Sequence[str],
    *,
    scale: PublishedTable | None = None,
) -> Iterator[DistanceBlock]:
    """Gower's distance of every row to every searched row, by these columns, in blocks of rows.

    The codes of the tables must agree (``PublishedTable.below``). The ranges are those of ``scale``, or of
    the searched table.
    """
    ranges = searched if scale is None else scale
    columns = [_ScaledColumn.of(rows[name], searched[name], ranges[name]) for name in names]
    size = max(1, min(len(rows), _BLOCK_BYTES // (4 * len(searched))))
    part = np.empty((size, len(searched)), dtype=np.float32)
    for start in range(0, len(rows), size):
        chosen = slice(start, min(start + size, len(rows)))
        count = chosen.stop - chosen.start
        total = np.zeros((count, len(searched)), dtype=np.float32)
        for column in columns:
            column.add(total, part[:count], chosen)
        total /= len(columns)
        yield DistanceBlock(start, total)


def nearest_rows(
    rows: PublishedTable,
    searched: PublishedTable,
    names: Sequence[str],
    count: int,
    *,
    scale: PublishedTable | None = None,
) -> NearestRows:
    """The ``count`` nearest searched rows of every row, or all of them where there are fewer.

    Equally near rows come in the order of their positions; which of them is the last is arbitrary.

    >>> table = PublishedTable.of({"age": [20, 30, 60]})
    >>> nearest_rows(table.take(np.array([1])), table, ["age"], 2).places.tolist()
    [[1, 0]]
    """
    count = min(count, len(searched))
    distances = np.empty((len(rows), count))
    places = np.empty((len(rows), count), dtype=np.intp)
    for start, block in distance_blocks(rows, searched, names, scale=scale):
        here = slice(start, start + len(block))
        if count == 1:
            found = block.argmin(axis=1)[:, None]
        else:
            # The k-th smallest, then every row that is no farther, in order of distance and position.
            found = np.argpartition(block, count - 1, axis=1)[:, :count]
            found.sort(axis=1)
            ordered = np.argsort(np.take_along_axis(block, found, axis=1), axis=1, kind="stable")
            found = np.take_along_axis(found, ordered, axis=1)
        places[here] = found
        distances[here] = np.take_along_axis(block, found, axis=1)
    return NearestRows(distances, places)
