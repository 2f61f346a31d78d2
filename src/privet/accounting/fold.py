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
    """A way of accounting: the cost of an event, and how costs add up."""

    name: ClassVar[str]

    @abstractmethod
    def zero(self) -> Cost:
        """What nothing costs."""

    @abstractmethod
    def atom(self, event: Event, adjacency: Adjacency) -> Cost:
        """The cost of one leaf or one sampled event; raises ``NotProved`` if no theorem covers it."""

    @abstractmethod
    def join(self, first: Cost, second: Cost) -> Cost:
        """The cost of both on the same data."""

    @abstractmethod
    def power(self, cost: Cost, times: int) -> Cost:
        """The cost of ``times`` repetitions."""

    @abstractmethod
    def worst(self, first: Cost, second: Cost) -> Cost:
        """A bound on either cost, for a unit that is in only one of the two parts."""

    def join_all(self, costs: Sequence[Cost]) -> Cost:
        """The cost of all of these on the same data. An accountant whose costs grow in size overrides it with
        a quicker method.
        """
        return reduce(self.join, costs, self.zero())

    def worst_of(self, costs: Sequence[Cost]) -> Cost:
        """A bound on each of these costs. There must be at least one."""
        return reduce(self.worst, require_costs(costs))

    @abstractmethod
    def curve(self, cost: Cost) -> Curve:
        """The guarantee that follows."""

    @abstractmethod
    def caveats(self, cost: Cost) -> frozenset[Caveat]:
        """The caveats of the guarantee."""


def require_costs(costs: Sequence[Cost]) -> Sequence[Cost]:
    """The costs, checked to be at least one: there is no bound for no part."""
    if not costs:
        raise InvalidArgument("'costs' must hold at least one cost, got none. Give one for each part.")
    return costs


def fold(accountant: Accountant[Cost], event: Event, adjacency: Adjacency) -> Cost:
    """The cost of a whole tree of any depth, in one pass. Each part is priced once, even if it occurs several
    times.

    Nested ``Repeat`` and ``Compose`` are one composition; their counts multiply.
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
    """The parts of nested Repeat and Compose, with their counts. The same object counts as one part."""
    order: list[Event] = []  # every part comes after the parts inside of it
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
