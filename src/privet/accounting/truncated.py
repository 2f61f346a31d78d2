"""δ(ε) of many different pairs by a contour whose far end is bounded by a few of them.

The trapezoid sum of ``contour.py`` is exact for every law, with or without a density. What a loss with atoms lacks is an
end: its Fourier transform need not die out. Yet the terms of the sum fall as 1/|s (s + 1)|, and no factor of
|exp(K(s) − K(c))| exceeds 1. So the sum is cut into three parts:

* *near*: the first nodes, where all pairs are evaluated;
* *far*: up to an eighth of a million nodes, at which the factors of a few pairs bound the term, and where that bound
  is not small, all pairs are evaluated after all (losses on a lattice make the transform come back);
* *beyond*: Σ 1/(kh)² over the rest, at most 1/(h²(n − 1)) times what has faded for good.

Each part is certified. With the usual window of about 20 standard deviations, what is beyond takes about 3e-5 off the lower
bound of ε, and less where there is Gaussian noise among the pairs; it does not grow with their number.

*From above* there is a better way: one Gaussian more, of a noise so large that it hardly costs anything, makes everything
beyond vanish. A composition with one event more is never more private, so its δ is an upper bound; and the
Gaussian of μ = 9/(nh), n the number of nodes, adds less than 1e-7 to ε, because only the *variances* of losses add up.
"""

from dataclasses import dataclass, replace
from typing import NamedTuple, final

import numpy as np

from privet.accounting.contour import Contour, Saddle, laid_out
from privet.accounting.cumulant import Composition, derivatives, line, moduli, round_off
from privet.accounting.fading import log_fading
from privet.accounting.families import Atoms, Places, Stacked
from privet.accounting.pairs import Reals
from privet.accounting.tilted import Complexes
from privet.bounds import Interval

__all__ = ["truncated"]

_NEAR = 1 << 12  # nodes at which all pairs may be evaluated in a row
_FAR = 1 << 17
_BOUNDING = 40  # pairs whose factors bound a term
_BLOCK = 1 << 15
_FADED = 1e-12  # what is left out, relative to the first term, that needs no more nodes
_SMALL = 1e-15  # relative to the first term
_AFTER_ALL = 1 << 11  # nodes at which all pairs are evaluated after all
_WORK = 5e6  # pairs × nodes of one question
_FADING = 32  # pairs that are asked how far they have faded
_NOTHING = -60.0  # ln of what has faded to nothing
_SMOOTHING = 9.0  # exp(−9²/2) is 3e-18
_SHARE = 0.05  # of what is beyond: no more pairs are asked to bound what is far
_ENOUGH = 1e-8  # what is left out, relative to the first term: no more is needed
_LOOSE = 1.0  # the same: the line is of use


class _Nodes(NamedTuple):
    """Terms of the sum with their round-off, and what all others from some node on add up to at most.

    ``smoothed`` is the latter with one Gaussian of ``mu`` more.
    """

    places: Places
    terms: Complexes
    noise: Reals
    cut: float
    mu: float = 0.0
    smoothed: float = np.inf


class TwoLines(NamedTuple):
    """A line that bounds δ from below, and one that bounds it from above."""

    below: Contour
    above: Contour

    def delta(self, epsilon: float) -> Interval:
        """Lower and upper bound of δ(ε), mass at infinity not included."""
        return Interval(self.below.delta(epsilon).lower, self.above.delta(epsilon).upper)


def truncated(composition: Composition, saddle: Saddle) -> TwoLines | None:
    """The cheapest line for one question, with a bound for all that it leaves out; None where there is no line."""
    layout = laid_out(composition, saddle)
    if layout is None or not layout.order:
        return None
    place = layout.order[0]
    point, step = float(layout.points[place]), 2 * np.pi / layout.widths[place]
    k = derivatives(composition, point)
    if k is None or not (np.isfinite(step) and step > 0):
        return None
    sum_of = _Sum(composition, point, step, k.value)
    near = sum_of.near(max(int(layout.reach / step), 24))
    if near is None:
        return None
    first, best = float(np.abs(near.terms[0])), near
    if near.cut > _ENOUGH * first:
        found = sum_of.far(near)
        best = found if found is not None and found.cut < near.cut else near
    if not best.cut < _LOOSE * first:
        return None
    noise = best.noise + 2 * round_off(composition, point)
    below = Contour(point, step, k.value, best.places, best.terms, noise, best.cut, layout.chernoff)
    if not best.smoothed < best.cut:
        return TwoLines(below, below)
    s = point + 1j * step * best.places
    added = 0.5 * best.mu**2
    terms = best.terms * np.exp(added * (s * (s + 1) - point * (point + 1)))
    level = k.value + added * point * (point + 1)
    return TwoLines(below, replace(below, level=level, terms=terms, cut=best.smoothed))


@final
@dataclass(frozen=True)
class _Sum:
    """The trapezoid sum on one line."""

    composition: Composition
    point: float
    step: float
    level: float

    def near(self, count: int) -> _Nodes | None:
        """The first nodes: until the terms are small and those to come do not fade any more, or as many as may be."""
        most = max(min(_NEAR, int(_WORK / len(self.composition.parts))), 64)
        found = _Nodes(np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.complex128), np.zeros(0), np.inf)
        before = np.inf
        while True:
            count = min(count, most - found.places.size)
            added = self._at(found.places.size + np.arange(count))
            if added is None:
                return None if found.places.size == 0 else found
            found = _joined(found, added, self._beyond(found.places.size + count))
            size = np.abs(found.terms)
            faded = found.cut < _FADED * size[0] or found.cut > 0.2 * before
            if found.places.size >= most or (
                faded and size[-max(size.size // 8, 4) :].max() < _SMALL * size[0]
            ):
                return found
            count, before = found.places.size, found.cut

    def far(self, near: _Nodes) -> _Nodes | None:
        """The nodes up to the last one by the factors of a few pairs, and by all pairs where these do not suffice."""
        beyond, first, bounds = self._beyond(_FAR), float(np.abs(near.terms[0])), []
        for start in range(near.places.size, _FAR, _BLOCK):
            places = np.arange(start, min(start + _BLOCK, _FAR))
            offsets = self.step * places
            most = 1 / (np.hypot(self.point, offsets) * offsets)
            small = min(_SHARE * beyond, _ENOUGH * first) * (places.size / _FAR)
            found = moduli(self.composition, self.point, self.step, places, _BOUNDING, most, small)
            if found is None:
                return None
            bounds.append(found)
        bound = np.concatenate(bounds) if bounds else np.zeros(0)
        affordable = min(_AFTER_ALL, int(_WORK / len(self.composition.parts)))
        order = np.argsort(-bound)[:affordable]
        left = bound.sum() - np.cumsum(bound[order])
        telling = np.sort(order[: int(np.count_nonzero(left > _ENOUGH * first)) + 1])
        mu = _SMOOTHING / (self.step * _FAR)
        fade = np.exp(-0.5 * (mu * self.step * np.arange(near.places.size, _FAR)) ** 2)
        past = float(np.exp(-0.5 * _SMOOTHING**2)) * beyond
        bounded = near._replace(cut=float(bound.sum()) + beyond, mu=mu, smoothed=float(bound @ fade) + past)
        if float(bound.sum()) <= _ENOUGH * first:
            return bounded
        # Rules of quadrature are long at high frequencies; other families take any.
        families, single = self.composition.sorted_out[1:]
        is_quick = not single and all(
            not isinstance(family, Stacked) or isinstance(family, Atoms) for family in families
        )
        added = self._at(near.places.size + telling) if is_quick else None
        if added is None:
            return bounded
        bound[telling] = 0.0
        joined = _joined(near, added, float(bound.sum()) + beyond)
        return joined._replace(mu=mu, smoothed=float(bound @ fade) + past)

    def _at(self, places: Places) -> _Nodes | None:
        found = line(self.composition, self.point, self.step, places)
        if found is None:
            return None
        s = self.point + 1j * self.step * places
        terms = np.exp(found.values - self.level) / (s * (s + 1))
        return _Nodes(places, terms, found.error, np.inf)

    def _beyond(self, count: int) -> float:
        """Σ 1/(kh)² from a node on, times what the pairs have faded to for good, as far as that is known."""
        frequency = self.step * count
        square, families, single = self.composition.sorted_out
        faded = -0.5 * square * frequency**2
        if faded > _NOTHING:
            faded += sum(family.log_fading(self.point, frequency) for family in families)
        for pair, times in single[:_FADING]:
            faded += times * log_fading(pair, self.point, frequency) if faded > _NOTHING else 0.0
        return float(np.exp(max(faded, -700.0)) / (self.step**2 * (count - 1)))


def _joined(first: _Nodes, second: _Nodes, cut: float) -> _Nodes:
    return _Nodes(
        np.concatenate([first.places, second.places]),
        np.concatenate([first.terms, second.terms]),
        np.concatenate([first.noise, second.noise]),
        cut,
    )
