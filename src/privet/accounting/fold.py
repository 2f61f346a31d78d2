"""The one fold over events. An accountant prices, joins and repeats; only ``power`` ever sees a count."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import reduce
from typing import ClassVar, Generic, TypeVar

from privet.accounting.zeroed import zeroed_is_absent
from privet.adjacency import Adjacency, ReplaceOne, ZeroOut
from privet.caveats import Caveat
from privet.errors import InvalidArgument, NotProved
from privet.events import Compose, Event, Parallel, Repeat
from privet.guarantees import Curve

__all__ = ["Accountant", "fold", "require_costs"]

Cost = TypeVar("Cost")


class Accountant(ABC, Generic[Cost]):
    """How one way of accounting prices an event and adds prices up."""

    name: ClassVar[str]

    @abstractmethod
    def zero(self) -> Cost:
        """What nothing costs."""

    @abstractmethod
    def atom(self, event: Event, adjacency: Adjacency) -> Cost:
        """What one leaf costs, or one sampled event; raises ``NotProved`` where no theorem says."""

    @abstractmethod
    def join(self, first: Cost, second: Cost) -> Cost:
        """What both cost on the same data."""

    @abstractmethod
    def power(self, cost: Cost, times: int) -> Cost:
        """What the same costs that many times over."""

    @abstractmethod
    def worst(self, first: Cost, second: Cost) -> Cost:
        """What bounds either, when a unit is in only one of the two parts."""

    def join_all(self, costs: Sequence[Cost]) -> Cost:
        """What all of these cost on the same data; an accountant whose costs grow as they add up has a
        quicker way.
        """
        return reduce(self.join, costs, self.zero())

    def worst_of(self, costs: Sequence[Cost]) -> Cost:
        """What bounds each of these, of which there is at least one."""
        return reduce(self.worst, require_costs(costs))

    @abstractmethod
    def curve(self, cost: Cost) -> Curve:
        """The guarantee that follows."""

    @abstractmethod
    def caveats(self, cost: Cost) -> frozenset[Caveat]:
        """What must be said with it."""


def require_costs(costs: Sequence[Cost]) -> Sequence[Cost]:
    """The costs, of which there must be one: nothing bounds the costs of no part."""
    if not costs:
        raise InvalidArgument("'costs' must hold at least one cost, got none. Give one for each part.")
    return costs


def fold(accountant: Accountant[Cost], event: Event, adjacency: Adjacency) -> Cost:
    """The cost of a whole tree, however deep, in one pass: each part is priced once, however often it stands
    in the tree.

    ``Repeat`` and ``Compose`` around each other are one composition of what is inside of them, with counts
    that multiply.
    """
    whole: dict[int, Cost] = {}  # of the tree, and of each part of a Parallel
    todo: list[Event] = [event]
    composed: dict[int, list[tuple[Event, int]]] = {}
    while todo:
        root = todo[-1]
        if id(root) in whole:
            todo.pop()
            continue
        if id(root) not in composed:
            composed[id(root)] = _list_parts(root)
            for each, _ in composed[id(root)]:
                if isinstance(each, Parallel):
                    _check_disjoint(each, adjacency)
                    todo.extend(reversed(each.parts))
            if todo[-1] is not root:
                continue
        costs = [
            (
                accountant.worst_of([whole[id(part)] for part in each.parts])
                if isinstance(each, Parallel)
                else accountant.atom(each, adjacency),
                times,
            )
            for each, times in composed[id(root)]
        ]
        powers = [accountant.power(cost, times) if times > 1 else cost for cost, times in costs]
        whole[id(root)] = powers[0] if len(powers) == 1 else accountant.join_all(powers)
        todo.pop()
    return whole[id(event)]


def _list_parts(root: Event) -> list[tuple[Event, int]]:
    """What a nest of Repeat and Compose runs, with how often; the same object is one part, wherever it
    stands.
    """
    order: list[Event] = []  # every part after those inside of it
    seen: set[int] = set()
    todo: list[tuple[Event, bool]] = [(root, False)]
    while todo:
        part, is_left = todo.pop()
        if is_left:
            order.append(part)
        elif id(part) not in seen:
            seen.add(id(part))
            todo.append((part, True))
            todo.extend((each, False) for each, _ in reversed(_inner(part)))
    counts = {id(root): 1}
    for part in reversed(order):
        for each, times in _inner(part):
            counts[id(each)] = counts.get(id(each), 0) + times * counts[id(part)]
    return [(part, counts[id(part)]) for part in order if not isinstance(part, Repeat | Compose)]


def _inner(event: Event) -> tuple[tuple[Event, int], ...]:
    match event:
        case Repeat(inner, times):
            return ((inner, times),)
        case Compose(parts):
            return tuple((part, 1) for part in parts)
    return ()


def _check_disjoint(event: Parallel, adjacency: Adjacency) -> None:
    if isinstance(adjacency, ReplaceOne) and len(event.parts) > 1:
        raise NotProved(
            "Parallel composition is proved where a unit is in one part only, and under replace-one "
            "adjacency a unit may leave one part and enter another. Account under add-remove or "
            "zero-out adjacency."
        )
    if isinstance(adjacency, ZeroOut) and len(event.parts) > 1 and not zeroed_is_absent(event):
        raise NotProved(
            "Parallel composition under zero-out adjacency is proved for noisy sums only, because the "
            "split may look at a unit, so that a zeroed unit leaves its part and shows in another. Account "
            "under add-remove adjacency."
        )
