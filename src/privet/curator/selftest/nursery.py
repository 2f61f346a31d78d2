"""A process that has loaded everything, and forks gateways and workers on request: a fork is ready in
milliseconds.

It reads one line of JSON for each process to fork, and writes its number. It ends with its input, and takes
its children with it.
"""

import ctypes
import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, final

__all__ = ["Nursery", "tend_children"]

_PR_SET_PDEATHSIG = 1


@final
class Nursery:
    """The other end: starts the process, and asks it for children."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", f"from {__name__} import tend_children; tend_children()"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        )

    def fork(self, task: str, options: Mapping[str, str]) -> int:
        """The number of a fresh process that runs this task: gateway or worker."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps({"task": task, **options}).encode() + b"\n")
        self._process.stdin.flush()
        return int(self._process.stdout.readline())

    def close(self) -> None:
        """End it, and all of its children."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(timeout=60)
        self._process.stdout.close()


def tend_children() -> None:
    """Fork what is asked for, until the input ends."""
    from privet.curator.selftest.tasks import run_task

    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the dead are not waited for
    parent = os.getpid()
    for line in sys.stdin.buffer:
        options: dict[str, Any] = json.loads(line)
        child = os.fork()
        if child:
            print(child, flush=True)
            continue
        code = 1
        try:
            _die_with(parent)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            descriptor = os.open(os.devnull, os.O_RDWR)
            os.dup2(descriptor, 0)
            os.dup2(descriptor, 1)
            run_task(
                options.pop("task"),
                {name: Path(value) if name != "address" else value for name, value in options.items()},
            )
            code = 0
        finally:
            os._exit(code)


def _die_with(parent: int) -> None:
    """End this process when its parent ends, where the system can do it."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(1)
