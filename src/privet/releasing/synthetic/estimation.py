"""From noisy marginals to one distribution that fits them: what an estimator takes and gives.

Estimation sees noisy answers only, so it is post-processing and costs nothing.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import final

import numpy as np

from privet.arguments import positive
from privet.releasing.synthetic.marginals import Axes
from privet.releasing.synthetic.models import Tree

__all__ = ["Estimator", "Fitted", "Measurement", "best_total", "merged"]


@final
@dataclass(frozen=True, eq=False)
class Measurement:
    """A noisy marginal and the variance of the noise in each cell."""

    axes: Axes
    values: np.ndarray
    variance: float

    def __post_init__(self) -> None:
        positive("variance", self.variance)


@final
@dataclass(frozen=True, eq=False)
class Fitted:
    """A model, and the log-potentials that make it: the next fit starts there."""

    model: Tree
    potentials: Mapping[Axes, np.ndarray]


class Estimator(ABC):
    """How a distribution is fitted to noisy marginals."""

    def ready(self) -> None:  # noqa: B027 - most need nothing
        """Raise ``MissingPackage`` where a package is missing, before anything is spent."""

    @abstractmethod
    def fit(
        self, shape: tuple[int, ...], measurements: Sequence[Measurement], start: Fitted | None = None
    ) -> Fitted:
        """The distribution of largest entropy among those closest to the measurements, by weighted squares."""


def merged(measurements: Sequence[Measurement]) -> list[Measurement]:
    """One measurement for each marginal: repeated ones are averaged by precision."""
    sums: dict[Axes, tuple[np.ndarray, float]] = {}
    for one in measurements:
        values, precision = sums.get(one.axes, (np.zeros(one.values.shape), 0.0))
        sums[one.axes] = (values + one.values / one.variance, precision + 1 / one.variance)
    return [
        Measurement(axes, values / precision, 1 / precision) for axes, (values, precision) in sums.items()
    ]


def best_total(measurements: Sequence[Measurement]) -> float:
    """The number of rows: the sums of all marginals, averaged by precision, and at least one."""
    if not measurements:
        return 1.0
    precision = [1 / (one.variance * one.values.size) for one in measurements]
    sums = [float(one.values.sum()) for one in measurements]
    return max(1.0, float(np.average(sums, weights=precision)))
