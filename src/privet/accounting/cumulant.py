"""The cumulant K(s) = Σ Tᵢ ln E[exp(s Lᵢ)] of a composition, on the real axis and along a vertical line."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple, final

import numpy as np
from numpy.typing import NDArray

from privet.accounting.gridded import coarse_nodes
from privet.accounting.pairs import GaussianPair, Nodes, Pair

__all__ = ["Composition", "Derivatives", "Line", "derivatives", "line"]

Complexes = NDArray[np.complex128]

_DIGITS = 46.0  # exp(−46) ≈ 1e-20, before the number of steps is added
_LARGEST_RULE = 1e7  # multiplications that one line may cost


@final
@dataclass(frozen=True)
class Composition:
    """Pairs with how often each was used; all in one direction. ``parts`` is sorted and has no doubles."""

    parts: tuple[tuple[Pair, int], ...]

    @staticmethod
    def of(counts: Mapping[Pair, int]) -> "Composition":
        """The composition of these pairs; Gaussian pairs are one Gaussian pair together."""
        square = math.fsum(
            count * pair.mu**2 for pair, count in counts.items() if isinstance(pair, GaussianPair)
        )
        others = [(p, count) for p, count in counts.items() if not isinstance(p, GaussianPair)]
        others.sort(key=lambda part: (repr(part[0]), part[1]))
        gaussian = [(GaussianPair(math.sqrt(square)), 1)] if square > 0 else []
        return Composition((*gaussian, *others))

    def swapped(self) -> "Composition":
        """The other order of neighbours."""
        return Composition(tuple((pair.swapped(), count) for pair, count in self.parts))

    def capped(self, mass: float, edge: float = 0.15) -> "Composition":
        """Without the largest losses: at most ``mass`` of P in all moves to infinity."""
        share = mass / max(1, sum(count for _, count in self.parts))
        return Composition(tuple((pair.capped(share, edge), count) for pair, count in self.parts))

    @property
    def infinity(self) -> float:
        """The probability under P that any of the losses is +∞."""
        kept = sum(count * np.log1p(-pair.infinity) for pair, count in self.parts)
        return float(-np.expm1(kept)) + 0.0  # never −0


class Derivatives(NamedTuple):
    """K and its first two derivatives at one real point."""

    value: float
    slope: float
    curvature: float


class Line(NamedTuple):
    """K(c + i k h) for k = 0 … n − 1, with a bound on its float64 error."""

    values: Complexes
    error: NDArray[np.float64]


def derivatives(composition: Composition, point: float) -> Derivatives | None:
    """K(c), K′(c), K″(c) for c > 0; None when a pair has no rule there."""
    total = np.zeros(3)
    for pair, count in composition.parts:
        if isinstance(pair, GaussianPair):
            square = pair.mu**2
            total += count * np.array([0.5 * square * point * (point + 1), square * (point + 0.5), square])
            continue
        rule = pair.nodes(point, 0.0, _DIGITS + np.log(count)) or coarse_nodes(pair)
        weight, excess = _tilted(rule, point)
        moment = 1.0 + excess
        if not 0 < moment < 1e300:
            return None
        mean = float(weight @ rule.losses) / moment
        square = float(weight @ (rule.losses - mean) ** 2) / moment
        total += count * np.array([np.log1p(excess), mean, square])
    return Derivatives(*map(float, total)) if np.all(np.isfinite(total)) else None


def line(composition: Composition, point: float, step: float, span: range) -> Line | None:
    """K(c + i k h) for k in a range from a multiple of its length; None when that would take too long."""
    offsets = step * np.arange(span.start, span.stop)
    values = np.zeros(len(span), dtype=np.complex128)
    error = np.zeros(len(span))
    for pair, times in composition.parts:
        if isinstance(pair, GaussianPair):
            s = point + 1j * offsets
            part = 0.5 * times * pair.mu**2 * s * (s + 1)
            values += part
            error += np.abs(part)
            continue
        rule = pair.nodes(point, step * span.stop, _DIGITS + np.log(times))
        if rule is None or rule.losses.size * len(span) > _LARGEST_RULE:
            return None
        weight, excess = _tilted(rule, point)
        moments = excess + _turned_sums(weight, rule.losses, step, span)
        values += times * _log1p(moments)
        size = np.abs(1.0 + moments)
        drift = float(weight @ np.abs(rule.losses))
        error += times * (drift * offsets + np.abs(moments) + 400 * abs(excess)) / np.maximum(size, 1e-300)
    return Line(values, 4 * np.finfo(float).eps * (error + 4.0))


def _tilted(rule: Nodes, point: float) -> tuple[NDArray[np.float64], float]:
    """Weights of E_Q Λ^(1+c) f, and E_Q Λ^(1+c) − 1 without the cancellation of its leading terms.

    What E_Q 1 and E_Q Λ are is known, so only Λ^(1+c) − 1 − (1+c)(Λ − 1), which is of second order, is summed.
    """
    log_weights, losses, missing_q, missing_p = rule
    weight = np.exp(np.minimum(log_weights + (point + 1) * losses, 705.0))
    base = np.exp(log_weights)
    gained = base * np.exp(np.minimum(losses, 700.0))
    steep = point * losses > 1.0
    grown = np.where(steep, weight - gained, gained * np.expm1(np.where(steep, 0.0, point * losses)))
    excess = grown - point * np.where(losses < 1.0, base * np.expm1(np.minimum(losses, 1.0)), gained - base)
    small = (np.abs(losses) * (point + 1) < 1e-2) & (np.abs(losses) < 1e-2)
    excess[small] = base[small] * _second_order(losses[small], point)
    missing = missing_q + (point + 1) * (missing_p - missing_q)
    return weight, float(excess.sum()) - missing


def _second_order(losses: NDArray[np.float64], point: float) -> NDArray[np.float64]:
    """exp((1+c) ℓ) − 1 − (1+c)(exp ℓ − 1) by its series, whose coefficients are ((1+c)ⁿ − (1+c))/n!."""
    total, power, factorial = np.zeros_like(losses), losses.copy(), 1.0
    for order in range(2, 9):
        power, factorial = power * losses, factorial * order
        total += (1 + point) * math.expm1((order - 1) * math.log1p(point)) / factorial * power
    return total


def _turned_sums(
    weight: NDArray[np.float64], losses: NDArray[np.float64], step: float, span: range
) -> Complexes:
    """Σ w (exp(i k h ℓ) − 1) for k in the range, as one matrix product over k = start + block · a + b."""
    block = int(np.ceil(np.sqrt(len(span))))
    heavy = weight > 1e-19 * weight.max()
    weight, losses = weight[heavy], losses[heavy]  # the others are below the round-off of these
    fine = _turn(np.outer(np.arange(block) * step, losses))
    starts = span.start + block * np.arange(-(-len(span) // block))
    coarse = _turn(np.outer(starts * step, losses))
    weighted = coarse * weight
    total = weighted @ fine.T + weighted.sum(axis=1)[:, None] + (fine @ weight)[None, :]
    return np.asarray(total.ravel()[: len(span)])


def _turn(angle: NDArray[np.float64]) -> Complexes:
    """exp(i angle) − 1 with a small relative error."""
    half = np.sin(0.5 * angle)
    return np.asarray(-2.0 * half * half + 1j * np.sin(angle))


def _log1p(z: Complexes) -> Complexes:
    """ln(1 + z); numpy's own loses the small part of a complex argument."""
    real, imag = z.real, z.imag
    with np.errstate(divide="ignore"):
        modulus = 0.5 * np.log1p(np.maximum(real * (2 + real) + imag * imag, -1.0))
    return np.asarray(modulus + 1j * np.arctan2(imag, 1 + real))
