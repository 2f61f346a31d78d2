"""Which grid is laid for a question: the tilt that needs the narrowest window, the window, and its step."""

import numpy as np

from privet.accounting.capped import CAPPED
from privet.accounting.contour import Saddle
from privet.accounting.cumulant import Composition, derivatives
from privet.accounting.lattice import Grid, Law, compose
from privet.errors import OutOfReach

__all__ = ["grid_for", "laws_near"]

_OUTSIDE = 34.0  # the window leaves out at most exp(−34) of the tilted mass on either side
_SIDES = np.array([0.0, 0.3, 0.6, 0.8, 0.9, 0.96, 1.0, 1.01, 1.05, 1.2, 1.6, 3.0])


def grid_for(composition: Composition, saddle: Saddle, size: int) -> Grid:
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
            step = _align_step(composition, width / size)
            below, above = tilts[:place][left.argmax()], tilts[place + 1 :][right.argmin()]
            best = (width, Grid(step, size, float(start), float(tilts[place]), float(below), float(above)))
    if best is None:
        raise OutOfReach(
            "The composition has no certified ε within float64, because its losses span too many scales. "
            "Ask at a larger δ, or account with privet.accounting.Renyi."
        )
    return best[1]


def laws_near(composition: Composition, capped: Composition, saddle: Saddle, size: int) -> tuple[Law, Law]:
    """The composition from below and from above on a grid of this size, which the capped one sets."""
    negligible = CAPPED * float(np.exp(saddle.log_delta))
    grid = grid_for(capped, saddle, size)
    return (
        compose(composition, grid, above=False, negligible=negligible),
        compose(composition, grid, above=True, negligible=negligible),
    )


def _align_step(composition: Composition, step: float) -> float:
    """A step not below this one that has the atoms of the first pair with atoms on its grid."""
    for pair, _ in composition.parts:
        lattice = pair.lattice
        if lattice is not None and lattice.unit is not None and lattice.unit >= step:
            return float(lattice.unit / np.floor(lattice.unit / step))
    return step
