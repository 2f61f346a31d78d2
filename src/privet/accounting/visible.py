"""Pairs of mechanisms that saw a random sample, where the output may show who was in the sample.

Both neighbours have the unit's place, and the same coin decides for both of them whether the place is drawn.
With R the output where it is not drawn, and P and Q the outputs where it is,

    H_y((1 − q) R + q P ‖ (1 − q) R + q Q) ≤ (1 − q) H_y(R ‖ R) + q H_y(P ‖ Q) = (1 − q) (1 − y)₊ + q H_y(P ‖
    Q),

because H_y is jointly convex. The right-hand side is the profile of the pair that shows the coin: a loss of 0
with probability 1 − q, and the loss of (P, Q) with probability q. It is attained where the output shows the
coin. So δ is multiplied by q, and ε stays as it is. No theorem about R is needed; a smaller ε needs one
(``sampled.py``).

Reference: Balle, Barthe & Gaboardi 2018, Section 3 (joint convexity, before "advanced joint convexity" uses
R).
"""

from dataclasses import dataclass
from typing import final

import numpy as np

from privet.accounting.pairs import AtomicPair, FinitePair, Lattice, Nodes, Pair, Reals

__all__ = ["VisibleSamplePair", "visibly_sampled"]


def visibly_sampled(pair: Pair, rate: float) -> Pair:
    """The pair of a sample at this rate that the output may show."""
    if rate == 1:
        return pair
    if not isinstance(pair, AtomicPair):
        return VisibleSamplePair(pair, rate)
    losses, masses = pair.law()
    return FinitePair(
        (0.0, *losses.tolist()),
        (1 - rate, *(rate * masses).tolist()),
        rate * pair.infinity,
        rate * pair.unmet,
    )


@final
@dataclass(frozen=True)
class VisibleSamplePair(Pair):
    """The base pair with probability ``rate``, and the same output on both sides otherwise."""

    base: Pair
    rate: float

    @property
    def infinity(self) -> float:
        return self.rate * self.base.infinity

    @property
    def lattice(self) -> Lattice:
        return Lattice(0.0)

    @property
    def largest_loss(self) -> float | None:
        largest = self.base.largest_loss
        return None if largest is None else max(largest, 0.0)

    def delta(self, epsilon: Reals) -> Reals:
        unseen = -np.expm1(np.minimum(epsilon, 0.0))
        return np.asarray(self.rate * self.base.delta(epsilon) + (1 - self.rate) * unseen)

    def tail(self, epsilon: Reals) -> Reals:
        return np.asarray(self.rate * self.base.tail(epsilon) + (1 - self.rate) * (np.asarray(epsilon) < 0))

    def nodes(self, tilt: float, frequency: float, digits: float) -> Nodes | None:
        rule = self.base.nodes(tilt, frequency, digits)
        if rule is None:
            return None
        return Nodes(
            np.append(rule.log_weights + np.log(self.rate), np.log1p(-self.rate)),
            np.append(rule.losses, 0.0),
            self.rate * rule.missing_q,
            self.rate * rule.missing_p,
        )

    def cap(self, mass: float, edge: float) -> "VisibleSamplePair":
        return VisibleSamplePair(self.base.cap(mass / self.rate, edge), self.rate)

    def swap(self) -> "VisibleSamplePair":
        return VisibleSamplePair(self.base.swap(), self.rate)
