"""Guesses of the coin: the highest scores are called members, the lowest are called others, and on the rest one abstains.

How many guesses are made is planned before the coins are seen. A plan of one line costs nothing. Of a plan of several lines one is
chosen on some of the records and carried out on the others, or all are carried out and share the level (Bonferroni).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, final

import numpy as np

from privet.arguments import finite
from privet.errors import InvalidArgument
from privet.scores import Bits, Scores
from privet.views import Numbers

__all__ = ["EVERYBODY", "PLAN", "Counted", "Guessed", "Guesses", "guessed", "need_fair_coins", "planned"]


@final
@dataclass(frozen=True, kw_only=True)
class Guesses:
    """One line of a plan: call this share of all records members (k₊), and this share others (k₋)."""

    members: float
    others: float

    def __post_init__(self) -> None:
        for name, share in (("members", self.members), ("others", self.others)):
            if not 0 <= finite(name, share) <= 1:
                raise InvalidArgument(
                    f"'{name}' must lie in [0, 1], got {share!r}. Give a share of all records."
                )
        if not 0 < self.members + self.others <= 1:
            raise InvalidArgument(
                "'members' and 'others' must add up to a share above 0 and at most 1, got something else. "
                "Each record is guessed once or not at all."
            )

    def counts(self, records: int) -> "Counted":
        """The numbers of guesses among so many records, at least one on a side that guesses at all."""
        called = max(int(self.members * records), 1) if self.members > 0 else 0
        denied = max(int(self.others * records), 1) if self.others > 0 else 0
        if self.members + self.others == 1:  # nobody is left out by rounding
            denied = records - called
        return Counted(called, min(denied, records - called))


class Counted(NamedTuple):
    """k₊ and k₋."""

    members: int
    others: int


class Guessed(NamedTuple):
    """How many guesses were made, and how many of them were right."""

    made: int
    right: int


EVERYBODY = (Guesses(members=0.5, others=0.5),)  # nobody is left out

PLAN = (
    *EVERYBODY,
    *(Guesses(members=share, others=share) for share in (0.25, 0.12, 0.06, 0.03, 0.015, 0.0075)),
    *(Guesses(members=share, others=0.0) for share in (0.25, 0.12, 0.06, 0.03, 0.015, 0.0075)),
)


def planned(plan: Sequence[Guesses], records: int) -> list[Counted]:
    """The lines that differ for so many records: as many as the level may have to be shared out over."""
    return list(dict.fromkeys(line.counts(records) for line in plan))


def guessed(values: Numbers, members: Bits, lines: Sequence[Counted], seed: int) -> list[Guessed]:
    """The plan carried out. Ties are broken by a coin of their own: by their order they would tell who is a member."""
    count = len(values)
    shuffled = np.random.default_rng(seed).permutation(count)
    order = shuffled[np.argsort(values[shuffled], kind="stable")]
    found = np.append(0, np.cumsum(members[order]))
    return [
        Guessed(
            line.members + line.others,
            int(found[-1] - found[count - line.members] + line.others - found[line.others]),
        )
        for line in lines
    ]


def need_fair_coins(scores: Scores) -> None:
    """Refuse scores whose numbers of members and others no fair coins give, at four standard deviations.

    Honest coins are refused in 6 of 100,000 runs. Sides of different size that no coin decided would make guesses right by
    themselves: whoever has such draws as many of one side as of the other.
    """
    away = abs(2 * int(scores.members.sum()) - len(scores))
    if away > 4 * len(scores) ** 0.5 and away > 1:
        raise InvalidArgument(
            "'members' must be decided by a fair coin for each record, got far more of one side than of the other. "
            "Draw at random as many records of one side as there are of the other."
        )
