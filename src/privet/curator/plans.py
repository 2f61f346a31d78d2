"""A question from its words to its answer: planned from public metadata, answered by a worker that has the
data.

A planner never sees a row, so all that it says may be shown to an analyst. A worker sees rows, so nothing
that it says may be shown before the ledger allows it, and its errors never.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, final

from privet.adjacency import Adjacency
from privet.caveats import Caveat
from privet.ledger import Entry

__all__ = ["AnswerWorker", "PlannedQuestion", "QuestionPlanner"]

Plain = Mapping[str, Any]  # as JSON can hold it


@final
@dataclass(frozen=True, kw_only=True)
class PlannedQuestion:
    """A question that can be asked: its canonical form, what it costs, and how accurate it will be.

    Two questions with one ``key`` have one answer, as long as the lineage of the data is the same: it is the
    hash of ``canonical``, which names the dataset, and of nothing else. ``entries`` are charged before a row
    is read. ``answers`` has one object for each statistic: label, error at 95 %, ε and δ. ``labels`` is how
    the analyst calls these statistics, in the same order; the stored answer has the labels of ``answers``, so
    that other names are the same question.
    """

    key: str
    canonical: Plain
    adjacency: Adjacency
    entries: tuple[Entry, ...]
    epsilon: float
    delta: float
    answers: tuple[Plain, ...]
    caveats: frozenset[Caveat] = frozenset()
    labels: tuple[str, ...] = ()


class QuestionPlanner(ABC):
    """Reads questions, by metadata only. Every refusal is an ``InvalidArgument`` that an analyst may see."""

    @abstractmethod
    def plan(self, dataset: str, question: Plain) -> PlannedQuestion:
        """What this question is and costs. Opens no data file."""

    @abstractmethod
    def describe(self, dataset: str) -> Plain:
        """The public metadata of a dataset: columns, bounds, keys, the unit, description."""


class AnswerWorker(ABC):
    """Has the data, read-only, and no network."""

    @abstractmethod
    def answer(self, dataset: str, planned: PlannedQuestion, *, request: str) -> Plain:
        """The noisy answer, as JSON can hold it. ``request`` names the charge; called once for each charge.

        Any exception means that the charge stands and the analyst reads one constant sentence.
        """

    @abstractmethod
    def fingerprint(self, dataset: str) -> str:
        """What identifies the content of the data, for the lineage of its budget."""
