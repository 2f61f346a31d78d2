"""One contestant on one model and lot, in a fresh process that takes its turns when it is told to.

The process is forked from a server that has imported everything and computed nothing, so that its memory starts from the
same place for all. A throw-away step on two examples comes first: what it loads and compiles is no cost of a step.
"""

import ctypes
import gc
import os
import resource
import signal
import time
import warnings
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import torch
from agreement import difference
from catalogue import TASKS
from contestants import CONTESTANTS, OWN, Contestant, Setting

KILOBYTE = 1024
SEVERAL = 4
EARLY = 14  # untimed steps of Privet, which proves more in lots 1, 2, 4, 8 and 16 than later
PEERS_EARLY = 3  # those of others
WARM_UP = 40.0  # seconds of such steps of Privet, at most
PEERS_WARM_UP = 4.0  # and of others
LARGEST = (
    10 << 30
)  # bytes of a process: a peer that writes out every gradient must not take the machine with it
Clock = Callable[[], float]


def serve(
    pipe: Connection, contestant: str, model: str, lot: int, threads: int, cap: float, work: bool
) -> None:
    """Sends (seconds of a step, extra bytes), and then answers a number of seconds with times of steps, until told None.

    ``work`` times the processor instead of the clock, for machines that are not idle.
    """
    _settle(threads)
    clock = time.process_time if work else time.perf_counter
    try:
        task = TASKS[model]
        if "jax" not in contestant.lower():  # that one is compiled for its shapes before its first step
            _once(CONTESTANTS[contestant](Setting(task, *task.data(2))), clock)
            gc.collect()
            ctypes.CDLL(None).malloc_trim(0)
        made = CONTESTANTS[contestant](Setting(task, *task.data(lot)))
        early = (EARLY, WARM_UP) if contestant in OWN else (PEERS_EARLY, PEERS_WARM_UP)
        pipe.send(_first(made, cap, clock, *early))
        while (seconds := pipe.recv()) is not None:
            pipe.send(_turn(made, seconds, clock))
    except Exception as failure:  # a peer may fail in any way; it is reported
        pipe.send(_said(failure))


def agree(pipe: Connection, contestant: str, model: str, examples: int, threads: int) -> None:
    """Sends how far the contestant is from a loop over examples."""
    _settle(threads)
    try:
        pipe.send(difference(contestant, model, examples))
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
    os.sched_setaffinity(
        0, sorted(os.sched_getaffinity(0))[:threads]
    )  # JAX takes as many threads as it has cores
    torch.set_num_threads(threads)
    resource.setrlimit(resource.RLIMIT_DATA, (LARGEST, LARGEST))


def _once(made: Contestant, clock: Clock) -> float:
    made.before()
    start = clock()
    made.step()
    return clock() - start


def _first(made: Contestant, cap: float, clock: Clock, early: int, warm_up: float) -> tuple[float, int]:
    """The time of a step, and how far three of them raise the resident memory above model and data."""
    gc.collect()
    Path("/proc/self/clear_refs").write_text("5")  # the peak starts anew
    before = _memory("VmRSS")
    seconds = _once(made, clock)
    if seconds < 2 * cap:
        seconds = min(seconds, _once(made, clock))
        if seconds < cap:
            _once(made, clock)
    memory = _memory("VmHWM") - before
    end = clock() + warm_up
    for _ in range(early):
        if seconds < cap and clock() < end:
            _once(made, clock)
    return seconds, memory


def _turn(made: Contestant, seconds: float, clock: Clock) -> list[float]:
    """Steps for so long, and several in any case: a run goes on, while the first step after a pause finds its memory cold.

    The longer a step, the less that matters.
    """
    times: list[float] = []
    first = _once(made, clock)
    end = clock() + seconds
    several = SEVERAL if first < 0.1 else SEVERAL // 2 if first < 1 else 1
    while len(times) < several or clock() < end:
        times.append(_once(made, clock))
    return times


def _memory(line: str) -> int:
    status = Path("/proc/self/status").read_text()
    return int(status.partition(f"{line}:")[2].split()[0]) * KILOBYTE


def _said(failure: Exception) -> str:
    return f"{type(failure).__name__}: {(str(failure).strip().splitlines() or [''])[0][:140]}"
