"""δ(ε) of a composition by a contour integral through the saddle point, with its error bound.

For every c > 0,

    δ(ε) = 1/(2πi) ∫ exp(K(s) − s ε) / (s (s + 1)) ds     along Re s = c,

because exp(−sε)/(s(s+1)) is the two-sided Laplace transform in ℓ of (1 − exp(ε − ℓ))₊. The trapezoid
rule with step h gives, by Poisson summation, *exactly*

    Σₘ exp(c m W) δ(ε + m W),    W = 2π/h,  m ∈ ℤ,

so its error is positive: the aliases, which Chernoff's bound controls. The other errors are the cut-off of
the sum and float64 round-off; docs/numerics.md has the whole argument.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias, final

import numpy as np
from numpy.typing import NDArray

from privet.accounting.cumulant import Composition, Derivatives, derivatives, line
from privet.accounting.fading import log_fading
from privet.bounds import Interval

__all__ = [
    "Contour",
    "Saddle",
    "chernoff_peak",
    "contours",
    "laid_out",
    "saddle_for_delta",
    "saddle_for_epsilon",
    "solve",
]

_ALIAS = 42.0  # aliases are kept below exp(−42) ≈ 1e-18 of Chernoff's bound on the value
_DECAYED = (1e-16, 1e-23)  # relative to the first term: at first, and where digits cancel
_FADED = 1e-12  # the sum of the terms beyond the last, relative to the first, that needs no more terms
_LOOSE = 1e-2  # the same, above which a line is not used
_MOST_NODES = 1 << 14
_LARGEST_TILT = 1e14
_NEAR = np.array([0.6, 0.8, 0.92, 1.0, 1.02, 1.2, 2.0])  # points to look at, × saddle

Gradient: TypeAlias = Callable[[float, Derivatives], tuple[float, float]]


@final
@dataclass(frozen=True, eq=False)
class Contour:
    """The nodes of one vertical line. They serve every ε near the one that the line was made for."""

    point: float
    step: float
    level: float  # K(c)
    places: NDArray[np.int64]  # k of the points c + ikh
    terms: NDArray[np.complex128]  # exp(K(s) − K(c)) / (s (s + 1))
    noise: NDArray[np.float64]  # relative float64 error of each term
    cut: float  # an upper bound on the sum of the terms beyond the last one
    chernoff: "Chernoff"

    def delta(self, epsilon: float) -> Interval:
        """Lower and upper bound of δ(ε), mass at infinity not included."""
        offsets = self.step * self.places
        turned = (self.terms * np.exp(-1j * epsilon * offsets)).real
        shift = abs(self.level) + self.point * abs(epsilon)
        noise = self.noise + 4 * np.finfo(float).eps * (1 + shift + offsets * abs(epsilon))
        slack = float(np.abs(self.terms) @ noise) + self.cut
        total = float(turned.sum() - 0.5 * turned[0])
        scale = float(np.exp(self.level - self.point * epsilon)) * self.step / np.pi
        lower = scale * (total - slack) - self._aliases(epsilon)
        return Interval(max(lower, 0.0), min(scale * (total + slack), 1.0))

    def slope(self, epsilon: float) -> float:
        """dδ/dε = −exp(ε) Q[L > ε], for Newton's steps; no bound depends on it."""
        offsets = self.step * self.places
        s = self.point + 1j * offsets
        turned = (-s * self.terms * np.exp(-1j * epsilon * offsets)).real
        scale = float(np.exp(self.level - self.point * epsilon)) * self.step / np.pi
        return scale * float(turned.sum() - 0.5 * turned[0])

    def _aliases(self, epsilon: float) -> float:
        window = 2 * np.pi / self.step
        left = 1.0 / np.expm1(min(self.point * window, 700.0))
        return float(left + np.exp(min(self.chernoff.alias(self.point, epsilon, window), 0.0)))


@final
@dataclass(frozen=True, eq=False)
class Chernoff:
    """ln δ(ε) ≤ level(c′) − c′ ε with level(c) = K(c) + c ln c − (1 + c) ln(1 + c), at some points c′."""

    points: NDArray[np.float64]
    levels: NDArray[np.float64]

    def alias(self, point: float, epsilon: float, window: float) -> float:
        """ln of a bound on Σ_{m ≥ 1} exp(c m W) δ(ε + m W)."""
        above = self.points > point
        ahead = (self.points[above] - point) * window
        terms = self.levels[above] - self.points[above] * epsilon - ahead - np.log(-np.expm1(-ahead))
        return float(terms.min(initial=np.inf))

    def window(self, point: float, epsilon: float, log_target: float) -> float:
        """The narrowest window for which the aliases on both sides stay below the target."""
        above = self.points > point
        right = self.levels[above] - self.points[above] * epsilon - log_target
        needed = (right / (self.points[above] - point)).min(initial=np.inf)
        return max(float(needed), -log_target / point)


class Saddle(NamedTuple):
    """Where a line crosses the real axis: c, an ε near the answer, and an approximation of ln δ there."""

    point: float
    epsilon: float
    log_delta: float


def saddle_for_delta(composition: Composition, epsilon: float, start: float = 1.0) -> Saddle | None:
    """The saddle of Ψ(c) = K(c) − c ε − ln c − ln(1 + c), with ln δ ≈ Ψ − ½ ln 2πΨ″."""

    def gradient(c: float, k: Derivatives) -> tuple[float, float]:
        slope = c * (k.slope - epsilon) - 1 - c / (1 + c)
        return slope, c * c * k.curvature + 1 + c / (1 + c) - c / (1 + c) ** 2

    found = solve(composition, gradient, start)
    return None if found is None else Saddle(found[0], epsilon, _height(found[0], found[1], epsilon))


def saddle_for_epsilon(composition: Composition, delta: float) -> Saddle | None:
    """The saddle at which ln δ is about the given value.

    Every c is the saddle of one ε, K′(c) − 1/c − 1/(1 + c), so the search is over c alone.
    """
    wanted = float(np.log(delta))

    def gradient(c: float, k: Derivatives) -> tuple[float, float]:
        missing = wanted - _height(c, k, _saddle_epsilon(c, k))
        return missing, c * c * (k.curvature + c**-2 + (1 + c) ** -2)

    found = solve(composition, gradient)
    return None if found is None else Saddle(found[0], max(_saddle_epsilon(*found), 0.0), wanted)


def _saddle_epsilon(c: float, k: Derivatives) -> float:
    """The ε whose saddle is at c."""
    return k.slope - 1 / c - 1 / (1 + c)


def _height(c: float, k: Derivatives, epsilon: float) -> float:
    """The saddle-point approximation of ln δ(ε), for a search."""
    curvature = k.curvature + c**-2 + (1 + c) ** -2
    level = k.value - c * epsilon - np.log(c) - np.log1p(c) - 0.5 * np.log(2 * np.pi * curvature)
    return float(min(level, 0.0))


@np.errstate(over="ignore", under="ignore", divide="ignore", invalid="ignore")
def solve(
    composition: Composition, gradient: Gradient, start: float = 1.0
) -> tuple[float, Derivatives] | None:
    """The root of an increasing function of ln c, by Newton steps inside a bracket."""
    low, high, position = -40.0, float(np.log(_LARGEST_TILT)), float(np.log(start))
    best: tuple[float, Derivatives] | None = None
    same_side = 0
    for _ in range(100):
        c = float(np.exp(position))
        k = derivatives(composition, c)
        if k is None:  # beyond float64: the root is below
            high = position
            position = 0.5 * (low + high)
        else:
            best = (c, k)
            value, rise = gradient(c, k)
            if not (np.isfinite(value) and rise > 0):
                return None
            same_side = same_side + 1 if value > 0 else 0
            low, high = (low, position) if value > 0 else (position, high)
            move = float(np.clip(-value / rise, -2.0, 4.0))
            if abs(move) < 3e-2 and abs(move * value) < 0.1:
                return best
            position += move
            # Where the far hump begins, K grows so fast that Newton's steps are tiny: bisect instead.
            if same_side > 2 or not low < position < high:
                position = 0.5 * (low + high)
                same_side = 0
        if high - low < 1e-6:
            return best
    return best


def contours(composition: Composition, saddle: Saddle) -> Iterator[Contour]:
    """Lines for one question, the cheapest first and then those with more nodes and more digits.

    Where K grows very fast just above the saddle (losses with a far hump), the aliases there decay slowly. A
    line a little below needs far fewer nodes, but more digits cancel. For many different pairs see
    ``truncate_line``.
    """
    if composition.is_many or not any(pair.smooth for pair, _ in composition.parts):
        return
    layout = laid_out(composition, saddle)
    if layout is None:
        return
    chernoff, reach, usable, widths, order = layout
    closest = 0
    for attempt, place in enumerate(order[:3]):
        if place < closest or not reach * widths[place] < 2 * np.pi * _MOST_NODES:
            continue
        closest = place
        step, decayed = 2 * np.pi / widths[place], _DECAYED[min(attempt, 1)]
        laid = _lay_line(composition, float(usable[place]), step, reach, decayed, chernoff)
        if laid is not None:
            yield laid


def laid_out(composition: Composition, saddle: Saddle) -> "ContourLayout | None":
    """Where lines may cross the real axis, how wide their windows must be, and which is the cheapest."""
    chernoff = _chernoff(composition, saddle.point)
    bulk = derivatives(composition, float(chernoff.points[0])) if chernoff.points.size else None
    if bulk is None:
        return None
    reach = 8.5 / float(np.sqrt(bulk.curvature + 0.1 / saddle.point**2))
    usable = chernoff.points[chernoff.points < 1.001 * saddle.point]
    widths = [chernoff.window(float(c), saddle.epsilon, saddle.log_delta - _ALIAS) for c in usable]
    order = np.argsort(np.array(widths) * (1 + 0.01 * np.arange(len(widths))[::-1]))
    return ContourLayout(chernoff, reach, usable, widths, [int(place) for place in order])


class ContourLayout(NamedTuple):
    """Points on the real axis with their windows, the cheapest first, and about where the terms end."""

    chernoff: Chernoff
    reach: float
    points: NDArray[np.float64]
    widths: list[float]
    order: list[int]


def _lay_line(
    composition: Composition,
    point: float,
    step: float,
    reach: float,
    decayed: float,
    chernoff: Chernoff,
) -> Contour | None:
    """The line at ``point``, so long that all later terms are negligible.

    A small term does not imply that later ones are small: the transform of losses on a lattice is periodic.
    """
    k = derivatives(composition, point)
    if k is None:
        return None
    terms, noise = np.zeros(0, dtype=np.complex128), np.zeros(0)
    count, cut = max(int(reach / step), 24), None
    while terms.size + count <= _MOST_NODES:
        places = terms.size + np.arange(count)
        laid = line(composition, point, step, places)
        if laid is None:
            break
        s = point + 1j * step * places
        terms = np.concatenate([terms, np.exp(laid.values - k.value) / (s * (s + 1))])
        noise = np.concatenate([noise, laid.error])
        size = np.abs(terms)
        tail, cut = float(size[-max(terms.size // 8, 4) :].max()), None
        if tail < decayed * size[0]:
            cut = _beyond(composition, point, step, terms.size)
            if cut < _FADED * size[0]:
                break
        count = terms.size
    if cut is None:
        cut = _beyond(composition, point, step, terms.size) if terms.size else np.inf
    if not cut < _LOOSE * np.abs(terms[:1]).max(initial=0.0):
        return None
    return Contour(point, step, k.value, np.arange(terms.size), terms, noise, cut, chernoff)


def _beyond(composition: Composition, point: float, step: float, count: int) -> float:
    """An upper bound on the sum of all terms from this one on.

    |exp(K(s) − K(c))| is at most 1, and less where the transforms of pairs have faded. Σ 1/|s (s + 1)| is at
    most Σ 1/(kh)².
    """
    frequency = step * count
    faded = sum(times * log_fading(pair, point, frequency) for pair, times in composition.parts)
    return float(np.exp(max(faded, -700.0)) / (step * step * (count - 1)))


def chernoff_peak(c: float) -> float:
    """ln max over ℓ of (1 − exp(ε − ℓ)) exp(−c (ℓ − ε)) = c ln c − (1 + c) ln(1 + c)."""
    return float(-c * np.log1p(1 / c) - np.log1p(c))


def _chernoff(composition: Composition, saddle: float) -> Chernoff:
    found = []
    for c in saddle * _NEAR:
        k = derivatives(composition, float(c))
        if k is None:
            break
        found.append((c, k.value + chernoff_peak(float(c))))
    table = np.array(found).reshape(-1, 2)
    return Chernoff(table[:, 0], table[:, 1])
