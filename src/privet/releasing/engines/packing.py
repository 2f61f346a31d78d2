"""Contribution bounding by one sort of one column: unit, order and group packed into 64 bits.

A query engine groups by (unit, group) and then ranks the groups of each unit: two shuffles of wide rows. If a
unit's number, a few bits of the keyed hash and the group's number fit into one 64-bit word, one sort of words
does both: equal words are a unit's rows in one group, and the words of a unit are in the order of the hash.
"""

from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import NDArray

__all__ = ["ORDER_BITS", "UnitGroupPairs", "bound_pairs"]

# Fixed. The bits that are left of a word depend on the other units, and then the choice would, too.
ORDER_BITS = 20
_WORD = 64


@final
@dataclass(frozen=True)
class UnitGroupPairs:
    """The pairs of a unit and a group that count: group and number of rows of each.

    ``rows`` has the positions of the rows, pair after pair. A pair begins in it at its ``starts``.
    """

    groups: NDArray[np.int64]
    sizes: NDArray[np.int64]
    starts: NDArray[np.int64]
    rows: NDArray[np.int64] | None

    def sums(self, values: NDArray[np.int64]) -> NDArray[np.int64]:
        """The sum of a column over the rows of each pair."""
        if self.rows is None:
            raise AssertionError("rows were not asked for")
        if self.groups.size == 0:
            return np.zeros(0, dtype=np.int64)
        return np.asarray(np.add.reduceat(values[self.rows], self.starts), dtype=np.int64)


def bound_pairs(
    units: NDArray[np.uint64],
    groups: NDArray[np.unsignedinteger],
    order: NDArray[np.uint64] | None,
    *,
    most: int,
    keep_rows: bool,
) -> UnitGroupPairs:
    """The pairs of a unit and a group; with ``order``, the ``most`` first pairs of each unit.

    Only the first 20 bits of ``order`` count. Pairs of one unit that are equal in them are in the order of
    their groups' numbers. So a unit's choice depends on its own pairs alone, if the order of the groups'
    numbers does not depend on other units: the order of their values, or of a public list.
    """
    if units.size == 0:
        none = np.zeros(0, dtype=np.int64)
        return UnitGroupPairs(none, none, none, none if keep_rows else None)
    order_bits = 0 if order is None else ORDER_BITS
    group_bits = int(groups.max()).bit_length()
    unit_bits, row_bits = int(units.max()).bit_length(), _bit_count(units.size)
    if keep_rows and unit_bits + max(group_bits, order_bits) + row_bits <= _WORD:
        return _bound_by_two_sorts(units, groups, order, group_bits, most=most)
    if unit_bits + order_bits + group_bits > _WORD:
        units = np.unique(units, return_inverse=True)[1].astype(np.uint64)
    unit_bits = int(units.max()).bit_length()
    if unit_bits + order_bits + group_bits > _WORD:
        return _bound_by_columns(units, groups, order, most=most)
    # In place where possible: at ten million rows, allocating memory takes longer than the arithmetic.
    words = np.left_shift(units, np.uint64(_WORD - unit_bits)) if unit_bits else np.zeros_like(units)
    if order is not None:
        leading = np.right_shift(order, np.uint64(_WORD - ORDER_BITS))
        np.left_shift(leading, np.uint64(group_bits), out=leading)
        np.bitwise_or(words, leading, out=words)
        del leading
    np.bitwise_or(words, groups, out=words)
    rows = np.argsort(words) if keep_rows else None
    if rows is None:
        words.sort()
    else:
        words = words[rows]
    changed = np.ones(words.size, dtype=bool)
    np.not_equal(words[1:], words[:-1], out=changed[1:])
    starts = np.flatnonzero(changed)
    first = words[starts]
    codes = np.bitwise_and(first, np.uint64((1 << group_bits) - 1)).view(np.int64)
    owners = np.zeros_like(first)
    if unit_bits:  # a shift by 64 would be undefined
        np.right_shift(first, np.uint64(_WORD - unit_bits), out=owners)
    return _keep_first(owners, codes, starts, words.size, rows, most=most if order is not None else None)


def _bound_by_two_sorts(
    units: NDArray[np.uint64],
    groups: NDArray[np.unsignedinteger],
    order: NDArray[np.uint64] | None,
    group_bits: int,
    *,
    most: int,
) -> UnitGroupPairs:
    """The same if the position of a row fits into the word, too: no indirect sort is needed.

    A sort of (unit, group, row) finds the pairs. A sort of (unit, order, pair) ranks them, with pairs
    numbered by unit and group. A direct sort of words is several times faster than one that returns
    positions.
    """
    row_bits = _bit_count(units.size)
    words = np.left_shift(units, np.uint64(group_bits))
    np.bitwise_or(words, groups, out=words)
    rows = _sort_with_positions(words, row_bits)
    changed = np.ones(words.size, dtype=bool)
    np.not_equal(words[1:], words[:-1], out=changed[1:])
    starts = np.flatnonzero(changed)
    first = words[starts]
    codes = np.bitwise_and(first, np.uint64((1 << group_bits) - 1)).view(np.int64)
    sizes = np.diff(starts, append=words.size)
    if order is None:
        return UnitGroupPairs(codes, sizes, starts, rows)
    np.right_shift(first, np.uint64(group_bits), out=first)
    np.left_shift(first, np.uint64(ORDER_BITS), out=first)
    np.bitwise_or(first, order[rows[starts]] >> np.uint64(_WORD - ORDER_BITS), out=first)
    pairs = _sort_with_positions(first, row_bits)
    np.right_shift(first, np.uint64(ORDER_BITS), out=first)
    counts = np.ones(starts.size, dtype=bool)
    counts[pairs[most:][first[most:] == first[:-most]]] = False
    counted = sizes[counts]
    return UnitGroupPairs(
        codes[counts], counted, np.cumsum(counted) - counted, rows[np.repeat(counts, sizes)]
    )


def _sort_with_positions(words: NDArray[np.uint64], bits: int) -> NDArray[np.int64]:
    """Sort in place, and return the former position of each word. Equal words keep their order."""
    np.left_shift(words, np.uint64(bits), out=words)
    np.bitwise_or(words, np.arange(words.size, dtype=np.uint64), out=words)
    words.sort()
    positions = np.bitwise_and(words, np.uint64((1 << bits) - 1)).view(np.int64)
    np.right_shift(words, np.uint64(bits), out=words)
    return positions


def _bit_count(count: int) -> int:
    return (count - 1).bit_length()


def _bound_by_columns(
    units: NDArray[np.uint64],
    groups: NDArray[np.unsignedinteger],
    order: NDArray[np.uint64] | None,
    *,
    most: int,
) -> UnitGroupPairs:
    """The same by a sort on several columns, if 64 bits are too few."""
    order = None if order is None else order >> np.uint64(_WORD - ORDER_BITS)
    columns = (groups, units) if order is None else (groups, order, units)
    rows = np.lexsort(columns)
    changed = np.zeros(rows.size, dtype=bool)
    changed[0] = True
    for column in (groups[rows], units[rows]):
        changed[1:] |= column[1:] != column[:-1]
    starts = np.flatnonzero(changed)
    first = rows[starts]
    return _keep_first(
        units[first],
        groups[first].astype(np.int64),
        starts,
        rows.size,
        rows,
        most=most if order is not None else None,
    )


def _keep_first(
    owners: NDArray[np.uint64],
    codes: NDArray[np.int64],
    starts: NDArray[np.int64],
    total: int,
    rows: NDArray[np.int64] | None,
    *,
    most: int | None,
) -> UnitGroupPairs:
    sizes = np.diff(starts, append=total)
    if most is None:
        return UnitGroupPairs(codes, sizes, starts, rows)
    # Owners are sorted. So a pair is beyond the first ``most`` of its unit if the pair ``most`` before it has
    # the same owner.
    counts = np.ones(starts.size, dtype=bool)
    np.not_equal(owners[most:], owners[:-most], out=counts[most:])
    if rows is not None:
        rows = rows[np.repeat(counts, sizes)]
    sizes = sizes[counts]
    return UnitGroupPairs(codes[counts], sizes, np.cumsum(sizes) - sizes, rows)
