"""Work that may take only so long: it is cancelled then, and has no result."""

import threading
from collections.abc import Callable
from typing import TypeVar

from privet.releasing.failure import contain_errors

__all__ = ["run_within"]

_Result = TypeVar("_Result")


def run_within(seconds: float, work: Callable[[], _Result], cancel: Callable[[], None]) -> _Result:
    """What ``work`` returns; ``TimeoutError`` where it takes longer. Any failure of it is a
    ``RuntimeError``.
    """
    results: list[_Result] = []

    def run_and_note() -> None:
        results.append(work())

    thread = threading.Thread(target=_contain(run_and_note), name="privet-answer")
    thread.start()
    thread.join(seconds)
    if thread.is_alive():
        cancel()
        raise TimeoutError("the work took too long")
    if not results:
        raise RuntimeError("the work failed")
    return results[0]


def _contain(work: Callable[[], None]) -> Callable[[], None]:
    def run() -> None:
        with contain_errors():
            work()

    return run
