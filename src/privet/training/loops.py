"""Modules of compiled loops, loaded so that nobody waits for the compiler.

Numba compiles a loop for seconds, once on a machine, and caches the code on disk. A module of loops has a
function ``warm_up``, which calls each loop with small arrays, so that it is compiled or read from the cache.
``load_loops`` runs this on a thread of its own. It waits for ``PATIENCE`` seconds in all, which is enough to
read caches. If that is not enough, it returns None, and the caller uses operations of torch. These give the
same results up to rounding. When the loops arrive, ``count_late`` changes, and plans that were made without
them are made again.

A run with a seed must give the same digits every time. It calls ``wait_for_loops`` first. With the
environment variable ``PRIVET_WAIT_FOR_LOOPS``, as in tests and benchmarks, every run waits.
"""

import os
import threading
import time
from importlib import import_module
from importlib.util import find_spec
from typing import Any, final

__all__ = ["count_late", "load_loops", "wait_for_loops"]

PATIENCE = 1.5
"""Seconds that a process waits for loops, over all modules."""

_lock = threading.RLock()
_ready: dict[str, Any] = {}


@final
class _Progress:
    """What is being compiled, and how much longer somebody waits for it."""

    __slots__ = ("late", "patience", "pending")

    def __init__(self) -> None:
        self.pending: dict[str, threading.Event] = {}
        waits = bool(os.environ.get("PRIVET_WAIT_FOR_LOOPS"))
        self.patience: float | None = None if waits else PATIENCE  # None: as long as it takes
        self.late = 0


_progress = _Progress()


def load_loops(name: str) -> Any:  # noqa: ANN401 - a module, or None
    """The module of this name; None if numba is not installed, or if its loops are not compiled yet."""
    try:
        return _ready[name]
    except KeyError:
        return _load(name)


def count_late() -> int:
    """The number of modules that arrived after somebody had been told to do without them."""
    return _progress.late


def wait_for_loops() -> None:
    """From now on, wait until loops are compiled, however long it takes."""
    _progress.patience = None


def _load(name: str) -> Any:  # noqa: ANN401
    if find_spec("numba") is None:
        return _ready.setdefault(name, None)
    with _lock:
        event = _progress.pending.get(name)
        if event is None and name not in _ready:
            event = _progress.pending[name] = threading.Event()
            # Not a daemon: at the end of a process, it is waited for, and its code is cached.
            threading.Thread(target=_compile, args=(name, event), name=f"compile {name}").start()
    if event is not None:
        start = time.monotonic()
        event.wait(None if _progress.patience is None else max(0.0, _progress.patience))
        if _progress.patience is not None:
            _progress.patience -= time.monotonic() - start
    return _ready.get(name)


def _compile(name: str, event: threading.Event) -> None:
    module: Any = None
    try:
        module = import_module(name)
        module.warm_up()
    except Exception:  # the compiler does not work on this machine: torch's operations do
        module = None
    finally:
        with _lock:
            _ready[name] = module
            del _progress.pending[name]
            if _progress.patience is not None and _progress.patience <= 0:
                _progress.late += 1
        event.set()
