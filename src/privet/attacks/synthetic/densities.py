"""How dense a table of mixed columns is at a row: three estimates, up to a constant that cancels in a ratio.

``KernelDensity`` and ``NeighborDensity`` go by Gower's distance and notice rows that were copied or hardly
moved. ``TreeDensity`` is a histogram on a tree of column pairs and notices marginals that fit too well.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import NDArray
from scipy.sparse.csgraph import breadth_first_order, minimum_spanning_tree

from privet.arguments import positive, whole
from privet.attacks.synthetic.gower import distance_blocks, nearest_rows, numbers_of
from privet.public_calls import check_public_calls
from privet.published_tables import PublishedColumn, PublishedTable, ValueKind
from privet.views import Labels, Numbers

__all__ = ["Density", "KernelDensity", "NeighborDensity", "TreeDensity", "bin_column"]


class Density(ABC):
    """A way to estimate a density from a table."""

    @property
    @abstractmethod
    def words(self) -> str:
        """How a report calls it."""

    @abstractmethod
    def log_ratio(self, people: PublishedTable, one: PublishedTable, other: PublishedTable) -> Numbers:
        """ln of the density of ``one`` over that of ``other`` at each person. Codes of the tables agree."""


@final
@dataclass(frozen=True)
class KernelDensity(Density):
    """A mean of exp(−d/h) over the rows, with Gower's d summed over columns.

    ``bandwidth`` is h in columns: with 0.3, a row that differs in one text counts e^(−1/0.3) = 0.036 times an
    equal one. Both tables get the same h, so the constant of the kernel cancels.
    """

    bandwidth: float = 0.3

    def __post_init__(self) -> None:
        positive("bandwidth", self.bandwidth)

    @property
    def words(self) -> str:
        return "a kernel"

    def log_ratio(self, people: PublishedTable, one: PublishedTable, other: PublishedTable) -> Numbers:
        return self._log_density(people, one, one) - self._log_density(people, other, one)

    def _log_density(self, people: PublishedTable, rows: PublishedTable, scale: PublishedTable) -> Numbers:
        factor = len(people.names) / self.bandwidth
        found = np.empty(len(people))
        for start, block in distance_blocks(people, rows, people.names, scale=scale):
            least = block.min(axis=1, keepdims=True)
            sums = np.exp(-factor * (block - least)).mean(axis=1, dtype=np.float64)
            found[start : start + len(block)] = np.log(sums) - factor * least[:, 0]
        return found


@final
@dataclass(frozen=True)
class NeighborDensity(Density):
    """The distance to the k-th nearest row: the nearer it is, the denser.

    Both tables are cut to one size, so that the k-th nearest rows are comparable. A distance is counted from
    ``floor`` columns on: rows at distance 0 are equally dense.
    """

    neighbors: int = 1
    floor: float = 0.01
    seed: int = 0

    def __post_init__(self) -> None:
        whole("neighbors", self.neighbors)
        positive("floor", self.floor)

    @property
    def words(self) -> str:
        return "nearest rows"

    def log_ratio(self, people: PublishedTable, one: PublishedTable, other: PublishedTable) -> Numbers:
        generator, count = np.random.default_rng(self.seed), min(len(one), len(other))
        logs = []
        for table in (one, other):
            rows = table.take(generator.permutation(len(table))[:count])
            near = nearest_rows(people, rows, people.names, self.neighbors, scale=one)
            logs.append(np.log(near.distances[:, -1] * len(people.names) + self.floor))
        difference: Numbers = logs[1] - logs[0]
        return difference


@final
@dataclass(frozen=True)
class TreeDensity(Density):
    """A histogram on a tree: p(x) = p(root) · Π p(column | its neighbour in the tree).

    Numbers fall into ``bins`` equally full bins of the second table, and so do missing values into one of
    their own. The tree is that of the largest mutual information in the first table (Chow & Liu 1968). Every
    cell starts with ``prior`` rows, spread as if the columns were independent.
    """

    bins: int = 10
    prior: float = 1.0

    def __post_init__(self) -> None:
        whole("bins", self.bins, least=2)
        positive("prior", self.prior)

    @property
    def words(self) -> str:
        return "a tree of pairs"

    def log_ratio(self, people: PublishedTable, one: PublishedTable, other: PublishedTable) -> Numbers:
        cells = [bin_column(one[name], other[name], people[name], self.bins) for name in people.names]
        codes = [np.stack(side, axis=1) for side in zip(*cells, strict=True)]
        sizes = [1 + int(max(side.max() for side in column)) for column in cells]
        parents = _grow_tree(codes[0], sizes)
        first, second = (self._log_density(side, codes[2], sizes, parents) for side in codes[:2])
        return first - second

    def log_density(self, people: PublishedTable, rows: PublishedTable) -> Numbers:
        """ln of the density of the rows at each person; bins are equally full of the rows."""
        cells = [bin_column(rows[name], rows[name], people[name], self.bins) for name in people.names]
        codes, _, judged = (np.stack(side, axis=1) for side in zip(*cells, strict=True))
        sizes = [1 + int(max(side.max() for side in column)) for column in cells]
        return self._log_density(codes, judged, sizes, _grow_tree(codes, sizes))

    def _log_density(
        self, rows: Labels, people: Labels, sizes: list[int], parents: NDArray[np.intp]
    ) -> Numbers:
        total = np.zeros(len(people))
        for column, parent in enumerate(parents):
            share = np.bincount(rows[:, column], minlength=sizes[column]) + self.prior / sizes[column]
            share = share / share.sum()
            if parent < 0:
                total += np.log(share[people[:, column]])
                continue
            pair = np.zeros((sizes[parent], sizes[column]))
            np.add.at(pair, (rows[:, parent], rows[:, column]), 1.0)
            given = (pair + self.prior * share) / (pair.sum(axis=1, keepdims=True) + self.prior)
            total += np.log(given[people[:, parent], people[:, column]])
        return total


def bin_column(
    one: PublishedColumn, other: PublishedColumn, people: PublishedColumn, bins: int
) -> tuple[Labels, Labels, Labels]:
    """The cell of each row, numbered from 0; a missing value is the cell 0."""
    if one.kind is ValueKind.TEXT or len(np.unique(np.concatenate([one.codes, other.codes]))) <= bins:
        return one.codes, other.codes, people.codes
    known = numbers_of(other)
    edges = np.unique(np.nanquantile(known, np.linspace(0, 1, bins + 1)[1:-1])) if len(known) else known
    cells = [
        np.where(column.missing, 0, np.searchsorted(edges, numbers_of(column), side="right") + 1)
        for column in (one, other, people)
    ]
    return cells[0], cells[1], cells[2]


def _grow_tree(rows: Labels, sizes: list[int]) -> NDArray[np.intp]:
    """The parent of each column in the tree of the largest mutual information; −1 for the root."""
    count = rows.shape[1]
    if count == 1:
        return np.array([-1])
    information = np.zeros((count, count))
    for first in range(count):
        for second in range(first):
            pair = np.bincount(rows[:, first] * sizes[second] + rows[:, second])
            information[first, second] = (
                _entropy(np.bincount(rows[:, first]))
                + _entropy(np.bincount(rows[:, second]))
                - _entropy(pair)
            )
    longest = float(information.max()) + 1.0
    tree = minimum_spanning_tree(np.tril(longest - information, -1))
    order, parents = breadth_first_order(tree, 0, directed=False)
    answer = np.full(count, -1, dtype=np.intp)
    answer[order[1:]] = parents[order[1:]]
    return answer


def _entropy(counts: Labels) -> float:
    shares = counts[counts > 0] / counts.sum()
    return -float((shares * np.log(shares)).sum())


check_public_calls(__name__)
