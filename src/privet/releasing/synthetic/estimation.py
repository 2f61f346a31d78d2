"""Estimation: from noisy marginals to one distribution that fits them.

An estimator sees noisy answers only, so it is post-processing and costs nothing.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import final

import numpy as np

from privet.arguments import positive
from privet.releasing.synthetic.marginals import Axes
from privet.releasing.synthetic.models import JunctionTreeModel

__all__ = ["Estimator", "FittedModel", "Measurement", "estimate_total", "merge_measurements"]


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
class FittedModel:
    """A model and its log-potentials, from which the next fit can start."""

    model: JunctionTreeModel
    potentials: Mapping[Axes, np.ndarray]


class Estimator(ABC):
    """A method that fits a distribution to noisy marginals."""

    def check_packages(self) -> None:  # noqa: B027 - most estimators need no package
        """Raise ``MissingPackage`` if a package is missing, before anything is spent."""

    @abstractmethod
    def fit(
        self, shape: tuple[int, ...], measurements: Sequence[Measurement], start: FittedModel | None = None
    ) -> FittedModel:
        """The distribution of largest entropy among those closest to the measurements in least squares."""


def merge_measurements(measurements: Sequence[Measurement]) -> list[Measurement]:
    """One measurement for each marginal; repeated ones are averaged by precision."""
    sums: dict[Axes, tuple[np.ndarray, float]] = {}
    for noisy in measurements:
        values, precision = sums.get(noisy.axes, (np.zeros(noisy.values.shape), 0.0))
        sums[noisy.axes] = (values + noisy.values / noisy.variance, precision + 1 / noisy.variance)
    return [
        Measurement(axes, values / precision, 1 / precision) for axes, (values, precision) in sums.items()
    ]


def estimate_total(measurements: Sequence[Measurement]) -> float:
    """The number of rows: the sums of all marginals, averaged by precision; at least 1."""
    if not measurements:
        return 1.0
    precision = [1 / (noisy.variance * noisy.values.size) for noisy in measurements]
    sums = [float(noisy.values.sum()) for noisy in measurements]
    return max(1.0, float(np.average(sums, weights=precision)))
