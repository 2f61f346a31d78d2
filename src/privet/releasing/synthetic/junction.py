"""Junction trees: which sets of columns a graphical model keeps together, and how they hang together."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations
from math import prod
from typing import final

from privet.releasing.synthetic.marginals import Axes

__all__ = ["Skeleton", "junction_tree", "tree_cells"]


@final
@dataclass(frozen=True)
class Skeleton:
    """Cliques from the root outwards; clique k hangs on clique ``parents[k]`` by the columns ``separators[k]``."""

    cliques: tuple[Axes, ...]
    parents: tuple[int, ...]
    separators: tuple[Axes, ...]

    def home(self, axes: Axes) -> int | None:
        """The first clique that holds all these columns."""
        wanted = set(axes)
        return next((k for k, clique in enumerate(self.cliques) if wanted.issubset(clique)), None)


def tree_cells(shape: tuple[int, ...], marginals: Iterable[Axes]) -> int:
    """How many cells a model of these marginals needs."""
    return sum(prod(shape[a] for a in clique) for clique in _cliques(shape, frozenset(marginals)))


def junction_tree(shape: tuple[int, ...], marginals: Iterable[Axes]) -> Skeleton:
    """A tree of cliques that holds every column, and each marginal inside of some clique.

    The graph is made chordal by eliminating, again and again, the column whose clique has the fewest cells; a
    spanning tree of largest separators is then a junction tree (Jensen & Jensen 1994). Parts that are not
    connected hang on each other by no column at all.

    >>> junction_tree((2, 2, 2), [(0, 1), (1, 2)]).separators
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
    return Skeleton(ordered, tuple(parents), separators)


@lru_cache(maxsize=20_000)
def _cliques(shape: tuple[int, ...], marginals: frozenset[Axes]) -> tuple[Axes, ...]:
    """The maximal cliques after elimination."""
    near: dict[int, set[int]] = {axis: set() for axis in range(len(shape))}
    for axes in marginals:
        for one, other in combinations(axes, 2):
            near[one].add(other)
            near[other].add(one)
    found: list[Axes] = []
    while near:
        axis = min(near, key=lambda a: (shape[a] * prod(shape[b] for b in near[a]), a))
        around = near.pop(axis)
        found.append(tuple(sorted({axis, *around})))
        for other in around:
            near[other] |= around
            near[other] -= {axis, other}
    return tuple(_maximal(found))


def _maximal(cliques: Sequence[Axes]) -> list[Axes]:
    kept: list[Axes] = []
    for clique in sorted(set(cliques), key=lambda c: (-len(c), c)):
        if not any(set(clique) <= set(larger) for larger in kept):
            kept.append(clique)
    return sorted(kept)
