"""The worker's process: confined first, then a local socket that answers planned questions.

``python -m privet.curator.worker --steward steward.toml --socket /run/privet/worker.sock``

It reads the metadata, checks that each table has the columns of its metadata, gives up network and writing
(``confinement``), says on its output that it is ready, and closes its output: from then on nothing that a
library prints can leave it. One process has a socket: a second one ends at once. It ends by itself where no
gateway has been connected for some minutes.

A request is one frame: ``answer``, ``fingerprint`` or ``hello``. The answer is ``{"ok": true, …}``, or
``{"ok": false}`` for every failure whatever its cause. A request that was answered once is not answered
again.
"""

import argparse
import json
import os
import signal
import socket
import struct
import sys
import tempfile
import threading
import time
from collections import OrderedDict
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

from privet.curator.questions.metadata import DatasetMetadata, SparkTable, StewardFile
from privet.curator.questions.steward_file import read_steward_file
from privet.curator.worker.confinement import Confinement, confine
from privet.curator.worker.frames import receive, send
from privet.curator.worker.salt_file import read_salt
from privet.durable_files import lock_file
from privet.errors import InvalidArgument, PrivetError
from privet.private_folders import private_folder
from privet.releasing import PostgresTable
from privet.releasing.failure import contain_errors

if TYPE_CHECKING:
    from privet.curator.worker.answering import TableWorker

__all__ = ["Server", "main"]

_CONNECTIONS, _AT_ONCE = 64, 2
_REMEMBERED = 1 << 16  # requests
_IDLE, _LOOK = 300.0, 1.0
_BUSY = 75  # another worker has the socket
_FAILED: Mapping[str, Any] = {"ok": False}


def main(words: list[str]) -> int:
    """Serve until a signal, or until no gateway needs it."""
    options = _read_options(words)
    try:
        stewardship = read_steward_file(options.steward)
        salt = read_salt(options.steward)
        if lock_file(options.socket.with_name(options.socket.name + ".lock"), wait=False) is None:
            return _BUSY
        listening = _listen(options.socket)
        nowhere = os.open(os.devnull, os.O_RDWR)  # nothing can be opened for writing later
        with private_folder() as folder:
            tempfile.tempdir = os.environ["TMPDIR"] = str(folder)
            confinement = confine(network=_needs_network(stewardship), writable=[folder])
            if options.confined and not (confinement.network_closed and confinement.writes_refused):
                raise InvalidArgument(
                    "The worker must be confined, and this system cannot do it, or a dataset needs the "
                    "network. "
                    "Leave out --confined."
                )
            worker = _make_worker(stewardship, salt)
            _report({"ready": True, "confinement": confinement.to_plain()})
            _fall_silent(nowhere)
            Server(worker, listening, confinement, idle=options.idle).serve()
    except PrivetError as error:  # about metadata and schemas, which are public
        _report({"ready": False, "error": str(error)})
        return 2
    return 0


@final
class Server:
    """Answers frames on a listening socket, each connection in a thread of its own."""

    def __init__(
        self,
        worker: "TableWorker",
        listening: socket.socket,
        confinement: Confinement,
        *,
        idle: float = _IDLE,
    ) -> None:
        self._worker, self._listening, self._confinement = worker, listening, confinement
        self._slots = threading.BoundedSemaphore(_CONNECTIONS)
        self._answering = threading.BoundedSemaphore(_AT_ONCE)
        self._requests: OrderedDict[str, None] = OrderedDict()
        self._lock = threading.Lock()
        self._idle, self._connected, self._last = idle, 0, time.monotonic()
        self._stopped = threading.Event()

    def serve(self) -> None:
        """Until ``stop``, or until nobody has been connected for some time."""
        self._listening.settimeout(_LOOK)
        while not self._stopped.is_set():
            try:
                connection, _ = self._listening.accept()
            except TimeoutError:
                if self._connected == 0 and time.monotonic() - self._last > self._idle:
                    return
                continue
            except OSError:
                return
            if not _is_same_user(connection) or not self._slots.acquire(blocking=False):
                connection.close()
                continue
            connection.settimeout(None)
            threading.Thread(target=self._serve_one, args=(connection,), daemon=True).start()

    def stop(self) -> None:
        """Let ``serve`` return."""
        self._stopped.set()

    def _serve_one(self, connection: socket.socket) -> None:
        with self._lock:
            self._connected += 1
        try:
            with connection, suppress(Exception):  # a broken connection concerns nobody else
                while (message := receive(connection)) is not None:
                    send(connection, self._reply(message))
        finally:
            with self._lock:
                self._connected -= 1
                self._last = time.monotonic()
            self._slots.release()

    def _reply(self, message: Any) -> Mapping[str, Any]:  # noqa: ANN401 - JSON
        with contain_errors():
            match message:
                case {"ask": "hello"}:
                    return {"ok": True, "pid": os.getpid(), "confinement": self._confinement.to_plain()}
                case {"ask": "fingerprint", "dataset": str(dataset)}:
                    return {"ok": True, "fingerprint": self._worker.fingerprint(dataset)}
                case {
                    "ask": "answer",
                    "dataset": str(dataset),
                    "question": dict(question),
                    "request": str(request),
                }:
                    self._take(request)
                    with self._answering:
                        return {"ok": True, "answer": self._worker.answer_canonical(dataset, question)}
        return _FAILED

    def _take(self, request: str) -> None:
        """Fail for a request that was seen before: each charge is for one answer."""
        with self._lock:
            if request in self._requests:
                raise ValueError("answered before")
            self._requests[request] = None
            while len(self._requests) > _REMEMBERED:
                self._requests.popitem(last=False)


def _read_options(words: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m privet.curator.worker", description="The curator's worker."
    )
    parser.add_argument("--steward", type=Path, required=True, help="the steward's file")
    parser.add_argument("--socket", type=Path, required=True, help="where to listen; in a folder of its own")
    parser.add_argument("--idle", type=float, default=_IDLE, help="seconds without a gateway before it ends")
    parser.add_argument(
        "--confined", action="store_true", help="refuse to start where confinement is missing"
    )
    return parser.parse_args(words)


def _listen(path: Path) -> socket.socket:
    with suppress(FileNotFoundError):
        path.unlink()
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    before = os.umask(0o177)
    try:
        listening.bind(str(path))
    except OSError:
        listening.close()
        raise InvalidArgument(
            f"The worker's socket {str(path)!r} cannot be made. Choose a path in a folder that is writable, "
            f"of "
            f"fewer than 100 characters."
        ) from None
    finally:
        os.umask(before)
    listening.listen(_CONNECTIONS)
    return listening


def _make_worker(stewardship: StewardFile, salt: bytes) -> "TableWorker":
    # Loaded after the confinement, which holds for threads that start later: table libraries start theirs on
    # loading.
    from privet.curator.worker.answering import TableWorker
    from privet.curator.worker.data_sources import DataSources

    worker = TableWorker(stewardship, DataSources(salt))
    worker.check()
    return worker


def _needs_network(stewardship: StewardFile) -> bool:
    return any(_is_remote(dataset) for dataset in stewardship.datasets.values())


def _is_remote(dataset: DatasetMetadata) -> bool:
    address = dataset.address
    return isinstance(address, SparkTable) or (isinstance(address, PostgresTable) and not address.is_local)


def _is_same_user(connection: socket.socket) -> bool:
    """Whether the other side is a process of this user, or of root; the rights of the socket say the same."""
    if not hasattr(socket, "SO_PEERCRED"):
        return True
    found = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    return struct.unpack("3i", found)[1] in (os.getuid(), 0)


def _report(message: Mapping[str, Any]) -> None:
    """The only line that the process ever prints."""
    print(json.dumps(message), flush=True)


def _fall_silent(nowhere: int) -> None:
    """From now on, what a library prints leads nowhere, and the process ends at once when it is asked to."""
    for descriptor in (0, 1, 2):
        os.dup2(nowhere, descriptor)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
