"""Posterior beliefs: what a reader may believe after a release, and with which probability the bound fails.

A reader holds prior odds p : (1 − p) that a unit is in, and sees an output y. The odds after it are the odds
before it, times exp(L(y)), where L is the privacy loss of what the reader saw. So a belief stays within p /
(p + (1 − p) exp(±ε′)) except where |L| > ε′, and the question is how probable that is.

*ε(δ) does not answer it.* δ(ε) is the mean of (1 − exp(ε − L))₊, which is far below P[L > ε] where L is only
a little above ε: for Gaussian noise at δ = 1e-5, P[L > ε(δ)] is 5 δ at σ = 1 and 170 δ at σ = 50.

*The bound.* (1 − exp(a − L))₊ is at least 1 − exp(a − ε′) wherever L > ε′ > a, so that

    P[L > ε′] ≤ δ(a) / (1 − exp(a − ε′))    for every a < ε′.

With a = ε and t = ε′ − ε this is the known δ / (1 − exp(−t)) (Kasiviswanathan & Smith 2014); here the least
over all a is taken. That least bound is attained: join all outputs with L > a to one, with a such that the
joint odds are exp(ε′). So it is the exact statement for everything that can be *computed* from the outputs.
The law of L itself, P[L > ε′], is no such statement: joining outputs can make it larger, and a reader of a
model sees a function of what was released.

*Both sides, either truth.* L > ε′ has probability P[L > ε′] if the unit is in, and at most exp(−ε′) times
that if it is out; L < −ε′ likewise with the roles exchanged. A curve is the worse of both orders of
neighbours, so with B for the bound above the belief leaves the interval, on whichever side and whichever is
true, with probability at most (1 + exp(−ε′)) B.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple, final

from privet.bounds import Interval

__all__ = ["KeptLoss", "belief_interval", "least_loss_bound"]

Profile = Callable[[float], float]

_STEPS = 40  # at most this many evaluations of the profile; a smooth one takes about six
_CLOSE = 1e-8  # the search ends at this relative distance from the prediction
_FARTHEST = 700.0  # exp of it is a float


class KeptLoss(NamedTuple):
    """The privacy loss is within ± ``loss``, except with a probability of at most ``failure``."""

    loss: float
    failure: float

    def posterior(self, prior: float) -> Interval:
        """The interval of the belief of a reader with this prior."""
        return belief_interval(prior, self.loss)


def belief_interval(prior: float, loss: float) -> Interval:
    """The interval of a belief after a privacy loss between −``loss`` and ``loss``.

    >>> belief_interval(0.5, 0.0)
    Interval(lower=0.5, upper=0.5)
    """
    odds = math.log(prior) - math.log1p(-prior)
    return Interval(_logistic(odds - loss), _logistic(odds + loss))


def least_loss_bound(profile: Profile, delta: float, start: float) -> float | None:
    """The least ε′ with P[|L| > ε′] ≤ δ that a profile proves; None where it proves none.

    ``profile`` bounds δ(ε) from above, and ``start`` is about the ε at which that is ``delta``; δ > 0. Every
    point that is looked at proves a bound, so a search that misses the least one still ends with one that
    holds.
    """
    search = _LossSearch(profile, delta)
    step, before = 0.05 * start + 1e-3 * delta, math.inf
    while start + step <= _FARTHEST and (search.least < before or not math.isfinite(search.least)):
        before = search.least
        search.ask(start + step)
        step *= 2
    if not math.isfinite(search.least):
        return None
    search.refine(start)
    return search.least


@final
@dataclass(eq=False)
class _LossSearch:
    """The points so far: a place a, and δ(a)."""

    profile: Profile
    delta: float
    seen: dict[float, float] = field(default_factory=dict)

    def bound(self, place: float, there: float) -> float:
        """δ(a) (1 + exp(−ε′)) = δ (1 − exp(a − ε′)), solved for ε′."""
        share = there / self.delta
        if share >= 1:
            return math.inf
        return place + math.log1p(share * math.exp(-place)) - math.log1p(-share)

    def ask(self, place: float) -> None:
        self.seen[place] = self.profile(place)

    @property
    def best(self) -> float:
        return min(self.seen, key=lambda place: self.bound(place, self.seen[place]))

    @property
    def least(self) -> float:
        return min((self.bound(*point) for point in self.seen.items()), default=math.inf)

    def refine(self, start: float) -> None:
        """Evaluate at the minimum of a smooth model and of a piecewise linear one, until one of them predicts
        it.
        """
        for attempt in range(_STEPS):
            below, above = self.around(start)
            if above - below <= _CLOSE * above:
                return
            foretold, place = math.inf, self.kink(below, above) if attempt % 2 else self.smooth(below, above)
            if place is None or attempt % 5 == 4 or self.near(place):
                place = self.bisect(below, above)
            elif attempt % 2 == 0:
                foretold = self.foretold(place)
            self.ask(place)
            found = self.bound(place, self.seen[place])
            if found <= self.least and abs(found - foretold) <= _CLOSE * found:
                return

    def near(self, place: float) -> bool:
        """Whether this point was evaluated before; two points that differ by rounding would look like a
        narrow bracket.
        """
        return any(abs(place - other) <= 0.1 * _CLOSE * place for other in self.seen)

    def around(self, start: float) -> tuple[float, float]:
        """The neighbours of the best point. ε′ is above the a that proves it, so beyond the least ε′ nothing
        is better.
        """
        places, best = sorted(self.seen), self.best
        index = places.index(best)
        below = places[index - 1] if index > 0 else min(start, best)
        above = places[index + 1] if index + 1 < len(places) else max(self.least, best)
        return below, above

    def level(self) -> Callable[[float], float] | None:
        """ln δ as a parabola through the three best points."""
        usable = [place for place, there in self.seen.items() if 0 < there < self.delta]
        usable.sort(key=lambda place: self.bound(place, self.seen[place]))
        if len(usable) < 3:
            return None
        a, b, c = sorted(usable[:3])
        levels = [math.log(self.seen[place]) for place in (a, b, c)]
        first, second = (levels[1] - levels[0]) / (b - a), (levels[2] - levels[1]) / (c - b)
        bend = (second - first) / (c - a)
        return lambda place: levels[0] + (place - a) * (first + bend * (place - b))

    def foretold(self, place: float) -> float:
        level = self.level()
        return math.inf if level is None else self.bound(place, math.exp(min(level(place), 0.0)))

    def smooth(self, below: float, above: float) -> float | None:
        """The minimum of the bound if ln δ were that parabola; None if it is at an end."""
        low, high = below, above
        for _ in range(5):
            places = [low + (high - low) * number / 20 for number in range(21)]
            number = min(range(1, 20), key=lambda n: self.foretold(places[n]))
            low, high = places[number - 1], places[number + 1]
        place = 0.5 * (low + high)
        inside = 1e-3 * (above - below)
        return place if below + inside < place < above - inside else None

    def kink(self, below: float, above: float) -> float | None:
        """Where the lines through two points on either side of the best one cross: δ is convex in exp(a)."""
        places, best = sorted(self.seen), self.best
        index = places.index(best)
        for split in (index, index + 1):
            if split < 2 or split + 2 > len(places):
                continue
            (a, b), (c, d) = places[split - 2 : split], places[split : split + 2]
            left = (self.seen[b] - self.seen[a]) / -math.expm1(a - b)  # against exp(place − b)
            right = (self.seen[d] - self.seen[c]) / (math.exp(c - b) * math.expm1(d - c))
            if left >= right:
                continue
            reach = (self.seen[b] - self.seen[c] + right * math.expm1(c - b)) / (right - left)
            if reach > -1:
                crossing = b + math.log1p(reach)
                if below < crossing < above and not self.near(crossing):
                    return crossing
        return None

    def bisect(self, below: float, above: float) -> float:
        """The middle of the wider gap beside the best point."""
        best = self.best
        return 0.5 * (best + (above if above - best >= best - below else below))


def _logistic(odds: float) -> float:
    return 1 / (1 + math.exp(-odds)) if odds > -700 else math.exp(odds)
