"""δ(ε) of a composition on a grid of losses, added up by a tilted Fourier transform.

Laws on a common grid add up as powers of a transform. The masses are first tilted by exp(cℓ) and normalised,
which moves the bulk to the losses that matter for δ, so that round-off and wrap-around are relative to δ and
not to 1.
"""

import math
from dataclasses import dataclass
from typing import NamedTuple, final

import numpy as np
from scipy import fft

from privet.accounting.cumulant import Composition
from privet.accounting.gridded import fits, on_grid
from privet.accounting.pairs import AtomicPair, Reals
from privet.bounds import Interval

__all__ = ["Grid", "Law", "Part", "Table", "compose", "exceed_sums", "sum_losses"]


# Relative round-off of δ on a grid, checked against 30 digits: of differences of profiles, and of exact
# masses.
_OF_DIFFERENCES, _OF_MASSES = 2e-7, 1e-10
_COARSE = 5.0  # steps above: sums have at most 150 terms


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
    """The tilted law of the summed loss on its window, and bounds on its errors.

    ``weights`` are exp(cℓ) P[ℓ] / exp(level); ``infinity`` is P's mass at +∞, ``stray`` bounds the tilted
    mass outside of the window, which wrapped around into it, and ``noise`` the round-off of a weight.
    """

    losses: Reals
    weights: Reals
    tilt: float
    level: float
    infinity: float
    stray: float
    noise: float
    allowance: float

    def delta(self, epsilon: float) -> Interval:
        """Bounds of this law's δ(ε), with round-off and wrap-around."""
        gap = self.losses[self.losses > epsilon] - epsilon
        kernel = -np.expm1(-gap) * np.exp(-self.tilt * gap)
        value = float(self.weights[self.losses > epsilon] @ kernel)
        scale = float(np.exp(min(self.level - self.tilt * epsilon, 700.0)))
        slack = self.slack + self.allowance * abs(value)
        lower = self.infinity + max(scale * (value - slack), 0.0)
        return Interval(lower, min(self.infinity + scale * (value + slack), 1.0))

    def epsilon(self, delta: float, *, above: bool) -> float:
        """Where δ(ε) plus (or minus) the slack crosses δ: an upper (or lower) bound for this law's ε."""
        if delta <= self.infinity:
            return float(np.inf) if above else 0.0
        # Chernoff's bound equals δ at ``origin``, so the crossing is left of it, and not far left.
        origin = (self.level - np.log(delta - self.infinity)) / self.tilt
        near = (self.losses > origin - 600.0 / self.tilt) & (self.losses > -2 * self._step())
        losses, weights = self.losses[near], self.weights[near]
        if losses.size < 2:
            return float(np.inf) if above else 0.0
        fallen = np.exp(np.maximum(-self.tilt * (losses - origin), -745.0))
        mass, scaled = _sums(weights * fallen, self._step())
        slack = self.slack * (1 if above else -1)
        wanted = 1 - self.allowance if above else 1 + self.allowance
        curve = mass - scaled + slack * fallen
        # An ε whose upper bound is at most δ is an upper bound of ε(δ). An ε whose lower bound exceeds δ is
        # a lower bound. The best one is where the curve crosses, in a cell where δ is linear in exp ε.
        if above:
            crossed = np.flatnonzero(curve <= wanted)
            if crossed.size == 0:
                return float(np.inf)
            place = int(crossed[0])
        else:
            held = np.flatnonzero(curve > wanted)
            if held.size == 0:
                return 0.0
            place = min(int(held[-1]) + 1, losses.size - 1)
        if place == 0:
            return float(losses[0])
        rest = mass[place] + slack * fallen[place - 1] - wanted
        if not (scaled[place] > 0 and rest > 0):
            return float(losses[place if above else place - 1])
        inside = losses[place] + np.log(rest / scaled[place])
        return float(np.clip(inside, losses[place - 1], losses[place]))

    def table(self) -> "Table":
        """Sums that give δ at any ε that is not far left of the tilted bulk."""
        fallen = np.exp(np.clip(self.level - self.tilt * self.losses, -745.0, 600.0))
        mass, scaled = _sums(self.weights * fallen, self._step())
        return Table(self.losses, mass, scaled, self.tilt, self.level, self.slack, self.allowance)

    def _step(self) -> float:
        return float(self.losses[1] - self.losses[0])

    @property
    def slack(self) -> float:
        """A bound on the error of every sum for δ, relative to exp(level − tilt · ε)."""
        # (1 − exp(−g)) exp(−cg) is at most 1/(1 + c), and its sum over a grid of step h at most
        # 1/(1 + c) + 1/(h c (1 + c)), nor more than the number of its points.
        spread = min(1 / (self._step() * self.tilt), self.losses.size)
        return (self.stray + self.noise * (1 + spread)) / (1 + self.tilt)


class Table(NamedTuple):
    """A law's mass from each loss upwards, plain and discounted by exp(ℓⱼ − ℓ), and its slack."""

    losses: Reals
    mass: Reals
    scaled: Reals
    tilt: float
    level: float
    slack: float
    allowance: float

    def delta(self, epsilon: Reals) -> tuple[Reals, Reals]:
        """Lower and upper bounds of δ at many ε at once."""
        place = np.searchsorted(self.losses, epsilon, side="right")
        inside = np.minimum(place, self.losses.size - 1)
        beyond = np.exp(np.minimum(epsilon - self.losses[inside], 0.0))
        value = np.where(place == inside, self.mass[inside] - beyond * self.scaled[inside], 0.0)
        slack = self.slack * np.exp(np.clip(self.level - self.tilt * epsilon, -745.0, 600.0))
        slack = slack + self.allowance * np.abs(value)
        return np.maximum(value - slack, 0.0), np.minimum(np.maximum(value, 0.0) + slack, 1.0)


def _sums(masses: Reals, step: float) -> tuple[Reals, Reals]:
    """Σ_{k ≥ j} mₖ and Σ_{k ≥ j} mₖ exp(ℓⱼ − ℓₖ), block by block so that no exponential overflows.

    On a coarse grid a block would hold few cells, and there would be millions of blocks. There the second sum
    is made term by term: exp(−k·step) is 0 in float64 after 750/step terms.
    """
    total = np.cumsum(masses[::-1])[::-1]
    if step > _COARSE:
        terms = masses.copy()
        for k in range(1, min(masses.size, int(750.0 / step) + 1)):
            terms[:-k] += masses[k:] * math.exp(-step * k)
        return total, terms
    scaled, carry = np.empty_like(masses), 0.0
    block = int(min(masses.size, max(500.0 / step, 1.0)))
    for start in range((masses.size - 1) // block * block, -1, -block):
        part = masses[start : start + block]
        fall = np.exp(-step * np.arange(part.size))
        inner = np.cumsum((part * fall)[::-1])[::-1] / fall
        scaled[start : start + block] = inner + carry * fall[-1] * np.exp(-step) / fall
        carry = float(scaled[start])
    return total, scaled


def exceed_sums(masses: Reals, step: float) -> Reals:
    """Σ_{k ≥ j} mₖ exp(ℓⱼ − ℓₖ) for masses on a grid of this step."""
    return _sums(masses, step)[1]


class Part(NamedTuple):
    """One pair's law on the grid, how much of P it leaves out, and how often it occurs."""

    losses: Reals
    masses: Reals
    lost: float
    times: int
    allowance: float = _OF_DIFFERENCES


def compose(composition: Composition, grid: Grid, *, above: bool, negligible: float) -> Law:
    """The law of the summed loss, of pairs that dominate (``above``) or are dominated."""
    parts = []
    for pair, count in composition.parts:
        floor = -(36.0 + np.log(count)) / grid.tilt  # tilted mass below it is negligible
        found = on_grid(pair, grid.step, above=above, negligible=negligible / count, floor=floor)
        exact = isinstance(pair, AtomicPair) and fits(pair, grid.step)
        parts.append(Part(*found, count, _OF_MASSES if exact else _OF_DIFFERENCES))
    return sum_losses(parts, grid)


def sum_losses(parts: list[Part], grid: Grid) -> Law:
    """The law of the sum, by one tilted Fourier transform."""
    log_transform = np.zeros(grid.size // 2 + 1, dtype=np.complex128)
    tilts = np.array([grid.tilt, grid.lower_tilt, grid.upper_tilt])
    levels, origin, log_kept, steps = np.zeros(3), 0.0, 0.0, 0
    for losses, masses, lost, count, _ in parts:
        heaviest = np.where(tilts >= 0, losses[-1], losses[0])  # so that no exponential exceeds 1
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            tilted = [
                masses * np.exp(tilt * (losses - end)) for tilt, end in zip(tilts, heaviest, strict=True)
            ]
            totals = np.array([float(part.sum()) for part in tilted])
            levels += count * (np.log(totals) + tilts * heaviest)
            folded = np.zeros(-(-losses.size // grid.size) * grid.size)
            folded[: losses.size] = tilted[0] / totals[0]
            folded = folded.reshape(-1, grid.size).sum(axis=0)
            log_transform += count * np.log(fft.rfft(folded))
        origin += count * float(losses[0])
        log_kept += count * float(np.log1p(-lost))
        steps += count
    broken = ~np.isfinite(log_transform)
    log_transform[broken] = -np.inf
    weights = fft.irfft(np.exp(log_transform), grid.size)
    shift = int(np.floor((grid.start - origin) / grid.step))
    losses = origin + grid.step * (shift + np.arange(grid.size))
    ends = np.array([0.0, losses[0], losses[-1]])
    beyond = np.exp(np.minimum(levels - levels[0] + (tilts[0] - tilts) * ends, 0.0))
    outside = beyond[2] + (beyond[1] if shift > 0 else 0.0)  # no sum is below the smallest one
    noise = 4 * np.finfo(float).eps * (8 + steps) / np.sqrt(grid.size)
    return Law(
        losses,
        np.roll(weights, -(shift % grid.size)),
        grid.tilt,
        float(levels[0]),
        float(-np.expm1(log_kept)),
        float(outside) if np.isfinite(outside) else 1.0,
        float(noise * np.abs(weights).max() ** 0.5),
        max(part.allowance for part in parts),
    )
