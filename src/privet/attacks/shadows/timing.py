"""How long an engine would take on a machine of its own: short measurements of processor time.

A clock also counts the time in which other programs had the core, and on a loaded machine that is most of
the time, and never the same part. Processor time counts this program's own work. Engines are compared by the
processor time on their longest path: that of the thread that everything waits for.
"""

import hashlib
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import final

import numpy as np

from privet.attacks.shadows.engine import Job, ShadowEngine

__all__ = [
    "Estimate",
    "estimate",
    "measure_parallel_gain",
    "processor_seconds",
    "seconds_in_processes",
    "time_step",
]

_START = 3.0  # seconds until a process has loaded torch
_TIMED = 0.25  # seconds of work for each engine
_FEWEST = 3  # samples: the first ones find cold caches
_LONGEST = 1.0  # second by the clock, for a machine with so much load that the work takes long


@final
@dataclass(frozen=True)
class Estimate:
    """The seconds that an engine would take if nothing else ran, or why it cannot do the job."""

    engine: ShadowEngine
    seconds: float | None
    refusal: str = ""

    def __str__(self) -> str:
        return f"{self.engine.name}: {self.refusal if self.seconds is None else f'{self.seconds:.1f} s'}"


def estimate(engine: ShadowEngine, job: Job, seconds: Callable[[], float]) -> Estimate:
    """The estimate of an engine; ``seconds`` is called only where the engine can do the job."""
    refusal = engine.refusal(job)
    return Estimate(engine, seconds()) if refusal is None else Estimate(engine, None, refusal)


def seconds_in_processes(seconds_per_model: float, models: int, workers: int) -> float:
    """Seconds for so many models in ``workers`` processes, with the time that the processes take to start.

    Cores share caches and memory, so ``workers`` processes do less than ``workers`` times the work of one.
    """
    rounds = -(-models // workers)
    return _START + seconds_per_model * rounds * workers / measure_parallel_gain(workers)


def measure_parallel_gain(cores: int) -> float:
    """How much more work ``cores`` busy threads do than one, from 1 to ``cores``, by the processor time that
    a piece of work takes alone and beside others.

    Two threads of one physical core, or threads that wait for memory, take more processor time for the same
    work. What other programs do is not counted: on a fair machine they slow down every engine alike. The
    measurement takes a tenth of a second.
    """
    data = bytes(2**23)

    def work(_number: int) -> float:
        started = time.thread_time()
        hashlib.sha256(data).digest()  # outside of the interpreter's lock
        return time.thread_time() - started

    alone = min(work(0) for _ in range(3))
    if cores == 1 or alone <= 0:
        return float(cores)
    with ThreadPoolExecutor(cores) as pool:
        together = min(max(pool.map(work, range(cores))) for _ in range(3))
    return float(np.clip(cores * alone / max(together, alone), 1.0, cores))


def processor_seconds(run: Callable[[], object], threads: int) -> float:
    """The processor time on the longest path of ``run``, which works with up to ``threads`` threads.

    That is the time of the calling thread, which takes its part of every parallel operation. It is not less
    than an equal share of all threads' time: where the caller only waits for its helpers, they are the path.
    """
    own, all_threads = time.thread_time(), time.process_time()
    run()
    own, all_threads = time.thread_time() - own, time.process_time() - all_threads
    return max(own, all_threads / max(1, threads))


def time_step(run: Callable[[int], object], most_steps: int, threads: int = 1) -> float:
    """Processor seconds for each step of ``run(steps)``, which can take ``most_steps`` steps.

    The best of several short samples: caches that other programs empty, and threads that wait busily for a
    thread without a core, only make it slower. It ends after a quarter of a second of work, or after a
    second by the clock and a few samples.
    """
    started = time.perf_counter()
    run(1)
    best = spent = processor_seconds(lambda: run(1), threads)
    steps = int(np.clip(_TIMED / 6 / max(1e-6, best), 1, min(100, most_steps)))
    samples = 0
    while spent < _TIMED and (samples < _FEWEST or time.perf_counter() - started < _LONGEST):
        samples += 1
        seconds = processor_seconds(lambda: run(steps), threads)
        best, spent = min(best, seconds / steps), spent + max(seconds, 1e-6)
    return best
