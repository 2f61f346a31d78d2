"""Files that survive a crash: one writer at a time, and old or new content but never half of it.

The rules are those of POSIX. ``rename`` within one folder replaces a file as a whole. What was written reaches
the disk at ``fsync`` of the file; that it has its name there, at ``fsync`` of its folder. ``flock`` is dropped
by the system when its process ends, in whatever way, so no crash leaves a lock behind. The lock is a file of
its own that is never removed: a lock on a file that is being replaced would be a lock on its past.

*Leaks*: nothing here looks at data. *Limits*: a network file system may keep none of these promises; a ledger
belongs on a local disk.
"""

import os
import stat
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from privet.errors import InvalidArgument, MissingPackage, Unreadable

__all__ = ["append_durably", "locked", "read_text", "replace_durably"]

_HELD: set[tuple[int, str]] = (
    set()
)  # by thread and file: a lock that one waits for while one holds it never comes
_NEW = 0o666  # less the umask, as for any file that a person makes


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Wait for the lock that lives beside ``path``, and hold it."""
    try:
        import fcntl
    except ImportError as missing:
        raise MissingPackage(
            "A ledger file needs 'fcntl' to keep two processes apart, and this system has none. "
            "Use a POSIX system, such as Linux, macOS or WSL."
        ) from missing
    mine = (threading.get_ident(), str(path))
    if mine in _HELD:
        raise InvalidArgument(
            f"{str(path)!r} is held already, by whom now wants to hold it, and would wait for itself. "
            f"Use the store that you have, or let go of it first."
        )
    name = path.with_name(path.name + ".lock")
    with _telling(path):
        descriptor = os.open(name, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, _NEW)
    try:
        with _telling(path):
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        _HELD.add(mine)
        yield
    finally:
        _HELD.discard(mine)
        os.close(descriptor)  # which drops the lock


def replace_durably(path: Path, text: str) -> None:
    """Give ``path`` this content. After a crash it has the old or the new one; after the return, the new one.

    Call it under the lock: the new content waits in one file of a fixed name, so that a crash leaves at most
    one behind, which the next writer overwrites.
    """
    waiting = path.with_name(path.name + ".new")
    with _telling(path):
        descriptor = os.open(
            waiting, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW, _NEW
        )
        try:
            with suppress(FileNotFoundError):
                os.fchmod(descriptor, stat.S_IMODE(path.stat().st_mode))
            _write(descriptor, text.encode())
            _sync(descriptor)
        finally:
            os.close(descriptor)
        waiting.replace(path)
    with _telling(path, "; what was to be written may be there, and counts"):
        _sync_folder(path.parent)


def append_durably(path: Path, line: str) -> None:
    """Add one line, on the disk when this returns. A crash may leave a part of the line, and nothing worse."""
    with _telling(path):
        fresh = not path.exists()
        descriptor = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, _NEW)
        try:
            # A line that a crash cut short must not swallow this one.
            size = os.fstat(descriptor).st_size
            torn = size > 0 and os.pread(descriptor, 1, size - 1) != b"\n"
            _write(descriptor, b"\n" * torn + line.encode() + b"\n")
            _sync(descriptor)
        finally:
            os.close(descriptor)
        if fresh:
            _sync_folder(path.parent)


def read_text(path: Path) -> str | None:
    """The content as text, or nothing where there is no file."""
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
    except OSError as failed:
        raise Unreadable(
            f"{str(path)!r} must be a file that can be read, and is not ({failed.strerror}). Check the path."
        ) from failed
    except UnicodeDecodeError as failed:
        raise Unreadable(
            f"{str(path)!r} must be a text file, and is not. Check the path, or restore the file."
        ) from failed


def _write(descriptor: int, content: bytes) -> None:
    rest = memoryview(content)
    while rest:
        rest = rest[os.write(descriptor, rest) :]


def _sync(descriptor: int) -> None:
    if sys.platform == "darwin":  # there fsync stops at the drive's own cache
        import fcntl

        fcntl.fcntl(descriptor, fcntl.F_FULLFSYNC)
    else:
        os.fsync(descriptor)


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def _telling(path: Path, state: str = "") -> Iterator[None]:
    """What the system refuses, in Privet's words."""
    try:
        yield
    except OSError as failed:
        raise InvalidArgument(
            f"{str(path)!r} must be a file that can be written durably, and is not ({failed.strerror}){state}. "
            f"Choose a folder on a local disk that exists and can be written to."
        ) from failed
