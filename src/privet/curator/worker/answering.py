"""A planned question and rows in, noisy numbers out.

*Guarantee*: the answer has the (ε, δ) of the plan, for the unit of the metadata. What was planned is planned
again here, from the worker's own copy of the metadata, and must be the same: a gateway that is wrong, or was
taken over, gets no answer with less noise than it says.

*Leaks*: every failure is ``AnswerFailed``, without text, cause or traceback. *That* it failed tells
something, unless it cannot depend on the rows; with ``answer_after`` in the metadata, both answers and
failures come at one time.
"""

import math
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any, final

from privet.curator.plans import AnswerWorker, PlannedQuestion
from privet.curator.questions.metadata import DatasetMetadata, StewardFile
from privet.curator.questions.planner import read_canonical
from privet.curator.questions.question import TableQuestion
from privet.curator.worker.answer_failed import AnswerFailed
from privet.curator.worker.data_sources import DataSources
from privet.curator.worker.time_limit import run_within
from privet.randomness import NoiseSource, SecureNoise
from privet.releasing import MemoryStore, Released, answer_to_plain
from privet.releasing.answer_time import AnswerTime, CancellableEngine
from privet.releasing.failure import contain_errors
from privet.releasing.tables.sources import TableSource

__all__ = ["TableWorker"]


@final
class TableWorker(AnswerWorker):
    """Answers in the process that calls it. ``noise`` is for tests: a seeded source marks nothing here."""

    def __init__(
        self, stewardship: StewardFile, sources: DataSources, *, noise: NoiseSource | None = None
    ) -> None:
        self._stewardship, self._sources = stewardship, sources
        self._noise = SecureNoise() if noise is None else noise

    def answer(self, dataset: str, planned: PlannedQuestion, *, request: str) -> Mapping[str, Any]:
        del request
        return self.answer_canonical(dataset, planned.canonical)

    def answer_canonical(self, dataset: str, question: Mapping[str, Any]) -> Mapping[str, Any]:
        """The answer to a question in its canonical form."""
        began, metadata = time.monotonic(), self._stewardship.datasets.get(dataset)
        answer: Mapping[str, Any] | None = None
        with contain_errors():
            answer = self._answer(self._stewardship.find(dataset), question)
        if answer is None:  # outside of the handler, so that no cause is attached
            due = began + (0.0 if metadata is None else metadata.answer_after or 0.0)
            time.sleep(max(due - time.monotonic(), 0.0))
            raise AnswerFailed
        return answer

    def fingerprint(self, dataset: str) -> str:
        return self._sources.fingerprint(self._stewardship.find(dataset))

    def check(self) -> None:
        """Refuse datasets whose tables do not have the columns of their metadata. No row is read."""
        for dataset in self._stewardship.datasets.values():
            self._sources.check(dataset)

    def _answer(self, dataset: DatasetMetadata, question: Mapping[str, Any]) -> Mapping[str, Any]:
        asked = read_canonical(dataset, question)
        if asked.to_plain() != question:
            raise ValueError("not in the canonical form")
        if isinstance(asked, TableQuestion):
            return self._release(asked)
        # Loaded where it is asked for: estimators need scikit-learn, which takes a second.
        from privet.curator.worker.row_answers import answer_rows

        table = self._sources.open_table(dataset, asked.joins)
        return self._within(dataset, lambda: answer_rows(asked, table, self._noise), table)

    def _within(
        self, dataset: DatasetMetadata, work: Callable[[], Mapping[str, Any]], table: TableSource
    ) -> Mapping[str, Any]:
        """The answer at its time, or within the limit."""
        if dataset.answer_after is None:
            return run_within(dataset.limits.seconds, work, table.cancel)
        answer = AnswerTime(dataset.answer_after).run(work, table.cancel)
        if answer is None:
            raise TimeoutError("the work took too long")
        return answer

    def _release(self, asked: TableQuestion) -> Mapping[str, Any]:
        dataset, plan = asked.dataset, asked.plan()
        engine = CancellableEngine(self._sources.open(dataset, asked.joins))

        def release() -> Released:
            return plan.run(
                engine,
                noise=self._noise,
                store=MemoryStore(plan.relation),
                answer_after=dataset.answer_after,
            )

        limit = dataset.limits.seconds
        released = release() if dataset.answer_after else run_within(limit, release, engine.cancel)
        return _to_plain(released)


def _to_plain(released: Released) -> Mapping[str, Any]:
    return {
        "answers": [
            _make_finite({"label": answer.label, **answer_to_plain(answer)}) for answer in released.answers
        ]
    }


def _make_finite(value: Any) -> Any:  # noqa: ANN401 - JSON
    """The same value with the largest number where an error is infinite, which JSON cannot say."""
    match value:
        case float() if not math.isfinite(value):
            return math.copysign(sys.float_info.max, value)
        case dict():
            return {key: _make_finite(item) for key, item in value.items()}
        case list():
            return [_make_finite(item) for item in value]
    return value
