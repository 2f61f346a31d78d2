"""Temporary folders for private data: readable by their owner alone, and removed on every way out.

*How a folder is removed.* By its ``with`` block: at the end, after an exception, after Ctrl-C. By a handler
of SIGTERM and SIGHUP, which would otherwise end Python without any clean-up: the handler removes the folder,
and the signal then acts as usual. It is set while a folder is open, in the main thread, and where nobody else
handles the signal. After SIGKILL or a power cut, by the next program that opens such a folder:
``remove_abandoned``.

*How an abandoned folder is told from one in use.* Whoever uses a folder holds ``flock`` on it. The system
drops this lock when the process ends, in whatever way, so no process number is compared (numbers are used
again, and differ between containers). A folder that another user owns is never touched.

*Limits*: where there is no ``flock`` (Windows, some network file systems), abandoned folders stay. Removing a
file does not overwrite its blocks on the disk.
"""

import errno
import os
import shutil
import signal
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType

__all__ = ["private_folder", "remove_abandoned", "remove_folder"]

_PREFIX = "privet-private-"
_SIGNALS = tuple(getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name))
_TRIES, _PAUSE = 20, 0.02  # another process may be writing into a folder while it is removed

_open: dict[
    Path, int
] = {}  # the process that opened each folder: a fork inherits this table and owns nothing in it


@contextmanager
def private_folder() -> Iterator[Path]:
    """A new folder in the system's temporary folder. It is removed at the end of the block, or soon after the
    process ends.
    """
    remove_abandoned()
    folder, lock = _new_folder()
    _open[folder] = os.getpid()
    try:
        with _removed_at_signals():
            yield folder
    finally:
        if _open.get(folder) == os.getpid():
            remove_folder(folder)
            del _open[folder]
        if lock is not None:
            os.close(lock)


def remove_folder(folder: Path) -> None:
    """Remove a folder and all that is in it, also while another process still writes there. A missing folder
    is fine.
    """
    for _ in range(_TRIES):
        shutil.rmtree(folder, ignore_errors=True)
        if not os.path.lexists(folder):
            return
        time.sleep(_PAUSE)


def remove_abandoned() -> None:
    """Remove the folders of processes that were killed."""
    for folder in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        with suppress(OSError):  # in use, or not ours
            lock = _lock(folder)
            try:
                remove_folder(folder)
            finally:
                os.close(lock)


def _new_folder() -> tuple[Path, int | None]:
    """A folder and the descriptor that holds its lock. Nothing is written into a folder before its lock is
    held.
    """
    while True:
        folder = Path(tempfile.mkdtemp(prefix=_PREFIX))  # with mode 0700
        try:
            lock = _lock(folder)
        except (
            BlockingIOError,
            FileNotFoundError,
        ):  # another process took the empty folder for an abandoned one
            continue
        except OSError:  # no locks here
            return folder, None
        if folder.is_dir():
            return folder, lock
        os.close(lock)


def _lock(folder: Path) -> int:
    """A descriptor that holds the lock of a folder. ``OSError``: it is in use, not ours, gone, or there are
    no locks here.
    """
    try:
        import fcntl
    except ImportError:
        raise OSError(errno.ENOTSUP, os.strerror(errno.ENOTSUP)) from None
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        if os.fstat(descriptor).st_uid != os.getuid():
            raise OSError(errno.EPERM, os.strerror(errno.EPERM))
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


@contextmanager
def _removed_at_signals() -> Iterator[None]:
    mine = []
    if threading.current_thread() is threading.main_thread():
        for number in _SIGNALS:
            if signal.getsignal(number) is signal.SIG_DFL:
                signal.signal(number, _remove_and_end)
                mine.append(number)
    try:
        yield
    finally:
        for number in mine:
            with suppress(ValueError):  # closed in a different thread
                signal.signal(number, signal.SIG_DFL)


def _remove_and_end(number: int, frame: FrameType | None) -> None:
    del frame
    for folder, owner in list(_open.items()):
        if owner == os.getpid():
            remove_folder(folder)
    signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)
