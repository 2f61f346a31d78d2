"""All tables of people that agree with published statistics, as an integer programme.

The variables are the numbers of people in each cell. Counts and means are linear in them. A median is too, by
counting from below. Let F(t) be the number of people of the group with a number of at most t, and x₁ ≤ … ≤
x_c their numbers in order.

- An odd count c = 2k + 1 with median M: F(M − 1) ≤ k and F(M) ≥ k + 1.
- An even count c = 2k: the middle two are u and 2M − u for one u ≤ M. Binary variables say whether u ≤ t. x_k
  = u means F(t) ≥ k from t = u on and F(t) ≤ k − 1 below; x_{k+1} = 2M − u likewise with k + 1.

HiGHS solves it through scipy. Each table that it gives is rounded to whole numbers and checked against every
constraint here. That there is no other table is the solver's word.

Reference: Garfinkel, Abowd & Martindale 2019, "Understanding database reconstruction attacks on public data",
who give such constraints to a SAT solver.
"""

import math
from collections.abc import Sequence
from typing import Any, final

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.optimize import Bounds, LinearConstraint, milp

from privet.attacks.reconstruction.published_statistics import PeopleColumns, PublishedStatistic
from privet.errors import InvalidArgument, OutOfReach

__all__ = ["CellCounts", "TableProgramme"]

CellCounts = NDArray[np.int64]

_SLACK = 1e-9
_INFEASIBLE = 2  # the status of scipy's milp


@final
class TableProgramme:
    """The constraints of a list of statistics.

    ``solve`` finds a table that meets them, the best by an objective.
    """

    def __init__(
        self, columns: PeopleColumns, statistics: Sequence[PublishedStatistic], *, seconds: float
    ) -> None:
        totals = [each.count for each in statistics if each.group.is_everybody and each.count is not None]
        if not totals:
            raise InvalidArgument(
                "'statistics' must hold the number of all people, got no count of everybody. Publish "
                "PublishedStatistic(PeopleGroup(), count=…) first."
            )
        self.people = totals[0]
        self._columns, self._seconds = columns, seconds
        self._rows: list[tuple[NDArray[np.int64], NDArray[np.float64], float, float]] = []
        self._cells = len(columns)
        self._whole = np.ones(self._cells, dtype=np.int64)
        impossible = np.zeros(len(columns), dtype=np.bool_)
        for group in columns.impossible:
            impossible |= columns.members(group)
        self._upper = np.where(impossible, 0.0, float(self.people))
        for statistic in statistics:
            self._add(statistic)

    def copy(self) -> "TableProgramme":
        """The same constraints, to be extended by others."""
        other = object.__new__(TableProgramme)
        other.__dict__.update(self.__dict__)
        other._rows = list(self._rows)
        return other

    def solve(self, objective: NDArray[Any] | None = None) -> CellCounts | None:
        """The table with the smallest ``objective`` (a weight for each cell), or None if no table meets the
        constraints.
        """
        width = len(self._upper)
        costs = np.zeros(width)
        if objective is not None:
            costs[: self._cells] = objective
        matrix, low, high = self._matrix()
        found = milp(
            costs,
            integrality=self._whole,
            bounds=Bounds(np.zeros(width), self._upper),
            constraints=LinearConstraint(matrix, low, high),
            options={"time_limit": self._seconds, "mip_rel_gap": 0.0},
        )
        if found.status == _INFEASIBLE:
            return None
        if found.status != 0 or found.x is None:
            raise OutOfReach(
                f"The integer programme of {self._cells:,} cells was not solved in {self._seconds:g} s. "
                "Narrow the bounds of the number, or allow more time."
            )
        answer = np.rint(found.x)
        sums = matrix @ answer
        if (
            (sums < low - 1e-6).any()
            or (sums > high + 1e-6).any()
            or (answer < 0).any()
            or (answer > self._upper).any()
        ):
            raise OutOfReach(
                "The solver gave a table that does not meet its constraints. Publish means as they are "
                "rounded, or narrow the bounds of the number."
            )
        counts: CellCounts = answer[: self._cells].astype(np.int64)
        return counts

    def exclude(self, table: CellCounts) -> None:
        """Ask for another table than this one: some cell of it must have fewer people."""
        used = np.flatnonzero(table)
        first = self._new(len(used), 1.0, whole=True)
        for number, cell in enumerate(used.tolist()):
            # chosen ⇒ count ≤ table − 1
            room = float(self.people - table[cell] + 1)
            self._append([cell, first + number], [1.0, room], -np.inf, float(self.people))
        self._append(range(first, first + len(used)), np.ones(len(used)), 1.0, np.inf)

    def _add(self, statistic: PublishedStatistic) -> None:
        inside = self._columns.members(statistic.group)
        cells, numbers = np.flatnonzero(inside), self._columns.numbers[inside]
        ones = np.ones(len(cells))
        if statistic.below is not None:
            self._append(cells, ones, 0.0, statistic.below - 1.0)
            return
        count = float(statistic.count or 0)
        self._append(cells, ones, count, count)
        if statistic.mean is not None:
            low = math.ceil((statistic.mean - statistic.rounding) * count - _SLACK)
            high = math.floor((statistic.mean + statistic.rounding) * count + _SLACK)
            self._append(cells, numbers.astype(np.float64), float(low), float(high))
        if statistic.median is not None:
            self._add_median(cells, numbers, int(count), statistic.median)

    def _add_median(
        self, cells: NDArray[np.intp], numbers: NDArray[np.int64], count: int, median: float
    ) -> None:
        half = count // 2
        if count % 2:
            if median % 1:
                self._append(cells, np.ones(len(cells)), 1.0, 0.0)  # the middle one of whole numbers is whole
                return
            below, within = cells[numbers < median], cells[numbers <= median]
            self._append(below, np.ones(len(below)), -np.inf, float(half))
            self._append(within, np.ones(len(within)), half + 1.0, np.inf)
            return
        double = round(2 * median)
        lower, upper = self._columns.lower, self._columns.upper
        ages = range(lower, upper + 1)
        counted = self._new(len(ages), float(count), whole=False)  # F(t)
        passed = self._new(len(ages), 1.0, whole=True)  # whether u ≤ t
        for place, t in enumerate(ages):
            here = cells[numbers == t]
            steps = [*here.tolist(), counted + place, *([counted + place - 1] if place else [])]
            self._append(steps, [*np.ones(len(here)), -1.0, *([1.0] if place else [])], 0.0, 0.0)
            if place:
                self._append([passed + place, passed + place - 1], [1.0, -1.0], 0.0, np.inf)
            if t >= double // 2:
                self._append([passed + place], [1.0], 1.0, 1.0)  # u ≤ M, which follows, and helps
            self._follow(counted + place, [passed + place], 1.0, 0.0, half, count)
            mirror = double - t - 1 - lower  # 2M − u ≤ t unless u ≤ 2M − t − 1
            if mirror < 0:
                self._follow(counted + place, [], 0.0, 1.0, half + 1, count)
            elif mirror < len(ages):
                self._follow(counted + place, [passed + mirror], -1.0, 1.0, half + 1, count)
            else:
                self._follow(counted + place, [], 0.0, 0.0, half + 1, count)

    def _follow(
        self, sum_: int, switch: list[int], sign: float, start: float, order: int, count: int
    ) -> None:
        """F(t) ≥ order where the switch (start + sign · variable) is 1; F(t) ≤ order − 1 where it is 0."""
        self._append([sum_, *switch], [1.0, *([-order * sign] * len(switch))], order * start, np.inf)
        room = count - order + 1
        self._append(
            [sum_, *switch], [1.0, *([-room * sign] * len(switch))], -np.inf, order - 1 + room * start
        )

    def _new(self, count: int, upper: float, *, whole: bool) -> int:
        """The place of the first of so many new variables."""
        first = len(self._upper)
        self._upper = np.concatenate([self._upper, np.full(count, upper)])
        self._whole = np.concatenate([self._whole, np.full(count, int(whole))])
        return first

    def _append(self, places: Any, weights: Any, low: float, high: float) -> None:  # noqa: ANN401
        self._rows.append(
            (np.asarray(places, dtype=np.int64), np.asarray(weights, dtype=np.float64), low, high)
        )

    def _matrix(self) -> tuple[Any, NDArray[np.float64], NDArray[np.float64]]:
        lengths = [len(places) for places, *_ in self._rows]
        rows = np.repeat(np.arange(len(lengths)), lengths)
        places = np.concatenate([places for places, *_ in self._rows])
        weights = np.concatenate([weights for _, weights, *_ in self._rows])
        matrix = sparse.csr_matrix((weights, (rows, places)), shape=(len(lengths), len(self._upper)))
        low, high = (np.array([row[end] for row in self._rows], dtype=np.float64) for end in (2, 3))
        return matrix, low, high
