"""A threshold chosen on a part of the records, so that it is fixed for the counts on the rest."""

from dataclasses import dataclass
from typing import NamedTuple, final

import numpy as np
from numpy.typing import NDArray

from privet.arguments import open_fraction, whole
from privet.auditing.proportions import CountArray
from privet.auditing.roc import Roc
from privet.errors import InvalidArgument
from privet.scores import Bits, Scores
from privet.views import Numbers

__all__ = ["Errors", "SelectionSplit", "errors_at", "errors_by_threshold"]

_MOST = 1000  # candidate thresholds


class Errors(NamedTuple):
    """False negatives among members and false positives among others, at one threshold or at many."""

    false_negatives: CountArray
    members: int
    false_positives: CountArray
    others: int


@final
@dataclass(frozen=True)
class SelectionSplit:
    """A share of either side is used to choose, the rest to measure; ``seed`` decides which records."""

    share: float = 0.25
    seed: int = 0

    def __post_init__(self) -> None:
        open_fraction("share", self.share)

    def sizes(self, members: int, others: int) -> tuple[int, int]:
        """How many records of either side are left for measuring."""
        if members < 2 or others < 2:
            raise InvalidArgument(
                "'members' must hold at least two of either side, got fewer. "
                "One is needed to choose the threshold and one to measure at it."
            )
        return self.remaining(members), self.remaining(others)

    def remaining(self, count: int) -> int:
        """How many of ``count`` records are left for measuring."""
        return count - self._selection_size(count)

    def divide(self, scores: Scores) -> tuple[Scores, Scores]:
        """The scores for choosing, and the scores for measuring."""
        members = int(scores.members.sum())
        self.sizes(members, len(scores) - members)
        choosing = self.stratified_mask(scores.members)
        return scores.take(choosing), scores.take(~choosing)

    def stratified_mask(self, members: Bits) -> Bits:
        """Which records are used for choosing, the same share of either side."""
        generator, choosing = np.random.default_rng(self.seed), np.zeros(len(members), dtype=np.bool_)
        for side in (np.flatnonzero(members), np.flatnonzero(~members)):
            choosing[generator.permutation(side)[: self._selection_size(len(side))]] = True
        return choosing

    def blind_mask(self, count: int) -> Bits:
        """Which records are used for choosing, drawn without using the coins, so that the coins of the rest
        stay fair.

        The order of the records must not depend on the coins.
        """
        choosing = np.zeros(whole("count", count, most=10**10), dtype=np.bool_)
        choosing[np.random.default_rng(self.seed).permutation(count)[: self._selection_size(count)]] = True
        return choosing

    def _selection_size(self, count: int) -> int:
        return min(max(int(self.share * count), 1), count - 1)


def errors_by_threshold(scores: Scores) -> tuple[Numbers, Errors]:
    """Candidate thresholds and the errors at each: all thresholds, or about a thousand of them.

    They are evenly spaced in the logarithm of either count of errors, because rare errors tell most.
    """
    roc = Roc.of(scores)
    misses = roc.members - roc.true_positives
    chosen = np.arange(len(roc.thresholds))
    if len(chosen) > _MOST:
        alarms = np.searchsorted(roc.false_positives, _spread(roc.others), side="right") - 1
        few_misses = np.searchsorted(-misses, -_spread(roc.members), side="left")
        chosen = np.unique(np.concatenate([alarms, few_misses]))
    return roc.thresholds[chosen], Errors(
        misses[chosen], roc.members, roc.false_positives[chosen], roc.others
    )


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
