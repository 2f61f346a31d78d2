"""Reconstruction of a small table from what is published about it: which people are in every consistent
table?

Statistics of a block of houses leave few tables of people that agree with all of them. Whoever finds one has
a guess. What is the same in *all* of them is certain: no noise, no luck, and no other source is needed. Both
ends of every certified count are proved, each by an optimisation.

Reference: Garfinkel, Abowd & Martindale 2019. *Deviation*: an integer programme over counts of cells in place
of a SAT formula over people; the certified part is ours.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, TypeAlias, final

import numpy as np

from privet.arguments import positive, whole
from privet.attacks.reconstruction.published_statistics import PeopleColumns, PeopleGroup, PublishedStatistic
from privet.attacks.reconstruction.table_programme import CellCounts, TableProgramme
from privet.errors import InvalidArgument
from privet.public_calls import check_public_calls
from privet.recoveries import Recoveries
from privet.views import Adversary

__all__ = ["CertifiedPeople", "ConsistentTables"]

Person: TypeAlias = tuple[str | int, ...]


@final
@dataclass(frozen=True)
class CertifiedPeople:
    """What holds in every table that agrees with the statistics.

    ``people`` are in all of them, each as often as listed. ``possible`` are all combinations that are in some
    of them: nobody has another.
    """

    people: tuple[Person, ...]
    possible: tuple[Person, ...]
    total: int

    @property
    def is_unique(self) -> bool:
        """Whether there is one consistent table only."""
        return len(self.people) == self.total


@final
@dataclass(frozen=True)
class ConsistentTables:
    """Finds the tables of people that agree with published statistics. ``seconds`` limits each optimisation.

    >>> columns = PeopleColumns({"sex": ("f", "m")}, "age", 0, 99)
    >>> published = [
    ...     PublishedStatistic(PeopleGroup(), count=3, mean=40, median=35),
    ...     PublishedStatistic(PeopleGroup({"sex": "f"}), count=2, mean=42.5),
    ...     PublishedStatistic(PeopleGroup({"sex": "f"}, lower=50), count=1, mean=50),
    ... ]
    >>> ConsistentTables(columns).certify(published).people
    (('f', 35), ('f', 50), ('m', 35))
    """

    name: ClassVar[str] = "consistent tables"

    columns: PeopleColumns
    seconds: float = 60.0

    def __post_init__(self) -> None:
        positive("seconds", self.seconds)

    @property
    def adversary(self) -> Adversary:
        """Who attacks: what they see, know and want."""
        return Adversary(
            sees="published counts, means and medians of groups",
            knows="the columns and their possible values",
            wants="the rows of the people",
        )

    def solve(self, published: Sequence[PublishedStatistic]) -> tuple[Person, ...]:
        """One consistent table."""
        return self._people(self._first(self._programme(published)))

    def certify(self, published: Sequence[PublishedStatistic]) -> CertifiedPeople:
        """What is the same in every consistent table, by optimisations over all of them."""
        programme = self._programme(published)
        table = self._first(programme)
        others = programme.copy()
        others.exclude(table)
        second = others.solve()
        if second is None:
            return CertifiedPeople(self._people(table), self._people(np.minimum(table, 1)), programme.people)
        least, seen = np.minimum(table, second), (table > 0) | (second > 0)
        while True:  # tables with as many cells as possible that no table had yet, until there is none
            other = programme.solve(np.where(seen, 0.0, -1.0))
            assert other is not None
            if not (other[~seen] > 0).any():
                break
            least, seen = np.minimum(least, other), seen | (other > 0)
        for cell in np.flatnonzero(least).tolist():
            if least[cell]:
                fewest = programme.solve(np.eye(1, len(least), cell)[0])
                assert fewest is not None
                least = np.minimum(least, fewest)
        return CertifiedPeople(self._people(least), self._people(seen.astype(np.int64)), programme.people)

    def bound(self, published: Sequence[PublishedStatistic], group: PeopleGroup) -> tuple[int, int]:
        """The fewest and the most people of a group in any consistent table, by two optimisations."""
        programme, inside = self._programme(published), self.columns.members(group)
        ends = []
        for sign in (1.0, -1.0):
            found = self._first(programme, sign * inside.astype(np.float64))
            ends.append(int(found[inside].sum()))
        return ends[0], ends[1]

    def list_tables(
        self, published: Sequence[PublishedStatistic], *, most: int = 100
    ) -> tuple[tuple[Person, ...], ...]:
        """All consistent tables; the first ``most`` of them if there are more."""
        whole("most", most)
        programme = self._programme(published).copy()
        tables: list[tuple[Person, ...]] = []
        while len(tables) < most:
            found = programme.solve()
            if found is None:
                break
            tables.append(self._people(found))
            programme.exclude(found)
        return tuple(tables)

    def run(
        self, published: Sequence[PublishedStatistic], people: Sequence[Person], blind: Sequence[Person]
    ) -> Recoveries:
        """Reconstruct the table, and join the truth: a hit is a person whose whole row is in the
        reconstruction.

        ``people`` are the true rows. ``blind`` is the best table of as many rows from public knowledge alone,
        such as people drawn from the whole country. The confidence is 1 for certified rows and 0 for others.
        """
        if len(people) != len(blind) or not people:
            raise InvalidArgument(
                f"'blind' must have a row for each of the {len(people)} people, got {len(blind)}. Draw as "
                "many rows from public knowledge."
            )
        certified = self.certify(published)
        found = self.solve(published) if not certified.is_unique else certified.people
        truths = [self.columns.cell(self.columns.place(person)) for person in people]
        return Recoveries(
            attack=self.name,
            adversary=self.adversary,
            criterion="the whole row is in the reconstructed table",
            hits=_match(truths, found),
            blind_hits=_match(truths, [self.columns.cell(self.columns.place(row)) for row in blind]),
            confidence=_match(truths, certified.people).astype(np.float64),
        )

    def _programme(self, published: Sequence[PublishedStatistic]) -> TableProgramme:
        return TableProgramme(self.columns, published, seconds=self.seconds)

    def _first(
        self, programme: TableProgramme, objective: "np.typing.NDArray[np.float64] | None" = None
    ) -> CellCounts:
        table = programme.solve(objective)
        if table is None:
            raise InvalidArgument(
                "'published' must be true of at least one table, got statistics that contradict each other. "
                "Check them, and how means are rounded."
            )
        return table

    def _people(self, counts: CellCounts) -> tuple[Person, ...]:
        return tuple(
            self.columns.cell(place)
            for place in np.flatnonzero(counts).tolist()
            for _ in range(int(counts[place]))
        )


def _match(truths: Sequence[Person], found: Sequence[Person]) -> "np.typing.NDArray[np.bool_]":
    """Which true rows are found, each found row once."""
    left, hits = Counter(found), []
    for person in truths:
        hits.append(left[person] > 0)
        left[person] -= 1
    return np.array(hits)


check_public_calls(__name__)
