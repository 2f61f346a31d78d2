"""Answers at a fixed time: a defence against the timing side channel of a release.

A release takes longer for a table with more rows. A person with many rows shows in that time, and ε does not
cover it. With ``answer_after=seconds``, the answer comes at a public time, which is fixed before a row is
read:

- Work that ends earlier waits. A failure waits as well.
- Work that does not end in time has no answer: the release fails at that time, with the one message of all
  failures, and what was spent stays spent. The work is cancelled: it ends with its next batch of rows, and
  has no answer.

*Guarantee*: one bit at most, whether the work overran. Where each table that is possible overruns with
probability ≤ η, an (ε, δ)-DP release together with its time is (ε, δ + (1 + e^ε) η)-DP: it differs from a
release that never overruns with probability ≤ η, on each of the two neighbours. So ``seconds`` must be far
above what the largest possible table takes. *Adversary*: sees the answer and when it comes. *Leaks*: what
other programs on the same machine see while the work runs (load, memory, disk), which no waiting hides.

*Reference*: Haeberlen, Pierce, Narayan, "Differential Privacy Under Fire", USENIX Security 2011 (predictable
transactions). There each *row* has a time limit and a default value when it overruns, so that an overrun
moves the answer by no more than one row does. Here the whole table has one limit, so no default value is
covered by ε: a failure says openly what a default would hide in a wrong answer. Waiting until the next
multiple of a period was not chosen, because it tells the number of periods.
"""

import threading
import time
from collections.abc import Callable, Mapping
from typing import TypeVar, final

import numpy as np
from numpy.typing import NDArray

from privet.arguments import positive
from privet.errors import InvalidArgument
from privet.releasing.engines.aggregates import AggregateRequest, CellCountRequest, Totals
from privet.releasing.engines.engine import TableEngine
from privet.releasing.tables.column_kind import ColumnKind

__all__ = ["LONGEST_WAIT", "AnswerTime", "CancellableEngine"]

LONGEST_WAIT = threading.TIMEOUT_MAX / 2
"""Seconds: what a thread can wait for on this system, with room."""

_Result = TypeVar("_Result")


@final
class AnswerTime:
    """The time at which an answer is given, by the clock of this process."""

    def __init__(self, seconds: float) -> None:
        """The clock starts now. ``seconds`` is public."""
        if positive("answer_after", seconds) > LONGEST_WAIT:
            raise InvalidArgument(
                f"'answer_after' must be at most {LONGEST_WAIT:g} seconds, got {seconds:g}. "
                f"Choose a shorter time."
            )
        self._due = time.monotonic() + seconds

    def check_not_over(self) -> None:
        """Refuse a time that is over before a row is read, so that nothing is spent on it."""
        if time.monotonic() >= self._due:
            raise InvalidArgument(
                "'answer_after' must leave time to read the table, and it was over before the reading began. "
                "Give more seconds; nothing was spent."
            )

    def run(self, work: Callable[[], _Result], cancel: Callable[[], None]) -> _Result | None:
        """What ``work`` returns or raises, when it is due. None: it did not end in time, and was cancelled.

        The work has a thread of its own, so that it can be abandoned, and so that Ctrl-C reaches the waiting
        caller at once.
        """
        results: list[_Result] = []
        errors: list[BaseException] = []

        def run_and_note() -> None:
            try:
                results.append(work())
            except BaseException as error:  # the caller raises it
                errors.append(error)

        # No daemon: Python would end such a thread within a library's code at exit, and the process would
        # abort.
        thread = threading.Thread(target=run_and_note, name="privet-release")
        thread.start()
        try:
            thread.join(max(self._due - time.monotonic(), 0.0))
            # Looked at once, before the wait: work that ends a moment too late has no answer.
            result = results[0] if results else None
            error = errors[0] if errors else None
            while (left := self._due - time.monotonic()) > 0:
                time.sleep(left)
        finally:
            if not results and not errors:
                cancel()
        if error is not None:
            raise error
        return result


@final
class CancellableEngine(TableEngine):
    """An engine that answers no more requests after ``cancel``."""

    def __init__(self, engine: TableEngine) -> None:
        self._engine = engine
        self._cancelled = False

    @property
    def schema(self) -> Mapping[str, ColumnKind]:
        return self._engine.schema

    def totals(self, request: AggregateRequest) -> Totals:
        self._check()
        return self._engine.totals(request)

    def cells(self, request: CellCountRequest) -> NDArray[np.int64]:
        self._check()
        return self._engine.cells(request)

    def cancel(self) -> None:
        self._cancelled = True
        self._engine.cancel()

    def _check(self) -> None:
        if self._cancelled:
            raise RuntimeError("the release was cancelled")
