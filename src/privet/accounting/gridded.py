"""One pair's loss on a grid: a law that dominates the pair, and one that the pair dominates.

On the grid ℓⱼ = o + j h let δⱼ be the profile. In y = exp ε a profile is convex, decreasing, and 1 at y = 0;
every such function is the profile of some pair, and a larger one dominates. So

* *above*: the polygon through (yⱼ, δⱼ) ("connect the dots": Doroshenko et al. 2022) dominates the pair;
* *below*: the polygon through (yⱼ, δⱼ − dⱼ), dⱼ so large that it stays below the profile, made convex, is
  dominated by it. A convex function lies below its chord by at most twice its distance at the middle.
"""

import numpy as np
from scipy.optimize import isotonic_regression

from privet.accounting.pairs import AtomicPair, Nodes, Pair, Reals

__all__ = ["coarse_nodes", "loss_range", "on_grid"]


def on_grid(
    pair: Pair, step: float, *, above: bool, negligible: float, floor: float = -np.inf
) -> tuple[Reals, Reals, float]:
    """Losses, masses and the mass at infinity of a law on the grid.

    Mass below ``floor`` is moved up to it (above) or left out (below).
    """
    low, high = loss_range(pair, negligible)
    low = max(low, floor)
    anchor = 0.0 if pair.lattice is None else pair.lattice.anchor
    first = int(np.floor((low - anchor) / step - 1e-9))
    last = int(np.ceil((high - anchor) / step + 1e-9)) + 1
    losses = anchor + step * np.arange(first, last + 1)
    if isinstance(pair, AtomicPair) and above and low > floor:
        return losses, _split(pair, losses, step), pair.infinity
    knots = pair.delta(losses)
    if not above:
        middle = pair.delta(losses[:-1] + np.log1p(0.5 * np.expm1(step)))
        masses = _below(losses, knots, middle, step, 1 - pair.infinity)
        masses[0] = 0.0 if low == floor else masses[0]
        return losses, masses, pair.infinity
    return losses, _polygon(knots, step, 1 - pair.infinity), pair.infinity + float(knots[-1])


def _polygon(knots: Reals, step: float, total: float) -> Reals:
    """P's masses of the polygon through the knots: yⱼ times the change of its slope at yⱼ."""
    rise = np.diff(knots) / np.expm1(step)
    masses = np.zeros_like(knots)
    masses[:-1] += rise
    masses[1:] -= np.exp(step) * rise
    masses[0] += total - knots[0]
    return masses


def _below(losses: Reals, knots: Reals, middle: Reals, step: float, total: float) -> Reals:
    """The masses of a convex polygon with these knots that nowhere exceeds the profile."""
    sag = np.maximum(knots[:-1] + knots[1:] - 2 * middle, 0.0)
    drop = np.maximum(np.append(sag, 0.0), np.append(0.0, sag))
    lowered = np.maximum(knots - drop, 0.0)
    lowered = np.maximum(lowered, total - np.exp(np.minimum(losses, 1.0)))
    lowered[-1] = 0.0
    # The greatest convex minorant's slopes are the isotonic regression of the polygon's slopes, weighted by
    # the knots' distances; both are scaled by yⱼ's own size to stay within float64.
    scale = np.exp(losses - losses[-1])
    slopes = np.diff(lowered) / (scale[:-1] * np.expm1(step))
    slopes = isotonic_regression(slopes, weights=scale[:-1]).x
    first = (lowered[0] - total) / scale[0]
    return np.asarray(scale * np.diff(np.concatenate([[first], slopes, [0.0]])))


def _split(pair: AtomicPair, losses: Reals, step: float) -> Reals:
    """Each atom on its two neighbours, so that P's and Q's masses are kept."""
    values, masses = pair.law()
    place = (values - losses[0]) / step
    left = np.minimum(np.floor(place + 1e-9).astype(int), losses.size - 2)
    beyond = np.maximum(values - losses[left], 0.0)
    up = masses * np.expm1(-beyond) / np.expm1(-step)
    law = np.bincount(left, masses - up, minlength=losses.size)
    return law + np.bincount(left + 1, up, minlength=losses.size)


def loss_range(pair: Pair, negligible: float) -> tuple[float, float]:
    """An interval outside of which the loss carries a negligible part of the profile."""
    if isinstance(pair, AtomicPair):
        losses, _ = pair.law()
        return float(losses[0]), float(losses[-1])
    return -_reach(pair.swapped(), min(negligible, 1e-18)), _reach(pair, negligible)


def _reach(pair: Pair, negligible: float) -> float:
    """The smallest ε, to a percent, at which the profile is negligible; it may be below 0."""

    def small(epsilon: float) -> bool:
        return bool(pair.delta(np.array([epsilon]))[0] <= negligible)

    low, high = 0.0, 1e-12
    while not small(high) and high < 1e12:
        low, high = high, 2 * high
    for _ in range(8):
        middle = 0.5 * (low + high)
        low, high = (low, middle) if small(middle) else (middle, high)
    return high


def coarse_nodes(pair: Pair) -> Nodes:
    """A rule that is good enough to steer by, for pairs that have only their profile."""
    low, high = loss_range(pair, 1e-40)
    losses, masses, _ = on_grid(pair, (high - low) / 4096, above=True, negligible=1e-40)
    held = masses > 0
    return Nodes(np.log(masses[held]) - losses[held], losses[held], balanced=False)
