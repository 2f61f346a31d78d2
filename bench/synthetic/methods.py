"""What is compared: synthetic data, and noise on the counts themselves."""

import time
from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import combinations

import numpy as np
import pandas as pd

from privet.adjacency import AddRemove
from privet.events import DiscreteGaussian, DiscreteLaplace
from privet.randomness import SecureNoise, experiment
from privet.releasing.synthetic import AIM, MST, MWEM, Domain, all_marginals
from privet.releasing.synthetic.budgets import concentrated_budget, measurement_scale
from privet.releasing.synthetic.marginals import Axes, ExactMarginals
from privet.releasing.synthetic.noisy_access import CellNoise, NoisyAccess

DELTA = 1e-9
ORDERS = (1, 2, 3)
MOST_CELLS_OF_A_HISTOGRAM = 10**7


@dataclass(frozen=True)
class Score:
    """Mean total variation distance of all marginals of one, two and three columns, and how long it took."""

    errors: tuple[float, ...]
    seconds: float


class Method(ABC):
    name: str
    pure: bool = False

    def fits(self, domain: Domain) -> bool:
        return True

    @abstractmethod
    def run(self, domain: Domain, table: pd.DataFrame, epsilon: float) -> Iterable[tuple[str, object]]:
        """What was released, under one or several names: something with answer(axes)."""


@dataclass(frozen=True)
class Modelled(Method):
    """A synthetic-data mechanism; with ``sampled``, also the table that is drawn from it."""

    name: str
    sampled: bool = False
    pure: bool = False

    def fits(self, domain: Domain) -> bool:
        return self.name != "MWEM" or domain.cells <= 10**6

    def run(self, domain: Domain, table: pd.DataFrame, epsilon: float) -> Iterable[tuple[str, object]]:
        common = {"domain": domain, "epsilon": epsilon, "adjacency": AddRemove()}
        if self.name == "MWEM":
            made = MWEM(workload=all_marginals(domain, 3), rounds=15 if epsilon >= 1 else 6, **common)
        elif self.name == "MST":
            made = MST(delta=DELTA, **common)
        else:
            made = AIM(workload=all_marginals(domain, 3), delta=DELTA, **common)
        released = made.release(table)
        yield self.name, released.model
        if self.sampled:
            drawn = released.sample(len(table), experiment(0))
            yield f"{self.name}, table", Exact(ExactMarginals(domain, domain.encode(drawn)))


@dataclass(frozen=True)
class Exact:
    counts: ExactMarginals

    def answer(self, axes: Axes) -> np.ndarray:
        return self.counts.marginal(axes)


@dataclass(frozen=True)
class EachByItself(Method):
    """Every marginal of up to three columns with noise, the budget split evenly between them."""

    name: str
    kind: CellNoise
    pure: bool

    def run(self, domain: Domain, table: pd.DataFrame, epsilon: float) -> Iterable[tuple[str, object]]:
        asked = [axes for order in ORDERS for axes in combinations(range(len(domain.shape)), order)]
        if self.kind is DiscreteLaplace:
            scale = len(asked) / epsilon
        else:
            rho = concentrated_budget(epsilon=epsilon, delta=DELTA)
            scale = measurement_scale(rho / len(asked), AddRemove())
        access = NoisyAccess(
            ExactMarginals(domain, domain.encode(table)), AddRemove(), SecureNoise(), frozenset()
        )
        yield self.name, Clipped({axes: access.measure(axes, str(axes), self.kind, scale) for axes in asked})


@dataclass(frozen=True)
class Clipped:
    """Noisy marginals, negative counts set to zero."""

    tables: dict[Axes, np.ndarray]

    def answer(self, axes: Axes) -> np.ndarray:
        return np.maximum(self.tables[axes], 0)


@dataclass(frozen=True)
class WholeHistogram(Method):
    """Laplace noise on every cell of the whole domain, negative counts set to zero."""

    name: str = "Laplace, whole histogram"
    pure: bool = True

    def fits(self, domain: Domain) -> bool:
        return domain.cells <= MOST_CELLS_OF_A_HISTOGRAM

    def run(self, domain: Domain, table: pd.DataFrame, epsilon: float) -> Iterable[tuple[str, object]]:
        access = NoisyAccess(
            ExactMarginals(domain, domain.encode(table)), AddRemove(), SecureNoise(), frozenset()
        )
        every = tuple(range(len(domain.shape)))
        yield self.name, Summed(np.maximum(access.measure(every, "all", DiscreteLaplace, 1 / epsilon), 0))


@dataclass(frozen=True)
class Summed:
    cells: np.ndarray

    def answer(self, axes: Axes) -> np.ndarray:
        return self.cells.sum(axis=tuple(a for a in range(self.cells.ndim) if a not in axes))


METHODS: tuple[Method, ...] = (
    Modelled("AIM", sampled=True),
    Modelled("MST"),
    Modelled("MWEM", pure=True),
    EachByItself("Gaussian, each marginal", DiscreteGaussian, pure=False),
    EachByItself("Laplace, each marginal", DiscreteLaplace, pure=True),
    WholeHistogram(),
)


def measured(method: Method, domain: Domain, table: pd.DataFrame, epsilon: float) -> dict[str, Score]:
    truth = ExactMarginals(domain, domain.encode(table))
    began = time.perf_counter()
    scores = {}
    for name, found in method.run(domain, table, epsilon):
        seconds = time.perf_counter() - began
        errors = tuple(
            float(np.mean([_distance(found.answer(axes), truth.marginal(axes)) for axes in chosen]))
            for chosen in (tuple(combinations(range(len(domain.shape)), k)) for k in ORDERS)
        )
        scores[name] = Score(errors, seconds)
    return scores


def _distance(found: np.ndarray, truth: np.ndarray) -> float:
    """Half of the ℓ₁ distance of the two distributions; no counts at all are taken as even ones."""
    law = found / found.sum() if found.sum() > 0 else np.full(truth.shape, 1 / truth.size)
    return 0.5 * float(np.abs(law - truth / truth.sum()).sum())
