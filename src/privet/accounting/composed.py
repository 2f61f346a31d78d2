"""The profile of a composition in one direction: closed forms, then the contour, then the grid.

Each method gives an enclosure of the truth; two enclosures of one number are intersected.
"""

import numpy as np
from scipy.optimize import brentq

from privet.accounting.contour import Contour, Saddle, contour, saddle_for_delta, saddle_for_epsilon
from privet.accounting.cumulant import Composition, derivatives
from privet.accounting.lattice import Grid, Law, compose
from privet.accounting.pairs import GaussianPair
from privet.bounds import Interval
from privet.errors import OutOfReach

__all__ = ["delta_bounds", "epsilon_bounds"]

_CLOSED_FORM = 1e-11  # relative error of a profile in closed form, checked against 30 digits
_TIGHT = 1e-7  # relative gap of ε up to which no further method is asked
_GRID_SIZES = (1 << 13, 1 << 16, 1 << 19, 1 << 20)
_OUTSIDE = 34.0  # the window leaves out at most exp(−34) of the tilted mass on either side
_SIDES = np.array([0.0, 0.3, 0.6, 0.8, 0.9, 0.96, 1.0, 1.01, 1.05, 1.2, 1.6, 3.0])


def delta_bounds(composition: Composition, epsilon: float) -> Interval:
    """An enclosure of δ(ε), ε ≥ 0."""
    lost = composition.infinity
    if not composition.parts:
        return Interval(0.0, 0.0)
    single = _closed_form(composition)
    if single is not None:
        value = float(single.parts[0][0].delta(np.array([epsilon]))[0]) + lost
        return Interval(value * (1 - _CLOSED_FORM), min(value * (1 + _CLOSED_FORM), 1.0))
    saddle = saddle_for_delta(composition, epsilon)
    if saddle is None:
        raise _out_of_reach()
    line = contour(composition, saddle)
    found = Interval(0.0, 1.0)
    if line is not None:
        inner = line.delta(epsilon)
        found = Interval(lost + inner.lower, min(lost + inner.upper, 1.0))
    for size in _GRID_SIZES:
        if found.relative_gap < _TIGHT * (1 + saddle.point * epsilon):
            break
        below, above = _laws(composition, saddle, size)
        found = _both(found, Interval(below.delta(epsilon).lower, above.delta(epsilon).upper))
    return found


def epsilon_bounds(composition: Composition, delta: float) -> Interval:
    """An enclosure of the smallest ε ≥ 0 with δ(ε) ≤ δ; ``delta`` is above the mass at infinity."""
    lost = composition.infinity
    if not composition.parts:
        return Interval(0.0, 0.0)
    single = _closed_form(composition)
    if single is not None:
        return _closed_epsilon(single, delta - lost)
    saddle = saddle_for_epsilon(composition, delta - lost)
    if saddle is None:
        raise _out_of_reach()
    line = contour(composition, saddle)
    found = Interval(0.0, np.inf) if line is None else _line_epsilon(line, saddle, delta - lost)
    for size in _GRID_SIZES:
        if found.relative_gap < _TIGHT:
            break
        below, above = _laws(composition, saddle, size)
        grid = Interval(
            max(below.epsilon(delta, above=False), 0.0), max(above.epsilon(delta, above=True), 0.0)
        )
        found = _both(found, grid)
    if not np.isfinite(found.upper):
        raise _out_of_reach()
    return found


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
                raise _out_of_reach()
        low = 0.0 if high == 1e-9 else high / 4
        return float(brentq(excess, low, high, args=(target,), xtol=1e-300, rtol=1e-14, maxiter=300))

    lower, upper = solve(delta * (1 + _CLOSED_FORM)), solve(delta * (1 - _CLOSED_FORM))
    return Interval(lower * (1 - 1e-13), upper * (1 + 1e-13))


def _line_epsilon(line: Contour, saddle: Saddle, delta: float) -> Interval:
    """Newton steps along one contour to either end of the enclosure, each verified by its own bound."""
    if line.delta(0.0).upper <= delta:
        return Interval(0.0, 0.0)
    upper = _crossing(line, saddle.epsilon, delta, lambda epsilon: line.delta(epsilon).upper)
    lower = _crossing(line, saddle.epsilon, delta, lambda epsilon: line.delta(epsilon).lower)
    certified = Interval(0.0, np.inf)
    if upper is not None:
        certified = certified._replace(upper=upper)
    if lower is not None:
        certified = certified._replace(lower=max(lower, 0.0))
    return certified


def _crossing(line: Contour, start: float, delta: float, bound) -> float | None:  # type: ignore[no-untyped-def]
    epsilon, target = start, float(np.log(delta))
    for _ in range(60):
        value = bound(epsilon)
        slope = line.slope(epsilon)
        if not (value > 0 and slope < 0):
            return None
        move = (np.log(value) - target) * value / -slope
        epsilon = float(epsilon + np.clip(move, -4 / line.point, 4 / line.point))
        if abs(move) <= 4e-16 * abs(epsilon) + 1e-300 or (abs(move) < 1e-13 * abs(epsilon)):
            return epsilon
    return None


def _laws(composition: Composition, saddle: Saddle, size: int) -> tuple[Law, Law]:
    """The composition from below and from above on a grid of this size."""
    negligible = 1e-10 * float(np.exp(saddle.log_delta))
    grid = _grid(composition, saddle, size)
    return (
        compose(composition, grid, above=False, negligible=negligible),
        compose(composition, grid, above=True, negligible=negligible),
    )


def _grid(composition: Composition, saddle: Saddle, size: int) -> Grid:
    """The tilt that needs the narrowest window, the window, and a step that hits the atoms."""
    points = saddle.point * _SIDES
    found = [(float(c), derivatives(composition, float(c))) for c in points[1:]]
    known = [(0.0, float(np.log1p(-composition.infinity)))]
    known += [(c, k.value) for c, k in found if k is not None]
    tilts, levels = np.array(known).T
    best: tuple[float, Grid] | None = None
    for place in range(1, len(tilts) - 1):
        if tilts[place] < 0.5 * saddle.point or tilts[place] > 1.001 * saddle.point:
            continue
        right = (levels[place + 1 :] - levels[place] + _OUTSIDE) / (tilts[place + 1 :] - tilts[place])
        left = (levels[place] - levels[:place] - _OUTSIDE) / (tilts[place] - tilts[:place])
        end, start = right.min(), min(left.max(), 0.0, saddle.epsilon)
        width = max(float(end - start), 1e-300) * 1.02
        if best is None or width < best[0]:
            step = _aligned(composition, width / size)
            below, above = tilts[:place][left.argmax()], tilts[place + 1 :][right.argmin()]
            best = (width, Grid(step, size, float(start), float(tilts[place]), float(below), float(above)))
    if best is None:
        raise _out_of_reach()
    return best[1]


def _aligned(composition: Composition, step: float) -> float:
    """A step not below this one that has the atoms of the first pair with atoms on its grid."""
    for pair, _ in composition.parts:
        lattice = pair.lattice
        if lattice is not None and lattice.unit is not None and lattice.unit >= step:
            return float(lattice.unit / np.floor(lattice.unit / step))
    return step


def _both(first: Interval, second: Interval) -> Interval:
    """Both enclosures hold the truth, so their intersection does."""
    return Interval(max(first.lower, second.lower), min(first.upper, second.upper))


def _out_of_reach() -> OutOfReach:
    return OutOfReach(
        "The composition has no certified ε within float64, because its losses span too many scales. "
        "Ask at a larger δ, or account with privet.accounting.renyi."
    )
