"""Lines of JSON over a local socket: how analysts reach the gateway of the harness, and it the worker."""

import json
import os
import socket
import socketserver
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, final

__all__ = ["LineClient", "serve_lines"]

Plain = dict[str, Any]


def serve_lines(path: Path, answer: Callable[[Plain], Plain]) -> None:
    """Answer requests, each connection in a thread of its own, until the process ends."""

    class Handler(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            with suppress(OSError, ValueError):  # a client that is gone
                for line in self.rfile:
                    self.wfile.write(json.dumps(answer(json.loads(line))).encode() + b"\n")

    class Server(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
        daemon_threads = True
        request_queue_size = 128

    waiting = path.with_name(f"{path.name}.{os.getpid()}")
    with suppress(FileNotFoundError):
        waiting.unlink()
    with Server(str(waiting), Handler) as server:
        waiting.replace(path)  # whoever finds the socket finds it listening
        server.serve_forever()


@final
class LineClient:
    """One connection for each thread; a broken one is an ``OSError``."""

    def __init__(self, path: Path, *, timeout: float = 30.0) -> None:
        self._path = path
        self._timeout = timeout
        self._local = threading.local()

    def call(self, request: Plain) -> Plain:
        """Send a request and wait for its answer."""
        try:
            file = self._connect()
            file.write(json.dumps(request).encode() + b"\n")
            file.flush()
            line = file.readline()
            if not line.endswith(b"\n"):
                raise ConnectionError
        except OSError:
            self.close()
            raise
        found: Plain = json.loads(line)
        return found

    def close(self) -> None:
        """Drop this thread's connection."""
        for thing in (getattr(self._local, "file", None), getattr(self._local, "socket", None)):
            if thing is not None:
                with suppress(OSError):
                    thing.close()
        self._local.file = self._local.socket = None

    def _connect(self) -> Any:  # noqa: ANN401
        if getattr(self._local, "file", None) is None:
            connection = socket.socket(socket.AF_UNIX)
            self._local.socket = connection
            connection.settimeout(self._timeout)
            connection.connect(str(self._path))
            self._local.file = connection.makefile("rwb")
        return self._local.file
