"""Distributions over a domain that answer marginals and draw rows. They hold no exact count of the data."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, final

import numpy as np

from privet.releasing.synthetic.junction import Skeleton
from privet.releasing.synthetic.marginals import Axes

__all__ = ["Dense", "Model", "Tree"]


class Model(ABC):
    """A distribution with a total: what was learned of a table."""

    shape: tuple[int, ...]
    total: float

    @abstractmethod
    def answer(self, axes: Sequence[int]) -> np.ndarray:
        """The expected count in each cell of a marginal, its axes in the order that was asked for."""

    @abstractmethod
    def sample(self, rows: int, generator: np.random.Generator) -> np.ndarray:
        """Rows as cells; each clique's counts are within about one row of their expectation."""


@final
@dataclass(frozen=True, eq=False)
class Dense(Model):
    """A weight for every cell of the whole domain."""

    weights: np.ndarray
    total: float

    @property
    def shape(self) -> tuple[int, ...]:  # type: ignore[override]
        return self.weights.shape

    def answer(self, axes: Sequence[int]) -> np.ndarray:
        found = np.einsum(self.weights, list(range(self.weights.ndim)), list(axes))
        return np.asarray(self.total * found / self.weights.sum())

    def sample(self, rows: int, generator: np.random.Generator) -> np.ndarray:
        table = (self.weights / self.weights.sum()).reshape(1, -1)
        drawn = spread(np.zeros(rows, dtype=np.int64), table, generator)
        return np.stack(np.unravel_index(drawn, self.weights.shape), axis=1).reshape(rows, self.weights.ndim)


@final
@dataclass(frozen=True, eq=False)
class Tree(Model):
    """A junction tree: the law of the root clique, and of every other one given its separator.

    ``conditionals[k]`` has one axis for each column of clique k, and sums to one for every separator value.
    """

    shape: tuple[int, ...]
    skeleton: Skeleton
    conditionals: tuple[np.ndarray, ...]
    total: float

    def answer(self, axes: Sequence[int]) -> np.ndarray:
        wanted = set(axes)
        messages: dict[int, list[tuple[np.ndarray, Axes]]] = {}
        for k in range(len(self.conditionals) - 1, -1, -1):
            clique, separator = self.skeleton.cliques[k], self.skeleton.separators[k]
            inside = messages.pop(k, [])
            if k and not inside and wanted.isdisjoint(set(clique) - set(separator)):
                continue  # sums to one, and tells nothing of what was asked
            held = set(clique).union(*(columns for _, columns in inside))
            kept = tuple(sorted((held & wanted) | set(separator)))
            operands: list[Any] = [self.conditionals[k], list(clique)]
            for table, columns in inside:
                operands += [table, list(columns)]
            found = np.einsum(*operands, list(axes) if k == 0 else list(kept), optimize=len(inside) > 1)
            if k == 0:
                return np.asarray(self.total * found)
            messages.setdefault(self.skeleton.parents[k], []).append((found, kept))
        raise AssertionError("a tree has a root")

    def sample(self, rows: int, generator: np.random.Generator) -> np.ndarray:
        codes = np.zeros((rows, len(self.shape)), dtype=np.int64)
        for clique, separator, law in zip(
            self.skeleton.cliques, self.skeleton.separators, self.conditionals, strict=True
        ):
            new = tuple(a for a in clique if a not in separator)
            sizes = tuple(self.shape[a] for a in separator), tuple(self.shape[a] for a in new)
            table = np.transpose(law, [clique.index(a) for a in (*separator, *new)])
            table = table.reshape(prod(sizes[0]), prod(sizes[1]))
            group = np.zeros(rows, dtype=np.int64)
            if separator:
                group = np.ravel_multi_index(tuple(codes[:, a] for a in separator), sizes[0])
            drawn = np.unravel_index(spread(group, table, generator), sizes[1])
            for axis, column in zip(new, drawn, strict=True):
                codes[:, axis] = column
        return codes


def spread(group: np.ndarray, laws: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    """For each row a draw from the law of its group, spread evenly within the group.

    The m rows of a group take the quantiles (0 + U)/m, (1 + U)/m, … in random order, so that each row has its law
    exactly and each outcome comes up within one of as often as expected (systematic sampling, Madow 1949).
    """
    rows = group.size
    if not rows:
        return np.zeros(0, dtype=np.int64)
    order = np.lexsort((generator.random(rows), group))
    sizes = np.bincount(group, minlength=laws.shape[0])
    starts = np.concatenate(([0], np.cumsum(sizes)[:-1]))
    ordered = group[order]
    rank = np.arange(rows) - starts[ordered]
    offset = np.asarray(generator.random(laws.shape[0]))
    quantile = (rank + offset[ordered]) / sizes[ordered]
    steps = np.cumsum(laws, axis=1)
    steps /= np.where(steps[:, -1:] > 0, steps[:, -1:], 1.0)
    # All groups in one search: group g's quantiles lie in [2g, 2g + 1).
    flat = (steps + 2.0 * np.arange(laws.shape[0])[:, None]).ravel()
    found = np.searchsorted(flat, quantile + 2.0 * ordered, side="right") - ordered * laws.shape[1]
    drawn = np.empty(rows, dtype=np.int64)
    drawn[order] = np.clip(found, 0, laws.shape[1] - 1)
    return drawn
