"""Where the head of the chain is exported after every commit, so that a restored backup is noticed.

A backup of the database is a ledger that has forgotten. The exported head remembers: it stands elsewhere
(on another disk, in a log collector), and a curator whose chain does not reach it starts read-only. The
head is exported after a charge is committed and before the data are touched. So the charge of every answer
that was given out is in some exported head. That an answer was stored is exported half a second later, or
with the next charge.
"""

import sys
import threading
from abc import ABC, abstractmethod
from contextlib import suppress
from pathlib import Path
from typing import ClassVar, TextIO, final

from privet.durable_files import append_durably, hold_lock, read_whole, replace_durably
from privet.errors import InvalidArgument, PrivetError, Unreadable
from privet.lineage import Head

__all__ = ["HeadExport", "HeadFile", "HeadStream", "NoHeadExport"]


_SOON = 0.5  # seconds
_MOST_LINES = 4096  # after so many the file is written anew with one


class HeadExport(ABC):
    """Where heads go. ``remembers``: what was exported can be read there later."""

    remembers: ClassVar[bool]

    @abstractmethod
    def write(self, head: Head) -> None:
        """Export a head; one that is not newer than the last is left out."""

    def write_soon(self, head: Head) -> None:
        """Export a head within half a second, or with the next one: of what spends nothing."""
        self.write(head)

    def close(self) -> None:
        """Export what waits."""
        return

    @abstractmethod
    def last(self) -> Head | None:
        """The last head that was exported, if this place can tell."""

    @abstractmethod
    def replace(self, head: Head) -> None:
        """Export a head even if it is behind the last one: a steward says so."""


@final
class HeadFile(HeadExport):
    """A file with a line for each head, flushed; the newest counts. Put it on another disk than the database.

    Threads that wait for the disk are served together: one line, with the newest of their heads.
    """

    remembers: ClassVar[bool] = True

    def __init__(self, path: Path) -> None:
        self._path = path
        self._wanted: Head | None = None
        self._newest = 0  # links of the newest head that this process wrote
        self._lines = 0  # that it added since the file was written anew
        self._timer: threading.Timer | None = None
        self._asking, self._writing = threading.Lock(), threading.Lock()

    def write(self, head: Head) -> None:
        with self._asking:
            if self._wanted is None or self._wanted.links < head.links:
                self._wanted = head
        with self._writing:
            if head.links <= self._newest:
                return  # another thread wrote this one, or a newer one
            wanted = self._wanted
            with hold_lock(self._path):  # other processes export too, such as commands of the steward
                if self._lines >= _MOST_LINES:
                    self._compact()
                append_durably(self._path, str(wanted))
            self._newest = wanted.links
            self._lines += 1

    def write_soon(self, head: Head) -> None:
        with self._asking:
            if self._wanted is None or self._wanted.links < head.links:
                self._wanted = head
            if self._timer is not None:
                return
            self._timer = threading.Timer(_SOON, self._write_wanted)
            self._timer.daemon = True
            self._timer.start()

    def close(self) -> None:
        with self._asking:
            timer = self._timer
        if timer is not None:
            timer.cancel()
            self._write_wanted()

    def _write_wanted(self) -> None:
        with self._asking:
            wanted, self._timer = self._wanted, None
        if wanted is not None:
            with suppress(PrivetError):  # the next charge exports it, or fails
                self.write(wanted)

    def last(self) -> Head | None:
        content = read_whole(self._path)
        if content is None:
            return None
        heads = []
        for line in content.decode(errors="replace").split("\n"):
            with suppress(InvalidArgument):  # a line that a crash cut short
                heads.append(Head.from_text(line))
        if not heads:
            raise Unreadable(
                f"{str(self._path)!r} must hold exported heads, NUMBER:LINKS:DIGEST, and holds none. "
                f"Restore the "
                "file, or remove it and let a steward accept the present head."
            )
        return max(
            (head for head in heads if head.identity == heads[-1].identity), key=lambda head: head.links
        )

    def replace(self, head: Head) -> None:
        with self._writing, hold_lock(self._path):
            replace_durably(self._path, f"{head}\n".encode())
            self._wanted, self._newest, self._lines = head, head.links, 0

    def _compact(self) -> None:
        newest = self.last()
        if newest is not None:
            replace_durably(self._path, f"{newest}\n".encode())
        self._lines = 0


@final
class HeadStream(HeadExport):
    """One line of text for each head, for a log collector. ``expected`` is the last head that it has."""

    remembers: ClassVar[bool] = False

    def __init__(self, stream: TextIO | None = None, *, expected: Head | None = None) -> None:
        self._stream = sys.stdout if stream is None else stream
        self._expected = expected
        self._newest = 0
        self._lock = threading.Lock()

    def write(self, head: Head) -> None:
        with self._lock:
            if head.links > self._newest:
                self._newest = head.links
                self._stream.write(f"privet-curator-head {head}\n")
                self._stream.flush()

    def last(self) -> Head | None:
        return self._expected

    def replace(self, head: Head) -> None:
        with self._lock:
            self._newest, self._expected = 0, head
        self.write(head)


@final
class NoHeadExport(HeadExport):
    """Nowhere: a backup that is put back un-spends, and nothing notices. For tests and demonstrations."""

    remembers: ClassVar[bool] = False

    def write(self, head: Head) -> None:
        del head

    def last(self) -> Head | None:
        return None

    def replace(self, head: Head) -> None:
        del head
