"""What a curator does, for whoever calls it: the JSON interface, the pages, the command line.

Everything that can be refused with a detail is refused from metadata alone, before anything is spent. After a
charge nothing is raised any more: the record says ``FAILED``, the same whatever the cause, and is charged.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any, final

from privet.curator.principals import Principal

__all__ = [
    "AnswerRecord",
    "AnswerStatus",
    "BudgetState",
    "CuratorService",
    "DatasetCard",
    "QuoteCard",
    "Scope",
]

Plain = Mapping[str, Any]  # as JSON can hold it


@final
class Scope(StrEnum):
    """What a cap is for. The cap of the dataset is the true one: analysts may collude."""

    DATASET = "dataset"
    GROUP = "group"
    ANALYST = "analyst"


@final
class AnswerStatus(StrEnum):
    """Where a question stands. ``RESERVED`` is spent already."""

    RESERVED = "reserved"
    ANSWERED = "answered"
    FAILED = "failed"  # and charged


@final
@dataclass(frozen=True, kw_only=True)
class BudgetState:
    """How far one cap is used: by its privacy filter, in ε at the cap's δ."""

    scope: Scope
    name: str
    epsilon: float
    delta: float
    reached: float
    remaining: float
    filter_name: str


@final
@dataclass(frozen=True, kw_only=True)
class DatasetCard:
    """A dataset as an analyst may see it: public metadata, and the budgets that bind them."""

    name: str
    description: str
    metadata: Plain
    budgets: tuple[BudgetState, ...]
    read_only: bool = False


@final
@dataclass(frozen=True, kw_only=True)
class QuoteCard:
    """What a question would cost, and how accurate its answers would be; no row was read.

    ``answers`` has one object for each statistic: label, error at 95 %, ε and δ. ``stored`` says that the
    answer is known already and costs nothing. ``budgets`` is what would be left.
    """

    dataset: str
    question: Plain  # the canonical form
    epsilon: float
    delta: float
    answers: tuple[Plain, ...]
    stored: bool
    affordable: bool
    budgets: tuple[BudgetState, ...]
    caveats: tuple[str, ...] = ()


@final
@dataclass(frozen=True, kw_only=True)
class AnswerRecord:
    """One question that was asked: what it was, what it cost, and its answer if there is one."""

    id: str
    dataset: str
    analyst: str
    question: Plain
    asked_at: datetime
    status: AnswerStatus
    epsilon: float
    delta: float
    answer: Plain | None
    stored: bool  # given again, at no cost
    chain_position: int
    caveats: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()  # the analyst's names of the statistics, in the order of the answers
    filter_name: str = ""  # of the cap of the dataset: valid for questions chosen in view of earlier answers


class CuratorService(ABC):
    """A curator over one database and one worker. Every call names who asks."""

    @abstractmethod
    def datasets(self, who: Principal) -> tuple[DatasetCard, ...]:
        """The datasets that ``who`` may ask."""

    @abstractmethod
    def quote(self, who: Principal, dataset: str, question: Plain) -> QuoteCard:
        """The price of a question. Opens no data file and writes nothing."""

    @abstractmethod
    def ask(self, who: Principal, dataset: str, question: Plain, *, idempotency_key: str) -> AnswerRecord:
        """Charge and answer. The same key gives the same record, and is charged once.

        Refused before anything is spent, with ``InvalidArgument``, ``BudgetExceeded``, ``CuratorReadOnly`` or
        ``CuratorUnavailable``.
        """

    @abstractmethod
    def record(self, who: Principal, record_id: str) -> AnswerRecord:
        """One record of the history."""

    @abstractmethod
    def history(
        self, who: Principal, *, dataset: str | None = None, limit: int = 50, before: str | None = None
    ) -> tuple[AnswerRecord, ...]:
        """Records, newest first: an analyst's own, or everybody's for stewards and auditors; ``before`` a
        record.
        """

    @abstractmethod
    def budgets(self, who: Principal, dataset: str) -> tuple[BudgetState, ...]:
        """All caps of a dataset, for stewards and auditors; those that bind ``who`` otherwise."""

    @abstractmethod
    def export(self, who: Principal, dataset: str) -> Plain:
        """The evidence: ledger, caps, chain head and certified ε, for stewards and auditors."""
