"""Mirror descent over the marginals of a junction tree, in numpy.

It is the estimator of private-PGM (McKenna, Sheldon & Miklau 2019, Algorithm 1): a gradient step on the
log-potentials, belief propagation, and a line search. private-PGM itself (``PrivatePGM``) compiles a program for
every new set of cliques, which takes seconds, and adaptive mechanisms make a new set in every round; here a
round costs milliseconds to a second. The tests hold the two against each other.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import final

import numpy as np

from privet.arguments import at_least, whole
from privet.releasing.synthetic.estimation import Estimator, Fitted, Measurement, best_total, merged
from privet.releasing.synthetic.junction import Skeleton, junction_tree
from privet.releasing.synthetic.marginals import Axes
from privet.releasing.synthetic.models import Tree

__all__ = ["MirrorDescent", "tree_of"]


@final
@dataclass(frozen=True)
class MirrorDescent(Estimator):
    """At most so many steps; fewer once the loss falls by less than ``tolerance`` of itself in ten steps."""

    steps: int = 200
    tolerance: float = 1e-3

    def __post_init__(self) -> None:
        whole("steps", self.steps)
        at_least("tolerance", self.tolerance, 0)

    def fit(
        self, shape: tuple[int, ...], measurements: Sequence[Measurement], start: Fitted | None = None
    ) -> Fitted:
        found = merged(measurements)
        skeleton = junction_tree(shape, [one.axes for one in found])
        total = best_total(measurements)
        potentials = {one.axes: np.zeros(one.values.shape) for one in found}
        if start is not None:
            potentials.update(start.potentials)
        plan = _Plan(shape, skeleton, total, found)
        return plan.descend(potentials, self.steps, self.tolerance)


def tree_of(
    shape: tuple[int, ...], skeleton: Skeleton, potentials: Mapping[Axes, np.ndarray], total: float
) -> Tree:
    """The distribution ∝ exp(sum of potentials), by one pass from the leaves to the root."""
    inward = [np.zeros([shape[a] for a in clique]) for clique in skeleton.cliques]
    gathered = dict(potentials)
    for axes in sorted(potentials, key=len):
        table = gathered.pop(axes)
        larger = _smallest_holding(axes, gathered)
        if larger is not None:  # a small table is added to the next larger one, and only that to a clique
            gathered[larger] = gathered[larger] + _expanded(table, axes, larger)
            continue
        home = _home(skeleton, axes)
        inward[home] += _expanded(table, axes, skeleton.cliques[home])
    return Tree(shape, skeleton, _conditionals(skeleton, inward), total)


def _home(skeleton: Skeleton, axes: Axes) -> int:
    found = skeleton.home(axes)
    if found is None:
        raise AssertionError("the tree was made to hold every marginal")
    return found


def _smallest_holding(axes: Axes, among: Iterable[Axes]) -> Axes | None:
    """The shortest that holds all these columns and more."""
    wanted = set(axes)
    holding = [other for other in among if len(other) > len(axes) and wanted.issubset(other)]
    return min(holding, key=len, default=None)


def _conditionals(skeleton: Skeleton, inward: list[np.ndarray]) -> tuple[np.ndarray, ...]:
    """log-potentials per clique → law of each clique given its separator; ``inward`` is used up."""
    laws = list(inward)
    for k in range(len(inward) - 1, -1, -1):
        clique, separator, table = skeleton.cliques[k], skeleton.separators[k], inward[k]
        law, peak = np.exp(table - table.max()), np.asarray(table.max())
        mass = _summed(law, clique, separator)
        if mass.min() < 1e-200:  # somewhere far below the top: level each separator value by itself
            gone = tuple(i for i, a in enumerate(clique) if a not in separator)
            peak = table.max(axis=gone)
            law = np.exp(table - _expanded(peak, separator, clique))
            mass = _summed(law, clique, separator)
        law /= _expanded(mass, separator, clique)
        laws[k] = law
        if k:
            parent = skeleton.parents[k]
            inward[parent] += _expanded(peak + np.log(mass), separator, skeleton.cliques[parent])
    return tuple(laws)


def _expanded(table: np.ndarray, axes: Axes, clique: Axes) -> np.ndarray:
    """A table over some columns of a clique, shaped to be broadcast over the clique; both rise."""
    size = dict(zip(axes, table.shape, strict=True))
    return table.reshape([size.get(axis, 1) for axis in clique])


def _summed(table: np.ndarray, columns: Axes, kept: Axes) -> np.ndarray:
    """A table summed down to some of its columns."""
    return np.asarray(np.einsum(table, list(columns), list(kept)))  # quicker here than sum over axes


class _Plan:
    """One fit: everything that does not change from step to step."""

    def __init__(
        self, shape: tuple[int, ...], skeleton: Skeleton, total: float, measurements: list[Measurement]
    ) -> None:
        self._shape, self._skeleton, self._total = shape, skeleton, total
        # From large to small, so that a small marginal is summed from a larger one and not from a whole clique.
        self._measurements = sorted(measurements, key=lambda one: -len(one.axes))
        self._larger = [
            _smallest_holding(one.axes, [m.axes for m in measurements]) for one in self._measurements
        ]
        self._homes = [_home(skeleton, one.axes) for one in self._measurements]

    def descend(self, potentials: dict[Axes, np.ndarray], steps: int, tolerance: float) -> Fitted:
        tree = tree_of(self._shape, self._skeleton, potentials, self._total)
        if not self._measurements:
            return Fitted(tree, potentials)
        # Entropy is 1/total-strongly convex in ℓ₁, in which the loss has slope bounded by Σ 1/variance.
        stride = 1.0 / (self._total * sum(1 / one.variance for one in self._measurements))
        residuals, loss = self._residuals(tree)
        mark = loss
        for step in range(1, steps + 1):
            moved = dict(potentials)
            for one, gap in zip(self._measurements, residuals, strict=True):
                moved[one.axes] = potentials[one.axes] - stride * gap / one.variance
            trial = tree_of(self._shape, self._skeleton, moved, self._total)
            ahead, after = self._residuals(trial)
            # Armijo's rule for mirror descent: the loss falls by half of ⟨gradient, change⟩ at least.
            promised = sum(
                float(np.vdot(gap, gap - new)) / one.variance
                for one, gap, new in zip(self._measurements, residuals, ahead, strict=True)
            )
            if loss - after >= 0.5 * promised and np.isfinite(after):
                potentials, tree, residuals, loss = moved, trial, ahead, after
                stride *= 1.5
            else:
                stride *= 0.5
            if step % 10 == 0:
                if mark - loss <= tolerance * max(loss, 1e-12):
                    break
                mark = loss
        return Fitted(tree, potentials)

    def _residuals(self, tree: Tree) -> tuple[list[np.ndarray], float]:
        """Fitted minus measured, and the loss ½ Σ ‖·‖²/variance."""
        laws = self._marginals(tree)
        known: dict[Axes, np.ndarray] = {}
        found, loss = [], 0.0
        for one, larger, home in zip(self._measurements, self._larger, self._homes, strict=True):
            if larger is None:
                known[one.axes] = self._total * _summed(laws[home], self._skeleton.cliques[home], one.axes)
            else:
                known[one.axes] = _summed(known[larger], larger, one.axes)
            gap = known[one.axes] - one.values
            loss += 0.5 * float(np.vdot(gap, gap)) / one.variance
            found.append(gap)
        return found, loss

    def _marginals(self, tree: Tree) -> list[np.ndarray]:
        laws: list[np.ndarray] = []
        for k, law in enumerate(tree.conditionals):
            if k == 0:
                laws.append(law)
                continue
            parent, separator = self._skeleton.parents[k], self._skeleton.separators[k]
            above, clique = self._skeleton.cliques[parent], self._skeleton.cliques[k]
            laws.append(law * _expanded(_summed(laws[parent], above, separator), separator, clique))
        return laws
