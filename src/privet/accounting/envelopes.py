"""The largest of several profiles: what bounds a unit that is in one of several parts, whichever that is."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import final

import numpy as np

from privet.accounting.pairs import AtomicPair, GaussianPair, LaplacePair, Nodes, Pair, Reals
from privet.accounting.sampled import SampledPair

__all__ = ["EnvelopePair", "largest"]


@final
@dataclass(frozen=True)
class EnvelopePair(Pair):
    """The largest of several profiles: dominates each of them, whichever a unit meets."""

    pairs: tuple[Pair, ...]

    @property
    def infinity(self) -> float:
        return max(pair.infinity for pair in self.pairs)

    @property
    def largest_loss(self) -> float | None:
        losses = [pair.largest_loss for pair in self.pairs]
        known = [loss for loss in losses if loss is not None]
        return max(known) if len(known) == len(losses) else None

    def delta(self, epsilon: Reals) -> Reals:
        return np.asarray(np.maximum(self._highest(epsilon)[0] - self.infinity, 0.0))

    def tail(self, epsilon: Reals) -> Reals:
        return self._highest(epsilon)[1]

    def _highest(self, epsilon: Reals) -> tuple[Reals, Reals]:
        """The largest profile, with its mass at infinity, and the slope of the first that attains it."""
        first, *others = self.pairs
        height, slope = first.delta(epsilon) + first.infinity, first.tail(epsilon)
        for pair in others:
            other = pair.delta(epsilon) + pair.infinity
            higher = other > height
            if np.any(higher):
                height = np.where(higher, other, height)
                slope = np.where(higher, pair.tail(epsilon), slope)
        return height, slope

    def nodes(self, tilt: float, frequency: float, digits: float) -> Nodes | None:
        return None

    def swapped(self) -> "EnvelopePair":
        return self._swapped

    @cached_property
    def _swapped(self) -> "EnvelopePair":
        return EnvelopePair(tuple(pair.swapped() for pair in self.pairs))


def largest(pairs: Iterable[Pair]) -> Pair:
    """A pair that dominates all of these: one of them where that is plain to see.

    Less noise of the same kind dominates more of it. Of profiles that are polygons, one dominates another if it is
    no lower at its own corners, because the other is convex between them.
    """
    left = list(dict.fromkeys(pairs))
    for kind, size in ((GaussianPair, _mu), (LaplacePair, _epsilon)):
        same = [pair for pair in left if isinstance(pair, kind)]
        if len(same) > 1:
            top = max(same, key=size)
            left = [pair for pair in left if not isinstance(pair, kind) or pair is top]
    left = _highest_polygons(_most_sampled(left))
    return left[0] if len(left) == 1 else EnvelopePair(tuple(left))


def _mu(pair: Pair) -> float:
    return pair.mu if isinstance(pair, GaussianPair) else 0.0


def _epsilon(pair: Pair) -> float:
    return pair.epsilon if isinstance(pair, LaplacePair) else 0.0


def _most_sampled(pairs: list[Pair]) -> list[Pair]:
    """Without sampled Gaussians of which another has both the higher rate and the less noise."""
    sampled = [
        (p.rate, p.base.mu) for p in pairs if isinstance(p, SampledPair) and isinstance(p.base, GaussianPair)
    ]
    kept, best = set(), -np.inf
    for rate, mu in sorted(sampled, reverse=True):
        if mu > best:
            kept.add((rate, mu))
            best = mu
    return [
        pair
        for pair in pairs
        if not (isinstance(pair, SampledPair) and isinstance(pair.base, GaussianPair))
        or (pair.rate, pair.base.mu) in kept
    ]


def _highest_polygons(pairs: list[Pair]) -> list[Pair]:
    """Without polygons that are nowhere above another one; the highest at δ(0) and the widest are tried."""
    atomic = [pair for pair in pairs if isinstance(pair, AtomicPair) and pair.law()[0].size]
    if len(atomic) < 2:
        return pairs
    zero = np.zeros(1)
    tops = {
        id(top): top
        for top in (
            max(atomic, key=lambda pair: float(pair.delta(zero)[0]) + pair.infinity),
            max(atomic, key=lambda pair: float(pair.law()[0][-1])),
        )
    }
    for top in tops.values():
        corners = top.law()[0]
        heights = top.delta(corners) + top.infinity
        dropped = {
            id(pair)
            for pair in atomic
            if pair is not top
            and pair.infinity <= top.infinity
            and np.all(pair.delta(corners) + pair.infinity <= heights)
        }
        atomic = [pair for pair in atomic if id(pair) not in dropped]
        pairs = [pair for pair in pairs if id(pair) not in dropped]
    return pairs
