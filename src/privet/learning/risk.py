"""The regularised sum of losses, its gradient with an error bound, and a minimiser with a certified error."""

import math
from dataclasses import dataclass
from typing import final

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from scipy.sparse.linalg import LinearOperator, cg

from privet.errors import OutOfReach
from privet.learning.losses import ConvexLoss, Floats

__all__ = ["Risk", "minimize", "summation_error"]

_UNIT = 2.0**-53
_BLOCK = 256  # rows that are added at once, so that round-off grows with 256 and not with n
_PAIRWISE = 32  # additions that numpy makes one after the other at the lowest level, with a margin
_GRAM_BLOCK = 2048
_DENSE = 512  # up to so many features the Hessian is formed
_STEPS = 500


def summation_error(loss: ConvexLoss, *, rows: int, dimension: int, radius: float) -> float:
    """An upper bound on the error of Σ f′(zᵢᵀθ) zᵢ in float64, by blocks, for ‖zᵢ‖ ≤ 1 and ‖θ‖ ≤ radius.

    A score is off by at most γ_d‖θ‖. Its derivative is off by β times that, and by a few units in the last
    place. The sum of n vectors of norm L, in blocks of 256 and then pairwise, is off by (256 + log₂ n) u n L.
    The factor 2 covers terms of higher order.
    """
    derivatives = loss.smoothness * (dimension + 4) * _UNIT * radius + 8 * _UNIT * loss.lipschitz
    sums = (_BLOCK + _PAIRWISE + math.log2(rows + 1)) * _UNIT * loss.lipschitz
    return 2 * rows * (derivatives + sums)


@final
@dataclass(frozen=True, eq=False)
class Risk:
    """F(θ) = Σᵢ f(zᵢᵀθ; yᵢ) + ½ strength ‖θ‖² + linearᵀθ over rows with ‖zᵢ‖ ≤ 1. Strongly convex."""

    loss: ConvexLoss
    rows: Floats
    targets: Floats
    strength: float
    linear: Floats | None = None

    def value(self, weights: Floats) -> float:
        """F(θ)."""
        fit = float(self.loss.value(self.rows @ weights, self.targets).sum())
        linear = 0.0 if self.linear is None else float(self.linear @ weights)
        return fit + 0.5 * self.strength * float(weights @ weights) + linear

    def gradient(self, weights: Floats) -> Floats:
        """∇F(θ), off by at most ``round_off``."""
        gradient = self.loss_gradient(weights) + self.strength * weights
        return gradient if self.linear is None else gradient + self.linear

    def loss_gradient(self, weights: Floats) -> Floats:
        """Σ f′(zᵢᵀθ) zᵢ: the part of the gradient that depends on the rows."""
        derivatives = self.loss.derivative(self.rows @ weights, self.targets)
        starts = range(0, self.rows.shape[0], _BLOCK)
        parts = np.zeros((weights.size, len(starts)))
        for block, start in enumerate(starts):
            parts[:, block] = derivatives[start : start + _BLOCK] @ self.rows[start : start + _BLOCK]
        return np.asarray(parts.sum(axis=1))  # along memory, where numpy adds pairwise

    def round_off(self, weights: Floats) -> float:
        """An upper bound on the error of the computed gradient."""
        radius = float(np.linalg.norm(weights)) * (1 + 1e-9)
        count, dimension = self.rows.shape
        linear = 0.0 if self.linear is None else float(np.linalg.norm(self.linear))
        small: float = 8 * _UNIT * (self.strength * radius + linear + count * self.loss.lipschitz)
        return summation_error(self.loss, rows=count, dimension=dimension, radius=radius) + small

    def newton_step(self, weights: Floats, gradient: Floats) -> Floats:
        """−(∇²F)⁻¹ ∇F; approximately, where the Hessian is too large to form."""
        curvature = self.loss.second_derivative(self.rows @ weights, self.targets)
        size = weights.size
        if size <= _DENSE:
            hessian = self._weighted_gram(np.sqrt(curvature))
            hessian[np.diag_indices(size)] += self.strength
            return -np.asarray(cho_solve(cho_factor(hessian, lower=True), gradient))
        product = LinearOperator(
            (size, size),
            matvec=lambda v: self.rows.T @ (curvature * (self.rows @ v)) + self.strength * v,
            dtype=np.float64,
        )
        return -np.asarray(cg(product, gradient, rtol=1e-4, maxiter=10 * size)[0])

    def _weighted_gram(self, roots: Floats) -> Floats:
        """Σ f″ᵢ zᵢzᵢᵀ from the roots of f″: in blocks that fit into the cache, each a symmetric product."""
        size = self.rows.shape[1]
        gram, block = np.zeros((size, size)), np.empty((_GRAM_BLOCK, size))
        for start in range(0, self.rows.shape[0], _GRAM_BLOCK):
            part = self.rows[start : start + _GRAM_BLOCK]
            scaled = np.multiply(part, roots[start : start + _GRAM_BLOCK, None], out=block[: part.shape[0]])
            gram += scaled.T @ scaled
        return gram


def minimize(risk: Risk, tolerance: float) -> Floats:
    """A point where ‖∇F‖ ≤ tolerance is certain, round-off included.

    So it is within tolerance/strength of the minimiser.

    Newton's method. The line search looks for a point where the slope along the step is far below the slope
    at its start. For a convex function this needs no values of F, whose differences would drown in round-off
    near the minimum.

    F is strongly convex and ∇F is Lipschitz, so the search ends in exact arithmetic. The limit on steps is
    for float64.
    """
    weights = np.zeros(risk.rows.shape[1])
    gradient = risk.gradient(weights)
    for _ in range(_STEPS):
        if float(np.linalg.norm(gradient)) * (1 + 1e-9) + risk.round_off(weights) <= tolerance:
            return weights
        step = risk.newton_step(weights, gradient)
        weights, gradient = _line_search(risk, weights, step, float(gradient @ step))
    raise OutOfReach(
        "The minimum was not found as closely as the sensitivity needs, so nothing was released. "
        "Raise the solver's tolerance, or the regularization."
    )


def _line_search(risk: Risk, weights: Floats, step: Floats, slope: float) -> tuple[Floats, Floats]:
    """A point along the step where the slope is nearly 0, and the gradient there."""
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
