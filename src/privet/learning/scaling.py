"""Rows scaled into the unit ball by a public bound."""

import math
from dataclasses import dataclass
from typing import final

import numpy as np

from privet.arguments import positive
from privet.learning.losses import Floats

__all__ = ["UnitBall"]

_INSIDE = 1 - 1e-9  # the norm of a row of 10⁶ numbers is off by less than 10⁻¹⁰, relative to itself


@final
@dataclass(frozen=True)
class UnitBall:
    """z = (x, norm_bound)/(√2 norm_bound), or x/norm_bound without an intercept; ‖z‖ ≤ 1.

    A row that is longer than ``norm_bound`` is shortened to it, and a missing value counts as 0. Both rules
    look at one row only, so neighbouring tables stay neighbours. The constant feature is as long as the
    longest row may be.

    >>> UnitBall(norm_bound=5.0, intercept=False).rows(np.array([[3.0, 4.0], [30.0, 40.0]])).round(6)
    array([[0.6, 0.8],
           [0.6, 0.8]])
    """

    norm_bound: float
    intercept: bool

    def __post_init__(self) -> None:
        positive("norm_bound", self.norm_bound)

    @property
    def factor(self) -> float:
        """The factor of every feature."""
        return 1 / (self.norm_bound * (math.sqrt(2) if self.intercept else 1.0))

    def rows(self, features: Floats) -> Floats:
        """The rows, scaled and shortened."""
        finite = np.nan_to_num(features, nan=0.0)  # an infinite value becomes the largest number
        largest = np.abs(finite).max(axis=1, initial=0.0, keepdims=True)
        largest[largest == 0] = 1.0
        direction = finite / largest
        norms = np.sqrt(np.einsum("ij,ij->i", direction, direction))[:, None]
        with np.errstate(over="ignore"):  # beyond float64 is beyond the bound
            lengths = np.minimum(norms * largest / self.norm_bound, _INSIDE)
        norms[norms == 0] = 1.0
        inside = direction * (lengths / norms)
        if not self.intercept:
            return np.asarray(inside)
        both = np.full((inside.shape[0], inside.shape[1] + 1), _INSIDE / math.sqrt(2))
        both[:, :-1] = inside / math.sqrt(2)
        return both

    def unscale(self, weights: Floats) -> tuple[Floats, float]:
        """Coefficients of the features as they were given, and the intercept."""
        if not self.intercept:
            return weights * self.factor, 0.0
        return weights[:-1] * self.factor, float(weights[-1]) * _INSIDE / math.sqrt(2)
