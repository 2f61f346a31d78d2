"""The one fold over events. An accountant prices, joins and repeats; only ``power`` ever sees a count."""

from abc import ABC, abstractmethod
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

    @abstractmethod
    def curve(self, cost: Cost) -> Curve:
        """The guarantee that follows."""

    @abstractmethod
    def caveats(self, cost: Cost) -> frozenset[Caveat]:
        """What must be said with it."""


def fold(accountant: Accountant[Cost], event: Event, adjacency: Adjacency) -> Cost:
    """The cost of a whole tree."""
    match event:
        case Repeat(inner, times):
            return accountant.power(fold(accountant, inner, adjacency), times)
        case Compose(parts):
            costs = (fold(accountant, part, adjacency) for part in parts)
            return reduce(accountant.join, costs, accountant.zero())
        case Parallel(parts):
            if isinstance(adjacency, ReplaceOne) and len(parts) > 1:
                raise NotProved(
                    "Parallel composition is proved where a unit is in one part only, and under replace-one "
                    "adjacency a unit may leave one part and enter another. Account under add-remove or "
                    "zero-out adjacency."
                )
            if isinstance(adjacency, ZeroOut) and len(parts) > 1 and not zeroed_is_absent(event):
                raise NotProved(
                    "Parallel composition under zero-out adjacency is proved for noisy sums only, because the split may "
                    "look at a unit, so that a zeroed unit leaves its part and shows in another. Account under "
                    "add-remove adjacency."
                )
            return reduce(accountant.worst, (fold(accountant, part, adjacency) for part in parts))
        case _:
            return accountant.atom(event, adjacency)
