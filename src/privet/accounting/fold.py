"""The one fold over events. An accountant prices, joins and repeats; only ``power`` ever sees a count."""

from abc import ABC, abstractmethod
from collections.abc import Iterable
from functools import reduce
from typing import ClassVar, Generic, TypeVar

from privet.accounting.zeroed import zeroed_is_absent
from privet.adjacency import Adjacency, ReplaceOne, ZeroOut
from privet.caveats import Caveat
from privet.errors import NotProved
from privet.events import Compose, Event, Parallel, Repeat
from privet.guarantees import Curve

__all__ = ["Accountant", "fold"]

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

    def joined(self, costs: Iterable[Cost]) -> Cost:
        """What all of these cost on the same data; an accountant whose costs grow as they add up has a quicker way."""
        return reduce(self.join, costs, self.zero())

    def worst_of(self, costs: Iterable[Cost]) -> Cost:
        """What bounds each of these, of which there is at least one."""
        return reduce(self.worst, costs)

    @abstractmethod
    def curve(self, cost: Cost) -> Curve:
        """The guarantee that follows."""

    @abstractmethod
    def caveats(self, cost: Cost) -> frozenset[Caveat]:
        """What must be said with it."""


def fold(accountant: Accountant[Cost], event: Event, adjacency: Adjacency) -> Cost:
    """The cost of a whole tree, however deep. Each part is priced once, also where it stands in several places."""
    priced: dict[int, Cost] = {}
    todo: list[tuple[Event, bool]] = [(event, False)]
    while todo:
        part, is_ready = todo.pop()
        if id(part) in priced:
            continue
        inner = _inner(part)
        if inner and not is_ready:
            if isinstance(part, Parallel):
                _check_disjoint(part, adjacency)
            todo.append((part, True))
            todo.extend((each, False) for each in reversed(inner))
            continue
        costs = (priced[id(each)] for each in inner)
        match part:
            case Repeat(_, times):
                priced[id(part)] = accountant.power(next(costs), times)
            case Compose():
                priced[id(part)] = accountant.joined(costs)
            case Parallel():
                priced[id(part)] = accountant.worst_of(costs)
            case _:
                priced[id(part)] = accountant.atom(part, adjacency)
    return priced[id(event)]


def _inner(event: Event) -> tuple[Event, ...]:
    """What the fold looks into; a sampled event is one atom."""
    match event:
        case Repeat(inner, _):
            return (inner,)
        case Compose(parts) | Parallel(parts):
            return parts
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
            "Parallel composition under zero-out adjacency is proved for noisy sums only, because the split may "
            "look at a unit, so that a zeroed unit leaves its part and shows in another. Account under "
            "add-remove adjacency."
        )
