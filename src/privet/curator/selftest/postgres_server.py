"""A PostgreSQL server of its own, on a local socket, that can be killed with −9 and started again.

PostgreSQL refuses to run as root; then it runs as ``nobody``. Its data lie on a disk, with fsync on.
"""

import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from random import Random
from typing import Any, final

from privet.errors import MissingPackage

__all__ = ["PostgresServer", "start_postgres"]

_ATTEMPTS, _PAUSE = 600, 0.05


def _find_program(name: str) -> str:
    found = shutil.which(name) or next(
        (str(path) for path in sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"), reverse=True)), None
    )
    if found is None:
        raise MissingPackage(
            f"The selftest on PostgreSQL needs its server, and {name!r} is not installed. Install the "
            f"package "
            "'postgresql' of your system, or give the address of a server."
        )
    return found


@final
class PostgresServer:
    """The server in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._user: dict[str, Any] = {}
        if os.geteuid() == 0:
            self._user = {"user": "nobody", "group": "nogroup", "extra_groups": []}
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        """Where SQLAlchemy finds it."""
        return f"postgresql://privet@/postgres?host={self.folder}"

    def create(self) -> None:
        """Make its files."""
        if self._user:
            shutil.chown(self.folder, "nobody", "nogroup")
        self._run("initdb", "-D", "data", "--no-locale", "-E", "UTF8", "-U", "privet", "--auth=trust")
        (self.folder / "data" / "postgresql.auto.conf").write_text(
            f"listen_addresses = ''\nunix_socket_directories = '{self.folder}'\nfsync = on\n"
            "synchronous_commit = on\nfull_page_writes = on\nmax_connections = 120\nshared_buffers = 32MB\n"
            "dynamic_shared_memory_type = mmap\n"  # nothing of it lies outside of its folder
            "log_min_messages = panic\n"
        )

    def start(self) -> None:
        """Start it, and wait until it has recovered and answers."""
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [_find_program("postgres"), "-D", "data"],
                cwd=self.folder,
                stdout=log,
                stderr=log,
                **self._user,
            )
        self.wait_until_ready()

    def wait_until_ready(self) -> None:
        """Until it takes connections."""
        ask = [_find_program("pg_isready"), "-q", "-h", str(self.folder), "-U", "privet"]
        for _ in range(_ATTEMPTS):
            if subprocess.run(ask, check=False).returncode == 0:
                return
            if self._process is not None and self._process.poll() is not None:
                raise OSError("the PostgreSQL server of the selftest ended; see its log")
            time.sleep(_PAUSE)
        raise TimeoutError("the PostgreSQL server of the selftest does not answer")

    def kill_one(self, chance: Random) -> None:
        """SIGKILL one of its processes: the server then ends all others, and recovers by itself."""
        children = self._children()
        if children:
            with suppress(ProcessLookupError):
                os.kill(chance.choice(children), signal.SIGKILL)

    def revive(self) -> None:
        """Start it again if it gave up: it does if the process that recovers is killed too."""
        try:
            self.wait_until_ready()
        except OSError:
            self.start()

    def kill_all(self) -> None:
        """SIGKILL every process of it, as a power cut would."""
        assert self._process is not None
        os.kill(self._process.pid, signal.SIGSTOP)  # so that it forks no more
        for child in (*self._children(), self._process.pid):
            with suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)
        self._process.wait()

    def stop(self) -> None:
        """End it without ceremony."""
        if self._process is not None and self._process.poll() is None:
            self.kill_all()

    def _children(self) -> list[int]:
        assert self._process is not None
        parent = self._process.pid
        found = Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
        return [int(child) for child in found]

    def _run(self, program: str, *arguments: str) -> None:
        words = [_find_program(program), *arguments]
        subprocess.run(
            words,
            check=True,
            cwd=self.folder,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            **self._user,
        )


@contextmanager
def start_postgres(parent: Path | None = None) -> Iterator[PostgresServer]:
    """A fresh server until the block ends, in a folder of its own."""
    folder = Path(tempfile.mkdtemp(prefix="privet-pg-", dir=parent))
    server = PostgresServer(folder)
    try:
        server.create()
        server.start()
        yield server
    finally:
        server.stop()
        shutil.rmtree(folder, ignore_errors=True)
