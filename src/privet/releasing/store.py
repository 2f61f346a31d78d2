"""Where spending is written down before a row is read, and where answers are kept.

A plan asks its store three things, in this order: *recall* (was this question answered already?), *spend*
(write down what is about to be spent, or refuse), and after the rows were read, *keep* (here are the
answers). Between the last two the machine may die: then the money is spent and the answer is lost, which is
safe. The other order would not be.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import replace
from threading import Lock
from typing import final

from privet.adjacency import Adjacency
from privet.caveats import Caveat
from privet.errors import InvalidArgument
from privet.filters import Filter
from privet.ledger import Entry, Ledger
from privet.releasing.answers import Answer
from privet.releasing.budget import Budget, extend_ledger

__all__ = ["MemoryStore", "Store", "check_unit_column", "with_unit_column"]


def check_unit_column(ledger: Ledger, column: str | None) -> None:
    """Refuse a ledger that protects what another column names: its entries say nothing of this one's
    people.
    """
    if None not in (ledger.unit_column, column) and ledger.unit_column != column:
        raise InvalidArgument(
            f"The ledger protects whom the column {ledger.unit_column!r} names, and {column!r} is asked for. "
            f"Ask with the unit {ledger.unit_column!r}, or name another ledger."
        )


def with_unit_column(ledger: Ledger, column: str | None) -> Ledger:
    """The ledger with the column that it is spent for, if it had none; a ledger of other people is
    refused.
    """
    check_unit_column(ledger, column)
    return ledger if column in (None, ledger.unit_column) else replace(ledger, unit_column=column)


class Store(ABC):
    """A ledger and the answers that were paid from it."""

    @property
    @abstractmethod
    def ledger(self) -> Ledger:
        """All that was spent so far."""

    @abstractmethod
    def recall(self, question: str) -> Answer | None:
        """The stored answer to a question, by its canonical text."""

    @abstractmethod
    def spend(self, entries: tuple[Entry, ...], *, caveats: frozenset[Caveat] = frozenset()) -> Ledger:
        """Write the entries down, all or none; the ledger as it now is.

        When this returns they are as durable as the store is. ``BudgetExceeded`` means that none was written.
        """

    def use_unit_column(self, column: str | None) -> None:
        """Say whose rows are meant before anything is recalled or spent; a ledger of another column is
        refused.

        A store of your own may do more: keep the column in its ledger at the first spend, as Privet's stores
        do.
        """
        check_unit_column(self.ledger, column)

    @abstractmethod
    def keep(self, answers: Mapping[str, Answer]) -> None:
        """Keep answers by their questions; a later answer to the same question replaces the earlier one."""


@final
class MemoryStore(Store):
    """A store that lives as long as the program. A budget is kept by a filter, which may be given in its
    place.

    >>> from privet.adjacency import AddRemove
    >>> len(MemoryStore(AddRemove(), budget=Budget(epsilon=1.0)).ledger)
    0
    """

    def __init__(self, adjacency: Adjacency, *, budget: Budget | Filter | None = None) -> None:
        if budget is not None and not isinstance(budget, (Budget, Filter)):
            raise InvalidArgument(
                f"'budget' must be a Budget, a filter or None, got {type(budget).__name__}. Write "
                "Budget(epsilon=1.0)."
            )
        self._ledger = Ledger(adjacency)
        self._unit_column: str | None = None
        self._budget = budget
        self._answers: dict[str, Answer] = {}
        self._lock = Lock()

    @property
    def ledger(self) -> Ledger:
        return self._ledger

    def recall(self, question: str) -> Answer | None:
        return self._answers.get(question)

    def use_unit_column(self, column: str | None) -> None:
        super().use_unit_column(column)
        self._unit_column = column

    def spend(self, entries: tuple[Entry, ...], *, caveats: frozenset[Caveat] = frozenset()) -> Ledger:
        with self._lock:  # two threads never overspend together
            ledger = with_unit_column(self._ledger, self._unit_column)
            self._ledger = extend_ledger(ledger, entries, caveats, self._budget)
            return self._ledger

    def keep(self, answers: Mapping[str, Answer]) -> None:
        self._answers.update(answers)
