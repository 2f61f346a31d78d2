"""MST: synthetic data from a tree of pairs of columns. It is quick, and its noise is fixed beforehand.

*Reference.* McKenna, Miklau & Sheldon 2021, "Winning the NIST Contest", Journal of Privacy and
Confidentiality 11(3): a third of ρ each for the columns, for choosing the pairs, and for measuring them.
Deviations: the noise is the discrete Gaussian; scores are rounded to eighths (see ``noisy_access``); rare
categories are not merged.
"""

from dataclasses import dataclass, field
from typing import final

from privet.adjacency import Adjacency
from privet.arguments import format_value, open_fraction
from privet.errors import InvalidArgument
from privet.events import Compose, DiscreteGaussian, Event, ExponentialMechanism, Repeat
from privet.releasing.synthetic.budgets import choice_epsilon, concentrated_budget, measurement_scale
from privet.releasing.synthetic.descent import MirrorDescent
from privet.releasing.synthetic.domain import Domain
from privet.releasing.synthetic.estimation import Estimator, FittedModel, Measurement
from privet.releasing.synthetic.marginals import Axes
from privet.releasing.synthetic.models import Model
from privet.releasing.synthetic.noisy_access import NoisyAccess, cell_event
from privet.releasing.synthetic.runs import SyntheticMechanism, SyntheticRun

__all__ = ["MST"]


@final
@dataclass(frozen=True, kw_only=True)
class MST(SyntheticMechanism):
    """Synthetic data from every column and the d − 1 pairs of columns that depend most on each other.

    *Guarantee.* (ε, δ)-DP under ``adjacency``; ``event`` bounds what the ledger of a run will hold.
    """

    domain: Domain
    epsilon: float
    delta: float
    adjacency: Adjacency
    unit: str | None = None
    estimator: Estimator = field(default_factory=lambda: MirrorDescent(1000, 1e-4))  # there are two fits only

    def __post_init__(self) -> None:
        self._check(self.epsilon)
        open_fraction("delta", self.delta)
        if not isinstance(self.estimator, Estimator):
            raise InvalidArgument(
                f"'estimator' must be an Estimator, got {format_value(self.estimator)}. Use MirrorDescent()."
            )

    @property
    def event(self) -> Event:
        """What will be spent."""
        columns, pairs = len(self.domain.columns), len(self.domain.columns) - 1
        sigma, epsilon, pair_sigma = self._noise()
        parts: tuple[Event, ...] = (Repeat(cell_event(DiscreteGaussian, sigma, self.adjacency), columns),)
        if pairs:
            parts += (
                Repeat(ExponentialMechanism(epsilon=epsilon), pairs),
                Repeat(cell_event(DiscreteGaussian, pair_sigma, self.adjacency), pairs),
            )
        return Compose(parts)

    def _noise(self) -> tuple[float, float, float]:
        """σ of the columns, ε of a choice, and σ of the pairs."""
        rho = concentrated_budget(epsilon=self.epsilon, delta=self.delta)
        columns, pairs = len(self.domain.columns), len(self.domain.columns) - 1
        if not pairs:
            return measurement_scale(rho, self.adjacency), 0.0, 0.0
        return (
            measurement_scale(rho / 3 / columns, self.adjacency),
            choice_epsilon(rho / 3 / pairs),
            measurement_scale(rho / 3 / pairs, self.adjacency),
        )

    def _begin(self, access: NoisyAccess) -> SyntheticRun:
        self.estimator.check_packages()
        return _MstRun(self, access, self._noise())


@final
class _MstRun(SyntheticRun):
    """The columns, the choices of pairs as in Kruskal's algorithm, the pairs."""

    def __init__(self, mechanism: MST, access: NoisyAccess, noise: tuple[float, float, float]) -> None:
        super().__init__(mechanism.domain, access)
        self._estimator, self._shape = mechanism.estimator, mechanism.domain.shape
        self._sigma, self._epsilon, self._pair_sigma = noise
        self._columns: list[Axes] = [(axis,) for axis in range(len(self._shape))]
        self._choices = len(self._shape) - 1
        self._pairs: list[Axes] = []
        self._component = list(range(len(self._shape)))  # the tree of the forest that a column is in
        self._measurements: list[Measurement] = []
        self._independent: FittedModel | None = None
        self._fitted: FittedModel | None = None

    @property
    def share(self) -> float:
        queries = 3 * len(self._shape) - 2
        left = len(self._columns) + 2 * self._choices + len(self._pairs)
        return 1.0 if not left else 1 - left / queries

    def step(self) -> None:
        if self._columns:
            self._measure(self._columns.pop(0), self._sigma)
        elif self._choices:
            self._choices -= 1  # first, so that a choice that fails is not paid for again
            self._choose()
        else:
            self._measure(self._pairs.pop(0), self._pair_sigma)

    def model(self) -> Model:
        if self._fitted is None:
            self._fitted = self._estimator.fit(self._shape, self._measurements)
        return self._fitted.model

    def _choose(self) -> None:
        if self._independent is None:
            self._independent = self._estimator.fit(self._shape, self._measurements)
        model, axes = self._independent.model, range(len(self._shape))
        offered = [(a, b) for a in axes for b in axes if a < b and self._component[a] != self._component[b]]
        answers = [model.answer(pair) for pair in offered]
        penalties = [0.0] * len(offered)
        chosen = self._access.choose(offered, answers, penalties, [1] * len(offered), self._epsilon)
        a, b = offered[chosen]
        joined, other = self._component[a], self._component[b]
        self._component = [joined if tree == other else tree for tree in self._component]
        self._pairs.append((a, b))

    def _measure(self, axes: Axes, sigma: float) -> None:
        self._fitted = None
        label = " × ".join(self._domain.names[a] for a in axes)
        values = self._access.measure(axes, label, DiscreteGaussian, sigma)
        self._measurements.append(Measurement(axes, values, sigma**2))
