"""AIM: an adaptive and iterative mechanism for synthetic data.

*Reference.* McKenna, Mullins, Sheldon & Miklau 2022, "AIM", VLDB 15(11), Algorithms 1–3, with α = 0.9 and
T = 16 d. Deviations: the noise is the discrete Gaussian; scores are rounded to eighths (see ``looks``); the
fit weighs squares by 1/σ² (the paper: 1/σ); the model may have ``most_cells`` cells (the paper: 80 MB);
the last round also starts when less than two rounds are left at its beginning, so that an interrupted run stays
in its budget.
"""

import math
from dataclasses import dataclass, field
from typing import final

import numpy as np

from privet.adjacency import Adjacency
from privet.arguments import open_fraction, shown, whole
from privet.caveats import Caveat
from privet.errors import InvalidArgument
from privet.events import DiscreteGaussian, Event, Opaque
from privet.releasing.synthetic.budgets import (
    ADAPTIVE,
    choice_epsilon,
    concentrated_budget,
    measured_scale,
    spent,
)
from privet.releasing.synthetic.descent import MirrorDescent
from privet.releasing.synthetic.domain import Domain
from privet.releasing.synthetic.estimation import Estimator, Fitted, Measurement
from privet.releasing.synthetic.junction import tree_cells
from privet.releasing.synthetic.looks import Looks
from privet.releasing.synthetic.marginals import Axes, Workload, downward
from privet.releasing.synthetic.models import Model
from privet.releasing.synthetic.running import Mechanism, Run

__all__ = ["AIM"]

_MEASURING = 0.9  # α: the share of a round that goes into its measurement
_REST = 1e-4  # of the budget: less than this is not worth a round
_MEAN = math.sqrt(2 / math.pi)  # E|N(0, 1)|


@final
@dataclass(frozen=True, kw_only=True)
class AIM(Mechanism):
    """Synthetic data that is good at a workload of marginals.

    *Guarantee.* (ε, δ)-DP under ``adjacency``: every look is on the ledger as a discrete Gaussian or an exponential
    mechanism, and their ρ in concentrated DP add up to what (ε, δ) allows. The noise of a round depends on
    earlier answers, so account for the ledger with ``privet.accounting.Concentrated``.

    *Leaks.* Nothing beyond. Rows with values outside of the domain are left out without a trace.
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
                f"'workload' must be a Workload, got {shown(self.workload)}. Use all_marginals(domain, 2)."
            )
        needed = tree_cells(self.domain.shape, [])
        if needed > self.most_cells:
            raise InvalidArgument(
                f"'most_cells' must be at least {needed} to hold every column, got {self.most_cells}. Raise it."
            )
        self.workload.axes(self.domain)
        if not isinstance(self.estimator, Estimator):
            raise InvalidArgument(
                f"'estimator' must be an Estimator, got {shown(self.estimator)}. Use MirrorDescent()."
            )

    @property
    def event(self) -> Event:
        """What is promised beforehand; the ledger of a run has what it then did."""
        return Opaque(epsilon=self.epsilon, delta=self.delta)

    @property
    def _caveats(self) -> frozenset[Caveat]:
        return ADAPTIVE

    def _begin(self, looks: Looks) -> Run:
        self.estimator.ready()
        return _Rounds(self, looks)


@final
class _Rounds(Run):
    """First every single column, then in each round the marginal that seems the worst."""

    def __init__(self, mechanism: AIM, looks: Looks) -> None:
        super().__init__(mechanism.domain, looks)
        self._mechanism, self._shape = mechanism, mechanism.domain.shape
        asked = mechanism.workload.axes(mechanism.domain)
        self._candidates = downward(asked)
        self._weights = {
            axes: sum(
                weight * len(set(axes) & set(other))
                for other, weight in zip(asked, mechanism.workload.weights, strict=True)
            )
            for axes in self._candidates
        }
        self._budget = concentrated_budget(epsilon=mechanism.epsilon, delta=mechanism.delta)
        rounds = mechanism.rounds or 16 * len(self._shape)
        self._sigma = measured_scale(_MEASURING * self._budget / rounds, mechanism.adjacency)
        self._epsilon = choice_epsilon((1 - _MEASURING) * self._budget / rounds)
        self._waiting = [axes for axes in self._candidates if len(axes) == 1]
        # With few rounds the columns alone would take it all: they get half of the budget at most.
        if len(self._waiting) > rounds / (2 * _MEASURING):
            self._sigma = measured_scale(0.5 * self._budget / len(self._waiting), mechanism.adjacency)
        self._measurements: list[Measurement] = []
        self._fitted: Fitted | None = None

    @property
    def share(self) -> float:
        used = spent(self.ledger) / self._budget
        return 1.0 if used > 1 - _REST else used

    def step(self) -> None:
        if self._waiting:
            self._measure(self._waiting.pop(0))
            return
        before = self._current()
        self._ration()
        axes = self._choose(before)
        self._measure(axes)
        self._fitted = self._fit()
        moved = np.abs(self._fitted.model.answer(axes) - before.model.answer(axes)).sum()
        if moved <= _MEAN * self._sigma * self._cells(axes):  # no more than noise: look closer from now on
            self._sigma, self._epsilon = self._sigma / 2, self._epsilon * 2

    def model(self) -> Model:
        return self._current().model

    def _ration(self) -> None:
        """Let a round that would leave less than another one take all that is left."""
        left = self._budget - spent(self.ledger)
        distance = self._mechanism.adjacency.contribution_distance
        cost = distance / (2 * self._sigma**2) + self._epsilon**2 / 8
        if left <= 2 * cost:
            self._sigma = measured_scale(_MEASURING * left, self._mechanism.adjacency)
            self._epsilon = choice_epsilon((1 - _MEASURING) * left)

    def _choose(self, before: Fitted) -> Axes:
        known = [one.axes for one in self._measurements]
        limit = self._mechanism.most_cells * max(spent(self.ledger) / self._budget, 0.0)
        offered = [
            axes
            for axes in self._candidates
            if before.model.skeleton.home(axes) is not None
            or tree_cells(self._shape, [*known, axes]) <= limit
        ]
        chosen = self._looks.choose(
            offered,
            [before.model.answer(axes) for axes in offered],
            [_MEAN * self._sigma * self._cells(axes) for axes in offered],
            [self._weights[axes] for axes in offered],
            self._epsilon,
        )
        return offered[chosen]

    def _measure(self, axes: Axes) -> None:
        label = " × ".join(self._domain.names[a] for a in axes)
        values = self._looks.measure(axes, label, DiscreteGaussian, self._sigma)
        self._measurements.append(Measurement(axes, values, self._sigma**2))

    def _current(self) -> Fitted:
        if self._fitted is None:
            self._fitted = self._fit()
        return self._fitted

    def _fit(self) -> Fitted:
        return self._mechanism.estimator.fit(self._shape, self._measurements, self._fitted)

    def _cells(self, axes: Axes) -> int:
        return math.prod(self._shape[a] for a in axes)
