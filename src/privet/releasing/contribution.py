"""How much of one unit counts: public bounds that are given, never found in the data."""

from dataclasses import dataclass
from typing import final

from privet.arguments import whole

__all__ = ["Contribution"]

_MOST_ROWS, _MOST_GROUPS = 10**6, 10**9


@final
@dataclass(frozen=True)
class Contribution:
    """One unit counts for at most ``rows`` rows in each group, and in at most ``groups`` groups.

    A statistic that is not grouped has one group. A unit with more rows than ``rows`` is not cut off: all of
    its rows count, each with the same smaller weight, so that together they weigh as much as ``rows`` rows.
    That is what a random choice of ``rows`` rows gives on average, without the luck of the choice. A unit
    that is in more groups than ``groups`` counts in ``groups`` of them, chosen by a keyed hash of the unit
    and the group. Both rules look at the rows of that unit alone, so nobody's weight depends on anybody else.

    >>> Contribution(rows=3)
    Contribution(rows=3, groups=1)
    """

    rows: int = 1
    groups: int = 1

    def __post_init__(self) -> None:
        whole("rows", self.rows, most=_MOST_ROWS)
        whole("groups", self.groups, most=_MOST_GROUPS)
