"""SIGKILL, or an error, at one chosen line of the curator's own code: every statement is a place to die."""

import linecache
import os
import signal
import sys
from types import FrameType
from typing import Any, final

__all__ = ["InjectedFault", "LineFault"]

_RAISES = "/privet/curator/storage/"
_PLACES = ("/privet/curator/storage/", "/privet/durable_files", "/privet/curator/selftest/sockets")


@final
class InjectedFault(Exception):
    """An error that a line was made to raise."""


def _can_raise(frame: FrameType) -> bool:
    if _RAISES not in frame.f_code.co_filename:
        return False  # a lock that is taken there is given back by the end of the process alone
    text = linecache.getline(frame.f_code.co_filename, frame.f_lineno).strip()
    return not text.startswith(("with ", "finally:", "try:", ")"))


@final
class LineFault:
    """Counts the lines that this thread runs from now on, and dies at one of them, or raises there.

    An error waits for the next line that is no ``with``: Python reports the end of such a block as a line,
    and an error there would skip the exit of the block, which no real error does. Without a line it only
    counts. Other threads go on untouched until the process dies.
    """

    def __init__(self, line: int | None, *, kill: bool = True) -> None:
        self.lines = 0
        self.is_raised = False
        self._line = line
        self._kill = kill

    def __enter__(self) -> "LineFault":
        sys.settrace(self._trace)
        return self

    def __exit__(self, *error: object) -> None:
        sys.settrace(None)

    def _trace(self, frame: FrameType, event: str, argument: Any) -> Any:  # noqa: ANN401
        del event, argument
        if not any(place in frame.f_code.co_filename for place in _PLACES):
            return None
        return self._count

    def _count(self, frame: FrameType, event: str, argument: Any) -> Any:  # noqa: ANN401
        del argument
        if event == "line":
            self.lines += 1
            if self.lines == self._line and self._kill:
                os.kill(os.getpid(), signal.SIGKILL)
            if (
                self._line is not None
                and self.lines >= self._line
                and not self.is_raised
                and _can_raise(frame)
            ):
                self.is_raised = True
                raise InjectedFault
        return self._count
