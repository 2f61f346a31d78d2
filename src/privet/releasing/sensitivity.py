"""How far one unit moves the sums of a bounded table: the sensitivity, derived and never typed in.

*Guarantee*: between neighbours, a vector of sums over groups changes in at most ``coordinates`` groups, in each by
at most ``distance`` (in absolute value; in the sum of absolute values where a group has several numbers).

A unit counts in at most g groups. Added, removed or set to nothing, it moves those. Exchanged for another, it leaves
g groups and enters g, which may be the same ones; what both do to one group lies between what each does alone.
"""

from dataclasses import dataclass
from typing import final

from privet.adjacency import Adjacency
from privet.releasing.contribution import Contribution
from privet.releasing.engines.aggregates import Grouping

__all__ = ["Bounds", "Reach"]


@final
@dataclass(frozen=True)
class Reach:
    """How far in each group, in how many groups, and how many groups each of these stands for."""

    distance: int
    coordinates: int
    stands_for: int = 1


@final
@dataclass(frozen=True)
class Bounds:
    """What bounds a unit: the adjacency, the contribution, and the groups that there are."""

    adjacency: Adjacency
    contribution: Contribution
    grouping: Grouping

    def number(self, lower: int, upper: int) -> Reach:
        """One number for each group, of which a unit's part is nothing, or from lower to upper."""
        low, high = min(lower, 0), max(upper, 0)
        if self._moves == 1:
            return Reach(max(-low, high), self.groups(1))
        return Reach(high - low, self.groups(self._moves))

    def joint(self, total: int) -> Reach:
        """Several numbers for each group, of which a unit's part is at most ``total`` in the sum of absolute values.

        For Laplace noise only. A unit that is exchanged moves one group by both parts, or two groups by one each;
        the first dominates the second, since only the sum of absolute values counts (see ``LaplaceLaw``).
        """
        return Reach(total * self._moves, self.groups(1), -(-self.exchanges // self.groups(1)))

    def groups(self, moves: int) -> int:
        """In how many groups ``moves`` units count at most."""
        most = 1 if self.grouping.single else moves * self.contribution.groups
        return most if self.grouping.keys is None else min(most, len(self.grouping.keys))

    @property
    def exchanges(self) -> int:
        """How many groups can change at all."""
        return self.groups(self._moves)

    @property
    def _moves(self) -> int:
        """How many units' parts neighbours differ in: one, or two where one is exchanged for another."""
        return self.adjacency.contribution_distance
