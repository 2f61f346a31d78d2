"""Distributions of a whole number k ≥ 0 with weights e^{−(αk + βk²)}, and their cumulative sums.

Both kinds of noise have this form: the size of a discrete Laplace number has α = 1/scale and β = 0, that of a
discrete Gaussian number has α = 0 and β = 1/(2 scale²).
"""

from dataclasses import dataclass
from fractions import Fraction
from typing import final

from privet.mechanisms.sampling.exponentials import exponential_bounds

__all__ = ["Decay", "cumulative_edges"]

_GUARD = 32  # bits beyond those asked for; doubled if they do not suffice


@final
@dataclass(frozen=True)
class Decay:
    """Weights e^{−(αk + βk²)} of k = 0, 1, 2, …; α and β are rational, not negative, and not both 0."""

    linear: Fraction
    quadratic: Fraction

    @staticmethod
    def laplace(scale: float) -> "Decay":
        """The weights e^{−k/scale}; the float is taken as exact."""
        return Decay(1 / Fraction(scale), Fraction(0))

    @staticmethod
    def gaussian(scale: float) -> "Decay":
        """The weights e^{−k²/(2 scale²)}; the float is taken as exact."""
        return Decay(Fraction(0), 1 / (2 * Fraction(scale) ** 2))

    def exponent(self, start: int, steps: int) -> Fraction:
        """How much the logarithm of the weight falls from ``start`` to ``start + steps``."""
        return steps * (self.linear + self.quadratic * (2 * start + steps))


def cumulative_edges(decay: Decay, bits: int, *, folded: bool) -> list[int]:
    """Edges c₀ ≤ c₁ ≤ … with c_k ≤ P[K ≤ k] 2^bits < c_k + 2; the last, 2^bits − 1, covers all others.

    With ``folded``, 0 has half its weight: K is then the size of a number on all integers whose sign is a
    fair coin, where 0 would otherwise count twice.

    Every number is enclosed between two whole numbers that are rounded outwards. The weights follow from
    w_{k+1} = w_k r_k and r_{k+1} = r_k g, with r_0 = e^{−(α+β)} and g = e^{−2β}. As r_k never grows, all
    weights after k add up to at most w_{k+1}/(1 − r_{k+1}), which bounds the rest of the sum. If an enclosure
    is too wide, everything is computed again with more bits: the result is checked, not estimated.

    >>> cumulative_edges(Decay.laplace(1.0), 8, folded=False)  # 256 (1 − e^{−(k+1)})
    [161, 221, 243, 251, 254, 255]
    """
    guard = _GUARD
    while True:
        edges = _edges(decay, bits, bits + guard, folded)
        if edges is not None:
            return edges
        guard *= 2


def _edges(decay: Decay, bits: int, precision: int, folded: bool) -> list[int] | None:
    """The edges in this precision, or None if it does not suffice."""
    lower, upper, rest = _sums(decay, precision, folded)
    total_lower, total_upper = lower[-1], upper[-1] + rest
    last = (1 << bits) - 1
    edges = []
    for low, high in zip(lower, upper, strict=True):
        edge = (low << bits) // total_upper
        if (high << bits) >= (edge + 2) * total_lower:
            return None
        edges.append(edge)
        if edge == last:
            return edges
    return None


def _sums(decay: Decay, precision: int, folded: bool) -> tuple[list[int], list[int], int]:
    """Sums of weights from below and above, in units of 2^−precision, and a bound on the rest.

    They end where the rest is at most 2^−(precision − 24).
    """
    ratio_lower, ratio_upper = exponential_bounds(decay.linear + decay.quadratic, precision)
    fall_lower, fall_upper = exponential_bounds(2 * decay.quadratic, precision)
    unit = 1 << precision
    enough = 1 << 24
    weight_lower = weight_upper = unit
    sum_lower = sum_upper = unit >> 1 if folded else unit
    lower, upper = [sum_lower], [sum_upper]
    while True:
        weight_lower = weight_lower * ratio_lower >> precision
        weight_upper = (weight_upper * ratio_upper >> precision) + 1
        if fall_upper != unit:
            ratio_lower = ratio_lower * fall_lower >> precision
            ratio_upper = (ratio_upper * fall_upper >> precision) + 1
        if weight_upper < enough:
            rest = -(-(weight_upper << precision) // (unit - ratio_upper))
            if rest < enough:
                return lower, upper, rest
        sum_lower += weight_lower
        sum_upper += weight_upper
        lower.append(sum_lower)
        upper.append(sum_upper)
