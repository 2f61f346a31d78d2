"""δ(ε) of a composition on a grid of losses, added up by a tilted Fourier transform.

Laws on a common grid add up as powers of a transform. The masses are first tilted by exp(cℓ) and normalised,
which moves the bulk to where δ is decided, so that round-off and wrap-around are relative to δ and not to 1.
"""

from dataclasses import dataclass
from typing import NamedTuple, final

import numpy as np
from scipy import fft

from privet.accounting.cumulant import Composition
from privet.accounting.gridded import on_grid
from privet.accounting.pairs import Reals
from privet.bounds import Interval

__all__ = ["Grid", "Law", "compose"]


@final
@dataclass(frozen=True)
class Grid:
    """Equally spaced losses; the window for the sum is [start, start + size · step)."""

    step: float
    size: int
    start: float
    tilt: float
    lower_tilt: float
    upper_tilt: float


class Law(NamedTuple):
    """The tilted law of the summed loss on its window, and what it does not show.

    ``weights`` are exp(cℓ) P[ℓ] / exp(level); ``infinity`` is P's mass at +∞, ``stray`` bounds the tilted mass
    outside of the window, which wrapped around into it, and ``noise`` the round-off of a weight.
    """

    losses: Reals
    weights: Reals
    tilt: float
    level: float
    infinity: float
    stray: float
    noise: float

    def delta(self, epsilon: float) -> Interval:
        """What this law's δ(ε) is, with round-off and wrap-around on either side."""
        gap = self.losses[self.losses > epsilon] - epsilon
        kernel = -np.expm1(-gap) * np.exp(-self.tilt * gap)
        value = float(self.weights[self.losses > epsilon] @ kernel)
        scale = float(np.exp(min(self.level - self.tilt * epsilon, 700.0)))
        slack = self._slack()
        lower = self.infinity + max(scale * (value - slack), 0.0)
        return Interval(lower, min(self.infinity + scale * (value + slack), 1.0))

    def epsilon(self, delta: float, *, above: bool) -> float:
        """Where δ(ε) plus (or minus) the slack crosses δ: an upper (or lower) bound for this law's ε."""
        origin = self.losses[0]
        fallen = np.exp(-self.tilt * (self.losses - origin))
        height = float(np.exp(min(self.level - self.tilt * origin, 700.0)))
        slack = self._slack() * (1 if above else -1)
        mass = np.cumsum((self.weights * fallen)[::-1])[::-1]
        scaled = np.cumsum((self.weights * fallen * np.exp(origin - self.losses))[::-1])[::-1]
        wanted = (delta - self.infinity) / height
        curve = mass - np.exp(self.losses - origin) * scaled + slack * fallen
        # Any ε whose upper bound is at most δ is an upper bound of ε(δ), and any ε whose lower bound exceeds δ a
        # lower bound; the best is where the curve crosses, in a cell where δ is linear in exp ε.
        if above:
            crossed = np.flatnonzero(curve <= wanted)
            if crossed.size == 0:
                return float(np.inf)
            place = int(crossed[0])
        else:
            held = np.flatnonzero(curve > wanted)
            if held.size == 0:
                return 0.0
            place = min(int(held[-1]) + 1, self.losses.size - 1)
        if place == 0:
            return float(origin)
        rest = mass[place] + slack * fallen[place - 1] - wanted
        if not (scaled[place] > 0 and rest > 0):
            return float(self.losses[place if above else place - 1])
        inside = origin + np.log(rest / scaled[place])
        return float(np.clip(inside, self.losses[place - 1], self.losses[place]))

    def _slack(self) -> float:
        # (1 − exp(−g)) exp(−cg) is at most 1/(1 + c), and its sum over a grid of step h at most
        # 1/(1 + c) + 1/(h c (1 + c)).
        step = self.losses[1] - self.losses[0]
        return (self.stray + self.noise * (1 + 1 / (step * self.tilt))) / (1 + self.tilt)


def compose(composition: Composition, grid: Grid, *, above: bool, negligible: float) -> Law:
    """The law of the summed loss, of pairs that dominate (``above``) or are dominated."""
    log_transform = np.zeros(grid.size // 2 + 1, dtype=np.complex128)
    tilts = np.array([grid.tilt, grid.lower_tilt, grid.upper_tilt])
    levels, origin, log_kept, steps = np.zeros(3), 0.0, 0.0, 0
    for pair, count in composition.parts:
        floor = -(36.0 + np.log(count)) / grid.tilt  # tilted mass below it is negligible
        losses, masses, lost = on_grid(
            pair, grid.step, above=above, negligible=negligible / count, floor=floor
        )
        shifted = losses - losses[0]
        sums = [masses * np.exp(tilt * (shifted - shifted[-1])) for tilt in tilts]
        totals = np.array([float(part.sum()) for part in sums])
        with np.errstate(divide="ignore", invalid="ignore"):
            levels += count * (np.log(totals) + tilts * losses[-1])
            folded = np.zeros(-(-losses.size // grid.size) * grid.size)
            folded[: losses.size] = sums[0] / totals[0]
            folded = folded.reshape(-1, grid.size).sum(axis=0)
            log_transform += count * np.log(fft.rfft(folded))
        origin += count * float(losses[0])
        log_kept += count * float(np.log1p(-lost))
        steps += count
    log_transform.real[~np.isfinite(log_transform)] = -np.inf
    log_transform.imag[~np.isfinite(log_transform)] = 0.0
    summed = fft.irfft(np.exp(log_transform), grid.size)
    shift = int(np.floor((grid.start - origin) / grid.step))
    losses = origin + grid.step * (shift + np.arange(grid.size))
    ends = np.array([0.0, losses[0], losses[-1]])
    outside = np.exp(np.minimum(levels - levels[0] + (tilts[0] - tilts) * ends, 0.0))[1:].sum()
    noise = 4 * np.finfo(float).eps * (8 + steps) / np.sqrt(grid.size)
    return Law(
        losses,
        np.roll(summed, -(shift % grid.size)),
        grid.tilt,
        float(levels[0]),
        float(-np.expm1(log_kept)),
        float(outside) if np.isfinite(outside) else 1.0,
        float(noise * np.abs(summed).max() ** 0.5),
    )
