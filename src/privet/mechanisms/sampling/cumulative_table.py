"""The distribution of a whole number as a table of its cumulative sums, sampled without any error.

A uniform number U decides k: the first with U < F(k) = P[K ≤ k]. As many of its bits are drawn as the
decision needs. The first bits are looked up in a guide, which decides nearly all draws. A binary search in
the table with all ``bits`` decides nearly all of the rest. If U still agrees with some F(k) in all of its
bits, further bits are drawn and compared with a finer table, for as long as it takes. Nothing is cut off: the
last cell of the table is treated like any other cell that holds an edge, and the finer table covers what lies
beyond.
"""

from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import NamedTuple, final

import numpy as np
import numpy.typing as npt

from privet.mechanisms.sampling.decay import Decay, cumulative_edges
from privet.randomness import NoiseSource

__all__ = ["BITS", "CumulativeTable", "SignedDraws", "make_table"]

BITS = 63  # of a table's edges; the last bit of a word is for the sign
_WORD = 64
_GUIDE_BITS = 15
_BYTE = 255  # the largest number that a byte holds
_FEW = 1 << 11  # for fewer numbers a guide is not worth its cost
_CACHED = 64  # tables

Cells = npt.NDArray[np.uint64]
Sizes = npt.NDArray[np.int64]


class SignedDraws(NamedTuple):
    """Numbers k ≥ 0 of the table's distribution, and as many independent fair coins (0 or 1)."""

    sizes: Sizes
    signs: Sizes


@final
@dataclass(frozen=True, eq=False)
class CumulativeTable:
    """Edges c_k with c_k ≤ F(k) 2^bits < c_k + 2 in ascending order, the last of them 2^bits − 1.

    U lies in one of 2^bits cells. Cell w means U < F(k) if w < c_k, and U ≥ F(k) if w ≥ c_k + 2. So a cell
    that is neither c_k nor c_k + 1 of any k decides the draw.

    ``finer`` gives the edges with more bits than ``bits``. ``step`` is the number of bits drawn at a time
    when the table does not decide a draw; with a small step and few bits, tests see every case.
    """

    edges: Cells
    bits: int
    finer: Callable[[int], list[int]]
    step: int = _WORD

    def draw(self, count: int, source: NoiseSource) -> SignedDraws:
        """``count`` numbers, and a fair coin for each."""
        return self._draw_few(count, source) if count < _FEW else self._draw_guided(count, source)

    def draw_constant_time(self, count: int, source: NoiseSource) -> SignedDraws:
        """The same distribution; instructions and memory addresses do not depend on the numbers.

        Every cell is compared with every edge. The exception are cells that do not decide the draw, which
        occur with a probability of at most 2 · len(edges) / 2^bits.
        """
        words = source.bits(count)
        return SignedDraws(self._scan(self._cells(words), source), _coins(words))

    def _draw_few(self, count: int, source: NoiseSource) -> SignedDraws:
        words = source.bits(count)
        return SignedDraws(self._search(self._cells(words), source), _coins(words))

    def _draw_guided(self, count: int, source: NoiseSource) -> SignedDraws:
        """16 bits for each number: 15 for the guide, and a coin.

        A draw that they do not decide gets one more word.
        """
        short = source.bits(-(-count // 4)).view(np.uint16)[:count]
        first = short >> np.uint16(1)
        guided = self._guide.take(first)
        sizes = guided.astype(np.int64)
        rest = np.flatnonzero(guided < 0)
        if rest.size:
            sizes[rest] = self._search(self._extend_cells(first.take(rest), source), source)
        return SignedDraws(sizes, (short & np.uint16(1)).astype(np.int64))

    def _extend_cells(self, first: npt.NDArray[np.uint16], source: NoiseSource) -> Cells:
        """Cells that begin with these bits and continue with new ones."""
        left = self.bits - self._guide_bits
        high = first.astype(np.uint64) >> np.uint64(_GUIDE_BITS - self._guide_bits)
        if left == 0:
            return high
        return (high << np.uint64(left)) | (source.bits(first.size) >> np.uint64(_WORD - left))

    @property
    def _guide_bits(self) -> int:
        return min(_GUIDE_BITS, self.bits)

    @cached_property
    def _guide(self) -> npt.NDArray[np.int16]:
        """For every first bits of U the k that they decide, or −1."""
        places = np.uint64(self.bits - self._guide_bits)
        starts = self.edges >> places
        ends = np.minimum(self.edges + np.uint64(1), self.edges[-1]) >> places
        counts = np.bincount(starts.view(np.int64), minlength=1 << self._guide_bits)
        guide = (np.cumsum(counts) - counts).astype(np.int16)
        guide[starts] = -1
        guide[ends] = -1
        return np.repeat(guide, 1 << (_GUIDE_BITS - self._guide_bits))

    def _cells(self, words: Cells) -> Cells:
        return words >> np.uint64(_WORD - self.bits)

    def _search(self, cells: Cells, source: NoiseSource) -> Sizes:
        """The k of each cell, by binary search."""
        sizes = np.searchsorted(self.edges, cells)
        on_edge = self.edges.take(sizes) == cells
        after_edge = (self.edges.take(sizes - 1) + np.uint64(1) == cells) & (sizes > 0)
        return self._settle(sizes, on_edge | after_edge, cells, source)

    def _scan(self, cells: Cells, source: NoiseSource) -> Sizes:
        """The k of each cell, by comparing it with every edge."""
        least = np.zeros(cells.size, dtype=np.int64)
        most = np.zeros(cells.size, dtype=np.int64)
        above = np.empty(cells.size, dtype=np.bool_)
        for start in range(0, self.edges.size, _BYTE):
            block_least = np.zeros(cells.size, dtype=np.uint8)
            block_most = np.zeros(cells.size, dtype=np.uint8)
            for edge in self.edges[start : start + _BYTE]:
                block_least += np.greater(cells, edge + np.uint64(1), out=above).view(np.uint8)
                block_most += np.greater_equal(cells, edge, out=above).view(np.uint8)
            least += block_least
            most += block_most
        return self._settle(most, least != most, cells, source)

    def _settle(
        self, sizes: Sizes, undecided: npt.NDArray[np.bool_], cells: Cells, source: NoiseSource
    ) -> Sizes:
        for index in np.flatnonzero(undecided):
            sizes[index] = self._resolve(int(cells[index]), source)
        return sizes

    def _resolve(self, cell: int, source: NoiseSource) -> int:
        """The k of a U in this cell, with as many further bits as it takes."""
        bits = self.bits
        while True:
            bits += self.step
            cell = cell << self.step | int(source.bits(1)[0]) >> (_WORD - self.step)
            edges = self.finer(bits)
            size = bisect_left(edges, cell)
            if edges[size] != cell and (size == 0 or edges[size - 1] + 1 != cell):
                return size


@lru_cache(maxsize=_CACHED)
def make_table(decay: Decay, *, folded: bool) -> CumulativeTable:
    """The table of a distribution. The last ones are cached."""

    def finer(bits: int) -> list[int]:
        return cumulative_edges(decay, bits, folded=folded)

    return CumulativeTable(np.array(finer(BITS), dtype=np.uint64), BITS, finer)


def _coins(words: Cells) -> Sizes:
    """The lowest bit of each word, which no table of at most 63 bits uses."""
    return (words & np.uint64(1)).astype(np.int64)
