"""The time that a fuzzed call may take."""

import contextlib
import signal
from collections.abc import Iterator

LIMIT = 20  # seconds of a processor; ten times as long where the call waits


class Hang(BaseException):
    """A call took longer than the limit. No Exception: a handler of errors must not take it for one."""


@contextlib.contextmanager
def limited() -> Iterator[None]:
    """Raise Hang in the block when its time is over."""

    def end(*_: object) -> None:
        raise Hang

    before = signal.signal(signal.SIGPROF, end), signal.signal(signal.SIGALRM, end)
    signal.setitimer(signal.ITIMER_PROF, LIMIT)
    signal.alarm(10 * LIMIT)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.alarm(0)
        signal.signal(signal.SIGPROF, before[0])
        signal.signal(signal.SIGALRM, before[1])
