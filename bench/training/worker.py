"""One contestant on one model and lot, in a fresh process that takes its turns when it is told to.

The process is forked from a server that has imported everything and computed nothing, so that its memory starts from the
same place for all. A throw-away step on two examples comes first: what it loads and compiles is no cost of a step.
"""

import ctypes
import gc
import os
import signal
import time
import warnings
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import torch
from agreement import difference
from contestants import CONTESTANTS, Contestant, Setting
from models import TASKS

KILOBYTE = 1024


def serve(pipe: Connection, contestant: str, model: str, lot: int, threads: int, cap: float) -> None:
    """Answers ``("memory", cap)`` with (seconds of a step, extra bytes), and ``("steps", seconds)`` with times of steps."""
    _settle(threads)
    try:
        task = TASKS[model]
        if "jax" not in contestant.lower():  # that one is compiled for its shapes before its first step
            _once(CONTESTANTS[contestant](Setting(task, *task.data(2))))
            gc.collect()
            ctypes.CDLL(None).malloc_trim(0)
        made = CONTESTANTS[contestant](Setting(task, *task.data(lot)))
        pipe.send(_first(made, cap))
        while (seconds := pipe.recv()) is not None:
            pipe.send(_turn(made, seconds))
    except Exception as failure:  # a peer may fail in any way; it is reported
        pipe.send(_said(failure))


def agree(pipe: Connection, contestant: str, models: list[str], threads: int) -> None:
    """Sends how far the contestant is from a loop over examples, for each model in turn."""
    _settle(threads)
    for model in models:
        try:
            pipe.send(difference(contestant, model))
        except Exception as failure:
            pipe.send(_said(failure))


def call(pipe: Connection, work: Any, threads: int) -> None:
    """Sends what a function gives."""
    _settle(threads)
    try:
        pipe.send(work())
    except Exception as failure:
        pipe.send(_said(failure))


def _settle(threads: int) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the one who started it ends it
    warnings.simplefilter("ignore")
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:threads])  # JAX takes as many threads as it has cores
    torch.set_num_threads(threads)


def _once(made: Contestant) -> float:
    made.before()
    start = time.perf_counter()
    made.step()
    return time.perf_counter() - start


def _first(made: Contestant, cap: float) -> tuple[float, int]:
    """The time of a step, and how far three of them raise the resident memory above model and data."""
    gc.collect()
    Path("/proc/self/clear_refs").write_text("5")  # the peak starts anew
    before = _memory("VmRSS")
    seconds = _once(made)
    if seconds < 2 * cap:
        seconds = min(seconds, _once(made))
        if seconds < cap:
            _once(made)
    return seconds, _memory("VmHWM") - before


def _turn(made: Contestant, seconds: float) -> list[float]:
    times: list[float] = []
    _once(made)  # warms caches that the others have used
    end = time.perf_counter() + seconds
    while not times or time.perf_counter() < end:
        times.append(_once(made))
    return times


def _memory(line: str) -> int:
    status = Path("/proc/self/status").read_text()
    return int(status.partition(f"{line}:")[2].split()[0]) * KILOBYTE


def _said(failure: Exception) -> str:
    return f"{type(failure).__name__}: {(str(failure).strip().splitlines() or [''])[0][:140]}"
