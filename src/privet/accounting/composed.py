"""The profile of a composition in one direction: closed forms, then the contour, then the grid.

Each method gives an enclosure of the truth; two enclosures of one number are intersected.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.optimize import brentq

from privet.accounting.capped import CAPPED, capped_saddle, likely_tilt, out_of_reach
from privet.accounting.contour import (
    Contour,
    Saddle,
    chernoff_peak,
    contours,
    saddle_for_delta,
    saddle_for_epsilon,
)
from privet.accounting.cumulant import Composition, derivatives
from privet.accounting.jump import OneJump, split_loss
from privet.accounting.pairs import DiscreteGaussianPair, GaussianPair, Pair
from privet.accounting.sampled import SampledPair
from privet.accounting.truncated import TwoLines, truncate_line
from privet.accounting.windows import grid_for, laws_near
from privet.bounds import Interval, enclosure
from privet.errors import OutOfReach

__all__ = ["chernoff_delta", "delta_bounds", "epsilon_bounds", "largest_loss", "sight_delta"]

# Code checks for overflow to infinity where it can happen; it means "too large" there.
_QUIET = np.errstate(over="ignore", under="ignore", divide="ignore", invalid="ignore")
_CLOSED_FORM = 1e-11  # relative error of a profile in closed form, checked against 30 digits
_SMALLEST_DELTA = 1e-200
_FEW = 12  # the most pairs that are treated apart from the others
_TIGHT = 5e-7  # the relative gap of ε that is small enough: no further method is asked
_OF_MANY = 1e-4  # the same, for a composition of many different pairs
_APART = 3e-4  # above this gap a few pairs are treated apart from the others
_ASIDE = 1e-3  # the share of δ for the others
_TOO_MANY = 200  # different pairs; for so many, no grid is made
_GRID_SIZES = (1 << 13, 1 << 17)
_LAST_SIZE = 1 << 19
_SKETCHED = 1e-2  # the relative gap of δ that is small enough for a search
_JUMP_SIZES = (1 << 18, 1 << 20)
_JUMPED = 1e-4  # the relative gap of ε for which the first of these sizes is enough


@_QUIET
def delta_bounds(
    composition: Composition, epsilon: float, *, tight: float = _TIGHT, likely: float | None = None
) -> Interval:
    """An enclosure of δ(ε), ε ≥ 0. It stops at the gap ``tight`` of ε; ``likely`` is an estimate of δ."""
    if not composition.parts:
        return Interval(0.0, 0.0)
    lost = composition.infinity
    if epsilon >= largest_loss(composition):
        return Interval(lost, lost)
    single = _closed_form(composition)
    if single is not None:
        # The parameters themselves are rounded, which has the effect of a few units in the last place of ε.
        apart = np.array([epsilon * (1 + 1e-15), epsilon * (1 - 1e-15)])
        low, high = single.parts[0][0].delta(apart) + lost
        return Interval(float(low) * (1 - _CLOSED_FORM), min(float(high) * (1 + _CLOSED_FORM), 1.0))
    capped, saddle = capped_saddle(composition, epsilon, likely)
    found, enough = Interval(0.0, 1.0), tight * (1 + saddle.point * epsilon)
    for line in contours(capped, saddle):
        inner = line.delta(epsilon)
        found = _both(found, Interval(lost + inner.lower, min(capped.infinity + inner.upper, 1.0)))
        if found.relative_gap < enough:
            break
    if found.relative_gap < enough:
        return found
    if composition.is_many:
        lines = truncate_line(capped, saddle)
        if lines is not None:
            inner = lines.delta(epsilon)
            found = _both(found, Interval(lost + inner.lower, min(capped.infinity + inner.upper, 1.0)))
        if found.relative_gap > _APART * (1 + saddle.point * epsilon):
            found = _both(found, _split_delta(composition, epsilon, saddle))
        if found.relative_gap < max(enough, _OF_MANY) or len(composition.parts) > _TOO_MANY:
            return found
    for size in _GRID_SIZES:
        found = _both(found, _grid_delta(composition, capped, saddle, size, epsilon))
        if found.relative_gap < enough or (tight > _TIGHT and found.relative_gap < _SKETCHED):
            return found
    likely = min(max(float(np.exp(saddle.log_delta)), found.lower, 1e-280), found.upper)
    jumps = _jumps(composition, likely, Interval(epsilon, epsilon), _JUMP_SIZES[0])
    if jumps is None:
        return _both(found, _grid_delta(composition, capped, saddle, _LAST_SIZE, epsilon))
    return _both(found, Interval(jumps[0].delta(epsilon).lower, jumps[1].delta(epsilon).upper))


@_QUIET
def epsilon_bounds(composition: Composition, delta: float) -> Interval:
    """An enclosure of the smallest ε ≥ 0 with δ(ε) ≤ δ; ``delta`` is above the mass at infinity."""
    if not composition.parts:
        return Interval(0.0, 0.0)
    lost = composition.infinity
    if delta - lost < _SMALLEST_DELTA:
        raise OutOfReach(
            f"'delta' must exceed the losses' mass at infinity, {lost:.6g}, by at least "
            f"{_SMALLEST_DELTA:g}, got {delta:g}, because float64 ends there. Ask at a larger δ."
        )
    single = _closed_form(composition)
    if single is not None:
        return _closed_epsilon(single, delta - lost)
    if _distance(composition) <= delta:
        return Interval(0.0, 0.0)
    capped = composition.cap(CAPPED * (delta - lost))
    saddle = saddle_for_epsilon(capped, delta - lost)
    if saddle is None:
        raise out_of_reach()
    found = Interval(0.0, largest_loss(composition))
    for line in contours(capped, saddle):
        found = _both(found, _line_epsilon(line, saddle, delta - lost, delta - capped.infinity))
        if found.relative_gap < _TIGHT:
            return found
    if composition.is_many:
        found = _both(found, Interval(0.0, _moment_epsilon(composition, saddle, delta - lost)))
        lines = truncate_line(capped, saddle)
        if lines is not None:
            found = _both(found, _lines_epsilon(lines, saddle, delta - lost, delta - capped.infinity))
        if found.relative_gap > _APART:
            found = _both(found, _split_epsilon(composition, delta))
        if found.relative_gap < _OF_MANY or (len(composition.parts) > _TOO_MANY and np.isfinite(found.upper)):
            return found
    for size in _GRID_SIZES:
        found = _both(found, _grid_epsilon(composition, capped, saddle, size, delta))
        if found.relative_gap < _TIGHT:
            return found
    for size in _JUMP_SIZES:
        jumps = _jumps(composition, delta, found, size)
        if jumps is None:
            found = _both(found, _grid_epsilon(composition, capped, saddle, _LAST_SIZE, delta))
            break
        below, above = jumps
        lower, upper = below.epsilon(delta, found, above=False), above.epsilon(delta, found, above=True)
        found = _both(found, Interval(lower, upper))
        if found.relative_gap < _JUMPED:
            break
    if found.relative_gap > 0.5 and delta > 0.1:
        found = _both(found, _bisect(composition, delta, found))
    if not np.isfinite(found.upper):
        raise out_of_reach()
    return found


def _moment_epsilon(composition: Composition, saddle: Saddle, delta: float) -> float:
    """The bound by the moment at the saddle (Canonne, Kamath & Steinke 2020, Proposition 12)."""
    k = derivatives(composition, saddle.point)
    if k is None:
        return float(np.inf)
    return max(
        float((k.value + chernoff_peak(saddle.point) - np.log(delta)) / saddle.point) * (1 + 1e-9), 0.0
    )


def _split_epsilon(composition: Composition, delta: float) -> Interval:
    """A few pairs with wide losses, and all others, each accounted alone: useful if the few decide ε.

    Fewer events never cost more, so the few bound ε from below. From above, ε(δ₁) of the few and ε(δ₂) of the
    others add up at δ₁ + δ₂ (Dwork et al. 2006).
    """
    few, others = _split(composition)
    lower = epsilon_bounds(few, delta).lower
    left = delta - few.infinity - others.infinity
    if left < _SMALLEST_DELTA / _ASIDE:
        return Interval(lower, np.inf)
    above = epsilon_bounds(few, few.infinity + (1 - _ASIDE) * left).upper
    return Interval(lower, above + epsilon_bounds(others, others.infinity + _ASIDE * left).upper)


def _split_delta(composition: Composition, epsilon: float, saddle: Saddle) -> Interval:
    """The same for δ(ε): δ ≤ δ(ε − ε₂) of the few and δ(ε₂) of the others."""
    few, others = _split(composition)
    lower = delta_bounds(few, epsilon).lower
    aside = _ASIDE * max(lower, float(np.exp(saddle.log_delta)), 1e-190)
    given = (
        epsilon_bounds(others, min(others.infinity + aside, 0.5)).upper if others.infinity < 0.4 else np.inf
    )
    if not given < epsilon:
        return Interval(lower, 1.0)
    upper = delta_bounds(few, epsilon - given).upper + others.infinity + aside
    return Interval(lower, min(upper, 1.0))


def _split(composition: Composition) -> tuple[Composition, Composition]:
    """The pairs with the widest losses, at most ``_FEW``, and the others."""

    def width(part: tuple[Pair, int]) -> float:
        k = derivatives(Composition((part,)), 1.0)
        return np.inf if k is None else k.curvature

    order = sorted(composition.parts, key=width, reverse=True)
    return Composition(tuple(order[:_FEW])), Composition(tuple(order[_FEW:]))


def _bisect(composition: Composition, delta: float, known: Interval) -> Interval:
    """The enclosure of ε by a search over δ(ε). It is slow, for the bulk of a law, where no tilt is best."""
    ends = []
    for side in (0, 1):
        low, high = known.lower, min(known.upper, 1e6)
        for _ in range(40):
            middle = 0.5 * (low + high)
            low, high = (middle, high) if delta_bounds(composition, middle)[side] > delta else (low, middle)
        ends.append((low, high)[side])
    return Interval(*ends)


def _grid_delta(
    composition: Composition, capped: Composition, saddle: Saddle, size: int, epsilon: float
) -> Interval:
    below, above = laws_near(composition, capped, saddle, size)
    return Interval(below.delta(epsilon).lower, above.delta(epsilon).upper)


def _grid_epsilon(
    composition: Composition, capped: Composition, saddle: Saddle, size: int, delta: float
) -> Interval:
    below, above = laws_near(composition, capped, saddle, size)
    lower, upper = below.epsilon(delta, above=False), above.epsilon(delta, above=True)
    return Interval(max(lower, 0.0), max(upper, 0.0))


def largest_loss(composition: Composition) -> float:
    """The largest loss that the composition can show: an ε for every δ above the mass at infinity."""
    losses = [(pair.largest_loss, count) for pair, count in composition.parts]
    return sum(np.inf if loss is None else max(loss, 0.0) * count for loss, count in losses)


def _jumps(
    composition: Composition, delta: float, known: Interval, size: int
) -> tuple[OneJump, OneJump] | None:
    """The bounds by one far jump, from below and from above; for one sampled pair.

    ``delta`` is about δ, and ``known`` encloses ε.
    """
    ((pair, count), *others) = composition.parts
    if others or count < 2 or not isinstance(pair, SampledPair) or not isinstance(pair.base, GaussianPair):
        return None
    split, most, mass = split_loss(pair, count, delta)
    near = composition.cap(mass * count, edge=1e-3)
    saddle = saddle_for_epsilon(near, delta)
    if saddle is None:
        return None
    top = min(known.upper, max(saddle.epsilon, 2 * known.lower) + split)
    grid = grid_for(near, saddle._replace(epsilon=top), size)
    most = max(most, split)
    return (
        OneJump.of(pair, count, grid, split, most, above=False),
        OneJump.of(pair, count, grid, split, most, above=True),
    )


def _distance(composition: Composition) -> float:
    """An upper bound of δ(0): the sum of the total variation distances of the parts.

    For many pairs each distance is bounded too: by a largest loss (randomised response dominates the pair),
    or by Pinsker's inequality with the divergence μ²/2 of a discrete Gaussian (Canonne, Kamath & Steinke
    2020, Theorem 4).
    """
    if composition.is_many:
        return sum(count * _distance_at_most(pair) for pair, count in composition.parts)
    zero = np.zeros(1)
    return sum(count * (float(pair.delta(zero)[0]) + pair.infinity) for pair, count in composition.parts)


def _distance_at_most(pair: Pair) -> float:
    if isinstance(pair, DiscreteGaussianPair):
        return 0.5 * pair.shift / pair.scale
    largest = pair.largest_loss
    if largest is not None and pair.swap() is pair:
        return math.tanh(0.5 * max(largest, 0.0)) + pair.infinity
    return float(pair.delta(np.zeros(1))[0]) + pair.infinity


@_QUIET
def chernoff_delta(composition: Composition, epsilon: float) -> float:
    """A quick upper bound of δ(ε), by a moment near the best one."""
    if not composition.parts:
        return 0.0
    if epsilon >= largest_loss(composition) or _closed_form(composition) is not None:
        return delta_bounds(composition, epsilon).upper
    saddle = saddle_for_delta(composition, epsilon)
    if saddle is None:
        return 1.0
    k = derivatives(composition, saddle.point)
    bound = np.inf if k is None else k.value - saddle.point * epsilon + chernoff_peak(saddle.point)
    return float(np.exp(min(bound, 0.0))) + composition.infinity


class Sighting(NamedTuple):
    """An approximation of δ(ε), and whether it is enough for a search."""

    delta: float
    settled: bool


@_QUIET
def sight_delta(composition: Composition, epsilon: float, delta: float) -> Sighting:
    """δ(ε) for a search: the bound by a moment if it is well below ``delta``, else the saddle's."""
    if not composition.parts or _closed_form(composition) is not None:
        return Sighting(delta_bounds(composition, epsilon).upper, settled=True)
    capped = composition.cap(CAPPED * delta)
    saddle = saddle_for_delta(capped, epsilon, likely_tilt(epsilon, delta))
    k = None if saddle is None else derivatives(capped, saddle.point)
    if saddle is None or k is None:
        return Sighting(1.0, settled=True)
    level = k.value - saddle.point * epsilon + chernoff_peak(saddle.point)
    if level <= np.log(0.5 * delta):
        return Sighting(float(np.exp(max(level, -690.0))) + composition.infinity, settled=True)
    return Sighting(float(np.exp(saddle.log_delta)) + composition.infinity, settled=False)


def _closed_form(composition: Composition) -> Composition | None:
    """The same composition as one pair used once, where that is possible."""
    if len(composition.parts) > 1:
        return None
    ((pair, count),) = composition.parts
    if isinstance(pair, GaussianPair):
        return Composition(((GaussianPair(pair.mu * count**0.5), 1),))
    return composition if count == 1 else None


def _closed_epsilon(single: Composition, delta: float) -> Interval:
    pair = single.parts[0][0]

    def excess(epsilon: float, target: float) -> float:
        value = float(pair.delta(np.array([epsilon]))[0])
        return float(np.log(max(value, 1e-320)) - np.log(target))

    def solve(target: float) -> float:
        if target >= 1 or excess(0.0, target) <= 0:
            return 0.0
        high = 1e-9
        while excess(high, target) > 0:
            high *= 4
            if high > 1e15:
                raise out_of_reach()
        low = 0.0 if high == 1e-9 else high / 4
        return float(brentq(excess, low, high, args=(target,), xtol=1e-300, rtol=1e-14, maxiter=300))

    lower, upper = solve(delta * (1 + _CLOSED_FORM)), solve(delta * (1 - _CLOSED_FORM))
    return Interval(lower * (1 - 1e-13), upper * (1 + 1e-13))


def _line_epsilon(line: Contour, saddle: Saddle, most: float, least: float) -> Interval:
    """Newton steps along one contour to either end of the enclosure. Each end is verified by its own bound.

    ``most`` is the δ that is allowed if the capped losses do not count, ``least`` if they all count.
    """
    if line.delta(0.0).upper <= least:
        return Interval(0.0, 0.0)
    upper = _crossing(line, saddle.epsilon, least, lambda epsilon: line.delta(epsilon).upper)
    lower = _crossing(line, saddle.epsilon, most, lambda epsilon: line.delta(epsilon).lower)
    if upper is not None:
        upper = _verify(upper, least, lambda epsilon: line.delta(epsilon).upper, above=True)
    if lower is not None:
        lower = _verify(lower, most, lambda epsilon: line.delta(epsilon).lower, above=False)
    return Interval(max(lower or 0.0, 0.0), np.inf if upper is None else max(upper, 0.0))


def _lines_epsilon(lines: TwoLines, saddle: Saddle, most: float, least: float) -> Interval:
    below = _line_epsilon(lines.below, saddle, most, least)
    if lines.above is lines.below:
        return below
    above = _line_epsilon(lines.above, saddle, most, least)
    return Interval(below.lower, min(below.upper, above.upper))


def _crossing(line: Contour, start: float, delta: float, bound: Callable[[float], float]) -> float | None:
    epsilon, target = start, float(np.log(delta))
    for _ in range(60):
        value = bound(epsilon)
        slope = line.slope(epsilon)
        if not (value > 0 and slope < 0):
            return None
        move = (np.log(value) - target) * value / -slope
        epsilon = float(epsilon + np.clip(move, -4 / line.point, 4 / line.point))
        if abs(move) < 1e-13 * abs(epsilon) + 1e-300:
            return epsilon
    return None


def _verify(start: float, delta: float, bound: Callable[[float], float], *, above: bool) -> float | None:
    """The first point at or beyond ``start`` at which the bound is on the right side of δ."""
    epsilon, step = start, 1e-13 * abs(start) + 1e-300
    for _ in range(60):
        if (bound(epsilon) <= delta) if above else (bound(epsilon) >= delta):
            return epsilon
        epsilon += step if above else -step
        step *= 2
    return None


def _both(first: Interval, second: Interval) -> Interval:
    """The truth is in both enclosures, so it is in their intersection."""
    lower = max(first.lower, second.lower) if second.lower == second.lower else first.lower
    upper = min(first.upper, second.upper) if second.upper == second.upper else first.upper
    return enclosure(float(lower), float(upper))
