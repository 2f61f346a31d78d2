"""What an adversary knows of a person's history: a few items, some of them wrong, with dates that are
roughly right.

``KnownItems`` says how such knowledge is drawn; ``HistoryGame`` draws targets, a coin for each that leaves
them out of the release, and what is known of them.
"""

from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import NDArray

from privet.arguments import at_least, open_fraction, whole
from privet.attacks.linkage.histories.sparse_histories import Histories
from privet.errors import InvalidArgument
from privet.scores import Bits
from privet.views import Numbers

__all__ = ["HistoryGame", "KnownItems"]


@final
@dataclass(frozen=True)
class KnownItems:
    """How much is known of a target: so many items of the history, drawn at random.

    ``wrong`` of them are about items that the person does not have, with value and day of somebody else's
    entry. The others have their value off by up to ``value_error`` and their day by up to ``day_error``, each
    drawn uniformly; values that are whole or half numbers stay so. ``values`` and ``days`` say whether the
    adversary knows these at all.
    """

    count: int
    wrong: int = 0
    day_error: float = 0.0
    value_error: float = 0.0
    values: bool = True
    days: bool = True

    def __post_init__(self) -> None:
        whole("count", self.count)
        whole("wrong", self.wrong, least=0, most=self.count)
        at_least("day_error", self.day_error, 0)
        at_least("value_error", self.value_error, 0)

    def draw(
        self, histories: Histories, people: NDArray[np.intp], generator: np.random.Generator
    ) -> Histories:
        """Knowledge of these people. Its person t is the t-th of them."""
        order = np.argsort(histories.person, kind="stable")
        starts = np.concatenate([[0], np.cumsum(histories.sizes)])
        if (histories.sizes[people] < self.count).any():
            raise InvalidArgument(
                f"'people' must have {self.count} entries each, got somebody with fewer. Draw among those "
                f"who have enough."
            )
        chosen = np.empty((len(people), self.count), dtype=np.intp)
        wrong = np.zeros(chosen.shape, dtype=np.bool_)
        wrong[:, : self.wrong] = True
        for target, person in enumerate(people):
            own = order[starts[person] : starts[person + 1]]
            chosen[target] = generator.choice(own, self.count, replace=False)
            for place in range(self.wrong):
                chosen[target, place] = _draw_foreign(histories, histories.item[own], generator)
        entries, is_wrong = chosen.ravel(), wrong.ravel()
        return Histories(
            np.repeat(np.arange(len(people)), self.count),
            histories.item[entries],
            self._blur_values(histories, entries, is_wrong, generator),
            self._blur_days(histories, entries, is_wrong, generator),
            np.arange(len(people)),
            histories.items,
        )

    def _blur_values(
        self, histories: Histories, entries: NDArray[np.intp], wrong: Bits, generator: np.random.Generator
    ) -> Numbers | None:
        if histories.value is None or not self.values:
            return None
        values = histories.value[entries]
        moved = values + generator.uniform(-self.value_error, self.value_error, len(values))
        halves = bool((histories.value * 2 % 1 == 0).all())
        moved = np.round(moved * 2) / 2 if halves else moved
        answer: Numbers = np.where(
            wrong, values, np.clip(moved, histories.value.min(), histories.value.max())
        )
        return answer

    def _blur_days(
        self, histories: Histories, entries: NDArray[np.intp], wrong: Bits, generator: np.random.Generator
    ) -> Numbers | None:
        if histories.day is None or not self.days:
            return None
        days = histories.day[entries]
        moved = days + generator.uniform(-self.day_error, self.day_error, len(days))
        answer: Numbers = np.where(wrong, days, moved)
        return answer


def _draw_foreign(histories: Histories, own: NDArray[np.int64], generator: np.random.Generator) -> int:
    """An entry of somebody about an item that this person does not have."""
    for _ in range(1000):
        entry = int(generator.integers(len(histories)))
        if not (own == histories.item[entry]).any():
            return entry
    raise InvalidArgument(
        "'wrong' must be 0 where a person has nearly all items, got more. Leave such people out."
    )


@final
@dataclass(frozen=True, eq=False)
class HistoryGame:
    """Targets by chance, a coin for each that leaves them out of the release, and what is known of them.

    ``truth`` is the released person of each target, −1 for those who were left out.
    """

    released: Histories
    knowledge: Histories
    truth: NDArray[np.int64]
    known: KnownItems

    @classmethod
    def draw(
        cls,
        histories: Histories,
        known: KnownItems,
        *,
        targets: int,
        generator: np.random.Generator,
        absent: float = 0.5,
    ) -> "HistoryGame":
        """A game of ``targets`` people who have enough entries; each is left out with probability
        ``absent``.
        """
        whole("targets", targets, least=2)
        open_fraction("absent", absent)
        able = np.flatnonzero(histories.sizes >= known.count)
        if len(able) < targets:
            raise InvalidArgument(
                f"'targets' must be at most the number of people with {known.count} entries, got {targets}. "
                f"Take fewer targets or fewer known items."
            )
        people = generator.permutation(able)[:targets]
        members = generator.random(targets) >= absent
        knowledge = known.draw(histories, people, generator)
        left_out = np.zeros(len(histories.people), dtype=np.bool_)
        left_out[people[~members]] = True
        return cls(
            histories.without_people(left_out),
            knowledge,
            np.where(members, people, -1).astype(np.int64),
            known,
        )

    def __repr__(self) -> str:
        absent = int((self.truth < 0).sum())
        return f"HistoryGame({len(self.truth) - absent} targets in the release, {absent} left out)"
