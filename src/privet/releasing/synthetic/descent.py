"""Mirror descent over the marginals of a junction tree, in numpy.

It is the estimator of private-PGM (McKenna, Sheldon & Miklau 2019, Algorithm 1): a gradient step on the
log-potentials, belief propagation, and a line search. private-PGM itself (``PrivatePGM``) compiles a program for
every new set of cliques, which takes seconds, and adaptive mechanisms make a new set in every round; here a
round costs milliseconds to a second. The tests hold the two against each other.
"""

from collections.abc import Mapping, Sequence
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

    steps: int = 500
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
    for axes, table in potentials.items():
        home = skeleton.home(axes)
        if home is None:
            raise AssertionError("a potential fits into a clique")
        inward[home] += _expanded(table, axes, skeleton.cliques[home])
    return Tree(shape, skeleton, _conditionals(skeleton, inward), total)


def _conditionals(skeleton: Skeleton, inward: list[np.ndarray]) -> tuple[np.ndarray, ...]:
    """log-potentials per clique → law of each clique given its separator; ``inward`` is used up."""
    laws = list(inward)
    for k in range(len(inward) - 1, -1, -1):
        clique, separator, table = skeleton.cliques[k], skeleton.separators[k], inward[k]
        gone = tuple(i for i, a in enumerate(clique) if a not in separator)
        peak = table.max(axis=gone, keepdims=True)
        law = np.exp(table - peak)
        mass = law.sum(axis=gone, keepdims=True)
        law /= mass
        laws[k] = law
        if k:
            message = (peak + np.log(mass)).reshape([n for i, n in enumerate(table.shape) if i not in gone])
            parent = skeleton.parents[k]
            inward[parent] += _expanded(message, separator, skeleton.cliques[parent])
    return tuple(laws)


def _expanded(table: np.ndarray, axes: Axes, clique: Axes) -> np.ndarray:
    """A table over some columns of a clique, shaped to be broadcast over the clique; both rise."""
    size = dict(zip(axes, table.shape, strict=True))
    return table.reshape([size.get(axis, 1) for axis in clique])


class _Plan:
    """One fit: everything that does not change from step to step."""

    def __init__(
        self, shape: tuple[int, ...], skeleton: Skeleton, total: float, measurements: list[Measurement]
    ) -> None:
        self._shape, self._skeleton, self._total = shape, skeleton, total
        self._measurements = measurements
        self._homes = [skeleton.home(one.axes) for one in measurements]

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
        found, loss = [], 0.0
        for one, home in zip(self._measurements, self._homes, strict=True):
            clique, law = self._skeleton.cliques[home or 0], laws[home or 0]
            gone = tuple(i for i, a in enumerate(clique) if a not in one.axes)
            gap = self._total * law.sum(axis=gone) - one.values
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
            gone = tuple(i for i, a in enumerate(above) if a not in separator)
            laws.append(law * _expanded(laws[parent].sum(axis=gone), separator, clique))
        return laws
