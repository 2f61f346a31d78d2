"""Files that survive a crash: one writer at a time, and old or new content but never half of it.

The rules are those of POSIX. ``rename`` within one folder replaces a file as a whole. What was written
reaches the disk at ``fsync`` of the file; that it has its name there, at ``fsync`` of its folder. On macOS
``fsync`` stops at the cache of the drive, and ``F_FULLFSYNC`` goes on to the disk. ``flock`` is dropped by
the system when its process ends, in whatever way, so no crash leaves a lock behind. The lock is a file of its
own that is never removed: a lock on a file that is being replaced would be a lock on its past.

*What others may have put there.* A lock file that somebody removed locks nobody out, so nothing relies on it
alone: a writer says which content it expects to replace, and compares under a second lock, on the folder.
What stands at the name of the waiting file (``.new``) is removed and never opened: a link, a pipe and a
leftover are the same. Files beside a ledger are opened as plain files with one name. A symbolic link, a
second name (a hard link), a pipe or a device is refused.

*Leaks*: nothing here looks at data. *Limits*: a network file system may keep none of these promises; a ledger
belongs on a local disk.
"""

import errno
import os
import stat
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, final

from privet.errors import InvalidArgument, MissingPackage, PrivetError, Unreadable

__all__ = [
    "ANY_CONTENT",
    "AnyContent",
    "ChangedMeanwhile",
    "append_durably",
    "hold_lock",
    "is_locked_by",
    "lock_file",
    "read_whole",
    "replace_durably",
    "unlock",
]

_HELD: set[tuple[int, str]] = (
    set()
)  # by thread and file: waiting for a lock that the same thread holds would never end
_NEW = 0o666  # less the umask, as for any file that a person makes
_PLAIN = os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK  # do not block on a pipe
_NO_FOLDER_LOCKS = {errno.EBADF, errno.EINVAL, errno.ENOLCK, errno.EOPNOTSUPP}  # some network file systems
_NO_FULL_SYNC = {errno.ENOTSUP, errno.EINVAL, errno.ENOTTY}  # a file system without it has fsync


@final
class AnyContent:
    """Marker: replace the file whatever its content is."""


ANY_CONTENT: Final = AnyContent()


@final
class ChangedMeanwhile(PrivetError):
    """A file is not what its writer last saw, so another writer was there; nothing was written."""


def lock_file(path: Path, *, wait: bool) -> int | None:
    """A descriptor that holds the lock on the file ``path``, made if missing; None if another has it and
    ``wait`` is not set.

    Closing the descriptor drops the lock, and so does the end of the process.
    """
    try:
        import fcntl
    except ImportError as missing:
        raise MissingPackage(
            "Files that survive a crash need 'fcntl' to keep two processes apart, and this system has none. "
            "Use a POSIX system, such as Linux, macOS or WSL."
        ) from missing
    while True:
        with _telling(path):
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | _PLAIN, _NEW)
        try:
            with _telling(path):
                _check_regular(path, os.fstat(descriptor))
                fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
            if is_locked_by(path, descriptor):
                return descriptor
        except BlockingIOError:
            unlock(descriptor)
            return None
        except BaseException:
            unlock(descriptor)
            raise
        unlock(
            descriptor
        )  # it was removed while this one waited: the next lock is on the file that is there now


def unlock(descriptor: int) -> None:
    """Close a descriptor. The descriptor is closed even if the system reports an error; nothing was written
    to it.
    """
    with suppress(OSError):
        os.close(descriptor)


def is_locked_by(path: Path, descriptor: int) -> bool:
    """Whether the lock file still has its name. If not, others can lock a new one."""
    try:
        return os.path.samestat(path.lstat(), os.fstat(descriptor))
    except OSError:
        return False


@contextmanager
def hold_lock(path: Path) -> Iterator[None]:
    """Wait for the lock that lives beside ``path``, and hold it."""
    mine = (threading.get_ident(), str(path))
    if mine in _HELD:
        raise InvalidArgument(
            f"This thread already holds the lock on {str(path)!r}, and would wait for itself. "
            f"Use the store that is open, or close it first."
        )
    descriptor = lock_file(path.with_name(path.name + ".lock"), wait=True)
    assert descriptor is not None
    try:
        _HELD.add(mine)
        yield
    finally:
        _HELD.discard(mine)
        unlock(descriptor)


def replace_durably(
    path: Path,
    content: bytes | memoryview,
    *,
    expected: bytes | AnyContent | None = ANY_CONTENT,
    mode: int | None = None,
) -> None:
    """Give ``path`` this content. After a crash it has the old or the new one; after the return, the new one.

    ``expected`` is what the file must hold now, None for no file; anything else is ``ChangedMeanwhile``. The
    new content waits in one file of a fixed name, so that a crash leaves at most one behind, which the next
    writer removes. Without ``mode`` the file keeps its permissions.
    """
    waiting = path.with_name(path.name + ".new")
    with _telling(path), _locked_folder(path.parent) as folder:
        if not isinstance(expected, AnyContent) and read_whole(path) != expected:
            raise ChangedMeanwhile(
                f"{str(path)!r} must be as it was when it was opened, and another program has changed it. "
                f"Nothing was written; open it again."
            )
        with suppress(FileNotFoundError):
            waiting.unlink()
        descriptor = os.open(
            waiting, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, _NEW
        )
        try:
            if mode is None:
                with suppress(FileNotFoundError):
                    os.fchmod(descriptor, stat.S_IMODE(path.stat().st_mode))
            else:
                os.fchmod(descriptor, mode)
            _write(descriptor, content)
            _sync(descriptor)
        finally:
            os.close(descriptor)
        waiting.replace(path)
        with _telling(path, "; what was to be written may be there, and counts"):
            _sync(folder)


def append_durably(path: Path, line: str) -> None:
    """Add one line, on the disk when this returns. A crash may leave a part of the line, and nothing
    worse.
    """
    with _telling(path):
        fresh = not os.path.lexists(path)
        descriptor = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | _PLAIN, _NEW)
        try:
            found = os.fstat(descriptor)
            _check_regular(path, found)
            _check_one_name(path, found)
            # A line that a crash cut short must not swallow this one.
            torn = found.st_size > 0 and os.pread(descriptor, 1, found.st_size - 1) != b"\n"
            _write(descriptor, b"\n" * torn + line.encode() + b"\n")
            _sync(descriptor)
        finally:
            os.close(descriptor)
        if fresh:
            folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                _sync(folder)
            finally:
                unlock(folder)


def read_whole(path: Path) -> bytes | None:
    """The content; None if there is no file."""
    try:
        descriptor = os.open(path, os.O_RDONLY | _PLAIN)
    except FileNotFoundError:
        return None
    except OSError as failed:
        raise Unreadable(
            f"{str(path)!r} must be a file that can be read, and is not ({failed.strerror}). Check the path."
        ) from failed
    try:
        found = os.fstat(descriptor)
        _check_regular(path, found)
        _check_one_name(path, found)
        with os.fdopen(os.dup(descriptor), "rb") as file:
            return file.read()
    except OSError as failed:
        raise Unreadable(
            f"{str(path)!r} must be a file that can be read, and is not ({failed.strerror}). Check the disk."
        ) from failed
    finally:
        unlock(descriptor)


def _check_regular(path: Path, found: os.stat_result) -> None:
    if not stat.S_ISREG(found.st_mode):
        raise InvalidArgument(
            f"{str(path)!r} must be a plain file, and is a folder, a pipe or a device. Remove what stands "
            "there."
        )


def _check_one_name(path: Path, found: os.stat_result) -> None:
    """Refuse a file with hard links: replacing it under one name leaves the old content under the others."""
    if found.st_nlink > 1:
        raise InvalidArgument(
            f"{str(path)!r} must have one name, and has {found.st_nlink} (hard links), so others can use "
            f"another state of it. Remove the other names, or use a symbolic link."
        )


@contextmanager
def _locked_folder(folder: Path) -> Iterator[int]:
    """The folder, for one writer at a time. The lock is on the folder itself, which nobody can remove while
    files are in it.
    """
    import fcntl

    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        except OSError as failed:
            if failed.errno not in _NO_FOLDER_LOCKS:
                raise
        yield descriptor
    finally:
        unlock(descriptor)


def _write(descriptor: int, content: bytes | memoryview) -> None:
    rest = memoryview(content)
    while rest:
        rest = rest[os.write(descriptor, rest) :]


def _sync(descriptor: int) -> None:
    """The strongest flush that the system has, of a file or of a folder."""
    if sys.platform == "darwin":
        import fcntl

        try:
            fcntl.fcntl(descriptor, fcntl.F_FULLFSYNC)
        except OSError as failed:
            if failed.errno not in _NO_FULL_SYNC:
                raise
        else:
            return
    os.fsync(descriptor)


@contextmanager
def _telling(path: Path, state: str = "") -> Iterator[None]:
    """Turn an error of the system into an error of Privet."""
    try:
        yield
    except BlockingIOError:
        raise
    except OSError as failed:
        fix = "Choose a folder on a local disk that exists and can be written to"
        if failed.errno == errno.ELOOP:
            fix = "Remove the symbolic link that stands there"
        elif failed.errno == errno.EISDIR:
            fix = f"Remove the folder {failed.filename or path.name!r}"
        raise InvalidArgument(
            f"{str(path)!r} must be a file that can be written durably, and is not "
            f"({failed.strerror}){state}. {fix}."
        ) from failed
