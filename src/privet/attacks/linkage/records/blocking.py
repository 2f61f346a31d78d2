"""Candidate pairs of rows, by several passes: pairs that agree in a column, in two, or in a few.

Comparing everybody with everybody is out of reach, and nearly all such pairs differ in everything. A pass
takes the pairs of rows that agree in a key. Its cost is known before any pair is written: the product of the
two counts of each value. Frequent values (Smith) cost most and say least, so that a pass takes its blocks
from the smallest up, as far as its budget goes. A column whose blocks did not all fit is combined with the
others of this kind: Smith and the same zip code. Columns that are too coarse even in twos (yes and no) are
taken in runs, one from each column on, each as long as it must be.

*Reference*: blocking with several passes is Fellegi & Sunter 1969, section 3.3, and Newcombe 1967. Leaving
out the largest blocks is common practice (Papadakis et al. 2016, "block purging").
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import final

import numpy as np
from numpy.typing import NDArray

__all__ = ["CandidatePairs", "block_rows"]

Codes = NDArray[np.int64]

_MOST_DOUBLED, _MOST_RUNS = 12, 24


@final
@dataclass(frozen=True, eq=False)
class CandidatePairs:
    """Pairs of a known row and a published row, in the order of the known rows and then of the published."""

    known: NDArray[np.intp]
    published: NDArray[np.intp]

    def __len__(self) -> int:
        return len(self.known)


def block_rows(known: Sequence[Codes], published: Sequence[Codes], *, most_pairs: int) -> CandidatePairs:
    """The pairs that some pass finds; ``most_pairs`` at most, and half as many more where columns are coarse.

    ``known`` and ``published`` are the codes of each common column, 0 where the value is missing.

    >>> pairs = block_rows([np.array([1, 2])], [np.array([2, 1, 3, 2])], most_pairs=10)
    >>> list(zip(pairs.known.tolist(), pairs.published.tolist()))
    [(0, 1), (1, 0), (1, 3)]
    """
    rows = len(published[0])
    singles = [_Pass.of(a, b) for a, b in zip(known, published, strict=True)]
    wanted = _share_budget([each.cost for each in singles], most_pairs // 2)
    found, cut = [], []
    for place, (each, budget) in enumerate(zip(singles, wanted, strict=True)):
        part, complete = each.take(budget)
        found.append(part[0] * rows + part[1])
        if not complete:
            cut.append(place)
    finest = sorted(sorted(cut, key=lambda place: singles[place].cost)[:_MOST_DOUBLED])
    doubles = list(combinations(finest, 2))
    coarse = set(cut)
    if doubles:
        each_budget = (most_pairs - sum(len(part) for part in found)) // len(doubles)
        for a, b in doubles:
            merged = _Pass.of(*_combine(known[a], known[b], published[a], published[b]))
            part, complete = merged.take(each_budget)
            found.append(part[0] * rows + part[1])
            if complete:
                coarse -= {a, b}
    if len(coarse) > 2:
        found.extend(_block_runs(known, published, sorted(coarse), most_pairs // 2))
    pairs = np.unique(np.concatenate(found))
    return CandidatePairs((pairs // rows).astype(np.intp), (pairs % rows).astype(np.intp))


def _block_runs(
    known: Sequence[Codes], published: Sequence[Codes], columns: Sequence[int], budget: int
) -> list[NDArray[np.int64]]:
    """The pairs that agree in a run of columns. Runs begin at places that are spread over all columns."""
    rows = len(published[0])
    starts = np.unique(np.linspace(0, len(columns), _MOST_RUNS, endpoint=False).astype(int)).tolist()
    found = []
    for start in starts:
        run = [*columns[start:], *columns[:start]]
        mine, theirs = known[run[0]], published[run[0]]
        for place in run[1:]:
            if _Pass.of(mine, theirs).cost <= budget // len(starts):
                break
            mine, theirs = _combine(mine, known[place], theirs, published[place])
            dense = np.unique(np.concatenate([[0], mine, theirs]), return_inverse=True)[1][1:]  # 0 stays 0
            mine, theirs = dense[: len(mine)], dense[len(mine) :]
        (here, there), _ = _Pass.of(mine, theirs).take(budget // len(starts))
        found.append(here * rows + there)
    return found


def _share_budget(costs: Sequence[int], budget: int) -> list[int]:
    """Equal shares, where what a cheap pass does not need goes to the dearer ones."""
    shares = [0] * len(costs)
    left, waiting = budget, len(costs)
    for place in sorted(range(len(costs)), key=lambda place: costs[place]):
        shares[place] = min(costs[place], left // waiting)
        left, waiting = left - shares[place], waiting - 1
    return shares


def _combine(a: Codes, b: Codes, other_a: Codes, other_b: Codes) -> tuple[Codes, Codes]:
    """One code for two columns, the same on both sides; 0 where one of them is missing."""
    width = int(max(b.max(initial=0), other_b.max(initial=0))) + 1
    both = [np.where((x > 0) & (y > 0), x * width + y, 0) for x, y in ((a, b), (other_a, other_b))]
    return both[0], both[1]


@final
@dataclass(frozen=True, eq=False)
class _Pass:
    """The values that both sides have, with the rows of each side in the order of their values."""

    order: NDArray[np.intp]
    starts: NDArray[np.int64]
    counts: NDArray[np.int64]
    other_order: NDArray[np.intp]
    other_starts: NDArray[np.int64]
    other_counts: NDArray[np.int64]

    @classmethod
    def of(cls, codes: Codes, other: Codes) -> "_Pass":
        sides = []
        for side in (codes, other):
            order = np.argsort(side, kind="stable")
            values, starts, counts = np.unique(side[order], return_index=True, return_counts=True)
            sides.append((order, values, starts, counts))
        (order, values, starts, counts), (order2, values2, starts2, counts2) = sides
        _, here, there = np.intersect1d(
            values[values > 0], values2[values2 > 0], assume_unique=True, return_indices=True
        )
        here, there = here + int((values == 0).any()), there + int((values2 == 0).any())
        return cls(order, starts[here], counts[here], order2, starts2[there], counts2[there])

    @property
    def cost(self) -> int:
        return int((self.counts * self.other_counts).sum())

    def take(self, budget: int) -> tuple[tuple[NDArray[np.int64], NDArray[np.int64]], bool]:
        """The pairs of the smallest blocks, and whether these are all blocks."""
        sizes = self.counts * self.other_counts
        fitting = np.ones(len(sizes), dtype=np.bool_)
        if sizes.sum() > budget:
            # Blocks of equal size are taken or left together, so that the order of values does not matter.
            members = np.unique(sizes, return_inverse=True)[1]
            totals = np.cumsum(np.bincount(members, weights=sizes))
            fitting = totals[members] <= budget
        sizes, starts, starts2 = sizes[fitting], self.starts[fitting], self.other_starts[fitting]
        widths = self.other_counts[fitting]
        block = np.repeat(np.arange(len(sizes)), sizes)
        inside = np.arange(int(sizes.sum())) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        rows = self.order[starts[block] + inside // widths[block]]
        columns = self.other_order[starts2[block] + inside % widths[block]]
        return (rows.astype(np.int64), columns.astype(np.int64)), bool(fitting.all())
