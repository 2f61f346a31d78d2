"""What an attack on histories is: whose history fits what is known of a target, and is it theirs at all?

An attack gives each released person a score, and one number that says how far the best one stands out. It
claims the best one if that number is above its threshold. The best of many people stands out by chance too,
also where the target is not in the release. So the threshold can be calibrated: the adversary plays the game
with released people, each against the release without them. There every claim is wrong, and the threshold is
the highest number that the chosen share of them still exceeds. By exchangeability a target who is absent is
then claimed with at most this probability, if absent people are like released ones and the same is known of
them (split conformal prediction: the rank of one more number among n exchangeable ones).
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import Self, final

import numpy as np
from numpy.typing import NDArray

from privet.arguments import fraction, whole
from privet.attacks.linkage.histories.joined_items import JoinedItems, join_items
from privet.attacks.linkage.histories.knowledge import HistoryGame, KnownItems
from privet.attacks.linkage.histories.sparse_histories import Histories
from privet.errors import InvalidArgument
from privet.randomness import experiment
from privet.recoveries import Recoveries
from privet.views import Adversary, Numbers

__all__ = ["HistoryAttack", "IdentifiedPeople"]

_DECOYS = 1000


@final
@dataclass(frozen=True, eq=False)
class IdentifiedPeople:
    """What an attack found: the released person of each target, −1 where it abstains.

    ``best`` is the person that fits best, also where the attack abstains; −1 if two fit equally well.
    ``confidence`` is how far they stand out.
    """

    people: NDArray[np.int64]
    best: NDArray[np.int64]
    confidence: Numbers

    def __repr__(self) -> str:
        return f"IdentifiedPeople({int((self.people >= 0).sum())} of {len(self.people)} claimed)"


@dataclass(frozen=True)
class HistoryAttack(ABC):
    """One adversary who looks for the history of a person of whom a few items are known.

    *Adversary*: sees the released histories without names; knows a few items of each target, some of them
    wrong; wants the released history of each. A hit among targets in the release is their own history; a hit
    among those who were left out is any claim. So the baseline is the rate "absent, and still found".
    """

    threshold: float

    @property
    @abstractmethod
    def name(self) -> str:
        """What a report calls it."""

    @property
    def adversary(self) -> Adversary:
        """Who attacks: what they see, know and want."""
        return Adversary(
            sees="the released histories, without names",
            knows="a few items of each target, which may be wrong or inexact",
            wants="the released history of each target",
        )

    @abstractmethod
    def score(self, joined: JoinedItems, released: Histories) -> Numbers:
        """One score for each target and released person, higher = fits better."""

    @abstractmethod
    def stand_out(self, scores: Numbers, best: NDArray[np.intp], joined: JoinedItems) -> Numbers:
        """How far the best person of each target stands out; 0 or less between equals."""

    @final
    def identify(self, released: Histories, knowledge: Histories) -> IdentifiedPeople:
        """The released person behind what is known of each target, by the release and the knowledge alone."""
        best, margins = self._search(released, knowledge, None)
        claimed = margins > max(self.threshold, 0.0)
        return IdentifiedPeople(np.where(claimed, best, -1), best, margins)

    @final
    def run(self, released: Histories, knowledge: Histories, truth: NDArray[np.int64]) -> Recoveries:
        """Identify, and join the truth: the number of the released person, or −1 for an absent target."""
        truth = np.asarray(truth)
        if truth.shape != (len(knowledge.people),) or truth.dtype.kind not in "iu":
            raise InvalidArgument(
                f"'truth' must be a released person for each of {len(knowledge.people)} targets, got an "
                f"array of shape {truth.shape}. Give −1 for targets who are not in the release."
            )
        if ((truth < -1) | (truth >= len(released.people))).any():
            raise InvalidArgument(
                f"'truth' must be numbers of released people below {len(released.people)}, or −1 for absent "
                f"targets, got others. Number people as the release does."
            )
        found = self.identify(released, knowledge)
        members = truth >= 0
        drawn = experiment(0).integers(0, len(released.people), len(truth))
        return Recoveries(
            self.name,
            self.adversary,
            "the claimed history is the target's own; for an absent target, any claim",
            np.where(members, found.people == truth, found.people >= 0),
            None if members.all() else members,
            (drawn == truth) if members.all() else None,
            confidence=found.confidence,
        )

    @final
    def play(self, game: HistoryGame) -> Recoveries:
        """Run on a drawn game."""
        return self.run(game.released, game.knowledge, game.truth)

    @final
    def calibrate(
        self,
        released: Histories,
        known: KnownItems,
        *,
        absent_rate: float = 0.05,
        decoys: int = _DECOYS,
        seed: int = 0,
    ) -> Self:
        """The attack with the threshold at which it claims at most this share of absent targets.

        It needs the release alone: released people play absent targets, of whom as much is known.
        """
        fraction("absent_rate", absent_rate)
        whole("decoys", decoys)
        generator = experiment(seed)
        able = np.flatnonzero(released.sizes >= known.count)
        if len(able) == 0:
            raise InvalidArgument(
                f"'known' must be at most the entries of somebody in the release, got {known.count} items. "
                f"Take fewer."
            )
        people = generator.permutation(able)[:decoys]
        knowledge = known.draw(released, people, generator)
        margins = np.sort(self._search(released, knowledge, people)[1])
        rank = int(np.ceil((1 - absent_rate) * (len(margins) + 1)))
        limit = float(margins[rank - 1]) if rank <= len(margins) else np.inf
        return replace(self, threshold=max(limit, 0.0))

    def _search(
        self, released: Histories, knowledge: Histories, without: NDArray[np.int64] | None
    ) -> tuple[NDArray[np.int64], Numbers]:
        if len(knowledge) == 0:
            raise InvalidArgument(
                "'knowledge' must hold at least one known item, got none. Give what is known."
            )
        count = len(knowledge.people)
        best, margins = np.full(count, -1, dtype=np.int64), np.full(count, -np.inf)
        present = np.flatnonzero(released.sizes > 0)
        for joined in join_items(released, knowledge, without=without):
            scores = self.score(joined, released)
            places, unique = find_best(scores)
            margins[joined.targets] = self.stand_out(scores, places, joined)
            best[joined.targets] = np.where(unique, present[places], -1)
        return best, margins


def find_best(scores: Numbers) -> tuple[NDArray[np.intp], NDArray[np.bool_]]:
    """The place of the highest score of each row, and whether no other is equal to it."""
    best = np.argmax(scores, axis=1)
    highest = scores[np.arange(len(scores)), best]
    return best, (scores >= highest[:, None]).sum(axis=1) == 1
