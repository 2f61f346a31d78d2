"""A threshold chosen on some of the records, so that the others can be counted as if it had always been fixed."""

from dataclasses import dataclass
from typing import NamedTuple, final

import numpy as np
from numpy.typing import NDArray

from privet.arguments import open_fraction, whole
from privet.auditing.proportions import Counts
from privet.auditing.roc import Roc
from privet.errors import InvalidArgument
from privet.scores import Bits, Scores
from privet.views import Numbers

__all__ = ["Errors", "Split", "errors_at", "errors_of"]

_MOST = 1000  # thresholds to choose from


class Errors(NamedTuple):
    """False negatives among members and false positives among others, at one threshold or at many."""

    false_negatives: Counts
    members: int
    false_positives: Counts
    others: int


@final
@dataclass(frozen=True)
class Split:
    """A share of either side is used to choose, the rest to measure; ``seed`` says which."""

    share: float = 0.25
    seed: int = 0

    def __post_init__(self) -> None:
        open_fraction("share", self.share)

    def sizes(self, members: int, others: int) -> tuple[int, int]:
        """How many of either side are left to measure with."""
        if members < 2 or others < 2:
            raise InvalidArgument(
                "'members' must hold at least two of either side, got fewer. "
                "One is needed to choose the threshold and one to measure at it."
            )
        return self.left(members), self.left(others)

    def left(self, count: int) -> int:
        """How many of so many are left to measure with."""
        return count - self._taken(count)

    def parts(self, scores: Scores) -> tuple[Scores, Scores]:
        """Those to choose on, and those to measure with."""
        members = int(scores.members.sum())
        self.sizes(members, len(scores) - members)
        choosing = self.of_both(scores.members)
        return scores.take(choosing), scores.take(~choosing)

    def of_both(self, members: Bits) -> Bits:
        """Which records to choose on, the same share of either side."""
        generator, choosing = np.random.default_rng(self.seed), np.zeros(len(members), dtype=np.bool_)
        for side in (np.flatnonzero(members), np.flatnonzero(~members)):
            choosing[generator.permutation(side)[: self._taken(len(side))]] = True
        return choosing

    def blind(self, count: int) -> Bits:
        """Which of so many records to choose on, without a look at who is a member: the coins of the rest stay fair.

        The order of the records must not depend on the coins.
        """
        choosing = np.zeros(whole("count", count, most=10**10), dtype=np.bool_)
        choosing[np.random.default_rng(self.seed).permutation(count)[: self._taken(count)]] = True
        return choosing

    def _taken(self, count: int) -> int:
        return min(max(int(self.share * count), 1), count - 1)


def errors_of(scores: Scores) -> tuple[Numbers, Errors]:
    """Thresholds to choose from and the errors at each: all of them, or about a thousand where there are more.

    They are kept evenly in the logarithm of either count of errors, because it is the rare errors that tell most.
    """
    roc = Roc.of(scores)
    misses = roc.members - roc.true_positives
    kept = np.arange(len(roc.thresholds))
    if len(kept) > _MOST:
        alarms = np.searchsorted(roc.false_positives, _spread(roc.others), side="right") - 1
        few_misses = np.searchsorted(-misses, -_spread(roc.members), side="left")
        kept = np.unique(np.concatenate([alarms, few_misses]))
    return roc.thresholds[kept], Errors(misses[kept], roc.members, roc.false_positives[kept], roc.others)


def _spread(count: int) -> NDArray[np.int64]:
    return np.append(0, np.unique(np.geomspace(1, count, _MOST // 2).astype(np.int64)))


def errors_at(scores: Scores, threshold: float) -> Errors:
    """The errors at one threshold."""
    called = scores.values >= threshold
    members = int(scores.members.sum())
    return Errors(
        np.asarray((~called & scores.members).sum()),
        members,
        np.asarray((called & ~scores.members).sum()),
        len(scores) - members,
    )
