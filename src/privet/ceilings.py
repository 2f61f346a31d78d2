"""The ceiling on every attack: the highest true-positive rate that a privacy profile leaves at a
false-positive rate.

Every ε proves a ceiling: δ(ε) + exp(ε)·fpr, and 1 − exp(−ε)(1 − δ(ε) − fpr). With y = exp(ε) for the first
and y = exp(−ε) for the second they are one function F(y) = H(y) + y·fpr of y > 0, because a symmetric profile
goes on below y = 1 as H(y) = 1 − y + y·H(1/y). H is convex, so F is: it has one minimum, and whatever was
evaluated bounds it from below as well.

Where the two orders of neighbours differ, the profile is the larger of the two at every ε, and its ceiling
holds for both. An attack meets one order, though, and the largest of two minima can be below the minimum of
the larger function. So the lower bound is then taken from either order by itself: H of the one order at y ≥
1, and H of the other one carried on below y = 1.

Reference: Kairouz, Oh & Viswanath 2015, Theorem 2.1; Dong, Roth & Su 2022, Proposition 6.
"""

import math
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from statistics import NormalDist
from typing import NamedTuple, final

from privet.arguments import open_fraction
from privet.bounds import Interval, enclosure

__all__ = ["Ceiling", "lowest_ceiling"]

_MOST = 12  # evaluations of the profile; one takes up to a tenth of a second
_MOST_NEAR = 6  # the same with a guess
_NEAREST = 6  # points at which the two orders of neighbours are compared
_PARTNERS = 5  # points on either side that secants are drawn through
_CLOSE = 1e-6  # the search ends at this relative distance between the ceiling and its lower bound
_BESIDE = 3e-7  # relative distance from a kink at which its slopes are taken
_ROUND_OFF = 4e-16
_FARTHEST = 700.0  # exp of it is a float


class Ceiling(NamedTuple):
    """The highest true-positive rate at some false-positive rate, and the ε that proved it."""

    tpr: Interval
    epsilon: float


class _Point(NamedTuple):
    """F at one place; places are y − 1, of which more digits are known than of y where ε is small."""

    place: float
    value: Interval


class _Line(NamedTuple):
    """height + slope · (place′ − place), at or below F wherever it is used."""

    place: float
    height: float
    slope: float

    def at(self, place: float) -> float:
        """Rounded down: a place is known to a few units in its last digit."""
        unsure = _ROUND_OFF * (abs(place) + abs(self.place))
        return self.height + self.slope * (place - self.place) - unsure * abs(self.slope)


class _Model(NamedTuple):
    """An estimate of the minimum, its value, and how close two points must be to prove it."""

    place: float
    value: float
    width: float


class _Cell(NamedTuple):
    """Between two neighbours F is at least ``floor``, which it could reach at ``place`` only."""

    floor: float
    place: float

    @property
    def epsilon(self) -> float:
        return min(abs(math.log1p(self.place)), _FARTHEST) if self.place > -1 else 40.0


def lowest_ceiling(
    profile: Callable[[float], Interval],
    fpr: float,
    *,
    near: float | None = None,
    orders: Callable[[float], tuple[Interval, Interval] | None] = lambda epsilon: None,
    convex: bool = True,
    kinks: Iterable[float] = (),
) -> Ceiling:
    """The least ceiling over all ε, in at most twelve evaluations; ``near`` is a guess of the ε that proves
    it.

    *Upper*: the least that was found; each is a ceiling. *Lower*: a secant of a convex function, carried on
    beyond its two points, is below it. So between two neighbouring points F is above the secants through the
    two points to the left and through the two to the right, taken with whichever ends of their enclosures
    make them lowest; F is also above 1 − (1 − fpr)·y and fpr·y, which close the outermost cells. The least
    over all cells bounds the minimum, wherever it is and whether or not the search found it. ``orders`` tells
    the two orders of neighbours apart where they differ. Without ``convex``, for upper bounds that are no
    profile themselves, the lower end is that of guessing. ``kinks`` are asked first and not counted: ε at
    which a profile that is a polygon may have its minimum.
    """
    search, most = _CeilingSearch(profile, open_fraction("fpr", fpr)), _MOST_NEAR
    asked = search.ask_around(kinks)
    if not (asked and search.gap() <= _CLOSE) and (near is None or not search.agrees(near)):
        most = _MOST
        search.start()
    most += asked
    search.refine(most)
    search.tighten(most)
    best = search.best()
    lower = max(search.floor(orders), fpr) if convex else fpr
    return Ceiling(enclosure(lower, search.highest()), best)


@final
@dataclass(eq=False)
class _CeilingSearch:
    """The points so far, and the next point to evaluate."""

    profile: Callable[[float], Interval]
    fpr: float
    found: dict[float, Interval] = field(default_factory=dict)

    def ask(self, epsilon: float) -> bool:
        """Whether the evaluation improved a bound."""
        close = any(abs(epsilon - other) <= 1e-13 * other for other in self.found)
        if close or not 0 <= epsilon <= _FARTHEST:
            return False
        self.found[epsilon] = self.profile(epsilon)
        return True

    def ask_around(self, kinks: Iterable[float]) -> int:
        """Ask at kinks and close to them on both sides, for the slopes there; how often it was asked."""
        for kink in kinks:
            for share in (1.0, 1 - _BESIDE, 1 + _BESIDE):
                self.ask(kink * share)
        return len(self.found)

    def value(self, epsilon: float, delta: float) -> float:
        """The better of both ceilings that this ε proves."""
        below = -math.expm1(-epsilon) + math.exp(-epsilon) * (delta + self.fpr)
        return min(delta + math.exp(epsilon) * self.fpr, below)

    def best(self) -> float:
        return min(self.found, key=lambda epsilon: self.value(epsilon, self.found[epsilon].upper))

    def agrees(self, near: float) -> bool:
        """Whether the profile around a guess has its minimum there."""
        if not 0 < near < 0.9 * _FARTHEST:
            return False
        for share in (1.0, 0.97, 1.03):
            self.ask(near * share)
        seen = self.model_minimum()
        if self.gap() <= _CLOSE:
            return True
        return seen is not None and abs(seen.place - near) < 0.1 * near

    def start(self) -> None:
        """Without a guess: what a Gaussian mechanism would have, and halving where that is far off."""
        asked = len(self.found)
        self.ask(0.0)
        guess = self.gaussian_guess()
        if guess is not None:
            for share in (1.0, 1.15):
                self.ask(min(guess * share, _FARTHEST))
        self.balance(asked + _MOST // 2)

    def gap(self) -> float:
        """How far the ceiling is above what convexity allows, relative to it."""
        best = self.best()
        reached = self.value(best, self.found[best].upper)
        return (min(reached, 1.0) - self.lowest_cell(trusting=True).floor) / reached

    def gaussian_guess(self) -> float | None:
        """The ε at which a Gaussian mechanism with this total variation would have its minimum."""
        normal, distance = NormalDist(), max(self.found[0.0].upper, 1e-12)
        if distance > 1 - 1e-12:  # no information
            return None
        mu = 2 * normal.inv_cdf(0.5 * (1 + distance))
        place = -normal.inv_cdf(min(max(self.fpr, 1e-300), 1 - 1e-16)) * mu - 0.5 * mu * mu
        highest = -math.log(self.fpr) if place > 0 else 40.0  # beyond, the ceiling is 1
        return max(min(abs(place), highest, _FARTHEST), 0.05 * mu)

    def balance(self, most: int) -> None:
        """Halve to where δ(ε) is as large as what it is added to: there a ceiling is at most twice the
        least.
        """
        while len(self.found) < most:
            if self.gap() <= 0.3:
                return
            heavy = [epsilon for epsilon, delta in self.found.items() if delta.upper > self.share(epsilon)]
            low = max(heavy, default=0.0)
            high = min((epsilon for epsilon in self.found if epsilon > low), default=self.farthest())
            if not self.ask(0.5 * (low + high)):
                return

    def share(self, epsilon: float) -> float:
        return min(math.exp(epsilon) * self.fpr, 0.5 * (1 - self.fpr))

    def farthest(self) -> float:
        """Beyond this ε every ceiling is 1."""
        return min(max(-math.log(self.fpr), 40.0), _FARTHEST)

    def refine(self, most: int) -> None:
        """Evaluate at the minimum of a smooth model, then on both sides of it. A model that was wrong is
        skipped for a while.

        Meanwhile ask where the lower bound is lowest, which finds kinks; every other time a little beyond,
        because secants come to a kink from one side only.
        """
        failures = resting = asked = 0
        hoped = math.inf
        while len(self.found) < most:
            best, kink = self.best(), self.lowest_cell(trusting=True)
            reached = self.value(best, self.found[best].upper)
            gap = min(reached, 1.0) - kink.floor
            if gap <= _CLOSE * reached:
                return
            if gap > hoped:
                failures += 1
                resting = 3 * failures
            model, hoped = self.model_minimum(), math.inf
            if model is None or resting > 0:
                asked, resting = asked + 1, resting - 1
                nearest = min(self.found, key=lambda epsilon: abs(epsilon - kink.epsilon))
                beyond = (
                    0.1 * (kink.epsilon - nearest) if asked % 2 == 0 or len(self.found) == most - 1 else 0.0
                )
                if not self.ask(kink.epsilon + beyond):
                    return
            elif abs(model.place - best) < 0.3 * model.width:
                if not self.ask(self.beside(best, model.width)):
                    resting = 2
            else:
                known = self.ask(model.place) and self.value(model.place, self.found[model.place].upper)
                erred = not known or abs(known - model.value) > 0.25 * gap
                hoped = 0.0 if erred else 0.5 * gap

    def tighten(self, most: int) -> None:
        """Evaluate twice more if wide enclosures leave the lower bound far below the ceiling."""
        for _ in range(2):
            best, cell = self.best(), self.lowest_cell(trusting=False)
            tight = self.found[best].lower > 0.5 * self.found[best].upper
            reached = min(self.value(best, self.found[best].lower), 1.0)
            if not tight or len(self.found) >= most or reached - cell.floor <= 1e-5 * reached:
                return
            self.ask(cell.epsilon)

    def beside(self, best: float, near: float) -> float:
        """A point close to the best one, on the side where the nearest other point is farther away."""
        places = sorted(self.found)
        index = bisect_left(places, best)
        left = best - places[index - 1] if index > 0 else math.inf
        right = places[index + 1] - best if index + 1 < len(places) else math.inf
        return best + near if right >= left else max(best - near, 0.0)

    def model_minimum(self) -> _Model | None:
        """The minimum if ln δ were a parabola in ε through the three best points."""
        usable = [epsilon for epsilon, delta in self.found.items() if delta.upper > 0]
        usable.sort(key=lambda epsilon: self.value(epsilon, self.found[epsilon].upper))
        if len(usable) < 3:
            return None
        a, b, c = sorted(usable[:3])
        levels = [math.log(self.found[place].upper) for place in (a, b, c)]
        first, second = (levels[1] - levels[0]) / (b - a), (levels[2] - levels[1]) / (c - b)
        bend = (second - first) / (c - a)

        def model_minimum(epsilon: float) -> float:
            level = levels[0] + (epsilon - a) * (first + bend * (epsilon - b))
            return self.value(epsilon, math.exp(min(level, 0.0)))

        wide = c - a
        place = _golden(model_minimum, max(a - 2 * wide, 0.0), min(c + 2 * wide, _FARTHEST))
        around = 0.01 * place + 1e-9
        value = model_minimum(place)
        bending = (model_minimum(place + around) + model_minimum(abs(place - around)) - 2 * value) / around**2
        width = math.sqrt(_CLOSE * value / bending) if bending > 0 else around
        return _Model(place, value, min(max(width, 1e-6 * place), 10 * around))

    def highest(self) -> float:
        """The ceiling, rounded up."""
        best = self.best()
        upper = self.value(best, self.found[best].upper) * (1 + _ROUND_OFF)
        return min(max(upper, self.fpr), 1.0)

    def floor(self, orders: Callable[[float], tuple[Interval, Interval] | None]) -> float:
        """The TPR that some attack reaches, rounded down; the better of the two orders, where they differ."""
        if orders(self.best()) is None:
            return self.lowest_cell(trusting=False).floor * (1 - 4 * _ROUND_OFF)
        near = sorted(self.found, key=lambda epsilon: self.value(epsilon, self.found[epsilon].upper))
        both = {epsilon: orders(epsilon) for epsilon in near[:_NEAREST]}
        known = {epsilon: pair for epsilon, pair in both.items() if pair is not None}
        floors = []
        for way in (0, 1):
            points = sorted(
                _points(self.fpr, {epsilon: (pair[way], pair[1 - way]) for epsilon, pair in known.items()})
            )
            floors.append(min(self.cells(points), key=lambda cell: cell.floor).floor)
        return max(floors) * (1 - 4 * _ROUND_OFF)

    def lowest_cell(self, *, trusting: bool) -> _Cell:
        """Where F could be lowest; ``trusting`` takes the upper ends for the truth, to steer by."""
        points = sorted(self.points(trusting=trusting))
        if trusting:
            points = _hull(points)
        return min(self.cells(points), key=lambda cell: cell.floor)

    def points(self, *, trusting: bool) -> Iterator[_Point]:
        """F at y = 0, and on either side of y = 1 for every ε that was asked."""
        seen = {
            epsilon: Interval(delta.upper, delta.upper) if trusting else delta
            for epsilon, delta in self.found.items()
        }
        return _points(self.fpr, {epsilon: (delta, delta) for epsilon, delta in seen.items()})

    def cells(self, points: list[_Point]) -> Iterator[_Cell]:
        start, rising = _Line(-1.0, 1.0, self.fpr - 1), _Line(-1.0, 0.0, self.fpr)
        for index, point in enumerate(points):
            behind, ahead = (
                points[max(index - _PARTNERS, 0) : index],
                points[index + 1 : index + 2 + _PARTNERS],
            )
            falling = [start, *(_secant(far, point) for far in behind)]
            growing = [rising, *(_secant(far, ahead[0]) for far in ahead[1:])]
            right = ahead[0].place if ahead else math.inf
            yield max(_lowest(one, other, point.place, right) for one in falling for other in growing)


def _points(fpr: float, found: dict[float, tuple[Interval, Interval]]) -> Iterator[_Point]:
    """F at y = 0; by the first of each two profiles at y = exp ε, and by the second one at y = exp(−ε)."""
    yield _Point(-1.0, Interval(1.0, 1.0))
    for epsilon, (ahead, back) in found.items():
        place, y = math.expm1(-epsilon), math.exp(-epsilon)
        if y > 1e-9:  # closer to 0 the line from there says the same
            yield _Point(place, Interval(*(y * (end + fpr) - place for end in _round(back))))
        if epsilon > 0:
            far = math.exp(epsilon) * fpr
            yield _Point(math.expm1(epsilon), Interval(*(end + far for end in _round(ahead))))


def _round(delta: Interval) -> Interval:
    return Interval(delta.lower * (1 - _ROUND_OFF), delta.upper * (1 + _ROUND_OFF))


def _hull(points: list[_Point]) -> list[_Point]:
    """The lower convex hull: drop points above a line through two others."""
    kept: list[_Point] = []
    for point in points:
        while len(kept) > 1 and _secant(kept[-2], kept[-1]).at(point.place) > point.value.upper:
            kept.pop()
        kept.append(point)
    return kept


def _secant(far: _Point, close: _Point) -> _Line:
    """The line through two points, to be used beyond the close one: as low as what is known of them
    allows.
    """
    rise, run = close.value.lower - far.value.upper, close.place - far.place
    unsure = math.copysign(_ROUND_OFF * (abs(close.place) + abs(far.place)), run)
    run += unsure if rise > 0 else -unsure
    if run * unsure <= 0:
        return _Line(close.place, -math.inf, 0.0)
    return _Line(close.place, close.value.lower, rise / run)


def _lowest(one: _Line, other: _Line, left: float, right: float) -> _Cell:
    """The least of the larger of two lines on an interval: at an end, or where they cross.

    Where they cross the smaller of the two is taken, which is below their common value if the place is a
    little off.
    """
    ends = (left,) if right == math.inf else (left, right)
    least = min(_Cell(max(one.at(place), other.at(place)), place) for place in ends)
    if one.slope == other.slope:
        return least
    crossing = left + (other.at(left) - one.at(left)) / (one.slope - other.slope)
    if not left <= crossing <= right:
        return least
    return min(least, _Cell(min(one.at(crossing), other.at(crossing)), crossing))


def _golden(function: Callable[[float], float], low: float, high: float) -> float:
    """A minimum by golden-section search, for cheap functions."""
    shrink = 0.5 * (math.sqrt(5) - 1)
    one, other = high - shrink * (high - low), low + shrink * (high - low)
    at_one, at_other = function(one), function(other)
    for _ in range(60):
        if at_one <= at_other:
            high, other, at_other = other, one, at_one
            one = high - shrink * (high - low)
            at_one = function(one)
        else:
            low, one, at_one = one, other, at_other
            other = low + shrink * (high - low)
            at_other = function(other)
    return 0.5 * (low + high)
