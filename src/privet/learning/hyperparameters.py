"""Hyperparameters that a solver chooses from public numbers: regularisation, steps, momentum, radius.

Nothing here reads a row, so nothing here costs privacy. The inputs are n, d, ε, δ, the adjacency and the
loss.

*The model.* Let σ = mL be the noise on a sum of gradients if all of (ε, δ) went into one sum. Write Λ for the
regularisation beside the sum of losses and H for the Hessian of that sum. Near the minimum a noisy gradient b
moves the weights by (H + Λ)⁻¹b, and Λ moves them by (H + Λ)⁻¹Λθ*. In a direction where H has the eigenvalue
h, the first raises the sum of losses by ½hσ²/(h + Λ)² ≤ σ²/(8Λ), and the second by ½hΛ²θ²/(h + Λ)² ≤ Λθ²/8.
Both are worst at h = Λ. Their sum over d directions is least at

    Λ = σ/s,  where s is the size of θ* in one direction.

Rows of norm 1 in all directions of d-space have scores of the size ‖θ‖/√d, so s is also the size of a score:
``ConvexLoss.typical_score``. It is not estimated from the data. A floor of Λ ≥ β/16 keeps the weights of
separable tables finite; with a row's norm of 3 it is about what scikit-learn's ``C=1`` and ``alpha=1`` are.

*Where it was developed.* The form is from the model above. The typical scores, the factor ½ in the number of
steps and the floor were chosen on four classification tables (adult, compas, heart, taxi tip) and three
regression tables (adult hours, german amount, taxi fare). ``docs/benchmarks-learning.md`` reports on these
and on others.
"""

import math
from dataclasses import dataclass
from typing import final

from privet.learning.losses import ConvexLoss

__all__ = ["MOST_STEPS", "DescentPlan", "least_strength", "starting_radius", "strength_for_noisy_weights"]

MOST_STEPS = 1000
_LEAST_STEPS = 4
_FLOOR = 1 / 16


def least_strength(loss: ConvexLoss, noise_multiplier: float) -> float:
    """Λ = max(σ/s, β/16): less regularisation than this only lets more noise through.

    >>> from privet.learning.losses import LogisticLoss
    >>> least_strength(LogisticLoss(), noise_multiplier=8.0)
    2.0
    """
    return max(noise_multiplier * loss.lipschitz / loss.typical_score, _FLOOR * loss.smoothness)


def strength_for_noisy_weights(
    loss: ConvexLoss, noise_multiplier: float, *, population: int, dimension: int
) -> float:
    """Λ = 3(2βσ²n/(s²d))^⅓, and at least that of ``least_strength``: for noise σ/Λ on the weights themselves.

    Such noise raises the mean loss by ½β(σ/Λ)² at most, because a row has norm 1. Regularisation raises it by
    ½Λ‖θ*‖²/n, where ‖θ*‖ is s√d. The sum is least without the factor 3, which was chosen on the tables of
    development, where ‖θ*‖ is mostly smaller. Λ falls more slowly than σ, so the noise σ/Λ vanishes as ε
    grows.
    """
    noise = (noise_multiplier * loss.lipschitz) ** 2
    balanced = 2 * loss.smoothness * noise * population / (loss.typical_score**2 * dimension)
    return max(3 * math.cbrt(balanced), least_strength(loss, noise_multiplier))


def starting_radius(loss: ConvexLoss, *, strength: float, population: int) -> float:
    """R = √(2n f(0)/Λ): the minimiser is not farther from 0, because ½Λ‖θ*‖² ≤ F(θ*) ≤ F(0) ≤ n f(0)."""
    return math.sqrt(2 * population * loss.at_zero / strength)


@final
@dataclass(frozen=True)
class DescentPlan:
    """The number of steps of gradient descent, and their momentum.

    The mean risk is β-smooth up to λ = Λ/n and λ-strongly convex; κ = 1 + β/λ. Nesterov's method with the
    constant momentum (√κ − 1)/(√κ + 1) shrinks the excess risk as e^{−T/√κ}, the method without momentum as
    e^{−T/κ}. The excess starts at f(0), and noise leaves about dσ²/(8Λn) at the end. T = ½√κ ln(1 + 8Λn
    f(0)/(dσ²)) steps, at least 4 and at most 1000, make the two about equal on the tables of development.
    e^{−T/√κ} itself is pessimistic, because real tables have most of their curvature far above λ. As ε grows,
    σ falls to 0 and T grows, so the descent converges.

    *Reference.* Nesterov 2004, Theorem 2.2.2; Bubeck 2015, Theorem 3.18.
    """

    steps: int
    momentum: float

    @classmethod
    def choose(
        cls,
        loss: ConvexLoss,
        *,
        strength: float,
        noise_multiplier: float,
        population: int,
        dimension: int,
        momentum: float | None,
    ) -> "DescentPlan":
        """Choose by the rule above; a given ``momentum`` is not changed."""
        root = math.sqrt(1 + loss.smoothness * population / strength)
        chosen = (root - 1) / (root + 1) if momentum is None else momentum
        noise = dimension * (noise_multiplier * loss.lipschitz) ** 2
        signal = 8 * strength * population * loss.at_zero
        needed = 0.5 * (root if chosen > 0 else root * root) * math.log1p(signal / noise)
        return cls(min(max(math.ceil(min(needed, MOST_STEPS)), _LEAST_STEPS), MOST_STEPS), chosen)
