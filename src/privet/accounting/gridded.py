"""One pair's loss on a grid: a law that dominates the pair, and one that the pair dominates.

On the grid ℓⱼ = o + j h let δⱼ be the profile. In y = exp ε a profile is convex, decreasing, and 1 at y = 0;
every such function is the profile of some pair, and a larger one dominates. So

* *above*: the polygon through (yⱼ, δⱼ) ("connect the dots": Doroshenko et al. 2022) dominates the pair;
* *below*: take a tangent in every cell, mostly at its middle. At every knot take the smaller of the two
tangents that meet there. The polygon through these values, made convex, is below the profile, so the
pair dominates it.
"""

import numpy as np
from scipy.optimize import isotonic_regression

from privet.accounting.pairs import AtomicPair, Nodes, Pair, Reals

__all__ = ["below", "coarse_nodes", "find_anchor", "fits", "loss_range", "on_grid", "polygon"]


def on_grid(
    pair: Pair, step: float, *, above: bool, negligible: float, floor: float = -np.inf
) -> tuple[Reals, Reals, float]:
    """Losses, masses and the mass at infinity of a law on the grid.

    Mass below ``floor`` is moved up to it (above) or left out (below).
    """
    low, high = loss_range(pair, negligible)
    low = max(low, floor)
    anchor = find_anchor(pair, step)
    first = int(np.floor((low - anchor) / step - 1e-9))
    last = int(np.ceil((high - anchor) / step + 1e-9)) + 1
    losses = anchor + step * np.arange(first, last + 1)
    if isinstance(pair, AtomicPair) and low > floor and (above or fits(pair, step)):
        return losses, _split(pair, losses, step), pair.infinity
    if not above:
        masses = below(pair, losses)
        masses[0] = 0.0 if low == floor else masses[0]
        return losses, masses, pair.infinity
    masses, beyond = polygon(pair, losses)
    return losses, masses, pair.infinity + beyond


def polygon(pair: Pair, losses: Reals) -> tuple[Reals, float]:
    """P's masses of the polygon through the profile: yⱼ times the change of its slope at yⱼ; and the rest.

    The knots need not be equally spaced.
    """
    knots, gaps = pair.delta(losses), np.diff(losses)
    rise = np.diff(knots) / np.expm1(gaps)
    masses = np.zeros_like(knots)
    masses[:-1] += rise
    masses[1:] -= np.exp(gaps) * rise
    masses[0] += 1 - pair.infinity - knots[0]
    return masses, float(knots[-1])


def below(pair: Pair, losses: Reals) -> Reals:
    """The masses of a convex polygon with these knots that nowhere exceeds the profile."""
    total = 1 - pair.infinity
    widths = np.expm1(np.diff(losses))
    middle = losses[:-1] + np.log1p(0.5 * widths)
    knots, distance = pair.delta(losses), widths * np.exp(np.minimum(losses[:-1], 700.0))
    touched, slope = pair.delta(middle), pair.tail(middle)
    on_left, on_right = touched + 0.5 * distance * slope, touched - 0.5 * distance * slope
    # If the profile falls steeply inside of a cell, a tangent at its right end is better: it keeps the part
    # beyond. Left of y = 1 the profile is about 1 − y, and its own tangent is better.
    steep = on_right < np.where(losses[1:] > 0.5 * (losses[1] - losses[0]), 0.5 * knots[1:], 0.0)
    if np.any(steep):
        near_end = losses[1:][steep] - 1e-6 * np.diff(losses)[steep]
        height, fall = pair.delta(near_end), pair.tail(near_end)
        rest = -np.expm1(near_end - losses[1:][steep]) * np.exp(np.minimum(losses[1:][steep], 700.0))
        on_right[steep] = np.maximum(height - rest * fall, 0.0)
        on_left[steep] = height + (distance[steep] - rest) * fall
    lowered = np.minimum(np.append(on_left, np.inf), np.append(np.inf, on_right))
    lowered[-1] = 0.0
    # The greatest convex minorant's slopes are the isotonic regression of the polygon's slopes, weighted by
    # the knots' distances; both are scaled by the last y to stay within float64. It starts at (0, 1).
    scale = np.exp(np.maximum(losses - losses[-1], -680.0))
    distances = np.append(scale[0], scale[:-1] * widths)
    slopes = isotonic_regression(np.diff(lowered, prepend=total) / distances, weights=distances).x
    return np.asarray(np.maximum(scale * np.diff(slopes, append=0.0), 0.0))


def find_anchor(pair: Pair, step: float) -> float:
    """A loss that should be on the grid: an atom, or the mean of the losses within half a step of 0.

    If a unit is sampled rarely, nearly all mass is near 0, and a grid without its mean would move it.
    """
    if pair.lattice is not None:
        return pair.lattice.anchor
    ends = np.array([-0.5 * step, 0.5 * step])
    q = pair.tail(ends)
    p = pair.delta(ends) + np.exp(ends) * q
    inside_p, inside_q = float(p[0] - p[1]), float(q[0] - q[1])
    return float(np.log(inside_p / inside_q)) if inside_p > 1e-3 and inside_q > 1e-3 else 0.0


def fits(pair: Pair, step: float) -> bool:
    """Whether all atoms are on the grid, so that the law on the grid is exact."""
    lattice = pair.lattice
    if lattice is None or lattice.unit is None:
        return False
    turns = lattice.unit / step
    return bool(abs(turns - round(turns)) < 1e-9 * turns)


def _split(pair: AtomicPair, losses: Reals, step: float) -> Reals:
    """The law with each atom split over its two grid neighbours, so that P's and Q's masses stay the same."""
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
    return -_reach(pair.swap(), min(negligible, 1e-18)), _reach(pair, negligible)


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
    """A rule that is accurate enough for a search, for pairs that have only their profile."""
    low, high = loss_range(pair, 1e-40)
    losses, masses, lost = on_grid(pair, (high - low) / 4096, above=True, negligible=1e-40)
    held = masses > 0
    losses, masses = losses[held], masses[held]
    return Nodes(np.log(masses) - losses, losses, 1.0 - float(masses @ np.exp(-losses)), lost)
