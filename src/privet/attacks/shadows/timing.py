"""How long an engine would take: short measurements, and the estimates that follow from them."""

import hashlib
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import final

import numpy as np

from privet.attacks.shadows.engine import Job, ShadowEngine

__all__ = ["Estimate", "estimate", "measure_spare_cores", "seconds_in_processes", "time_step"]

_START = 3.0  # seconds until a process has loaded torch
_TIMED = 0.25  # seconds for each engine


@final
@dataclass(frozen=True)
class Estimate:
    """The seconds that an engine would take, or why it cannot do the job."""

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

    Other programs may use some of the cores, so the number of free cores is measured too.
    """
    rounds = -(-models // workers)
    return _START + seconds_per_model * rounds * workers / measure_spare_cores(workers)


def measure_spare_cores(cores: int) -> float:
    """How much more work ``cores`` busy threads do than one, from 1 to ``cores``.

    The measurement takes a tenth of a second.
    """
    data = bytes(2**23)

    def work(_number: int) -> None:
        hashlib.sha256(data).digest()  # outside of the interpreter's lock

    def best_of_three(run: Callable[[], object]) -> float:
        seconds = []
        for _ in range(3):
            started = time.perf_counter()
            run()
            seconds.append(time.perf_counter() - started)
        return min(seconds)

    with ThreadPoolExecutor(cores) as pool:
        together = best_of_three(lambda: list(pool.map(work, range(cores))))
    return float(np.clip(cores * best_of_three(lambda: work(0)) / together, 1.0, cores))


def time_step(run: Callable[[int], None], most_steps: int) -> float:
    """Seconds for each step of ``run(steps)``, which can take ``most_steps`` steps.

    The best of three: other programs only make it slower.
    """
    warm_up = min(2, most_steps)
    run(warm_up)
    started = time.perf_counter()
    run(warm_up)
    seconds_per_step = max(1e-6, (time.perf_counter() - started) / warm_up)
    steps = int(np.clip(_TIMED / 3 / seconds_per_step, warm_up, min(200, most_steps)))
    best = np.inf
    for _ in range(3):
        started = time.perf_counter()
        run(steps)
        best = min(best, (time.perf_counter() - started) / steps)
    return float(best)
