"""Mirror descent over the marginals of a junction tree, in numpy.

It is the estimator of private-PGM (McKenna, Sheldon & Miklau 2019, Algorithm 1): a gradient step on the
log-potentials, belief propagation, and a line search. private-PGM itself (``PrivatePGM``) compiles a program
for every new set of cliques, which takes seconds, and adaptive mechanisms have a new set in every round. Here
a round takes milliseconds to a second. Tests compare the two.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import final

import numpy as np

from privet.arguments import at_least, whole
from privet.releasing.synthetic.estimation import (
    Estimator,
    FittedModel,
    Measurement,
    estimate_total,
    merge_measurements,
)
from privet.releasing.synthetic.junction import JunctionTree, build_junction_tree
from privet.releasing.synthetic.marginals import Axes
from privet.releasing.synthetic.models import JunctionTreeModel

__all__ = ["MirrorDescent", "build_tree_model"]


@final
@dataclass(frozen=True)
class MirrorDescent(Estimator):
    """At most ``steps`` steps; it stops once ten steps lower the loss by less than ``tolerance`` of it."""

    steps: int = 200
    tolerance: float = 1e-3

    def __post_init__(self) -> None:
        whole("steps", self.steps)
        at_least("tolerance", self.tolerance, 0)

    def fit(
        self, shape: tuple[int, ...], measurements: Sequence[Measurement], start: FittedModel | None = None
    ) -> FittedModel:
        merged = merge_measurements(measurements)
        junction_tree = build_junction_tree(shape, [measurement.axes for measurement in merged])
        total = estimate_total(measurements)
        potentials = {measurement.axes: np.zeros(measurement.values.shape) for measurement in merged}
        if start is not None:
            potentials.update(start.potentials)
        return _Fit(shape, junction_tree, total, merged).descend(potentials, self.steps, self.tolerance)


def build_tree_model(
    shape: tuple[int, ...], junction_tree: JunctionTree, potentials: Mapping[Axes, np.ndarray], total: float
) -> JunctionTreeModel:
    """The distribution ∝ exp(sum of potentials), by one pass from the leaves to the root."""
    inward = [np.zeros([shape[a] for a in clique]) for clique in junction_tree.cliques]
    gathered = dict(potentials)
    for axes in sorted(potentials, key=len):
        table = gathered.pop(axes)
        larger = _smallest_superset(axes, gathered)
        if larger is not None:  # add a small table to the next larger one, and only that to a clique
            gathered[larger] = gathered[larger] + _expand(table, axes, larger)
            continue
        clique = _find_clique(junction_tree, axes)
        inward[clique] += _expand(table, axes, junction_tree.cliques[clique])
    return JunctionTreeModel(shape, junction_tree, _conditionals(junction_tree, inward), total)


def _find_clique(junction_tree: JunctionTree, axes: Axes) -> int:
    clique = junction_tree.find_clique(axes)
    if clique is None:
        raise AssertionError("the tree contains every marginal")
    return clique


def _smallest_superset(axes: Axes, among: Iterable[Axes]) -> Axes | None:
    """The shortest set that contains all these columns and more."""
    wanted = set(axes)
    supersets = [other for other in among if len(other) > len(axes) and wanted.issubset(other)]
    return min(supersets, key=len, default=None)


def _conditionals(junction_tree: JunctionTree, inward: list[np.ndarray]) -> tuple[np.ndarray, ...]:
    """Log-potentials of each clique → its distribution given its separator.

    ``inward`` is changed in place.
    """
    conditionals = list(inward)
    for k in range(len(inward) - 1, -1, -1):
        clique, separator, table = junction_tree.cliques[k], junction_tree.separators[k], inward[k]
        conditional, peak = np.exp(table - table.max()), np.asarray(table.max())
        mass = _sum_to(conditional, clique, separator)
        if mass.min() < 1e-200:  # some values underflow: subtract the peak of each separator value
            others = tuple(i for i, a in enumerate(clique) if a not in separator)
            peak = table.max(axis=others)
            conditional = np.exp(table - _expand(peak, separator, clique))
            mass = _sum_to(conditional, clique, separator)
        conditional /= _expand(mass, separator, clique)
        conditionals[k] = conditional
        if k:
            parent = junction_tree.parents[k]
            inward[parent] += _expand(peak + np.log(mass), separator, junction_tree.cliques[parent])
    return tuple(conditionals)


def _expand(table: np.ndarray, axes: Axes, clique: Axes) -> np.ndarray:
    """A table over some columns of a clique, reshaped to broadcast over the clique; both are sorted."""
    size = dict(zip(axes, table.shape, strict=True))
    return table.reshape([size.get(axis, 1) for axis in clique])


def _sum_to(table: np.ndarray, columns: Axes, remaining: Axes) -> np.ndarray:
    """The sum of a table over all but the remaining columns."""
    return np.asarray(np.einsum(table, list(columns), list(remaining)))  # faster here than sum over axes


class _Fit:
    """One fit: everything that is the same in all steps."""

    def __init__(
        self,
        shape: tuple[int, ...],
        junction_tree: JunctionTree,
        total: float,
        measurements: list[Measurement],
    ) -> None:
        self._shape, self._junction_tree, self._total = shape, junction_tree, total
        # From large to small, so that a small marginal is summed from a larger one and not from a whole
        # clique.
        self._measurements = sorted(measurements, key=lambda measurement: -len(measurement.axes))
        self._larger = [
            _smallest_superset(measurement.axes, [other.axes for other in measurements])
            for measurement in self._measurements
        ]
        self._cliques = [_find_clique(junction_tree, measurement.axes) for measurement in self._measurements]

    def descend(self, potentials: dict[Axes, np.ndarray], steps: int, tolerance: float) -> FittedModel:
        """Mirror descent from these potentials."""
        tree = build_tree_model(self._shape, self._junction_tree, potentials, self._total)
        if not self._measurements:
            return FittedModel(tree, potentials)
        # Entropy is 1/total-strongly convex in ℓ₁, and the loss is Σ 1/variance-smooth in it.
        stride = 1.0 / (self._total * sum(1 / measurement.variance for measurement in self._measurements))
        residuals, loss = self._residuals(tree)
        last_loss = loss
        for step in range(1, steps + 1):
            proposal = dict(potentials)
            for measurement, gap in zip(self._measurements, residuals, strict=True):
                axes = measurement.axes
                proposal[axes] = potentials[axes] - stride * gap / measurement.variance
            trial = build_tree_model(self._shape, self._junction_tree, proposal, self._total)
            trial_residuals, trial_loss = self._residuals(trial)
            # Armijo's rule for mirror descent: the loss falls by at least half of ⟨gradient, change⟩.
            expected = sum(
                float(np.vdot(gap, gap - new)) / measurement.variance
                for measurement, gap, new in zip(self._measurements, residuals, trial_residuals, strict=True)
            )
            if loss - trial_loss >= 0.5 * expected and np.isfinite(trial_loss):
                potentials, tree, residuals, loss = proposal, trial, trial_residuals, trial_loss
                stride *= 1.5
            else:
                stride *= 0.5
            if step % 10 == 0:
                if last_loss - loss <= tolerance * max(loss, 1e-12):
                    break
                last_loss = loss
        return FittedModel(tree, potentials)

    def _residuals(self, tree: JunctionTreeModel) -> tuple[list[np.ndarray], float]:
        """Fitted minus measured, and the loss ½ Σ ‖·‖²/variance."""
        cliques, columns = self._marginals(tree), self._junction_tree.cliques
        fitted: dict[Axes, np.ndarray] = {}
        residuals, loss = [], 0.0
        for measurement, larger, clique in zip(self._measurements, self._larger, self._cliques, strict=True):
            axes = measurement.axes
            if larger is None:
                fitted[axes] = self._total * _sum_to(cliques[clique], columns[clique], axes)
            else:
                fitted[axes] = _sum_to(fitted[larger], larger, axes)
            gap = fitted[axes] - measurement.values
            loss += 0.5 * float(np.vdot(gap, gap)) / measurement.variance
            residuals.append(gap)
        return residuals, loss

    def _marginals(self, tree: JunctionTreeModel) -> list[np.ndarray]:
        """The distribution of each clique."""
        cliques: list[np.ndarray] = []
        for k, conditional in enumerate(tree.conditionals):
            if k == 0:
                cliques.append(conditional)
                continue
            parent, separator = self._junction_tree.parents[k], self._junction_tree.separators[k]
            above, clique = self._junction_tree.cliques[parent], self._junction_tree.cliques[k]
            shared = _sum_to(cliques[parent], above, separator)
            cliques.append(conditional * _expand(shared, separator, clique))
        return cliques
