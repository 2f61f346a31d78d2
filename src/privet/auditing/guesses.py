"""Guesses of the coin: the highest scores are guessed "member", the lowest "other", and the rest is not
guessed.

The number of guesses is planned before the coins are seen. A plan with one line costs nothing. From a plan
with several lines, one is chosen on a part of the records and used on the rest, or all are used and share the
level (Bonferroni).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, final

import numpy as np
from numpy.typing import NDArray

from privet.arguments import finite
from privet.errors import InvalidArgument
from privet.scores import Bits, Scores
from privet.views import Numbers

__all__ = [
    "EVERYBODY",
    "PLAN",
    "GuessCounts",
    "GuessResult",
    "Guesses",
    "count_right_guesses",
    "lines_between_ties",
    "plan_counts",
    "require_fair_coins",
]

Groups = NDArray[np.int64]
_LARGE = 0.05  # a group of ties with this share of all records is large


@final
@dataclass(frozen=True, kw_only=True)
class Guesses:
    """One line of a plan: the share of all records that is guessed "member" (k₊), and the share guessed
    "other" (k₋).
    """

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

    def counts(self, records: int) -> "GuessCounts":
        """The numbers of guesses among so many records; at least one on a side whose share is above 0."""
        called = max(int(self.members * records), 1) if self.members > 0 else 0
        denied = max(int(self.others * records), 1) if self.others > 0 else 0
        if self.members + self.others == 1:  # rounding leaves no record out
            denied = records - called
        return GuessCounts(called, min(denied, records - called))


class GuessCounts(NamedTuple):
    """k₊ and k₋."""

    members: int
    others: int


class GuessResult(NamedTuple):
    """How many guesses were made, and how many of them were right."""

    made: int
    right: int


EVERYBODY = (Guesses(members=0.5, others=0.5),)  # every record is guessed

PLAN = (
    *EVERYBODY,
    *(Guesses(members=share, others=share) for share in (0.25, 0.12, 0.06, 0.03, 0.015, 0.0075)),
    *(Guesses(members=share, others=0.0) for share in (0.25, 0.12, 0.06, 0.03, 0.015, 0.0075)),
)


def plan_counts(plan: Sequence[Guesses], records: int) -> list[GuessCounts]:
    """The different lines for so many records, over which the level may have to be divided."""
    return list(dict.fromkeys(line.counts(records) for line in plan))


def count_right_guesses(values: Numbers, members: Bits, lines: Sequence[GuessCounts]) -> list[GuessResult]:
    """How many guesses of each line are right, with ties counted against the attacker.

    A line may cut a group of records with equal scores: c of its records are to be guessed. The scores do not
    say which c, and the order of the records must not decide, because it may reveal the coins (members first,
    for instance). So the worst choice is counted: among a members and b others, at least c − b of the c that
    are called members are right. That is no more than *any* way to break the tie gives, so also no more than
    random tie-breaking, which the theorems are about: what is proved for its number of right guesses holds
    for this number.
    """
    order = np.argsort(values, kind="stable")
    climbing = values[order]
    ends = np.append(np.flatnonzero(climbing[1:] != climbing[:-1]) + 1, len(values))
    inside = np.diff(
        np.append(0, np.cumsum(members[order])[ends - 1])
    )  # members in each group, the lowest score first
    sizes = np.diff(np.append(0, ends))
    outside = sizes - inside
    return [
        GuessResult(
            line.members + line.others,
            _surely_right(inside[::-1], outside[::-1], line.members)
            + _surely_right(outside, inside, line.others),
        )
        for line in lines
    ]


def _surely_right(right: Groups, wrong: Groups, guesses: int) -> int:
    """The smallest possible number of right ones among the first ``guesses``, over groups of ties."""
    ends = np.cumsum(right + wrong)
    whole = int(np.searchsorted(ends, guesses, side="right"))
    sure = int(right[:whole].sum())
    if whole == len(ends):
        return sure
    cut = guesses - (int(ends[whole - 1]) if whole else 0)
    return sure + max(cut - int(wrong[whole]), 0)


def lines_between_ties(values: Numbers, most: float) -> list[Guesses]:
    """Lines that cut no large group of ties, judged by these records; ``most`` is the largest share to guess.

    A label-only attack has two different scores. Its guesses should end between the two groups, and a plan
    with fixed shares seldom does. The shares are those of these records minus one standard error: among other
    records the groups are a little smaller or larger, and guesses beyond a group count as wrong.
    """
    count = len(values)
    _, sizes = np.unique(values, return_counts=True)
    large = sizes >= max(_LARGE * count, 2)
    cuts = np.flatnonzero(large[1:] | large[:-1]) + 1
    lines = []
    for cut in cuts:
        below = int(sizes[:cut].sum()) / count
        error = (below * (1 - below) / count) ** 0.5
        denied, called = max(below - error, 0.0), max(1 - below - error, 0.0)
        lines += [(called, denied), (called, 0.0), (0.0, denied)]
    return [Guesses(members=called, others=denied) for called, denied in lines if 0 < called + denied <= most]


def require_fair_coins(scores: Scores) -> None:
    """Refuse scores whose numbers of members and others no fair coins give, at four standard deviations.

    Fair coins are refused in 6 of 100,000 runs. With sides of different size, guesses can be right without
    any information, so such scores must be balanced first.
    """
    excess = abs(2 * int(scores.members.sum()) - len(scores))
    if excess > 4 * len(scores) ** 0.5 and excess > 1:
        raise InvalidArgument(
            "'members' must be decided by a fair coin for each record, got far more of one side than of the "
            "other. Draw at random as many records of one side as there are of the other."
        )
