"""The pair of "the best of a random number of runs", by the profile of one run.

*Setting.* One run gives a result with a score, by the law P if the unit is in and Q if it is out. K runs are
made, K drawn apart from the data with f(z) = E[z^K]; the result with the highest score is shown, K is not.

*Theorem.* Let h(y) = H_y(P ‖ Q) be the profile of one run, for every y ≥ 0, and let C(x) = min over y of
h(y) + y x be its trade-off curve: no event of probability x under Q has more than C(x) under P. Let

    V(s) = max over x in [0, 1] of (f′(C(x)) s − f′(x))₊.

V is convex and V(0) = 0, so V(s) = Σ wᵢ (s − kᵢ)₊ with wᵢ > 0, and then the shown result has

    H_y(A ‖ A′) ≤ Σ wᵢ h(kᵢ y)    for every y ≥ 1.

*Proof.* Give each run an independent uniform number, by which equal scores are told apart; this changes
neither h nor the law of what is shown. Let S be score and number together. Then G(s) = P[S ≤ s] and
G′(s) = Q[S ≤ s] are continuous, and the shown result has the density f′(G(S)) with respect to P, and
f′(G′(S)) with respect to Q. So with r = dP/dQ

    H_y(A ‖ A′) = ∫ (f′(G) r − y f′(G′))₊ dQ,  apart from K = 0, which adds f(0)(1 − y)₊ = 0.

{S ≤ s} is an event, so G ≤ C(G′), and f′ rises. The integrand is at most y V(r/y) = Σ wᵢ (r − kᵢ y)₊, and
∫ (r − kᵢ y)₊ dQ = h(kᵢ y). Where Q has no mass, P's mass counts f′(1) = Σ wᵢ times, as in h. ∎

For y < 1 the other order is used: H_y(A ‖ A′) = 1 − y + y H_{1/y}(A′ ‖ A). The true profile is convex, so the
polygon through these values at any knots is above it.

*Pure runs*. If a run is ε₁-private, then 1 − C(x) ≥ exp(−ε₁)(1 − x), so f′(C)/f′ ≤ exp((1 + η) ε₁) for the
negative binomial law. No kᵢ is smaller than the inverse, so the shown result is (2 + η) ε₁-private, as
Papernot & Steinke 2022 say. The numbers keep to it: the lines of V are cut with this ratio.

*Reference*. The setting, the laws of K and the density above: Papernot & Steinke 2022 (arXiv 2110.03620v2,
Theorem 2 for the negative binomial law, Theorem 6 for Poisson: bounds of its Rényi divergence); Liu & Talwar
2019 for the geometric law. Koskela, Redberg & Wang 2024 bound the profile by m h(y/M), M the largest ratio
f′(C)/f′; since f′(1) = m and every kᵢ ≥ 1/M, the sum here is never larger before its rounding.
*Checked*: theorem numbers and the formulas of both theorems against second-hand sources (autodp's and
dp-accounting's code, and citations with pages); the paper itself was not at hand. No number of its figures
was compared: the tests evaluate its formulas instead. The bound is close to tight: a score may put results
of moderate r at the bottom, those of large r next, and those of small r at the top.
"""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import final

import numpy as np

from privet.accounting.atoms import Atom
from privet.accounting.collapsed import to_atoms
from privet.accounting.gridded import loss_range
from privet.accounting.pairs import AtomicPair, FinitePair, Pair, Reals
from privet.caveats import Caveat
from privet.events import BestOfNegativeBinomial, BestOfPoisson

__all__ = ["RunsLaw", "best_of", "law_of", "tuned_profile"]

_CELLS = 2048  # of the first grid over x
_FINE = 2e-4  # how far f′ may rise within a cell that counts, relatively
_ROUNDS = 8
_TERMS = 400  # of the sum Σ wᵢ h(kᵢ y)
_KNOTS = 4000  # of the polygon
_NEGLIGIBLE = 1e-16
_FURTHEST = 650.0  # a loss beyond has no exponential in float64
_ROUND_OFF = 1e-11  # relative; of profiles, which are summed up and interpolated


class RunsLaw(ABC):
    """The law of the number of runs K."""

    @property
    @abstractmethod
    def none(self) -> float:
        """P[K = 0]."""

    @abstractmethod
    def log_slope(self, x: Reals) -> Reals:
        """ln f′(x), f(x) = E[x^K]."""

    @abstractmethod
    def largest_log_ratio(self, loss: float, variation: float) -> float:
        """A bound of ln(f′(C(x))/f′(x)) for every x, where 1 − C(x) ≥ exp(−loss) (1 − x) and
        C(x) ≤ x + variation.
        """

    @abstractmethod
    def increments(self, q: Reals) -> Reals:
        """f(q₁ + … + qᵢ) − f(q₁ + … + qᵢ₋₁), for masses q that add up to at most 1."""


@final
@dataclass(frozen=True)
class PoissonRuns(RunsLaw):
    """f(x) = exp(m (x − 1))."""

    mean: float

    @property
    def none(self) -> float:
        return math.exp(-self.mean)

    def log_slope(self, x: Reals) -> Reals:
        return np.asarray(math.log(self.mean) + self.mean * (x - 1))

    def largest_log_ratio(self, loss: float, variation: float) -> float:
        return self.mean * variation

    def increments(self, q: Reals) -> Reals:
        after = np.cumsum(q[::-1])[::-1] - q  # the mass above each
        return np.asarray(np.exp(-self.mean * after) * -np.expm1(-self.mean * q))


@final
@dataclass(frozen=True)
class NegativeBinomialRuns(RunsLaw):
    """f′(x) = m (γ/(1 − (1 − γ) x))^(1 + η)."""

    mean: float
    shape: float
    stop: float

    @property
    def none(self) -> float:
        return 0.0

    def log_slope(self, x: Reals) -> Reals:
        left = 1 + (1 - x) * (1 / self.stop - 1)
        return np.asarray(math.log(self.mean) - (1 + self.shape) * np.log(left))

    def largest_log_ratio(self, loss: float, variation: float) -> float:
        return (1 + self.shape) * loss

    def increments(self, q: Reals) -> Reals:
        odds = 1 / self.stop - 1
        after = np.cumsum(q[::-1])[::-1] - q
        low, high = np.log1p(odds * (after + q)), np.log1p(odds * after)
        whole = math.log1p(odds)
        if abs(self.shape * whole) < 1e-12:
            return np.asarray((low - high) / whole)
        # (1 − (1 − γ) x)^(−η) in units of its value at x = 1; divided by its rise from x = 0 to 1
        fall = np.exp(-self.shape * high) * -np.expm1(-self.shape * (low - high))
        return np.asarray(fall / -math.expm1(-self.shape * whole))


def law_of(event: BestOfPoisson | BestOfNegativeBinomial) -> RunsLaw:
    """The law of the number of runs of an event."""
    if isinstance(event, BestOfPoisson):
        return PoissonRuns(event.mean)
    return NegativeBinomialRuns(event.mean, event.shape, event.stop)


@np.errstate(over="ignore", under="ignore", divide="ignore", invalid="ignore")
def best_of(run: Atom, law: RunsLaw) -> Atom:
    """The pair of the best of K runs, each of which has the pair ``run``.

    The lower bound is that of runs whose score is their own likelihood ratio.
    """
    caveats = run.caveats | {Caveat.LOOSE_LOWER_BOUND, Caveat.BEST_OF_SECRET_RUNS}
    return Atom(_above(run.upper, law), _below(run.lower, law), caveats)


def tuned_profile(run: Pair, law: RunsLaw) -> tuple[Reals, Reals]:
    """ln kᵢ and wᵢ of the theorem, for one order of neighbours."""
    return _merge_terms(*_hull(run, law))


def _trade_off(run: Pair) -> tuple[Reals, Reals]:
    """The lines h(y) + y x whose minimum is at least C(x): their y and h(y)."""
    low, high = loss_range(run, _NEGLIGIBLE)
    low, high = max(low, -_FURTHEST), min(high, _FURTHEST)
    losses = run.law()[0] if isinstance(run, AtomicPair) else np.empty(0)
    if losses.size > 2 * _CELLS:
        losses = losses[:: losses.size // _CELLS]
    y = np.exp(np.unique(np.concatenate([np.linspace(low, high, _CELLS), losses, [0.0]])))
    y, heights = np.append(0.0, y), np.append(1.0, np.minimum(run.delta(np.log(y)) + run.infinity, 1.0))
    heights = heights * (1 + _ROUND_OFF)
    kept = _lower_hull(y, heights)  # still above h, which is convex; without the dents of round-off
    return y[kept], heights[kept]


def _ceiling(x: Reals, lines: tuple[Reals, Reals]) -> Reals:
    """The minimum of the lines at each x, by the concave envelope's corners."""
    y, heights = lines
    at = np.searchsorted(-_corners(lines), -x, side="left")  # corners fall as y rises
    around = [np.clip(at + shift, 0, y.size - 1) for shift in (-1, 0, 1)]
    # Any line is above C, so a wrong one is loose and never wrong.
    lowest = np.min([heights[place] + y[place] * x for place in around], axis=0)
    return np.asarray(np.minimum(lowest, 1.0))


def _corners(lines: tuple[Reals, Reals]) -> Reals:
    """The x at which the next line becomes the lower one: −dh/dy, which falls."""
    y, heights = lines
    steps = -np.diff(heights) / np.diff(y)
    return np.minimum.accumulate(np.maximum(steps, 0.0))


def _hull(run: Pair, law: RunsLaw) -> tuple[Reals, Reals]:
    """V as ln kᵢ and wᵢ, from above: in a cell [x₀, x₁] the line is A s − max(B, A/R), A = f′(C(x₁)) and
    B = f′(x₀), where f′(C) ≤ R f′ everywhere.

    For s ≥ 1/R it is above every line of the cell, since a s − max(B, a/R) rises in a; for s < 1/R all of
    these are negative. Cells that count are cut until f′ is nearly constant in each.
    """
    lines = _trade_off(run)
    limit = _largest_log_ratio(run, law)
    even = np.linspace(0.0, 1.0, _CELLS + 1)
    spread = np.append(even, 1.0 - np.geomspace(1e-12, 1.0, _CELLS))  # f′ is steepest at x = 1
    x = np.unique(np.concatenate([spread, np.minimum(_corners(lines), 1.0), [0.0, 1.0]]))
    x = _even_out(x, law.log_slope(x) + law.log_slope(_ceiling(x, lines)))
    for _ in range(_ROUNDS):
        top, base = law.log_slope(_ceiling(x[1:], lines)), law.log_slope(x[:-1])
        logs, weights, used = _support(top, np.maximum(base, top - limit))
        rise = (law.log_slope(x[1:]) - base) + (top - law.log_slope(_ceiling(x[:-1], lines)))
        wide = used[(rise[used] > _FINE) & (np.diff(x)[used] > 1e-15)]
        if wide.size == 0 or x.size > 400_000:
            break
        parts = np.minimum(np.ceil(rise[wide] / _FINE), 24).astype(int)
        cuts = [np.linspace(x[i], x[i + 1], n + 1)[1:-1] for i, n in zip(wide, parts, strict=True)]
        x = np.unique(np.concatenate([x, *cuts]))
    return np.maximum(logs, -limit), weights  # corners were rounded down, and none is below 1/R


def _even_out(x: Reals, rising: Reals) -> Reals:
    """More x, so that what rises with it does so in equal steps."""
    steps = np.linspace(rising[0], rising[-1], 4 * _CELLS)
    return np.unique(np.append(x, np.interp(steps, rising, x)))


def _largest_log_ratio(run: Pair, law: RunsLaw) -> float:
    """ln R with f′(C(x)) ≤ R f′(x) for every x; infinite where nothing is known."""
    other = run.swap()
    loss = math.inf if other.infinity > 0 or other.largest_loss is None else max(other.largest_loss, 0.0)
    variation = float(run.delta(np.zeros(1))[0]) + run.infinity
    return law.largest_log_ratio(loss, min(variation * (1 + _ROUND_OFF), 1.0))


def _support(top: Reals, base: Reals) -> tuple[Reals, Reals, np.ndarray]:
    """max(0, max aⱼ s − bⱼ) for a = exp(top), b = exp(base): ln of its corners, the rises of its slope, and
    the lines that count.
    """
    peak = float(top.max())
    a, b = np.exp(top - peak), np.exp(base - peak)
    # With the line of 0, the lines that count are the lower convex hull of the points (a, b), from (0, 0) on.
    order = np.lexsort((b, a))
    hull: list[int] = []
    ends: list[tuple[float, float]] = [(0.0, 0.0)]
    last_a = -1.0
    for place in order:
        point = (float(a[place]), float(b[place]))
        if point[0] <= last_a or point[0] <= 0.0:
            continue
        last_a = point[0]
        while len(ends) > 1 and _turns_down(ends[-2], ends[-1], point):
            ends.pop()
            hull.pop()
        ends.append(point)
        hull.append(int(place))
    corner = np.array(ends)
    rises, gaps = np.diff(corner[:, 0]), np.diff(corner[:, 1])
    kept = rises > 0
    # Corners are rounded down, so that the sum is rounded up.
    logs = np.log(np.maximum(gaps[kept] / rises[kept], 1e-300)) - 1e-9
    return logs, rises[kept] * math.exp(peak), np.array(hull)


def _turns_down(first: tuple[float, float], second: tuple[float, float], third: tuple[float, float]) -> bool:
    return (second[1] - first[1]) * (third[0] - first[0]) >= (third[1] - first[1]) * (second[0] - first[0])


def _merge_terms(logs: Reals, weights: Reals) -> tuple[Reals, Reals]:
    """Fewer terms: (s − k)₊ is convex in k, so a weight split over the two next corners of a grid, with the
    same mean, gives no less. The grid is finest at the smallest corners, which decide δ.
    """
    if logs.size <= _TERMS:
        return logs, weights
    start, width = float(logs.min()), float(np.ptp(logs))
    grid = start + width * np.linspace(0.0, 1.0, _TERMS) ** 2
    grid[-1] = max(grid[-1], float(logs.max()))
    left = np.clip(np.searchsorted(grid, logs, side="right") - 1, 0, _TERMS - 2)
    share = np.clip(np.expm1(logs - grid[left]) / np.expm1(np.diff(grid)[left]), 0.0, 1.0)
    merged = np.bincount(left, weights * (1 - share), minlength=_TERMS)
    merged += np.bincount(left + 1, weights * share, minlength=_TERMS)
    return grid[merged > 0] - 1e-12, merged[merged > 0]


def _profile(run: Pair, terms: tuple[Reals, Reals], epsilon: Reals) -> Reals:
    """Σ wᵢ h(kᵢ y) at y = exp ε."""
    logs, weights = terms
    total = np.zeros_like(epsilon)
    for shift, weight in zip(logs.tolist(), weights.tolist(), strict=True):
        total += weight * run.delta(epsilon + shift)
    return np.asarray(np.minimum(total + weights.sum() * run.infinity, 1.0) * (1 + _ROUND_OFF))


def _above(run: Pair, law: RunsLaw) -> FinitePair:
    """A pair with losses on a grid that dominates the best of K runs."""
    other = run.swap()
    up, down = (tuned_profile(pair, law) for pair in (run, other))
    ends = [
        min(max(loss_range(pair, _NEGLIGIBLE)[1], 0.0) - float(terms[0].min()), _FURTHEST)
        for pair, terms in ((run, up), (other, down))
    ]
    step = max(*ends, 1e-9) * (1 + 1e-12) / (_KNOTS // 2)
    ahead, behind = (step * np.arange(math.ceil(end / step) + 1) for end in ends)
    first, second = _profile(run, up, ahead), _profile(other, down, behind)
    first[0] = second[0] = _total_variation(ahead, first, behind, second)
    return _polygon_pair(ahead, first, behind, second)


def _total_variation(ahead: Reals, up: Reals, behind: Reals, down: Reals) -> float:
    """The height at ε = 0, which both profiles share, of the convex hull from below of all points.

    H_y and 1 − y + y H_{1/y} of the swap are one convex function of y, so the hull is above it. Without it
    the masses of both sides could add up to more than 1: P[L > 0] + P[L < 0] = H_1 − H′ − H′ of the swap.
    """

    def mass(height: float) -> float:
        steepest = (
            float(np.max((height - heights[1:]) / np.expm1(losses[1:]), initial=0.0))
            for losses, heights in ((ahead, up), (behind, down))
        )
        return height + sum(steepest)

    high = float(min(up[0], down[0]))
    if mass(high) <= 1:
        return high
    low = 0.0
    while high - low > 1e-15:
        middle = 0.5 * (low + high)
        low, high = (low, middle) if mass(middle) > 1 else (middle, high)
    return high


def _polygon_pair(ahead: Reals, up: Reals, behind: Reals, down: Reals) -> FinitePair:
    """The pair whose profile is the polygon through ``up`` at the losses ``ahead`` ≥ 0, and whose swap's is
    that through ``down`` at the losses ``behind`` ≥ 0. Both are made convex first, which keeps them above.

    Each side is known without cancellation: P's masses of positive losses come from ``up``, Q's masses of
    negative ones from ``down``.
    """
    p_side, lost_p = _masses(ahead, up)
    q_side, lost_q = _masses(behind, down)
    losses = np.concatenate([-behind[:0:-1], [0.0], ahead[1:]])
    p = np.concatenate([(q_side * np.exp(-behind[1:]))[::-1], [0.0], p_side])
    q = np.concatenate([q_side[::-1], [0.0], p_side * np.exp(-ahead[1:])])
    left_p, left_q = 1.0 - lost_p - math.fsum(p), 1.0 - lost_q - math.fsum(q)
    same = max(min(left_p, left_q), 0.0)
    p[q_side.size] = same
    return FinitePair(
        tuple(losses.tolist()),
        tuple(p.tolist()),
        min(lost_p + max(left_p - same, 0.0), 1.0),
        min(lost_q + max(left_q - same, 0.0), 1.0),
    )


def _masses(losses: Reals, heights: Reals) -> tuple[Reals, float]:
    """P's masses at the losses but the first, and at infinity, of the convex polygon through the heights.

    The polygon is the least one that falls and is convex: the hull from below of the given points.
    """
    y = np.exp(losses)
    kept = _lower_hull(y, np.minimum.accumulate(heights))
    slopes = np.diff(heights[kept]) / np.diff(y[kept])
    masses = np.zeros_like(y)
    masses[kept[1:]] = y[kept[1:]] * np.diff(np.append(slopes, 0.0))
    return np.maximum(masses[1:], 0.0), float(heights[kept[-1]])


def _lower_hull(x: Reals, height: Reals) -> np.ndarray:
    kept: list[int] = []
    points = list(zip(x.tolist(), height.tolist(), strict=True))
    for place, point in enumerate(points):
        while len(kept) > 1 and _turns_down(points[kept[-2]], points[kept[-1]], point):
            kept.pop()
        kept.append(place)
    return np.array(kept)


def _below(run: Pair, law: RunsLaw) -> FinitePair:
    """Runs whose score is their likelihood ratio: a mechanism with this event, so it attains what it has."""
    sides = to_atoms(run)
    p = np.concatenate([[0.0], sides.p, [sides.lost_p]])
    q = np.concatenate([[sides.lost_q], sides.q, [0.0]])
    p, q = p / max(p.sum(), 1.0), q / max(q.sum(), 1.0)
    shown_p, shown_q = law.increments(p), law.increments(q)
    losses, masses = [0.0], [law.none]
    held = (shown_p > 0) & (shown_q > 0)
    losses += np.log(shown_p[held] / shown_q[held]).tolist()
    masses += shown_p[held].tolist()
    lost_p, lost_q = float(shown_p[shown_q == 0].sum()), float(shown_q[shown_p == 0].sum())
    return FinitePair(tuple(losses), tuple(masses), lost_p, lost_q)
