"""Convex losses of a linear score. Privacy rests on bounds of their first and second derivatives.

A loss is f(s; y) of a score s = zᵀθ and a target y, with ‖z‖ ≤ 1. So one row's gradient has a norm of at most
``lipschitz`` = sup |f′|, and one row's Hessian is f″ z zᵀ with f″ ≤ ``smoothness``.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, final

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from privet.arguments import positive

__all__ = ["ConvexLoss", "Floats", "HuberLoss", "LogisticLoss", "SmoothedHingeLoss"]

Floats = NDArray[np.float64]


class ConvexLoss(ABC):
    """A convex loss of a score, with f′ Lipschitz; f″ may jump at finitely many scores."""

    monotone: ClassVar[bool]
    """Whether f′(·; y) never changes its sign, so that a row moves the score in one direction only."""

    typical_score: ClassVar[float]
    """The size of a good model's score: a public guess for the choice of regularisation, never a bound."""

    @property
    @abstractmethod
    def lipschitz(self) -> float:
        """sup |f′|."""

    @property
    @abstractmethod
    def smoothness(self) -> float:
        """sup f″."""

    @property
    def at_zero(self) -> float:
        """sup f(0; y) over |y| ≤ 1."""
        return float(self.value(np.zeros(1), np.ones(1))[0])

    @abstractmethod
    def value(self, scores: Floats, targets: Floats) -> Floats:
        """f of each row."""

    @abstractmethod
    def derivative(self, scores: Floats, targets: Floats) -> Floats:
        """f′ of each row."""

    @abstractmethod
    def second_derivative(self, scores: Floats, targets: Floats) -> Floats:
        """f″ of each row."""


@final
@dataclass(frozen=True)
class LogisticLoss(ConvexLoss):
    """ln(1 + e^{−ys}) for y = ±1: |f′| ≤ 1, f″ ≤ ¼.

    >>> LogisticLoss().derivative(np.array([0.0]), np.array([1.0]))
    array([-0.5])
    """

    monotone: ClassVar[bool] = True
    typical_score: ClassVar[float] = 4.0

    @property
    def lipschitz(self) -> float:
        return 1.0

    @property
    def smoothness(self) -> float:
        return 0.25

    def value(self, scores: Floats, targets: Floats) -> Floats:
        return np.asarray(np.logaddexp(0.0, -targets * scores))

    def derivative(self, scores: Floats, targets: Floats) -> Floats:
        return np.asarray(-targets * expit(-targets * scores))

    def second_derivative(self, scores: Floats, targets: Floats) -> Floats:
        return np.asarray(expit(scores) * expit(-scores))


@final
@dataclass(frozen=True)
class SmoothedHingeLoss(ConvexLoss):
    """The hinge (1 − ys)₊ for y = ±1, with its corner rounded over 1 ± width: |f′| ≤ 1, f″ ≤ 1/(2 width).

    *Reference*: Chaudhuri, Monteleoni & Sarwate 2011, their "Huber loss" for support vector machines, h =
    width.
    """

    width: float = 0.5
    monotone: ClassVar[bool] = True
    typical_score: ClassVar[float] = 4.0

    def __post_init__(self) -> None:
        positive("width", self.width)

    @property
    def lipschitz(self) -> float:
        return 1.0

    @property
    def smoothness(self) -> float:
        return 0.5 / self.width

    def value(self, scores: Floats, targets: Floats) -> Floats:
        hinge = 1.0 - targets * scores
        corner = (hinge + self.width) ** 2 / (4 * self.width)
        return np.where(np.abs(hinge) <= self.width, corner, np.maximum(hinge, 0.0))

    def derivative(self, scores: Floats, targets: Floats) -> Floats:
        hinge = 1.0 - targets * scores
        return np.asarray(-targets * np.clip((hinge + self.width) / (2 * self.width), 0.0, 1.0))

    def second_derivative(self, scores: Floats, targets: Floats) -> Floats:
        return np.asarray((np.abs(1.0 - targets * scores) <= self.width) * self.smoothness)


@final
@dataclass(frozen=True)
class HuberLoss(ConvexLoss):
    """½(s − y)², continued by a straight line where the residual exceeds ``bound``: |f′| ≤ bound, f″ ≤ 1.

    Its gradient is that of the squared loss with each row's residual clipped. If the least-squares answer
    leaves no residual above the bound, then it is also the answer here, because its gradient is the same.

    *Reference*: Huber 1964.
    """

    bound: float = 1.0
    monotone: ClassVar[bool] = False
    typical_score: ClassVar[float] = 0.8

    def __post_init__(self) -> None:
        positive("bound", self.bound)

    @property
    def lipschitz(self) -> float:
        return self.bound

    @property
    def smoothness(self) -> float:
        return 1.0

    def value(self, scores: Floats, targets: Floats) -> Floats:
        size = np.abs(scores - targets)
        return np.where(size <= self.bound, 0.5 * size * size, self.bound * (size - 0.5 * self.bound))

    def derivative(self, scores: Floats, targets: Floats) -> Floats:
        return np.asarray(np.clip(scores - targets, -self.bound, self.bound))

    def second_derivative(self, scores: Floats, targets: Floats) -> Floats:
        return np.asarray(np.abs(scores - targets) <= self.bound, dtype=np.float64)
