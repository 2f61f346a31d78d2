"""The regularised sum of losses, its gradient with an error bound, and a minimiser that knows how far off it is."""

import math
from dataclasses import dataclass
from typing import final

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from scipy.sparse.linalg import LinearOperator, cg

from privet.errors import OutOfReach
from privet.learning.losses import Floats, Loss

__all__ = ["Risk", "minimum", "summation_error"]

_UNIT = 2.0**-53
_BLOCK = 256  # rows that are added at once, so that rounding grows with 256 and not with n
_PAIRWISE = 32  # additions that numpy makes in a row at the lowest level, and some
_CURVED = 2048
_DENSE = 512  # features up to which the Hessian is formed
_STEPS = 500


def summation_error(loss: Loss, *, rows: int, dimension: int, radius: float) -> float:
    """How far Σ f′(zᵢᵀθ) zᵢ in float64, by blocks, is off for ‖zᵢ‖ ≤ 1 and ‖θ‖ ≤ radius: an upper bound of the norm.

    A score is off by at most γ_d‖θ‖, its slope by β times that and by a few units in the last place; the sum of n
    vectors of norm L, in blocks of 256 and then pairwise, by (256 + log₂ n) u n L. Doubled, for what is small.
    """
    slopes = loss.smoothness * (dimension + 4) * _UNIT * radius + 8 * _UNIT * loss.lipschitz
    sums = (_BLOCK + _PAIRWISE + math.log2(rows + 1)) * _UNIT * loss.lipschitz
    return 2 * rows * (slopes + sums)


@final
@dataclass(frozen=True, eq=False)
class Risk:
    """F(θ) = Σᵢ f(zᵢᵀθ; yᵢ) + ½ strength ‖θ‖² + linearᵀθ over rows with ‖zᵢ‖ ≤ 1. Strongly convex."""

    loss: Loss
    rows: Floats
    targets: Floats
    strength: float
    linear: Floats | None = None

    def value(self, weights: Floats) -> float:
        """F(θ)."""
        fit = float(self.loss.value(self.rows @ weights, self.targets).sum())
        tilt = 0.0 if self.linear is None else float(self.linear @ weights)
        return fit + 0.5 * self.strength * float(weights @ weights) + tilt

    def gradient(self, weights: Floats) -> Floats:
        """∇F(θ), off by at most ``round_off``."""
        found = self.pull(weights) + self.strength * weights
        return found if self.linear is None else found + self.linear

    def pull(self, weights: Floats) -> Floats:
        """Σ f′(zᵢᵀθ) zᵢ: what the people say."""
        slopes = self.loss.slope(self.rows @ weights, self.targets)
        starts = range(0, self.rows.shape[0], _BLOCK)
        parts = np.zeros((weights.size, len(starts)))
        for place, start in enumerate(starts):
            parts[:, place] = slopes[start : start + _BLOCK] @ self.rows[start : start + _BLOCK]
        return np.asarray(parts.sum(axis=1))  # along rows in memory: numpy adds pairwise

    def round_off(self, weights: Floats) -> float:
        """How far the computed gradient is off at most."""
        radius = float(np.linalg.norm(weights)) * (1 + 1e-9)
        count, dimension = self.rows.shape
        tilt = 0.0 if self.linear is None else float(np.linalg.norm(self.linear))
        small: float = 8 * _UNIT * (self.strength * radius + tilt + count * self.loss.lipschitz)
        return summation_error(self.loss, rows=count, dimension=dimension, radius=radius) + small

    def newton_step(self, weights: Floats, gradient: Floats) -> Floats:
        """−(∇²F)⁻¹ ∇F, or nearly."""
        curvature = self.loss.curvature(self.rows @ weights, self.targets)
        size = weights.size
        if size <= _DENSE:
            hessian = self._curved(np.sqrt(curvature))
            hessian[np.diag_indices(size)] += self.strength
            return -np.asarray(cho_solve(cho_factor(hessian, lower=True), gradient))
        product = LinearOperator(
            (size, size),
            matvec=lambda v: self.rows.T @ (curvature * (self.rows @ v)) + self.strength * v,
            dtype=np.float64,
        )
        return -np.asarray(cg(product, gradient, rtol=1e-4, maxiter=10 * size)[0])

    def _curved(self, roots: Floats) -> Floats:
        """Σ f″ᵢ zᵢzᵢᵀ from the roots of f″: block by block, which stays in the cache, and by half of a product."""
        size = self.rows.shape[1]
        found, block = np.zeros((size, size)), np.empty((_CURVED, size))
        for start in range(0, self.rows.shape[0], _CURVED):
            part = self.rows[start : start + _CURVED]
            scaled = np.multiply(part, roots[start : start + _CURVED, None], out=block[: part.shape[0]])
            found += scaled.T @ scaled
        return found


def minimum(risk: Risk, tolerance: float) -> Floats:
    """A point where ‖∇F‖ ≤ tolerance for certain, round-off included; so at most tolerance/strength off the minimiser.

    Newton's method. A step is shortened until the slope along it is well below the slope at its start, which for a
    convex function needs no values of F; these would drown in round-off near the minimum.

    F is strongly convex and ∇F is Lipschitz, so the search ends by theorem; the limit of steps is there for float64.
    """
    weights = np.zeros(risk.rows.shape[1])
    gradient = risk.gradient(weights)
    for _ in range(_STEPS):
        if float(np.linalg.norm(gradient)) * (1 + 1e-9) + risk.round_off(weights) <= tolerance:
            return weights
        step = risk.newton_step(weights, gradient)
        weights, gradient = _along(risk, weights, step, float(gradient @ step))
    raise OutOfReach(
        "The minimum was not found as closely as the sensitivity needs, so nothing was released. "
        "Raise the solver's tolerance, or the regularization."
    )


def _along(risk: Risk, weights: Floats, step: Floats, slope: float) -> tuple[Floats, Floats]:
    """A point along the step where the slope has nearly vanished, and the gradient there."""
    low, high, length = 0.0, np.inf, 1.0
    for _ in range(60):
        point = weights + length * step
        gradient = risk.gradient(point)
        here = float(gradient @ step)
        if abs(here) <= 0.05 * abs(slope):
            break
        low, high = (length, high) if here < 0 else (low, length)
        length = 2 * length if high == np.inf else 0.5 * (low + high)
    return point, gradient
