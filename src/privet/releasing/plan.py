"""Several statistics under one budget: what will be asked, what it costs, and the asking itself."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import final

from privet.adjacency import AddRemove, Adjacency, Unit
from privet.arguments import open_fraction, positive, shown
from privet.errors import InvalidArgument
from privet.events import Compose, Event
from privet.ledger import Entry, Ledger
from privet.randomness import NoiseSource, SecureNoise
from privet.releasing.answer_time import AnswerTime, CancellableEngine
from privet.releasing.answers import Answer, Quote, Released
from privet.releasing.budget import Budget
from privet.releasing.budget_split import Allotted, allot
from privet.releasing.contribution import Contribution
from privet.releasing.engines.choice import choose_engine
from privet.releasing.engines.engine import TableEngine
from privet.releasing.executor import Run, quoted
from privet.releasing.failure import ReleaseFailed, contained
from privet.releasing.questions import Part, question_key
from privet.releasing.statistics import Statistic
from privet.releasing.store import MemoryStore, Store
from privet.releasing.tables.schema import check_columns

__all__ = ["Plan"]

_SAME = 1 + 1e-9  # two errors that differ by rounding only are the same


@final
@dataclass(frozen=True, kw_only=True)
class Plan:
    """Statistics to be released together. Nothing happens before ``run``, and everything is checked before it.

    ``unit`` names the column that says whose row it is; without it every row is a unit of its own. ``split`` gives a
    weight to each statistic; without it all get the same share. The adjacency is add-remove of one user, or of one
    record where there is no unit column, unless another is given.

    *Guarantee*: all answers together are within ``budget`` under the adjacency, for whoever sees all of them.
    *Leaks*: how long it took, unless ``run`` is given ``answer_after``; and that an engine failed, if it did.

    >>> from privet.releasing import Count, Mean
    >>> plan = Plan(
    ...     statistics=(("people", Count()), ("age", Mean("age", 0, 100))),
    ...     unit="person",
    ...     budget=Budget(epsilon=1.0),
    ... )
    >>> [(quote.label, round(quote.cost.epsilon, 6), quote.error) for quote in plan.quote()][0]
    ('people', 0.5, 6.0)
    """

    statistics: tuple[tuple[str, Statistic], ...]
    unit: str | None
    budget: Budget
    split: tuple[float, ...] | None = None
    contribution: Contribution = Contribution()  # noqa: RUF009 - frozen
    adjacency: Adjacency | None = None
    confidence: float = 0.95

    def __post_init__(self) -> None:
        _check_statistics(self.statistics)
        _check_kind("budget", self.budget, Budget)
        _check_kind("contribution", self.contribution, Contribution)
        if self.adjacency is not None:
            _check_kind("adjacency", self.adjacency, Adjacency)
        _check_unit(self.unit, self.contribution, self.relation)
        if self.split is not None:
            _check_split(self.split, len(self.statistics))
        open_fraction("confidence", self.confidence)

    @property
    def relation(self) -> Adjacency:
        """The adjacency that holds: the one that was given, or add-remove of one user, or of one row."""
        if self.adjacency is not None:
            return self.adjacency
        return AddRemove(Unit.RECORD if self.unit is None else Unit.USER)

    @property
    def parts(self) -> tuple[Part, ...]:
        """Each statistic with what its answer depends on."""
        return tuple(
            Part(label, statistic, self.unit, self.contribution, self.relation)
            for label, statistic in self.statistics
        )

    @property
    def events(self) -> tuple[Event, ...]:
        """What each statistic will spend."""
        return tuple(one.event for one in self._allotted)

    @property
    def event(self) -> Event:
        """All of it."""
        return Compose(self.events)

    def quote(self) -> tuple[Quote, ...]:
        """Cost and expected error of each statistic; no row is read."""
        return tuple(quoted(one, self.confidence) for one in self._allotted)

    def run(
        self,
        data: object,
        *,
        noise: NoiseSource | None = None,
        store: Store | None = None,
        data_name: str = "data",
        answer_after: float | None = None,
    ) -> Released:
        """Answer everything, after the spending was written down in the store.

        A question that the store has an answer to, at least as accurate as the one that is asked for here, gets that
        answer and costs nothing. A more accurate one costs its full price and takes the place of the old.

        With ``answer_after``, an answer that needs rows, or its failure, comes so many seconds after the table is opened,
        whatever is in the table (``answer_time``). Work that takes longer fails.

        ``InvalidArgument`` and ``BudgetExceeded`` mean that nothing was spent. ``ReleaseFailed`` means that it was.
        """
        source = SecureNoise() if noise is None else noise
        _check_kind("noise", source, NoiseSource)
        kept = MemoryStore(self.relation) if store is None else store
        _check_kind("store", kept, Store)
        if kept.ledger.adjacency != self.relation:
            raise InvalidArgument(
                f"'store' must be kept under the plan's adjacency, {self.relation}, and is under "
                f"{kept.ledger.adjacency}. Use one store for each adjacency."
            )
        if not isinstance(data_name, str):
            raise InvalidArgument(f"'data_name' must be text, got {shown(data_name)}. Name the table.")
        kept.use_unit_column(self.unit)
        _ = self._allotted  # takes a time that is public, and must not count
        due = None if answer_after is None else AnswerTime(answer_after)
        engine = choose_engine(data)
        check_columns(self.parts, engine.schema)
        questions = tuple(question_key(part, data_name) for part in self.parts)
        stored, fresh = self._sorted_out(questions, kept)
        if fresh:
            if due is not None:
                due.check_not_over()
            entries = tuple(Entry(one.compiled.part.label, one.event) for one in fresh.values())
            ledger = kept.spend(entries, caveats=source.caveats)
            answers = self._answered(engine, source, tuple(fresh.values()), ledger, due)
            bought = dict(zip(fresh, answers, strict=True))
            kept.keep(bought)
            stored.update(bought)
        return Released(tuple(self._labelled(stored, questions, set(fresh))), kept.ledger)

    @cached_property
    def _allotted(self) -> tuple[Allotted, ...]:
        weights = self.split or (1.0,) * len(self.statistics)
        total = sum(weights)
        return allot(self.parts, tuple(weight / total for weight in weights), self.budget)

    def _sorted_out(
        self, questions: tuple[str, ...], store: Store
    ) -> tuple[dict[str, Answer], dict[str, Allotted]]:
        """Answers that are there already, and what must be bought: each question once, at its best share."""
        stored: dict[str, Answer] = {}
        fresh: dict[str, Allotted] = {}
        for question, one in zip(questions, self._allotted, strict=True):
            error = quoted(one, 0.95).error
            known = store.recall(question)
            if known is not None and known.accuracy <= error * _SAME:
                stored.setdefault(question, known)
            elif question not in fresh or quoted(fresh[question], 0.95).error > error:
                fresh[question] = one
        return {question: stored[question] for question in stored if question not in fresh}, fresh

    def _answered(
        self,
        engine: TableEngine,
        source: NoiseSource,
        fresh: tuple[Allotted, ...],
        ledger: Ledger,
        due: AnswerTime | None,
    ) -> tuple[Answer, ...]:
        cancellable = CancellableEngine(engine)

        def answer() -> tuple[Answer, ...] | None:
            with contained():
                return Run(cancellable, source, self.confidence).answers(fresh)
            return None

        answers = answer() if due is None else due.run(answer, cancellable.cancel)
        if (
            answers is None
        ):  # raised here, and not in a handler, so that the engine's own error is not even attached
            raise ReleaseFailed(ledger)
        return answers

    def _labelled(
        self, answers: Mapping[str, Answer], questions: tuple[str, ...], fresh: set[str]
    ) -> list[Answer]:
        labelled, paid = [], set[str]()
        for question, (label, _) in zip(questions, self.statistics, strict=True):
            answer = answers[question]
            first = question in fresh and question not in paid and answer.label == label
            paid |= {question} if first else set()
            labelled.append(answer if first else answer.relabeled(label))
        return labelled


def _check_statistics(statistics: object) -> None:
    if not isinstance(statistics, tuple) or not statistics:
        raise InvalidArgument(
            f"'statistics' must be a tuple of pairs (label, statistic), got {shown(statistics)}. "
            f'Write (("people", Count()),).'
        )
    labels = []
    for pair in statistics:
        if not isinstance(pair, tuple) or len(pair) != 2 or not isinstance(pair[1], Statistic):
            raise InvalidArgument(
                f"'statistics' must hold pairs (label, statistic), got {shown(pair)}. Write (\"people\", Count())."
            )
        if not isinstance(pair[0], str) or not pair[0]:
            raise InvalidArgument(f"A label must be text, got {shown(pair[0])}. Say what is released.")
        labels.append(pair[0])
    if len(set(labels)) < len(labels):
        raise InvalidArgument("'statistics' must have a different label for each, and have not. Rename one.")


def _check_kind(name: str, value: object, kind: type) -> None:
    if not isinstance(value, kind):
        raise InvalidArgument(
            f"'{name}' must be of type {kind.__name__}, got {shown(value)}. See privet.releasing."
        )


def _check_unit(unit: object, contribution: Contribution, adjacency: Adjacency) -> None:
    if unit is None:
        if contribution != Contribution():
            raise InvalidArgument(
                f"'contribution' must be one row in one group where every row is a unit, got {contribution}. "
                f"Name the column of the unit, or leave the contribution out."
            )
        if adjacency.unit is not Unit.RECORD:
            raise InvalidArgument(
                f"'unit' must name a column to protect one {adjacency.unit}, got None. "
                f"Name it, or give an adjacency of records."
            )
    elif not isinstance(unit, str) or not unit:
        raise InvalidArgument(
            f"'unit' must name a column, or be None, got {shown(unit)}. Give its name as text."
        )
    elif adjacency.unit is Unit.RECORD:
        raise InvalidArgument(
            f"'adjacency' must be of users or clients where 'unit' names a column, got {adjacency}. "
            f"Write AddRemove(Unit.USER), or leave 'unit' out to protect single rows."
        )


def _check_split(split: object, count: int) -> None:
    if not isinstance(split, tuple) or len(split) != count:
        raise InvalidArgument(
            f"'split' must be a tuple with a weight for each of the {count} statistics, got {shown(split)}. "
            f"Leave it out for equal shares."
        )
    for weight in split:
        positive("split", weight)
