"""How many rows are unique under each set of columns, on whole-number codes.

*Why it is quick.* The sets are walked depth first, so that a set differs from its parent by one column. Three
facts save work:

- A row that is unique under S is unique under every set that contains S, and shares its values with no other
  row there. It is counted once and dropped from the whole branch. Columns with many values come first, so
  that most rows are dropped early.
- The rows that stay get new codes without gaps, so that the cells of S and one more column are few. Where
  they are, one pass of ``bincount`` counts them.
- Where they are many, rows are hashed into 2²⁰ cells. A row alone in its cell is unique for sure; the others
  are hashed again by another multiplier, and the few that never were alone are sorted. The counts are exact:
  a hash only ever proves that a row is unique.

Each set costs a few passes over the rows. No pair of rows is ever compared.
"""

from collections.abc import Iterator, Sequence
from math import comb
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

__all__ = ["SetCount", "class_sizes", "count_sets", "count_unique", "count_unique_sets", "number_classes"]

_Codes: TypeAlias = NDArray[np.int64]

_CELLS = 1 << 21  # so many counters are still quick to clear and to add up
_HASHED = 1 << 20
_SHIFT = np.uint64(44)  # of 64 bits, the upper 20 remain
_MULTIPLIERS = tuple(
    np.uint64(odd) for odd in (0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0xD6E8FEB86659FD93, 0xA0761D6478BD642F)
)
_FEW = 1 << 15  # so few rows are sorted at once
_WORTH_DROPPING = 0.05  # of the rows: below that, copying the others costs more than it saves


class SetCount(NamedTuple):
    """How many rows are unique under a set of columns, given by their positions in order."""

    columns: tuple[int, ...]
    unique: int


class _Branch(NamedTuple):
    """The rows that still share their values under a set: their codes without gaps, and the later columns."""

    codes: _Codes
    cells: int
    columns: Sequence[_Codes]  # all columns of the table, for these rows
    dropped: int  # rows that are unique under the set, and are no longer here


def count_sets(columns: int, largest: int) -> int:
    """The number of sets of 1 to ``largest`` of so many columns.

    >>> count_sets(12, 4)
    793
    """
    return sum(comb(columns, size) for size in range(1, largest + 1))


def count_unique_sets(columns: Sequence[_Codes], largest: int) -> list[SetCount]:
    """The number of unique rows under every set of 1 to ``largest`` columns, sets in lexicographic order.

    >>> zips, sexes = np.array([1, 1, 2, 2]), np.array([0, 1, 0, 0])
    >>> [(found.columns, found.unique) for found in count_unique_sets([zips, sexes], 2)]
    [((0,), 0), ((1,), 1), ((0, 1), 2)]
    """
    rows = len(columns[0])
    dense = [number_classes(column)[0] for column in columns]
    cells = [int(column.max(initial=-1)) + 1 for column in dense]
    order = sorted(range(len(columns)), key=lambda place: -cells[place])
    start = _Branch(np.zeros(rows, dtype=np.int64), 1, [dense[place] for place in order], 0)
    found = _walk(start, [cells[place] for place in order], 0, largest)
    named = (SetCount(tuple(sorted(order[place] for place in places)), unique) for places, unique in found)
    return sorted(named, key=lambda each: (len(each.columns), each.columns))


def count_unique(codes: _Codes) -> int:
    """How many codes occur once."""
    remaining, alone = codes, 0
    for multiplier in _MULTIPLIERS:
        if len(remaining) <= _FEW:
            break
        hashed = ((remaining.view(np.uint64) * multiplier) >> _SHIFT).view(np.int64)
        crowded = (np.bincount(hashed, minlength=_HASHED) > 1)[hashed]
        stay = int(np.count_nonzero(crowded))
        alone += len(remaining) - stay
        shrunk = stay < 0.75 * len(remaining)
        remaining = remaining[crowded]
        if not shrunk:
            break
    return alone + _count_by_sorting(remaining)


def number_classes(codes: _Codes) -> tuple[_Codes, _Codes]:
    """For each row the number of its class, without gaps and in the order of the codes; and all sizes.

    >>> [part.tolist() for part in number_classes(np.array([7, 3, 7, 9]))]
    [[1, 0, 1, 2], [1, 2, 1]]
    """
    if len(codes) == 0:
        return codes, codes
    low, high = int(codes.min()), int(codes.max())
    if high - low < max(_CELLS, 2 * len(codes)):
        counts = np.bincount(codes - low)
        here = counts > 0
        return (np.cumsum(here) - 1)[codes - low], counts[here]
    _, numbers, sizes = np.unique(codes, return_inverse=True, return_counts=True)
    return numbers.astype(np.int64), sizes.astype(np.int64)


def class_sizes(codes: _Codes) -> _Codes:
    """For each row, how many rows have its code."""
    numbers, sizes = number_classes(codes)
    return sizes[numbers]


def _walk(
    branch: _Branch, cells: Sequence[int], first: int, depth: int
) -> Iterator[tuple[tuple[int, ...], int]]:
    """The sets that add 1 to ``depth`` columns, from ``first`` on, to the set of a branch."""
    for place in range(first, len(cells)):
        has_children = depth > 1 and place + 1 < len(cells)
        codes = branch.codes * cells[place] + branch.columns[place]
        if not has_children:
            yield (place,), branch.dropped + _count_singles(codes, branch.cells * cells[place])
            continue
        child, unique = _descend(branch, codes)
        yield (place,), unique
        for places, count in _walk(child, cells, place + 1, depth - 1):
            yield (place, *places), count


def _descend(branch: _Branch, codes: _Codes) -> tuple[_Branch, int]:
    """The branch below one more column, and how many rows are unique there."""
    numbers, sizes = number_classes(codes)
    alone = int(np.count_nonzero(sizes == 1))
    if alone < _WORTH_DROPPING * len(codes) or alone == 0:
        return branch._replace(codes=numbers, cells=max(len(sizes), 1)), branch.dropped + alone
    shared = sizes > 1
    stay, closed = shared[numbers], np.cumsum(shared) - 1
    child = _Branch(
        closed[numbers[stay]],
        max(int(np.count_nonzero(shared)), 1),
        [column[stay] for column in branch.columns],
        branch.dropped + alone,
    )
    return child, child.dropped


def _count_singles(codes: _Codes, wide: int) -> int:
    if wide <= _CELLS:
        return int(np.count_nonzero(np.bincount(codes, minlength=wide) == 1))
    return count_unique(codes)


def _count_by_sorting(codes: _Codes) -> int:
    if len(codes) < 2:
        return len(codes)
    span = int(codes.max()) - int(codes.min())
    narrow = codes - codes.min() if span < 2**31 else codes
    ordered = np.sort(narrow.astype(np.int32) if span < 2**31 else narrow)
    differs = ordered[1:] != ordered[:-1]
    return int(differs[0]) + int(differs[-1]) + int(np.count_nonzero(differs[1:] & differs[:-1]))
