"""Junction trees: the cliques of columns of a graphical model, and how they are connected."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations
from math import prod
from typing import final

from privet.releasing.synthetic.marginals import Axes

__all__ = ["JunctionTree", "build_junction_tree", "tree_cells"]


@final
@dataclass(frozen=True)
class JunctionTree:
    """Cliques from the root outwards.

    Clique k shares the columns ``separators[k]`` with clique ``parents[k]``.
    """

    cliques: tuple[Axes, ...]
    parents: tuple[int, ...]
    separators: tuple[Axes, ...]

    def find_clique(self, axes: Axes) -> int | None:
        """The first clique that contains all these columns."""
        wanted = set(axes)
        return next((k for k, clique in enumerate(self.cliques) if wanted.issubset(clique)), None)


def tree_cells(shape: tuple[int, ...], marginals: Iterable[Axes]) -> int:
    """The number of cells that a model of these marginals needs."""
    return sum(prod(shape[a] for a in clique) for clique in _cliques(shape, frozenset(marginals)))


def build_junction_tree(shape: tuple[int, ...], marginals: Iterable[Axes]) -> JunctionTree:
    """A tree of cliques that contains every column, and each marginal within some clique.

    The graph is made chordal by repeatedly eliminating the column whose clique has the fewest cells. A
    spanning tree of largest separators is then a junction tree (Jensen & Jensen 1994). Parts that are not
    connected have an empty separator.

    >>> build_junction_tree((2, 2, 2), [(0, 1), (1, 2)]).separators
    ((), (1,))
    """
    cliques = list(_cliques(shape, frozenset(marginals)))
    order, parents = [0], [-1]
    left = set(range(1, len(cliques)))
    nearest = {k: (len(set(cliques[k]) & set(cliques[0])), 0) for k in left}
    while left:
        k = max(sorted(left), key=lambda clique: nearest[clique][0])
        left.remove(k)
        parents.append(nearest[k][1])
        order.append(k)
        for other in left:
            shared = len(set(cliques[other]) & set(cliques[k]))
            if shared > nearest[other][0]:
                nearest[other] = (shared, len(order) - 1)
    ordered = tuple(cliques[k] for k in order)
    separators = tuple(
        () if parent < 0 else tuple(sorted(set(clique) & set(ordered[parent])))
        for clique, parent in zip(ordered, parents, strict=True)
    )
    return JunctionTree(ordered, tuple(parents), separators)


@lru_cache(maxsize=20_000)
def _cliques(shape: tuple[int, ...], marginals: frozenset[Axes]) -> tuple[Axes, ...]:
    """The maximal cliques after elimination."""
    near: dict[int, set[int]] = {axis: set() for axis in range(len(shape))}
    for axes in marginals:
        for first, second in combinations(axes, 2):
            near[first].add(second)
            near[second].add(first)
    cliques: list[Axes] = []
    while near:
        axis = min(near, key=lambda a: (shape[a] * prod(shape[b] for b in near[a]), a))
        around = near.pop(axis)
        cliques.append(tuple(sorted({axis, *around})))
        for other in around:
            near[other] |= around
            near[other] -= {axis, other}
    return tuple(_maximal(cliques))


def _maximal(cliques: Sequence[Axes]) -> list[Axes]:
    maximal: list[Axes] = []
    for clique in sorted(set(cliques), key=lambda c: (-len(c), c)):
        if not any(set(clique) <= set(larger) for larger in maximal):
            maximal.append(clique)
    return sorted(maximal)
