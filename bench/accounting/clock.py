"""Time several tools on one question, interleaved, in this process; nothing that fails is left out."""

import contextlib
import io
import signal
import time
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from types import FrameType

from questions import Question
from tools import Answer, NotOffered, Tool

LIMIT = 60.0  # seconds for one answer
PATIENCE = 2.0  # seconds of repeats for one tool and question
LEAST, MOST = 3, 12  # repeats; fewer than the least only for what is slow


class OverTime(BaseException):
    """The limit has passed; not an Exception, so that no tool can catch it."""


@dataclass
class Result:
    """What a tool said, how long its best run took, or why there is nothing."""

    tool: Tool
    answer: Answer | None = None
    seconds: list[float] = field(default_factory=list)
    failure: str | None = None
    offered: bool = True

    @property
    def best(self) -> float | None:
        return min(self.seconds) if self.seconds else None

    @property
    def wants_more(self) -> bool:
        if self.failure is not None or not self.offered:
            return False
        spent = sum(self.seconds)
        return len(self.seconds) < MOST and (
            spent < PATIENCE or (len(self.seconds) < LEAST and spent < 6 * PATIENCE)
        )


def race(tools: list[Tool], question: Question) -> list[Result]:
    """Rounds in which each tool answers once, until each has its repeats; the best time of each counts."""
    results = [Result(tool) for tool in tools]
    while any(result.wants_more for result in results):
        for result in results:
            if result.wants_more:
                _once(result, question)
    return results


def _once(result: Result, question: Question) -> None:
    start = time.perf_counter()
    try:
        with _limited(LIMIT), _silenced():
            start = time.perf_counter()
            result.answer = result.tool.answer(question)
            result.seconds.append(time.perf_counter() - start)
    except NotOffered:
        result.offered = False
    except OverTime:
        result.failure = f"no answer within {LIMIT:g} s"
    except Exception as broken:
        result.failure = (
            f"{type(broken).__name__} after {time.perf_counter() - start:.1f} s: {first_line(broken)}"
        )


def first_line(error: BaseException) -> str:
    """Enough of the message to know it by."""
    text = " ".join(str(error).split())
    return text if len(text) <= 90 else text[:87] + "…"


@contextlib.contextmanager
def _limited(seconds: float) -> Iterator[None]:
    def stop(number: int, frame: FrameType | None) -> None:
        raise OverTime

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@contextlib.contextmanager
def _silenced() -> Iterator[None]:
    """Warnings and chatter are the tools' own; what they return and raise is reported."""
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")
        yield
