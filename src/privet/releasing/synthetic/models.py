"""Distributions over a domain that answer marginals and sample rows. They hold no exact count of the data."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, final

import numpy as np

from privet.releasing.synthetic.junction import JunctionTree
from privet.releasing.synthetic.marginals import Axes

__all__ = ["DenseModel", "JunctionTreeModel", "Model"]


class Model(ABC):
    """A distribution with a total number of rows, learned from a table."""

    shape: tuple[int, ...]
    total: float

    @abstractmethod
    def answer(self, axes: Sequence[int]) -> np.ndarray:
        """The expected count in each cell of a marginal, with its axes in the given order."""

    @abstractmethod
    def sample(self, rows: int, generator: np.random.Generator) -> np.ndarray:
        """Rows as cells; each clique's counts are within about one row of their expectation."""


@final
@dataclass(frozen=True, eq=False)
class DenseModel(Model):
    """A weight for every cell of the whole domain."""

    weights: np.ndarray
    total: float

    @property
    def shape(self) -> tuple[int, ...]:  # type: ignore[override]
        return self.weights.shape

    def answer(self, axes: Sequence[int]) -> np.ndarray:
        marginal = np.einsum(self.weights, list(range(self.weights.ndim)), list(axes))
        return np.asarray(self.total * marginal / self.weights.sum())

    def sample(self, rows: int, generator: np.random.Generator) -> np.ndarray:
        table = (self.weights / self.weights.sum()).reshape(1, -1)
        cells = sample_systematically(np.zeros(rows, dtype=np.int64), table, generator)
        return np.stack(np.unravel_index(cells, self.weights.shape), axis=1).reshape(rows, self.weights.ndim)


@final
@dataclass(frozen=True, eq=False)
class JunctionTreeModel(Model):
    """The distribution of the root clique of a junction tree, and of every other clique given its separator.

    ``conditionals[k]`` has one axis for each column of clique k, and sums to one for every separator value.
    """

    shape: tuple[int, ...]
    junction_tree: JunctionTree
    conditionals: tuple[np.ndarray, ...]
    total: float

    def answer(self, axes: Sequence[int]) -> np.ndarray:
        wanted = set(axes)
        messages: dict[int, list[tuple[np.ndarray, Axes]]] = {}
        for k in range(len(self.conditionals) - 1, -1, -1):
            clique, separator = self.junction_tree.cliques[k], self.junction_tree.separators[k]
            inside = messages.pop(k, [])
            if k and not inside and wanted.isdisjoint(set(clique) - set(separator)):
                continue  # it sums to one, so the marginal does not depend on it
            present = set(clique).union(*(columns for _, columns in inside))
            needed = tuple(sorted((present & wanted) | set(separator)))
            operands: list[Any] = [self.conditionals[k], list(clique)]
            for table, columns in inside:
                operands += [table, list(columns)]
            message = np.einsum(*operands, list(axes) if k == 0 else list(needed), optimize=len(inside) > 1)
            if k == 0:
                return np.asarray(self.total * message)
            messages.setdefault(self.junction_tree.parents[k], []).append((message, needed))
        raise AssertionError("a tree has a root")

    def sample(self, rows: int, generator: np.random.Generator) -> np.ndarray:
        codes = np.zeros((rows, len(self.shape)), dtype=np.int64)
        for clique, separator, conditional in zip(
            self.junction_tree.cliques, self.junction_tree.separators, self.conditionals, strict=True
        ):
            new = tuple(a for a in clique if a not in separator)
            sizes = tuple(self.shape[a] for a in separator), tuple(self.shape[a] for a in new)
            table = np.transpose(conditional, [clique.index(a) for a in (*separator, *new)])
            table = table.reshape(prod(sizes[0]), prod(sizes[1]))
            group = np.zeros(rows, dtype=np.int64)
            if separator:
                group = np.ravel_multi_index(tuple(codes[:, a] for a in separator), sizes[0])
            cells = np.unravel_index(sample_systematically(group, table, generator), sizes[1])
            for axis, column in zip(new, cells, strict=True):
                codes[:, axis] = column
        return codes


def sample_systematically(
    group: np.ndarray, distributions: np.ndarray, generator: np.random.Generator
) -> np.ndarray:
    """For each row a draw from the distribution of its group, evenly spread within the group.

    The m rows of a group take the quantiles (0 + U)/m, (1 + U)/m, … in random order. So each row has exactly
    its distribution, and the number of each outcome is within one of its expectation (systematic sampling,
    Madow 1949).
    """
    rows = group.size
    if not rows:
        return np.zeros(0, dtype=np.int64)
    order = np.lexsort((generator.random(rows), group))
    sizes = np.bincount(group, minlength=distributions.shape[0])
    starts = np.concatenate(([0], np.cumsum(sizes)[:-1]))
    ordered = group[order]
    rank = np.arange(rows) - starts[ordered]
    offset = np.asarray(generator.random(distributions.shape[0]))
    quantile = (rank + offset[ordered]) / sizes[ordered]
    steps = np.cumsum(distributions, axis=1)
    steps /= np.where(steps[:, -1:] > 0, steps[:, -1:], 1.0)
    # All groups in one search: group g's quantiles lie in [2g, 2g + 1).
    flat = (steps + 2.0 * np.arange(distributions.shape[0])[:, None]).ravel()
    outcome = np.searchsorted(flat, quantile + 2.0 * ordered, side="right") - ordered * distributions.shape[1]
    draws = np.empty(rows, dtype=np.int64)
    draws[order] = np.clip(outcome, 0, distributions.shape[1] - 1)
    return draws
