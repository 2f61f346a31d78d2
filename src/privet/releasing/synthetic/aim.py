"""AIM: an adaptive and iterative mechanism for synthetic data.

*Reference.* McKenna, Mullins, Sheldon & Miklau 2022, "AIM", VLDB 15(11), Algorithms 1–3, with α = 0.9 and T =
16 d. Deviations: the noise is the discrete Gaussian; scores are rounded to eighths (see ``noisy_access``);
the fit weighs squares by 1/σ² (the paper: 1/σ); the model may have ``most_cells`` cells (the paper: 80 MB); a
round is the last one if the budget for less than two rounds is left at its beginning, so that an interrupted
run stays within its budget.
"""

import math
from dataclasses import dataclass, field
from typing import final

import numpy as np

from privet.adjacency import Adjacency
from privet.arguments import format_value, open_fraction, whole
from privet.caveats import Caveat
from privet.errors import InvalidArgument
from privet.events import DiscreteGaussian, Event, Opaque
from privet.releasing.synthetic.budgets import (
    ADAPTIVE,
    choice_epsilon,
    concentrated_budget,
    measurement_scale,
    spent_rho,
)
from privet.releasing.synthetic.descent import MirrorDescent
from privet.releasing.synthetic.domain import Domain
from privet.releasing.synthetic.estimation import Estimator, FittedModel, Measurement
from privet.releasing.synthetic.junction import tree_cells
from privet.releasing.synthetic.marginals import Axes, Workload, downward_closure
from privet.releasing.synthetic.models import Model
from privet.releasing.synthetic.noisy_access import NoisyAccess
from privet.releasing.synthetic.runs import SyntheticMechanism, SyntheticRun

__all__ = ["AIM"]

_MEASURING = 0.9  # α: the share of a round's budget for its measurement
_REST = 1e-4  # of the budget: less is not worth a round
_MEAN = math.sqrt(2 / math.pi)  # E|N(0, 1)|


@final
@dataclass(frozen=True, kw_only=True)
class AIM(SyntheticMechanism):
    """Synthetic data for a workload of marginals.

    *Guarantee.* (ε, δ)-DP under ``adjacency``: the ledger holds every query as a discrete Gaussian or an
    exponential mechanism, and their ρ in concentrated DP add up to what (ε, δ) allows. The noise of a round
    depends on earlier answers, so account for the ledger with ``privet.accounting.Concentrated``.

    *Leaks.* Nothing else. Rows with values outside the domain are left out silently.
    """

    domain: Domain
    workload: Workload
    epsilon: float
    delta: float
    adjacency: Adjacency
    unit: str | None = None
    rounds: int | None = None
    most_cells: int = 2**17
    estimator: Estimator = field(default_factory=MirrorDescent)

    def __post_init__(self) -> None:
        self._check(self.epsilon)
        open_fraction("delta", self.delta)
        whole("most_cells", self.most_cells)
        if self.rounds is not None:
            whole("rounds", self.rounds)
        if not isinstance(self.workload, Workload):
            raise InvalidArgument(
                f"'workload' must be a Workload, got {format_value(self.workload)}. Use "
                "all_marginals(domain, 2)."
            )
        needed = tree_cells(self.domain.shape, [])
        if needed > self.most_cells:
            raise InvalidArgument(
                f"'most_cells' must be at least {needed} to hold every column, got {self.most_cells}. Raise "
                f"it."
            )
        self.workload.axes(self.domain)
        if not isinstance(self.estimator, Estimator):
            raise InvalidArgument(
                f"'estimator' must be an Estimator, got {format_value(self.estimator)}. Use MirrorDescent()."
            )

    @property
    def event(self) -> Event:
        """What is promised before a run; the ledger of a run has what it did."""
        return Opaque(epsilon=self.epsilon, delta=self.delta)

    @property
    def _caveats(self) -> frozenset[Caveat]:
        return ADAPTIVE

    def _begin(self, access: NoisyAccess) -> SyntheticRun:
        self.estimator.check_packages()
        return _AimRun(self, access)


@final
class _AimRun(SyntheticRun):
    """First every single column, then in each round the marginal with the worst noisy score."""

    def __init__(self, mechanism: AIM, access: NoisyAccess) -> None:
        super().__init__(mechanism.domain, access)
        self._mechanism, self._shape = mechanism, mechanism.domain.shape
        workload = mechanism.workload.axes(mechanism.domain)
        self._candidates = downward_closure(workload)
        self._weights = {
            axes: sum(
                weight * len(set(axes) & set(other))
                for other, weight in zip(workload, mechanism.workload.weights, strict=True)
            )
            for axes in self._candidates
        }
        self._budget = concentrated_budget(epsilon=mechanism.epsilon, delta=mechanism.delta)
        rounds = mechanism.rounds or 16 * len(self._shape)
        self._sigma = measurement_scale(_MEASURING * self._budget / rounds, mechanism.adjacency)
        self._epsilon = choice_epsilon((1 - _MEASURING) * self._budget / rounds)
        self._waiting = [axes for axes in self._candidates if len(axes) == 1]
        # With few rounds the columns alone would use up the budget: they get half of it at most.
        if len(self._waiting) > rounds / (2 * _MEASURING):
            self._sigma = measurement_scale(0.5 * self._budget / len(self._waiting), mechanism.adjacency)
        self._measurements: list[Measurement] = []
        self._fitted: FittedModel | None = None

    @property
    def share(self) -> float:
        used = spent_rho(self.ledger) / self._budget
        return 1.0 if used > 1 - _REST else used

    def step(self) -> None:
        if self._waiting:
            self._measure(self._waiting.pop(0))
            return
        before = self._current()
        self._use_up_rest()
        axes = self._choose(before)
        self._measure(axes)
        self._fitted = self._fit()
        change = np.abs(self._fitted.model.answer(axes) - before.model.answer(axes)).sum()
        if change <= _MEAN * self._sigma * self._cells(axes):  # no more than noise: measure more precisely
            self._sigma, self._epsilon = self._sigma / 2, self._epsilon * 2

    def model(self) -> Model:
        return self._current().model

    def _use_up_rest(self) -> None:
        """Give all that is left to a round after which no other round would fit."""
        left = self._budget - spent_rho(self.ledger)
        distance = self._mechanism.adjacency.contribution_distance
        cost = distance / (2 * self._sigma**2) + self._epsilon**2 / 8
        if left <= 2 * cost:
            self._sigma = measurement_scale(_MEASURING * left, self._mechanism.adjacency)
            self._epsilon = choice_epsilon((1 - _MEASURING) * left)

    def _choose(self, before: FittedModel) -> Axes:
        measured = [measurement.axes for measurement in self._measurements]
        limit = self._mechanism.most_cells * max(spent_rho(self.ledger) / self._budget, 0.0)
        offered = [
            axes
            for axes in self._candidates
            if before.model.junction_tree.find_clique(axes) is not None
            or tree_cells(self._shape, [*measured, axes]) <= limit
        ]
        chosen = self._access.choose(
            offered,
            [before.model.answer(axes) for axes in offered],
            [_MEAN * self._sigma * self._cells(axes) for axes in offered],
            [self._weights[axes] for axes in offered],
            self._epsilon,
        )
        return offered[chosen]

    def _measure(self, axes: Axes) -> None:
        label = " × ".join(self._domain.names[a] for a in axes)
        values = self._access.measure(axes, label, DiscreteGaussian, self._sigma)
        self._measurements.append(Measurement(axes, values, self._sigma**2))

    def _current(self) -> FittedModel:
        if self._fitted is None:
            self._fitted = self._fit()
        return self._fitted

    def _fit(self) -> FittedModel:
        return self._mechanism.estimator.fit(self._shape, self._measurements, self._fitted)

    def _cells(self, axes: Axes) -> int:
        return math.prod(self._shape[a] for a in axes)
