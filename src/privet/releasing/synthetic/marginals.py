"""Marginals: a workload of them, and the exact counts, which are private."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from math import prod
from typing import final

import numpy as np

from privet.arguments import format_value, whole
from privet.errors import InvalidArgument
from privet.releasing.synthetic.domain import Domain

__all__ = ["Axes", "ExactMarginals", "Workload", "all_marginals"]

Axes = tuple[int, ...]  # columns by their position in the domain, sorted


@final
@dataclass(frozen=True)
class Workload:
    """The marginals that should be accurate, each with a whole-number weight (1 by default).

    >>> Workload((("age", "sex"), ("income",)), (2, 1)).weights
    (2, 1)
    """

    marginals: tuple[tuple[str, ...], ...]
    weights: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if not isinstance(self.marginals, tuple) or not self.marginals:
            raise InvalidArgument(
                f"'marginals' must be a tuple of tuples of column names, got {format_value(self.marginals)}. "
                f"Write (('age', 'sex'), …), or use all_marginals."
            )
        if not self.weights:
            object.__setattr__(self, "weights", (1,) * len(self.marginals))
        if len(self.weights) != len(self.marginals):
            raise InvalidArgument(
                f"'weights' must have one weight for each of {len(self.marginals)} marginals, got "
                f"{len(self.weights)}. Leave them out for equal weights."
            )
        for weight in self.weights:
            whole("weights", weight, most=10**6)

    def axes(self, domain: Domain) -> tuple[Axes, ...]:
        """The marginals by the positions of their columns; refuses columns that the domain does not have."""
        return tuple(tuple(sorted(domain.axes(columns))) for columns in self.marginals)


def all_marginals(domain: Domain, order: int, *, most_cells: int = 10_000) -> Workload:
    """Every marginal of ``order`` columns that has at most ``most_cells`` cells.

    >>> from privet.releasing.synthetic.domain import Categories
    >>> domain = Domain(tuple(Categories(name, (0, 1)) for name in "abc"))
    >>> all_marginals(domain, 2).marginals
    (('a', 'b'), ('a', 'c'), ('b', 'c'))
    """
    whole("order", order)
    whole("most_cells", most_cells)
    size = dict(zip(domain.names, domain.shape, strict=True))
    marginals = tuple(
        columns
        for columns in combinations(domain.names, min(order, len(domain.names) + 1))  # it allocates ``order``
        if prod(size[name] for name in columns) <= most_cells
    )
    if not marginals:
        raise InvalidArgument(
            f"No marginal of {order} columns has at most {most_cells} cells in this domain. "
            f"Ask for fewer columns, or for more cells."
        )
    return Workload(marginals)


def downward_closure(marginals: Sequence[Axes]) -> tuple[Axes, ...]:
    """The marginals and all marginals of their subsets, small ones first."""
    closure = {
        subset for axes in marginals for k in range(1, len(axes) + 1) for subset in combinations(axes, k)
    }
    return tuple(sorted(closure, key=lambda axes: (len(axes), axes)))


@final
class ExactMarginals:
    """The exact marginals of the encoded rows, which are private. Only ``NoisyAccess`` uses them."""

    def __init__(self, domain: Domain, codes: np.ndarray) -> None:
        self._shape, self._codes = domain.shape, codes
        self._cache: dict[Axes, np.ndarray] = {}

    def total(self) -> int:
        """The number of rows."""
        return int(self._codes.shape[0])

    def marginal(self, axes: Axes) -> np.ndarray:
        """The number of rows in each cell."""
        if axes not in self._cache:
            shape = tuple(self._shape[axis] for axis in axes)
            flat = np.ravel_multi_index(tuple(self._codes[:, axis] for axis in axes), shape)
            self._cache[axes] = np.bincount(flat, minlength=prod(shape)).reshape(shape)
        return self._cache[axes]
