"""A claim watched record by record: stop as soon as it is broken, at any time, with the level kept.

*The game.* Before each record the auditor bets a share of their money that a claim is wrong; if the claim is
right, money does not grow on average. (ε, δ)-DP and a fair coin say for every event A, chosen before the
record is seen,

    P[member and A] − exp(ε)·P[other and A] ≤ δ/2.

So with the bet λ the money is multiplied by 1 + λ(1[member and A] − exp(ε)·1[other and A] − δ/2), whose mean
is at most 1, and which is never below 0 for λ ≤ 1/(exp(ε) + δ/2). The same holds for "other" and "member"
exchanged. Money that starts at 1 reaches 1/α with probability α at most, however long one plays and whenever
one stops (Ville 1939). Then the claim is refuted at level α.

*Which bets.* The money is split evenly over players. Each holds one point (ε, δ(ε)) of the claim's own curve,
one side, and one quantile of the scores seen so far as its threshold, which moves when their number doubles.
Each bets what would have been best so far (Kelly 1956, by the frequencies of its own past with one fictitious
loss). All of this is decided before the record is seen, so the mean of all money is a bet like each of them.

*Records must be independent given the past*: separate runs with one canary each, or canaries of one run that
do not interfere. Canaries that interfere may break the game: what one coin has shown changes what the next
can.

Reference: González, Dulce-Rubio, Ramdas & Ribero 2025, "Sequentially auditing differential privacy" (betting
against (ε, δ)-DP); Kutta, Dunsche, Wei & Zikas 2026, "Sequential auditing for f-differential privacy" (whole
curves). Deviations: thresholds of one score take the place of a kernel's witness function, and the whole
curve enters by some of its points.
"""

import math
from dataclasses import dataclass
from typing import NamedTuple, final

import numpy as np

from privet.arguments import finite, open_fraction
from privet.auditing.audits import check_delta
from privet.auditing.curves import FloatArray
from privet.auditing.guesses import require_fair_coins
from privet.errors import InvalidArgument, PrivetError
from privet.guarantees import Guarantee
from privet.scores import Scores

__all__ = ["SequentialTest", "SequentialVerdict", "Watch"]

_DELTAS = (0.3, 0.1, 0.03, 0.01, 1e-3, 1e-4, 1e-5)  # the points of the claim's curve, beside ε = 0
_QUANTILES = (0.5, 0.75, 0.9, 0.96, 0.99)
_FIRST = 16  # records that are seen before the first bet
_BOLDEST = 0.95  # of the largest bet that cannot lose everything


class SequentialVerdict(NamedTuple):
    """Whether the claim is broken, after how many records, and how much the money grew, as a logarithm.

    ``records`` is where it was broken; the number of all records where it was not.
    """

    broken: bool
    records: int
    log_evidence: float


@final
@dataclass(frozen=True)
class SequentialTest:
    """An anytime-valid test of a claim.

    Guarantee: a true claim is called broken with probability 1 − ``confidence`` at most, over all times
    together, if records are independent of each other and a fair coin decided on each.

    >>> from privet import AddRemove, Ledger, account
    >>> from privet.events import Gaussian
    >>> claim = account(Ledger(AddRemove()).spend("sum", Gaussian(2.0)))
    >>> generator = np.random.default_rng(0)
    >>> coins = generator.random(4000) < 0.5
    >>> scores = Scores(generator.normal(size=4000) + 2 * coins, coins)  # noise ½, where 2 was claimed
    >>> SequentialTest(0.95).follow(scores, claim).broken
    True
    """

    confidence: float = 0.95

    def __post_init__(self) -> None:
        open_fraction("confidence", self.confidence)

    def start(self, claim: Guarantee) -> "Watch":
        """Begin to watch; give the records one by one to ``Watch.see``."""
        return Watch(_points(claim), 1 - self.confidence)

    def follow(self, scores: Scores, claim: Guarantee) -> SequentialVerdict:
        """Watch these records in their order, until the claim is broken.

        The order must not depend on the coins.
        """
        require_fair_coins(scores)
        if np.count_nonzero(scores.members[1:] != scores.members[:-1]) == 1:
            raise InvalidArgument(
                "'scores' must be in an order that does not depend on the coins, got all members in a row. "
                "Give the records as they came, or shuffle them."
            )
        watch = self.start(claim)
        for value, member in zip(scores.values.tolist(), scores.members.tolist(), strict=True):
            if watch.see(value, member=member):
                break
        return watch.verdict


@final
class Watch:
    """A claim that is being watched."""

    def __init__(self, points: list[tuple[float, float]], level: float) -> None:
        players = [
            (math.exp(epsilon), delta / 2, quantile, side)
            for epsilon, delta in points
            for quantile in _QUANTILES
            for side in (1.0, -1.0)
        ]
        self._prices, self._fees, self._quantiles, self._sides = np.array(players).T
        self._most = _BOLDEST / (self._prices + self._fees)
        self._money = np.zeros(len(players))  # logarithms
        self._wins, self._losses = np.zeros(len(players)), np.ones(len(players))
        self._thresholds: FloatArray | None = None
        self._goal, self._best, self._broken_at = -math.log(level), 0.0, 0
        self._seen: list[float] = []

    @property
    def verdict(self) -> SequentialVerdict:
        """What is known so far."""
        broken = self._broken_at > 0
        return SequentialVerdict(broken, self._broken_at if broken else len(self._seen), self._best)

    def see(self, score: float, *, member: bool) -> bool:
        """Bet, then look at one more record; True once the claim is broken, and from then on."""
        score = finite("score", score)
        if self._thresholds is not None:
            self._bet(score, member)
        self._seen.append(score)
        count = len(self._seen)
        if count >= _FIRST and count & (count - 1) == 0:
            # The threshold of "member" is a high quantile; that of "other" a low one, of the mirrored scores.
            values = np.array(self._seen)
            self._thresholds = np.array(
                [
                    np.quantile(side * values, quantile)
                    for side, quantile in zip(self._sides, self._quantiles, strict=True)
                ]
            )
        return self._broken_at > 0

    def _bet(self, score: float, member: bool) -> None:
        called = self._sides * score > self._thresholds
        won, lost = called & ((self._sides > 0) == member), called & ((self._sides > 0) != member)
        edge = self._wins - self._prices * self._losses
        bets = np.clip(edge / ((self._wins + self._losses) * self._prices), 0.0, self._most)
        self._money += np.log1p(bets * (won - self._prices * lost - self._fees))
        self._wins += won
        self._losses += lost
        top = float(self._money.max())
        self._best = max(self._best, top + math.log(float(np.exp(self._money - top).mean())))
        if self._best >= self._goal and self._broken_at == 0:
            self._broken_at = len(self._seen) + 1


def _points(claim: Guarantee) -> list[tuple[float, float]]:
    """Points (ε, δ) that the claim proves, from ε = 0 on."""
    points = {0.0: claim.delta(epsilon=0.0)}
    for delta in _DELTAS:
        try:
            epsilon = claim.epsilon(delta=check_delta(delta))
        except PrivetError:
            continue  # a claim at one δ says nothing about a smaller one
        if math.isfinite(epsilon) and epsilon < 50:
            points.setdefault(epsilon, claim.delta(epsilon=epsilon))
    return sorted((epsilon, delta) for epsilon, delta in points.items() if delta < 1)
