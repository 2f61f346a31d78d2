"""Several statistics under one budget: what will be asked, what it costs, and the release itself."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import final

from privet.adjacency import AddRemove, Adjacency, Unit
from privet.arguments import format_value, open_fraction, positive
from privet.errors import InvalidArgument
from privet.events import Compose, Event
from privet.ledger import Entry, Ledger
from privet.randomness import NoiseSource, SecureNoise
from privet.releasing.answer_time import AnswerTime, CancellableEngine
from privet.releasing.answers import Answer, Quote, Released
from privet.releasing.budget import Budget
from privet.releasing.budget_split import CalibratedStatistic, split_budget
from privet.releasing.contribution import Contribution
from privet.releasing.engines.choice import choose_engine
from privet.releasing.engines.engine import TableEngine
from privet.releasing.executor import Executor, quote_statistic
from privet.releasing.failure import ReleaseFailed, contain_errors
from privet.releasing.questions import Question, question_key
from privet.releasing.row_filters import RowCondition
from privet.releasing.statistics import Statistic
from privet.releasing.store import MemoryStore, Store
from privet.releasing.tables.schema import check_columns

__all__ = ["ReleasePlan"]

_SAME = 1 + 1e-9  # errors that differ by rounding only are equal


@final
@dataclass(frozen=True, kw_only=True)
class ReleasePlan:
    """Statistics to be released together.

    Every argument is checked here, and nothing is spent before ``run``.

    ``unit`` names the column that says whose row it is; None makes every row a unit of its own. ``split``
    gives a weight to each statistic; without it all get the same share. The adjacency is add-remove of one
    user, or of one record where there is no unit column, unless another is given. Only rows that pass
    ``where`` count (``row_filters``); it changes neither cost nor noise.

    *Guarantee*: all answers together are within ``budget`` under the adjacency, for an adversary who sees all
    of them. *Leaks*: how long the release took, unless ``run`` is given ``answer_after``; and whether an
    engine failed.

    >>> from privet.releasing import Count, Mean
    >>> plan = ReleasePlan(
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
    where: RowCondition | None = None

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
        if self.where is not None:
            _check_kind("where", self.where, RowCondition)

    @property
    def relation(self) -> Adjacency:
        """The adjacency in force: the one that was given, or add-remove of one user, or of one row."""
        if self.adjacency is not None:
            return self.adjacency
        return AddRemove(Unit.RECORD if self.unit is None else Unit.USER)

    @property
    def questions(self) -> tuple[Question, ...]:
        """Each statistic with everything public that its answer depends on."""
        return tuple(
            Question(label, statistic, self.unit, self.contribution, self.relation, self.where)
            for label, statistic in self.statistics
        )

    @property
    def events(self) -> tuple[Event, ...]:
        """What each statistic will spend."""
        return tuple(statistic.event for statistic in self._calibrated)

    @property
    def event(self) -> Event:
        """What all statistics will spend together."""
        return Compose(self.events)

    def quote(self) -> tuple[Quote, ...]:
        """Cost and expected error of each statistic; no row is read."""
        return tuple(quote_statistic(statistic, self.confidence) for statistic in self._calibrated)

    def run(
        self,
        data: object,
        *,
        noise: NoiseSource | None = None,
        store: Store | None = None,
        data_name: str = "data",
        answer_after: float | None = None,
    ) -> Released:
        """Answer all questions, after the store has written down what they cost.

        If the store has an answer that is at least as accurate as the one asked for, then it is given again
        and costs nothing. A more accurate answer costs its full price and replaces the stored one.

        With ``answer_after``, an answer that needs rows, or its failure, comes this many seconds after the
        table is opened, whatever is in the table (``answer_time``). Work that takes longer fails.

        ``InvalidArgument`` and ``BudgetExceeded`` mean that nothing was spent. ``ReleaseFailed`` means that
        it was.
        """
        source = SecureNoise() if noise is None else noise
        _check_kind("noise", source, NoiseSource)
        store = MemoryStore(self.relation) if store is None else store
        _check_kind("store", store, Store)
        if store.ledger.adjacency != self.relation:
            raise InvalidArgument(
                f"'store' must have the plan's adjacency, {self.relation}, and has "
                f"{store.ledger.adjacency}. Use one store for each adjacency."
            )
        if not isinstance(data_name, str):
            raise InvalidArgument(f"'data_name' must be text, got {format_value(data_name)}. Name the table.")
        store.use_unit_column(self.unit)
        _ = self._calibrated  # this time depends on public parameters only, so it does not count
        due = None if answer_after is None else AnswerTime(answer_after)
        engine = choose_engine(data)
        check_columns(self.questions, engine.schema)
        keys = tuple(question_key(question, data_name) for question in self.questions)
        answers, fresh = self._look_up(keys, store)
        if fresh:
            entries = tuple(
                Entry(statistic.compiled.question.label, statistic.event) for statistic in fresh.values()
            )
            if due is not None:
                due.check_not_over()
            ledger = store.spend(entries, caveats=source.caveats)
            new = self._execute(engine, source, tuple(fresh.values()), ledger, due)
            bought = dict(zip(fresh, new, strict=True))
            store.keep(bought)
            answers.update(bought)
        return Released(tuple(self._label(answers, keys, set(fresh))), store.ledger)

    @cached_property
    def _calibrated(self) -> tuple[CalibratedStatistic, ...]:
        weights = self.split or (1.0,) * len(self.statistics)
        total = sum(weights)
        return split_budget(self.questions, tuple(weight / total for weight in weights), self.budget)

    def _look_up(
        self, keys: tuple[str, ...], store: Store
    ) -> tuple[dict[str, Answer], dict[str, CalibratedStatistic]]:
        """Stored answers, and the statistics that must be bought: each question once, at its best share."""
        stored: dict[str, Answer] = {}
        fresh: dict[str, CalibratedStatistic] = {}
        for key, statistic in zip(keys, self._calibrated, strict=True):
            error = quote_statistic(statistic, 0.95).error
            known = store.recall(key)
            if known is not None and known.accuracy <= error * _SAME:
                stored.setdefault(key, known)
            elif key not in fresh or quote_statistic(fresh[key], 0.95).error > error:
                fresh[key] = statistic
        return {key: answer for key, answer in stored.items() if key not in fresh}, fresh

    def _execute(
        self,
        engine: TableEngine,
        source: NoiseSource,
        fresh: tuple[CalibratedStatistic, ...],
        ledger: Ledger,
        due: AnswerTime | None,
    ) -> tuple[Answer, ...]:
        cancellable = CancellableEngine(engine)

        def answer() -> tuple[Answer, ...] | None:
            with contain_errors():
                return Executor(cancellable, source, self.confidence).answer(fresh)
            return None

        answers = answer() if due is None else due.run(answer, cancellable.cancel)
        if answers is None:
            # Outside of the handler, so that the engine's own error is not attached as its context.
            raise ReleaseFailed(ledger)
        return answers

    def _label(self, answers: Mapping[str, Answer], keys: tuple[str, ...], fresh: set[str]) -> list[Answer]:
        """One answer for each label; all but the first of the same question are marked as stored."""
        labelled, paid = [], set[str]()
        for key, (label, _) in zip(keys, self.statistics, strict=True):
            answer = answers[key]
            first = key in fresh and key not in paid and answer.label == label
            paid |= {key} if first else set()
            labelled.append(answer if first else answer.relabel(label))
        return labelled


def _check_statistics(statistics: object) -> None:
    if not isinstance(statistics, tuple) or not statistics:
        raise InvalidArgument(
            f"'statistics' must be a tuple of pairs (label, statistic), got {format_value(statistics)}. "
            f'Write (("people", Count()),).'
        )
    labels = []
    for pair in statistics:
        if not isinstance(pair, tuple) or len(pair) != 2 or not isinstance(pair[1], Statistic):
            raise InvalidArgument(
                f"'statistics' must hold pairs (label, statistic), got {format_value(pair)}. Write "
                f'("people", Count()).'
            )
        if not isinstance(pair[0], str) or not pair[0]:
            raise InvalidArgument(f"A label must be text, got {format_value(pair[0])}. Say what is released.")
        labels.append(pair[0])
    if len(set(labels)) < len(labels):
        raise InvalidArgument("'statistics' must have different labels, and two are equal. Rename one.")


def _check_kind(name: str, value: object, kind: type) -> None:
    if not isinstance(value, kind):
        raise InvalidArgument(
            f"'{name}' must be of type {kind.__name__}, got {format_value(value)}. See privet.releasing."
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
            f"'unit' must name a column, or be None, got {format_value(unit)}. Give its name as text."
        )
    elif adjacency.unit is Unit.RECORD:
        raise InvalidArgument(
            f"'adjacency' must be of users or clients where 'unit' names a column, got {adjacency}. "
            f"Write AddRemove(Unit.USER), or leave 'unit' out to protect single rows."
        )


def _check_split(split: object, count: int) -> None:
    if not isinstance(split, tuple) or len(split) != count:
        raise InvalidArgument(
            f"'split' must be a tuple with a weight for each of the {count} statistics, got "
            f"{format_value(split)}. Leave it out for equal shares."
        )
    for weight in split:
        positive("split", weight)
