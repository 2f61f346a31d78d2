"""The gateway's side of the worker: starts it, asks it, and starts it again where it has died.

The process that calls this opens no data: it knows the path of the steward's file and of a socket. If it is
killed, the worker lives on for some minutes, and whoever starts next finds it at the same socket.
"""

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, final

from privet.curator.plans import AnswerWorker, PlannedQuestion
from privet.curator.questions.planner import MetadataPlanner
from privet.curator.worker.answer_failed import AnswerFailed
from privet.curator.worker.confinement import Confinement
from privet.curator.worker.frames import receive, send
from privet.errors import PrivetError, Unreadable

__all__ = ["ProcessWorker", "WorkerUnavailable"]

_START, _PAUSE = 60.0, 0.05  # seconds to wait for a worker to be ready; between looks
_MARGIN = 0.1  # after the time of the worker's answer, so that its own delays do not show
_GRACE = 10.0  # over the worker's own limit
_KEPT = (
    *("PATH", "HOME", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "PYTHONPATH", "VIRTUAL_ENV", "TMPDIR"),
    *("JAVA_HOME",),
)


@final
class WorkerUnavailable(PrivetError):
    """No worker can be started. The reason is about files and metadata, never about rows."""


@final
class ProcessWorker(AnswerWorker):
    """A worker in a process of its own, over a local socket.

    ``socket_path`` should be in a folder that only the two processes can enter; without it, one is made. With
    ``start=False`` the worker is somebody else's to start, such as a service of another user.

    *Leaks*: where a dataset has ``answer_after``, an answer, a failure and a crash all come at that time, by
    the clock of this process. Elsewhere the time is that of the work.
    """

    def __init__(self, steward: Path, *, socket_path: Path | None = None, start: bool = True) -> None:
        self._steward, self._starts = Path(steward), start
        self._planner = MetadataPlanner.of_file(self._steward)
        self._folder = None if socket_path else tempfile.TemporaryDirectory(prefix="privet-socket-")
        self._path = socket_path or Path(self._folder.name if self._folder else "") / "worker.sock"
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._lifeline: socket.socket | None = None

    def answer(self, dataset: str, planned: PlannedQuestion, *, request: str) -> Mapping[str, Any]:
        metadata = self._planner.stewardship.find(dataset)
        due = time.monotonic() + (metadata.answer_after or 0.0) + _MARGIN
        limit = max(metadata.answer_after or 0.0, metadata.limits.seconds) + _GRACE
        message = {"ask": "answer", "dataset": dataset, "question": planned.canonical, "request": request}
        reply: Any = None
        with suppress(PrivetError, OSError):
            reply = self._ask(message, limit)
        if metadata.answer_after is not None:
            while (left := due - time.monotonic()) > 0:
                time.sleep(left)
        if not isinstance(reply, dict) or reply.get("ok") is not True:
            raise AnswerFailed
        answer: Mapping[str, Any] = reply["answer"]
        return answer

    def fingerprint(self, dataset: str) -> str:
        self._planner.stewardship.find(dataset)
        reply = self._ask({"ask": "fingerprint", "dataset": dataset}, _START)
        if not isinstance(reply, dict) or reply.get("ok") is not True:
            raise WorkerUnavailable(f"The data of {dataset!r} cannot be read. Check its file and its rights.")
        return str(reply["fingerprint"])

    def confinement(self) -> Confinement:
        """What the kernel enforces for the worker that runs now; starts it if there is none."""
        reply = self._ask({"ask": "hello"}, _START)
        return Confinement(**reply["confinement"])

    def pid(self) -> int:
        """The process of the worker that runs now; starts it if there is none."""
        return int(self._ask({"ask": "hello"}, _START)["pid"])

    def restart(self) -> None:
        """End the worker; the next question starts one, which reads the steward's file again."""
        self._planner = MetadataPlanner.of_file(self._steward)
        self._end()

    def close(self) -> None:
        """End the worker that this object has started."""
        self._end()
        if self._folder is not None:
            self._folder.cleanup()

    def __enter__(self) -> "ProcessWorker":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _end(self) -> None:
        with self._lock:
            if self._lifeline is not None:
                self._lifeline.close()
                self._lifeline = None
            process, self._process = self._process, None
            if process is not None:
                process.terminate()
                try:
                    process.wait(5)
                except subprocess.TimeoutExpired:
                    process.send_signal(signal.SIGKILL)
                    process.wait()

    def _ask(self, message: Mapping[str, Any], limit: float) -> Any:  # noqa: ANN401 - JSON
        with self._connect() as connection:
            connection.settimeout(limit)
            send(connection, message)
            return receive(connection)

    def _connect(self) -> socket.socket:
        connection = _open(self._path)
        if connection is not None:
            return connection
        with self._lock:
            ends = time.monotonic() + _START
            while time.monotonic() < ends:
                connection = _open(self._path)
                if connection is not None:
                    self._lifeline = self._lifeline or _open(self._path)
                    return connection
                if not self._starts:
                    break
                if self._process is None or self._process.poll() is not None:
                    self._start()
                time.sleep(_PAUSE)
        raise WorkerUnavailable(
            f"No worker answers at {str(self._path)!r}. Start 'python -m privet.curator.worker', or look at "
            f"its "
            f"first line of output."
        )

    def _start(self) -> None:
        if self._lifeline is not None:
            self._lifeline.close()
            self._lifeline = None
        environment = {
            name: value
            for name, value in os.environ.items()
            if name in _KEPT or name.startswith(("PG", "SPARK_", "PYSPARK_", "OMP_", "POLARS_"))
        }
        command = [sys.executable, "-m", "privet.curator.worker"]
        command += ["--steward", str(self._steward), "--socket", str(self._path)]
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=environment,
            start_new_session=True,
        )
        assert self._process.stdout is not None
        with self._process.stdout as output:
            line = output.readline()
        try:
            report = json.loads(line)
        except ValueError:  # another worker has the socket, or it died
            report = {"ready": True}
        if not report.get("ready"):
            self._process.wait()
            self._process = None
            raise WorkerUnavailable(str(report.get("error", "The worker did not start. Look at its output.")))


def _open(path: Path) -> socket.socket | None:
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        connection.connect(str(path))
    except (OSError, Unreadable):
        connection.close()
        return None
    return connection
