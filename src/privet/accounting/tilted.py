"""One quadrature rule, tilted: weights of E_Q Λ^(1+s) and its value less 1, without cancellation."""

import math
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from privet.accounting.pairs import Nodes, Reals

__all__ = ["DIGITS", "Complexes", "log1p", "tilt_weights", "turn", "turned_sums"]

Complexes: TypeAlias = NDArray[Any]  # of complex128; numpy forgets it where a real array is mixed in

_LONG = 256  # losses of a rule, from which on the rows are taken one by one
DIGITS = 46.0  # exp(−46) ≈ 1e-20, before the number of steps is added


def tilt_weights(rule: Nodes, point: float) -> tuple[Reals, Reals]:
    """Weights of E_Q Λ^(1+c) f, and E_Q Λ^(1+c) − 1 without the cancellation of its leading terms.

    What E_Q 1 and E_Q Λ are is known, so only Λ^(1+c) − 1 − (1+c)(Λ − 1), which is of second order, is
    summed. Several rules of one length are tilted at once, a row for each.
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
    return weight, excess.sum(axis=-1) - missing


def _second_order(losses: NDArray[np.float64], point: float) -> NDArray[np.float64]:
    """exp((1+c) ℓ) − 1 − (1+c)(exp ℓ − 1) by its series, whose coefficients are ((1+c)ⁿ − (1+c))/n!."""
    total, power, factorial = np.zeros_like(losses), losses.copy(), 1.0
    for order in range(2, 9):
        power, factorial = power * losses, factorial * order
        total += (1 + point) * math.expm1((order - 1) * math.log1p(point)) / factorial * power
    return total


def turned_sums(weight: Reals, losses: Reals, step: float, places: NDArray[np.int64]) -> Complexes:
    """Σ w (exp(i k h ℓ) − 1) for every k, and for every row of several; for k in a row, as a product over k =
    start + block · a + b.
    """
    if weight.ndim == 1:
        heavy = weight > 1e-19 * weight.max()  # the others are below the round-off of these
        return np.asarray(turned_sums(weight[None, heavy], losses[None, heavy], step, places)[0])
    if len(weight) > 1 and losses.shape[1] > _LONG:
        return np.stack([turned_sums(*row, step, places) for row in zip(weight, losses, strict=True)])
    start, count = int(places[0]), len(places)
    if losses.shape[1] < 4 or int(places[-1]) - start != count - 1:
        total = np.zeros((len(weight), count), dtype=np.complex128)
        for column in range(losses.shape[1]):
            total += weight[:, column, None] * turn(losses[:, column, None] * (step * places))
        return total
    block = int(np.ceil(np.sqrt(count)))
    fine = turn(losses[:, None, :] * (step * np.arange(block))[:, None])
    starts = start + block * np.arange(-(-count // block))
    coarse = turn(losses[:, None, :] * (step * starts)[:, None]) * weight[:, None, :]
    ends = (fine @ weight[:, :, None])[:, None, :, 0]
    total = coarse @ fine.swapaxes(1, 2) + coarse.sum(axis=2)[:, :, None] + ends
    return np.asarray(total.reshape(len(weight), -1)[:, :count])


def turn(angle: NDArray[np.float64]) -> Complexes:
    """exp(i angle) − 1 with a small relative error."""
    half = np.sin(0.5 * angle)
    return np.asarray(-2.0 * half * half + 1j * np.sin(angle))


def log1p(z: Complexes) -> Complexes:
    """ln(1 + z); numpy's own loses the small part of a complex argument.

    |1 + z|² − 1 has the absolute error of a number near 1. Where |1 + z| is small, the square would lose
    twice the digits that 1 + z has, so the logarithm is that of |1 + z| itself (1 + Re z is exact on
    [−2, −1/2]).
    """
    real, imag = z.real, z.imag
    size = np.hypot(1 + real, imag)
    with np.errstate(divide="ignore"):
        modulus = np.where(
            size < 0.5, np.log(size), 0.5 * np.log1p(np.maximum(real * (2 + real) + imag * imag, -1.0))
        )
    return np.asarray(modulus + 1j * np.arctan2(imag, 1 + real))
