"""How far one unit moves the sums of a bounded table: the sensitivity, derived and never typed in.

*Guarantee*: between neighbours, a vector of sums over groups changes in at most ``coordinates`` groups, in
each by at most ``distance`` (in absolute value; in the sum of absolute values where a group has several
numbers).

A unit counts in at most g groups. If it is added, removed or set to nothing, it moves those. If it is
exchanged for another, it leaves g groups and enters g, which may be the same ones. What both do to one group
lies between what each does alone.
"""

from dataclasses import dataclass
from typing import final

from privet.adjacency import Adjacency
from privet.releasing.contribution import Contribution
from privet.releasing.engines.aggregates import Grouping

__all__ = ["Sensitivity", "UnitBounds"]


@final
@dataclass(frozen=True)
class Sensitivity:
    """How far in each group, in how many groups, and how many groups each of these stands for."""

    distance: int
    coordinates: int
    stands_for: int = 1


@final
@dataclass(frozen=True)
class UnitBounds:
    """What bounds a unit: the adjacency, the contribution, and the groups that there are."""

    adjacency: Adjacency
    contribution: Contribution
    grouping: Grouping

    def one_number(self, lower: int, upper: int) -> Sensitivity:
        """Of one number for each group, to which a unit adds nothing, or from lower to upper."""
        low, high = min(lower, 0), max(upper, 0)
        if self._units_changed == 1:
            return Sensitivity(max(-low, high), self.most_groups(1))
        return Sensitivity(high - low, self.most_groups(self._units_changed))

    def several_numbers(self, total: int) -> Sensitivity:
        """Of several numbers for each group, to which a unit adds at most ``total`` in absolute values.

        For Laplace noise only. An exchange moves one group by what both units add, or two groups by what each
        adds. The first dominates the second, since only the sum of absolute values counts (see
        ``DiscreteLaplaceNoise``).
        """
        groups = self.most_groups(1)
        return Sensitivity(total * self._units_changed, groups, -(-self.changed_groups // groups))

    def most_groups(self, units: int) -> int:
        """In how many groups so many units count at most."""
        most = 1 if self.grouping.single else units * self.contribution.groups
        return most if self.grouping.keys is None else min(most, len(self.grouping.keys))

    @property
    def changed_groups(self) -> int:
        """In how many groups neighbours can differ."""
        return self.most_groups(self._units_changed)

    @property
    def _units_changed(self) -> int:
        """How many units neighbours differ in: one, or two where one is exchanged for another."""
        return self.adjacency.contribution_distance
