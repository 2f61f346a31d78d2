"""Known items joined with the released entries of the same items, a part of the targets at a time.

What an attack adds up for a person comes only from items that the adversary knows of the target and the
person has. So the join by items has all that is needed, and people × people is never written.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import NDArray

from privet.attacks.linkage.histories.sparse_histories import Histories
from privet.errors import InvalidArgument
from privet.views import Numbers

__all__ = ["JoinedItems", "join_items"]

_MOST_ROWS, _MOST_CELLS = 3_000_000, 6_000_000


@final
@dataclass(frozen=True, eq=False)
class JoinedItems:
    """For some targets: each known item beside each released entry of the same item.

    ``targets`` are the numbers of the targets. ``row_target`` (a place in ``targets``), ``row_known`` (which
    known item) and ``row_person`` (a place among the released people) are given for each row of the join,
    ``value_gap`` and ``day_gap`` where both sides have them. ``support`` is the number of people who have the
    item, for each known item; ``known_target`` is its target.
    """

    targets: NDArray[np.intp]
    people: int
    known_target: NDArray[np.intp]
    known_value: Numbers | None
    known_day: Numbers | None
    support: Numbers
    row_target: NDArray[np.intp]
    row_known: NDArray[np.intp]
    row_person: NDArray[np.intp]
    value_gap: Numbers | None
    day_gap: Numbers | None
    has_repeats: bool

    def add_up(self, parts: Numbers) -> Numbers:
        """The sum of the rows of each target and person, targets × people.

        Of several entries of one person about the same item the best counts.
        """
        cells = self.row_target * self.people + self.row_person
        if self.has_repeats:
            parts, cells = self._keep_best(parts, cells)
        total = np.bincount(cells, weights=parts, minlength=len(self.targets) * self.people)
        return total.astype(np.float64, copy=False).reshape(len(self.targets), self.people)

    def _keep_best(self, parts: Numbers, cells: NDArray[np.intp]) -> tuple[Numbers, NDArray[np.intp]]:
        keys = self.row_known * np.int64(self.people) + self.row_person
        order = np.argsort(keys, kind="stable")
        ordered = keys[order]
        starts = np.flatnonzero(np.diff(ordered, prepend=-1))
        if len(starts) == 0:
            return parts, cells
        best: Numbers = np.maximum.reduceat(parts[order], starts)
        return best, cells[order][starts]


def join_items(
    released: Histories, knowledge: Histories, *, without: NDArray[np.int64] | None = None
) -> Iterator[JoinedItems]:
    """The join of the targets' known items with the release, a part of the targets at a time.

    ``without`` names a released person for each target whose entries do not count: the release as it would be
    without them. Released people without an entry are no candidates.
    """
    if len(released) == 0:
        raise InvalidArgument("'released' must hold at least one entry, got none. Give what is published.")
    present = np.flatnonzero(released.sizes > 0)
    places = np.full(len(released.people), -1, dtype=np.int64)
    places[present] = np.arange(len(present))
    order = np.argsort(released.item, kind="stable")
    starts = np.concatenate([[0], np.cumsum(np.bincount(released.item, minlength=len(released.items)))])
    items = _match_items(released, knowledge)
    by_target = np.argsort(knowledge.person, kind="stable")
    known_item, known_target = items[by_target], knowledge.person[by_target]
    lengths = np.where(known_item >= 0, np.diff(starts)[known_item], 0)
    for first, last in _cut_targets(known_target, lengths, len(knowledge.people), len(present)):
        mine = np.flatnonzero((known_target >= first) & (known_target < last))
        counts = lengths[mine]
        known = np.repeat(np.arange(len(mine)), counts)
        inside = np.arange(int(counts.sum())) - np.repeat(np.cumsum(counts) - counts, counts)
        entries = order[starts[known_item[mine]][known] + inside]
        target = known_target[mine][known]
        if without is not None:
            kept = released.person[entries] != without[target]
            known, entries, target = known[kept], entries[kept], target[kept]
        person = places[released.person[entries]]
        held = by_target[mine]
        having = known
        if released.has_repeats:
            having = np.unique(known * np.int64(len(present)) + person) // len(present)
        yield JoinedItems(
            targets=np.arange(first, last),
            people=len(present),
            known_target=known_target[mine] - first,
            known_value=None if knowledge.value is None else knowledge.value[held],
            known_day=None if knowledge.day is None else knowledge.day[held],
            support=np.bincount(having, minlength=len(mine)).astype(np.float64),
            row_target=target - first,
            row_known=known,
            row_person=person,
            value_gap=_gaps(released.value, entries, knowledge.value, held[known]),
            day_gap=_gaps(released.day, entries, knowledge.day, held[known]),
            has_repeats=released.has_repeats,
        )


def _match_items(released: Histories, knowledge: Histories) -> NDArray[np.int64]:
    """The released number of each known item, −1 where nobody in the release has it."""
    if knowledge.items is released.items:
        return knowledge.item
    if len(released.items) == 0 or released.items.dtype.kind != knowledge.items.dtype.kind:
        numeric = "biuf"
        if not (released.items.dtype.kind in numeric and knowledge.items.dtype.kind in numeric):
            raise InvalidArgument(
                "'knowledge' must name items as the release does, got names of another type. Convert them."
            )
    places = np.minimum(np.searchsorted(released.items, knowledge.items), len(released.items) - 1)
    found = released.items[places] == knowledge.items
    answer: NDArray[np.int64] = np.where(found, places, -1)[knowledge.item]
    return answer


def _cut_targets(
    known_target: NDArray[np.int64], lengths: NDArray[np.int64], targets: int, people: int
) -> Iterator[tuple[int, int]]:
    rows = np.bincount(known_target, weights=lengths, minlength=targets)
    most = max(1, _MOST_CELLS // max(people, 1))
    first, total = 0, 0.0
    for target in range(targets):
        if target > first and (total + rows[target] > _MOST_ROWS or target - first >= most):
            yield first, target
            first, total = target, 0.0
        total += rows[target]
    if first < targets:
        yield first, targets


def _gaps(
    released: Numbers | None, entries: NDArray[np.intp], known: Numbers | None, held: NDArray[np.intp]
) -> Numbers | None:
    if released is None or known is None:
        return None
    answer: Numbers = np.abs(released[entries] - known[held])
    return answer
