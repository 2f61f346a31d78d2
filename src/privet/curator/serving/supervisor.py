"""The process that starts worker and gateway, and starts each again when it dies. It opens neither data nor
network.
"""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Event
from types import FrameType
from typing import Any, final

from privet.curator.serving.installation import Installation
from privet.curator.worker.process_worker import ProcessWorker
from privet.errors import PrivetError
from privet.private_folders import private_folder

__all__ = ["GatewayRefused", "RunningCurator", "run_curator", "supervise"]

_LOOK, _SHORTEST, _LONGEST = 1.0, 1.0, 30.0  # seconds


@final
class GatewayRefused(PrivetError):
    """The gateway does not start, and says why. Nothing was spent."""


@final
@dataclass(frozen=True, kw_only=True)
class RunningCurator:
    """A curator whose two processes run."""

    address: str
    cannot_open_data: bool
    command: list[str]
    worker: ProcessWorker
    gateways: list[subprocess.Popen[bytes]]

    @property
    def gateway(self) -> subprocess.Popen[bytes]:
        """The gateway that runs now."""
        return self.gateways[-1]


@contextmanager
def run_curator(installation: Installation, *, hints: Path | None = None) -> Iterator[RunningCurator]:
    """Start both processes, and end them with the block."""
    with ExitStack() as stack:
        folder = stack.enter_context(private_folder())
        socket = folder / "worker.sock"
        worker = stack.enter_context(ProcessWorker(installation.steward_file, socket_path=socket))
        worker.pid()  # starts it, and says what is wrong with the data before the gateway starts
        command = [sys.executable, "-m", "privet.curator.serving"]
        command += ["--steward", str(installation.steward_file), "--socket", str(socket)]
        if hints is not None:
            command += ["--hints", str(hints)]
        gateways: list[subprocess.Popen[bytes]] = []
        stack.callback(lambda: _end(gateways))
        report = _start(command, gateways)
        yield RunningCurator(
            address=str(report["address"]),
            cannot_open_data=bool(report["cannot_open_data"]),
            command=command,
            worker=worker,
            gateways=gateways,
        )


def supervise(running: RunningCurator, *, tell: Callable[[str], None]) -> None:
    """Until a signal: start again what has died. SIGHUP starts both, with the file as it is."""
    wait, ended, again = _SHORTEST, Event(), Event()
    handlers = {signal.SIGTERM: ended, signal.SIGINT: ended, signal.SIGHUP: again}
    with _set_at_signals(handlers):
        while not ended.is_set():
            if again.is_set():
                again.clear()
                _reload(running, tell)
            with suppress(Exception):  # a worker that dies while it is asked breaks off anywhere
                running.worker.pid()  # starts it if it has died
            if running.gateway.poll() is not None:
                try:
                    _start(running.command, running.gateways)
                    wait = _SHORTEST
                    tell("The gateway was started again.")
                except PrivetError as refused:
                    tell(f"{refused} The next try is in {wait:g} seconds.")
                    ended.wait(wait)
                    wait = min(2 * wait, _LONGEST)
            _wait(_LOOK, ended, again)


def _reload(running: RunningCurator, tell: Callable[[str], None]) -> None:
    """End both; the loop starts them. A file that cannot be read changes nothing."""
    try:
        running.worker.restart()
    except PrivetError as refused:
        tell(f"{refused} The curator goes on with the file that it has read.")
        return
    tell("Reading the steward's file again.")
    _end(running.gateways)


def _start(command: list[str], gateways: list[subprocess.Popen[bytes]]) -> dict[str, Any]:
    """Start a gateway and wait until it is ready. What it prints goes where the output of this process
    goes.
    """
    reading, writing = os.pipe()
    with os.fdopen(reading, encoding="utf-8") as pipe:
        try:
            process = subprocess.Popen(
                [*command, "--ready", str(writing)],
                stdin=subprocess.DEVNULL,
                pass_fds=(writing,),
                start_new_session=True,  # Ctrl-C reaches this process only, which then ends the other
            )
        finally:
            os.close(writing)
        gateways.append(process)
        line = pipe.readline()
    report = json.loads(line) if line.endswith("\n") else {}
    if not report.get("ready"):
        process.wait()
        raise GatewayRefused(str(report.get("error", "The gateway did not start. Look at what it printed.")))
    return dict(report)


def _end(gateways: list[subprocess.Popen[bytes]]) -> None:
    for process in gateways:
        if process.poll() is None:
            process.terminate()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _wait(seconds: float, *events: Event) -> None:
    until = time.monotonic() + seconds
    while time.monotonic() < until and not any(event.is_set() for event in events):
        time.sleep(0.05)


@contextmanager
def _set_at_signals(wanted: Mapping[signal.Signals, Event]) -> Iterator[None]:
    def handler(number: int, _frame: FrameType | None) -> None:
        wanted[signal.Signals(number)].set()

    before = {number: signal.signal(number, handler) for number in wanted}
    try:
        yield
    finally:
        for number, earlier in before.items():
            signal.signal(number, earlier)
