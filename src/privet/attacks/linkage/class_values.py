"""Which values of a secret stand in each class of rows, and how often: the only thing that a reader of the
table learns about the secret of somebody whose class they know.

The counts are kept for the pairs (class, value) that occur, never as a matrix of classes × values.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias, final

import numpy as np
from numpy.typing import NDArray

from privet.attacks.linkage.unique_counts import number_classes
from privet.scores import Bits

__all__ = ["NO_VALUE", "ClassValues"]

_Codes: TypeAlias = NDArray[np.int64]

NO_VALUE = -1
_CANDIDATES = 3  # the best, one that is ruled out, and one that lost the target's own row


@final
@dataclass(frozen=True, eq=False)
class ClassValues:
    """The pairs of class and value, sorted by class and then by value, with their counts.

    ``classes`` and ``values`` number the rows' classes and values from 0 on.
    """

    classes: _Codes
    values: _Codes

    @cached_property
    def width(self) -> int:
        """The number of values."""
        return int(self.values.max(initial=0)) + 1

    @cached_property
    def pairs(self) -> tuple[_Codes, _Codes, _Codes]:
        """The class, the value and the count of each pair."""
        numbers, counts = number_classes(self.classes * self.width + self.values)
        keys = np.empty(len(counts), dtype=np.int64)
        keys[numbers] = self.classes * self.width + self.values
        return keys // self.width, keys % self.width, counts

    @cached_property
    def starts(self) -> _Codes:
        """Where the pairs of each class begin, and where the last one ends."""
        classes = self.pairs[0]
        return np.searchsorted(classes, np.arange(self.classes.max(initial=-1) + 2)).astype(np.int64)

    def count(self, classes: _Codes, values: _Codes) -> _Codes:
        """How often each value stands in each class; 0 where it does not, or where there is no class."""
        pair_classes, pair_values, counts = self.pairs
        keys, wanted = pair_classes * self.width + pair_values, classes * self.width + values
        places = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
        known = (classes >= 0) & (values >= 0) & (values < self.width) & (keys[places] == wanted)
        return np.where(known, counts[places], 0)

    def draw_other(self, classes: _Codes, own: _Codes, uniform: NDArray[np.float64]) -> _Codes:
        """For each target the value of a random row of its class that has another value than its own.

        ``uniform`` has a number from [0, 1) for each target. NO_VALUE where all rows have the target's value.
        """
        totals = np.concatenate([[0], np.cumsum(self.pairs[2])])
        starts, ends = totals[self.starts[classes]], totals[self.starts[classes + 1]]
        mine = self.count(classes, own)
        keys = self.pairs[0] * self.width + self.pairs[1]
        before = totals[np.searchsorted(keys, classes * self.width + own)]  # where the own rows begin
        others = ends - starts - mine
        place = starts + (uniform * others).astype(np.int64)
        place = np.where(place >= before, place + mine, place)  # over the rows of the own value
        pair = np.minimum(np.searchsorted(totals, place, side="right") - 1, len(keys) - 1)
        return np.where(others > 0, self.pairs[1][pair], NO_VALUE)

    @cached_property
    def _best(self) -> tuple[_Codes, _Codes]:
        """The three most common values of each class and their counts; equal counts in order of the value."""
        classes, values, counts = self.pairs
        order = np.lexsort((values, -counts, classes))
        ranks = np.arange(len(order)) - self.starts[classes[order]]
        shape = (len(self.starts) - 1, _CANDIDATES)
        best, most = np.full(shape, NO_VALUE, dtype=np.int64), np.zeros(shape, dtype=np.int64)
        near = ranks < _CANDIDATES
        places = classes[order][near], ranks[near]
        best[places], most[places] = values[order][near], counts[order][near]
        return best, most

    def most_common(
        self, classes: _Codes, *, excluded: _Codes, own: _Codes, removed: Bits
    ) -> tuple[_Codes, _Codes]:
        """For each target the most common value of its class and its count, other than ``excluded``.

        Where ``removed``, one row with the target's ``own`` value is taken away first: the release without
        the target. Between equal counts the first value is taken. NO_VALUE where nothing is left.
        """
        best, most = (part[classes] for part in self._best)
        most = most - ((best == own[:, None]) & removed[:, None])
        most = np.where((best == excluded[:, None]) | (best == NO_VALUE), 0, most)
        # A tie goes to the smaller value, whichever of them lost a row.
        rank = most * (self.width + 1) - np.where(best == NO_VALUE, 0, best)
        chosen = np.argmax(np.where(most > 0, rank, np.iinfo(np.int64).min), axis=1)
        everyone = np.arange(len(classes))
        found, count = best[everyone, chosen], most[everyone, chosen]
        return np.where(count > 0, found, NO_VALUE), count
