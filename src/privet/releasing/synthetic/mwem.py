"""MWEM: multiplicative weights with the exponential mechanism, for domains whose cells all fit into memory.

*Reference.* Hardt, Ligett & McSherry 2012, "A simple and practical algorithm for differentially private data
release", NeurIPS, Figure 1, in the form for contingency tables: a query is a whole marginal, whose cells are
disjoint, so that one measurement of all cells costs what one cell does. Deviations: the Laplace noise is
discrete; a marginal's score is its ℓ₁ error less the noise expected in its measurement, rounded to eighths
(see ``noisy_access``); all measurements so far are replayed in every round, as the paper does in its
experiments; the last distribution is released and not the average; the number of rows is measured unless it
is public.
"""

import math
from dataclasses import dataclass
from typing import final

import numpy as np

from privet.adjacency import Adjacency
from privet.arguments import format_value, whole
from privet.errors import InvalidArgument
from privet.events import Compose, DiscreteLaplace, Event, ExponentialMechanism, Repeat
from privet.releasing.synthetic.domain import Domain
from privet.releasing.synthetic.marginals import Axes, Workload
from privet.releasing.synthetic.models import DenseModel, Model
from privet.releasing.synthetic.noisy_access import NoisyAccess, cell_event
from privet.releasing.synthetic.runs import SyntheticMechanism, SyntheticRun

__all__ = ["MWEM"]

_MOST_CELLS = 2**24
_COUNTING = 0.05  # the share of ε for the number of rows
_SLACK = 2.0**-40  # relative to ε: more than the round-off of the sum


@final
@dataclass(frozen=True, kw_only=True)
class MWEM(SyntheticMechanism):
    """Synthetic data over a small domain: each of ``rounds`` rounds chooses and measures a marginal.

    *Guarantee.* ε-DP under ``adjacency``, δ = 0; ``event`` bounds what the ledger of a run will hold.
    ``total`` is the number of rows where that is public, which it is not under add-remove adjacency.
    """

    domain: Domain
    workload: Workload
    epsilon: float
    adjacency: Adjacency
    rounds: int = 10
    passes: int = 100
    total: int | None = None
    unit: str | None = None

    def __post_init__(self) -> None:
        self._check(self.epsilon)
        whole("rounds", self.rounds)
        whole("passes", self.passes)
        if self.total is not None:
            whole("total", self.total)
        if self.domain.cells > _MOST_CELLS:
            raise InvalidArgument(
                f"'domain' must have at most {_MOST_CELLS} cells for MWEM, which holds them all, got "
                f"{self.domain.cells:.3g}. Use AIM or MST, or fewer columns."
            )
        if not isinstance(self.workload, Workload):
            raise InvalidArgument(
                f"'workload' must be a Workload, got {format_value(self.workload)}. Use "
                "all_marginals(domain, 2)."
            )
        self.workload.axes(self.domain)

    @property
    def event(self) -> Event:
        """What will be spent."""
        single = (
            ExponentialMechanism(epsilon=self._query_epsilon),
            cell_event(DiscreteLaplace, self._scale, self.adjacency),
        )
        rounds = Repeat(Compose(single), self.rounds)
        if self.total is not None:
            return rounds
        distance = self.adjacency.contribution_distance
        return Compose((DiscreteLaplace(self._counting, 1 if distance == 1 else 1 / distance), rounds))

    @property
    def _query_epsilon(self) -> float:
        """ε of one choice, and of one measurement."""
        share = 1.0 if self.total is not None else 1 - _COUNTING
        return self.epsilon * (1 - _SLACK) * share / (2 * self.rounds)

    @property
    def _scale(self) -> float:
        return self.adjacency.contribution_distance / self._query_epsilon

    @property
    def _counting(self) -> float:
        return 1 / (_COUNTING * self.epsilon * (1 - _SLACK))

    def _begin(self, access: NoisyAccess) -> SyntheticRun:
        return _MwemRun(self, access, self._query_epsilon, self._scale, self._counting)


@final
class _MwemRun(SyntheticRun):
    """First the number of rows, then in each round a choice and a measurement."""

    def __init__(
        self, mechanism: MWEM, access: NoisyAccess, epsilon: float, scale: float, counting: float
    ) -> None:
        super().__init__(mechanism.domain, access)
        self._mechanism, self._query_epsilon = mechanism, epsilon
        self._scale, self._counting = scale, counting
        workload = zip(mechanism.workload.axes(mechanism.domain), mechanism.workload.weights, strict=True)
        self._weights: dict[Axes, int] = {}
        for axes, weight in workload:
            self._weights[axes] = self._weights.get(axes, 0) + weight
        self._rounds_done = 0
        self._counted = mechanism.total is not None
        self._total = float(mechanism.total or 1)
        self._cells = np.ones(mechanism.domain.shape)
        self._measurements: list[tuple[Axes, np.ndarray]] = []

    @property
    def share(self) -> float:
        return self._rounds_done / self._mechanism.rounds if self._counted else 0.0

    def step(self) -> None:
        if not self._counted:
            self._counted = True  # first, so that a count that fails is not paid for again
            self._total = float(max(self._access.total(self._counting), 1))
            return
        self._rounds_done += 1
        axes = self._choose()
        label = " × ".join(self._domain.names[a] for a in axes)
        self._measurements.append((axes, self._access.measure(axes, label, DiscreteLaplace, self._scale)))
        self._replay()

    def model(self) -> Model:
        return DenseModel(self._cells, self._total)

    def _choose(self) -> Axes:
        offered, now = list(self._weights), self.model()
        answers = [now.answer(axes) for axes in offered]
        penalties = [self._scale * answer.size for answer in answers]
        weights = list(self._weights.values())
        return offered[self._access.choose(offered, answers, penalties, weights, self._query_epsilon)]

    def _replay(self) -> None:
        """A(x) ∝ A(x) exp((m − q(A)) / 2n) for every cell of every measurement, ``passes`` times."""
        cells, total = self._cells * (self._total / self._cells.sum()), self._total
        every = tuple(range(cells.ndim))
        for _ in range(self._mechanism.passes):
            for axes, measured in self._measurements:
                others = tuple(a for a in every if a not in axes)
                error = measured - cells.sum(axis=others)
                factor = np.exp(np.clip(error / (2 * total), -30.0, 30.0))
                cells = cells * factor.reshape([n if a in axes else 1 for a, n in enumerate(cells.shape)])
                cells *= total / math.fsum(cells.sum(axis=others).ravel().tolist())
        self._cells = cells
