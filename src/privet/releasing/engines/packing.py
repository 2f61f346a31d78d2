"""Bounding by one sort of one column: unit, order and group packed into 64 bits.

A query engine groups by (unit, group), then ranks groups within units: two shuffles of wide rows. Where a unit's
number, a few bits of the keyed hash and the group's number fit into one 64-bit word, one sort of words does both:
equal words are a unit's rows in one group, and within a unit the words come in the order of the hash.
"""

from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import NDArray

__all__ = ["ORDER_BITS", "Pairs", "bounded_pairs"]

# Fixed, and not whatever is left of a word: that would depend on the other units, and so would the choice.
ORDER_BITS = 20
_WORD = 64


@final
@dataclass(frozen=True)
class Pairs:
    """The unit–group pairs that count: each one's group and number of rows, and which rows those are.

    ``rows`` holds the rows' positions, pair after pair, and ``starts`` where in it each pair begins.
    """

    groups: NDArray[np.int64]
    sizes: NDArray[np.int64]
    starts: NDArray[np.int64]
    rows: NDArray[np.int64] | None

    def sums(self, values: NDArray[np.int64]) -> NDArray[np.int64]:
        """The sum of a column over each pair's rows."""
        if self.rows is None:
            raise AssertionError("rows were not asked for")
        if self.groups.size == 0:
            return np.zeros(0, dtype=np.int64)
        return np.asarray(np.add.reduceat(values[self.rows], self.starts), dtype=np.int64)


def bounded_pairs(
    units: NDArray[np.uint64],
    groups: NDArray[np.unsignedinteger],
    order: NDArray[np.uint64] | None,
    *,
    most: int,
    keep_rows: bool,
) -> Pairs:
    """The pairs of a unit and a group; where ``order`` is given, the ``most`` first ones of each unit by it.

    Only the first 20 bits of ``order`` count. Pairs of one unit that are equal in them come in the order of their groups' numbers, so a unit's choice
    depends on its own pairs only, if the numbers of groups keep the order of something that does not depend on
    other units: their values, or their places in a public list.
    """
    if units.size == 0:
        none = np.zeros(0, dtype=np.int64)
        return Pairs(none, none, none, none if keep_rows else None)
    order_bits = 0 if order is None else ORDER_BITS
    group_bits = int(groups.max()).bit_length()
    if keep_rows and int(units.max()).bit_length() + max(group_bits, order_bits) + _bits(units.size) <= _WORD:
        return _by_two_sorts(units, groups, order, group_bits, most=most)
    if int(units.max()).bit_length() + order_bits + group_bits > _WORD:
        units = np.unique(units, return_inverse=True)[1].astype(np.uint64)
    unit_bits = int(units.max()).bit_length()
    if unit_bits + order_bits + group_bits > _WORD:
        return _by_columns(units, groups, order, most=most)
    # In place as far as it goes: at ten million rows, fresh memory takes longer than the arithmetic.
    words = np.left_shift(units, np.uint64(_WORD - unit_bits)) if unit_bits else np.zeros_like(units)
    if order is not None:
        kept = np.right_shift(order, np.uint64(_WORD - ORDER_BITS))
        np.left_shift(kept, np.uint64(group_bits), out=kept)
        np.bitwise_or(words, kept, out=words)
        del kept
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
    return _chosen(owners, codes, starts, words.size, rows, most=most if order is not None else None)


def _by_two_sorts(
    units: NDArray[np.uint64],
    groups: NDArray[np.unsignedinteger],
    order: NDArray[np.uint64] | None,
    group_bits: int,
    *,
    most: int,
) -> Pairs:
    """The same where a row's place fits into the word too: words that carry it need no indirect sort.

    Sorting (unit, group, row) finds the pairs; sorting (unit, order, pair), where pairs are numbered by unit and
    group, ranks them. A direct sort of words is several times faster than one that returns places.
    """
    row_bits = _bits(units.size)
    words = np.left_shift(units, np.uint64(group_bits))
    np.bitwise_or(words, groups, out=words)
    rows = _sorted_with_places(words, row_bits)
    changed = np.ones(words.size, dtype=bool)
    np.not_equal(words[1:], words[:-1], out=changed[1:])
    starts = np.flatnonzero(changed)
    first = words[starts]
    codes = np.bitwise_and(first, np.uint64((1 << group_bits) - 1)).view(np.int64)
    sizes = np.diff(starts, append=words.size)
    if order is None:
        return Pairs(codes, sizes, starts, rows)
    np.right_shift(first, np.uint64(group_bits), out=first)
    np.left_shift(first, np.uint64(ORDER_BITS), out=first)
    np.bitwise_or(first, order[rows[starts]] >> np.uint64(_WORD - ORDER_BITS), out=first)
    pairs = _sorted_with_places(first, row_bits)
    np.right_shift(first, np.uint64(ORDER_BITS), out=first)
    kept = np.ones(starts.size, dtype=bool)
    kept[pairs[most:][first[most:] == first[:-most]]] = False
    sizes_kept = sizes[kept]
    return Pairs(codes[kept], sizes_kept, np.cumsum(sizes_kept) - sizes_kept, rows[np.repeat(kept, sizes)])


def _sorted_with_places(words: NDArray[np.uint64], bits: int) -> NDArray[np.int64]:
    """Sort in place, and say where each word was; equal words stay in their order."""
    np.left_shift(words, np.uint64(bits), out=words)
    np.bitwise_or(words, np.arange(words.size, dtype=np.uint64), out=words)
    words.sort()
    places = np.bitwise_and(words, np.uint64((1 << bits) - 1)).view(np.int64)
    np.right_shift(words, np.uint64(bits), out=words)
    return places


def _bits(count: int) -> int:
    return (count - 1).bit_length()


def _by_columns(
    units: NDArray[np.uint64],
    groups: NDArray[np.unsignedinteger],
    order: NDArray[np.uint64] | None,
    *,
    most: int,
) -> Pairs:
    """The same by sorting on several columns, where a word is too short."""
    order = None if order is None else order >> np.uint64(_WORD - ORDER_BITS)
    columns = (groups, units) if order is None else (groups, order, units)
    rows = np.lexsort(columns)
    changed = np.zeros(rows.size, dtype=bool)
    changed[0] = True
    for column in (groups[rows], units[rows]):
        changed[1:] |= column[1:] != column[:-1]
    starts = np.flatnonzero(changed)
    first = rows[starts]
    return _chosen(
        units[first],
        groups[first].astype(np.int64),
        starts,
        rows.size,
        rows,
        most=most if order is not None else None,
    )


def _chosen(
    owners: NDArray[np.uint64],
    codes: NDArray[np.int64],
    starts: NDArray[np.int64],
    total: int,
    rows: NDArray[np.int64] | None,
    *,
    most: int | None,
) -> Pairs:
    sizes = np.diff(starts, append=total)
    if most is None:
        return Pairs(codes, sizes, starts, rows)
    # Owners are sorted, so a pair is beyond the first ``most`` of its unit where the pair that far back has the same.
    kept = np.ones(starts.size, dtype=bool)
    np.not_equal(owners[most:], owners[:-most], out=kept[most:])
    if rows is not None:
        rows = rows[np.repeat(kept, sizes)]
    sizes = sizes[kept]
    return Pairs(codes[kept], sizes, np.cumsum(sizes) - sizes, rows)
