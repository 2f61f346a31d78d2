"""Standard input, output and error, which may be closed, full, or in an encoding without ε."""

import os
import select
import stat
import sys
from io import TextIOWrapper
from typing import final

from privet.errors import PrivetError

__all__ = ["OutputFailed", "check_output", "drop_output", "flush_output", "open_streams", "write_output"]

_ROOM = 2**20  # bytes that must be free where the answer goes to a file


@final
class OutputFailed(PrivetError):
    """The answer cannot be written."""


def open_streams() -> None:
    """Make all three streams usable.

    A descriptor that is closed is opened on the null device: otherwise the next file, perhaps a ledger, would
    get its number, and whatever is printed would be written into that file. Characters that an encoding does
    not have are written as escapes.
    """
    for number, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # gets the lowest free number, which is this one
        if getattr(sys, name) is None:
            # for the life of the process
            stream = open(os.devnull, mode, encoding="utf-8")  # noqa: SIM115, PTH123
            setattr(sys, name, stream)
            if name == "stdout":
                _closed.append(stream)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(encoding="utf-8", errors="backslashreplace")


_closed: list[object] = []  # replaces a standard output that was closed


def check_output() -> None:
    """Refuse a command whose answer could not be written, before it costs anything.

    Raises ``BrokenPipeError`` if nobody reads the output. A disk can still become full later; then
    ``OutputFailed`` is raised.
    """
    if sys.stdout in _closed or getattr(sys.stdout, "closed", False):
        raise OutputFailed(
            "Standard output must be open to take the answer, and is closed. Send it to a file or a terminal."
        )
    try:
        descriptor = sys.stdout.fileno()
        mode = os.fstat(descriptor).st_mode
    except (OSError, ValueError, AttributeError):  # no file is behind it
        return
    if stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode):
        if hasattr(select, "poll"):
            waiting = select.poll()
            waiting.register(descriptor, select.POLLOUT)
            if any(event & select.POLLERR for _, event in waiting.poll(0)):
                raise BrokenPipeError
        return
    try:
        if stat.S_ISCHR(mode):
            os.write(descriptor, b"")  # a device that is full says so
        elif stat.S_ISREG(mode) and hasattr(os, "fstatvfs"):
            room = os.fstatvfs(descriptor)
            if room.f_bavail * room.f_frsize < _ROOM:
                raise OSError(28, "No space left on device")
    except OSError as failed:
        raise OutputFailed(
            f"Standard output must have room for the answer, and has not ({failed.strerror}). "
            f"Make room, or send it elsewhere."
        ) from None


def write_output(text: str, if_lost: str = "") -> None:
    """Write to standard output and flush it. If that fails, the error says ``if_lost``."""
    try:
        sys.stdout.write(f"{text}\n")
        sys.stdout.flush()
    except BrokenPipeError:
        if if_lost:
            sys.stderr.write(f"privet: The answer was not read to its end. {if_lost}\n")
        raise
    except (OSError, ValueError) as failed:
        raise _make_error(failed, if_lost) from None


def flush_output() -> None:
    """Flush what argparse printed, such as ``--help``."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except (OSError, ValueError) as failed:
        raise _make_error(failed, "") from None


def _make_error(failed: Exception, if_lost: str) -> OutputFailed:
    reason = getattr(failed, "strerror", None) or type(failed).__name__
    return OutputFailed(
        f"The answer must be written to standard output, and that failed ({reason}). "
        f"{if_lost or 'Make room, or send it elsewhere, and run the command again.'}"
    )


def drop_output() -> None:
    """Discard unwritten output: Python would try to write it at exit, fail, and change the exit code."""
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (OSError, ValueError, AttributeError):  # no file is behind it
        return
