"""Which engine is taken, by a short measurement, and why: the choice is data and is shown.

Every engine gives the same models, so the quickest is taken. For torch recipes a few steps are timed of each: one model by
itself with all threads, one model with a single thread (what each process would do), and a stack. For other recipes the
first model is trained and timed; it is kept.
"""

import hashlib
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import final

import numpy as np

from privet.arguments import whole
from privet.attacks.shadows.cluster import Ray, cluster_size
from privet.attacks.shadows.cores import usable_cores
from privet.attacks.shadows.engine import Engine, Job, Sequential, Told
from privet.attacks.shadows.processes import Processes

__all__ = ["Choice", "Estimate", "choose"]

_START = 3.0  # seconds until a process has loaded torch
_CLEARLY = 0.9  # a process is only taken where it is clearly quicker
_TIMED = 0.25  # seconds for each engine


@final
@dataclass(frozen=True)
class Estimate:
    """What an engine would take, or why it cannot."""

    engine: Engine
    seconds: float | None
    refusal: str = ""

    def __str__(self) -> str:
        return f"{self.engine.name}: {self.refusal if self.seconds is None else f'{self.seconds:.1f} s'}"


@final
@dataclass(frozen=True, eq=False)
class Choice:
    """The engine that is taken, and what it was held against."""

    engine: Engine
    reason: str
    estimates: tuple[Estimate, ...] = ()
    first: Told | None = None

    def __str__(self) -> str:
        others = "; ".join(map(str, self.estimates))
        return f"{self.engine.name}, because {self.reason}" + (f" ({others})" if others else "")


def choose(job: Job, models: Sequence[int]) -> Choice:
    """The engine that should be done first with these models."""
    from privet.attacks.shadows import torch_engines

    cores = usable_cores()
    if cluster_size() > cores and len(models) > 1:
        return Choice(
            Ray(), f"a cluster of {cluster_size()} cores is initialised, and there are {cores} here"
        )
    if torch_engines.trains(job.recipe):
        return _settled(torch_engines.measured(job, models, cores))
    return _by_first(job, models, cores)


def by_seconds(engine: Engine, job: Job, seconds: Callable[[], float]) -> Estimate:
    """An estimate, where the engine can do the job at all."""
    refusal = engine.refusal(job)
    return Estimate(engine, seconds()) if refusal is None else Estimate(engine, None, refusal)


def in_processes(each: float, models: int, workers: int) -> float:
    """Seconds for so many models of ``each`` seconds, in processes that have to start first.

    Cores that other programs use are not there for ours, so how many there are is measured too.
    """
    rounds = -(-models // workers)
    return _START + each * rounds * workers / spare_cores(workers)


def spare_cores(cores: int) -> float:
    """How much more gets done by so many busy threads than by one, from 1 to ``cores``; measured in a tenth of a second."""
    data = bytes(2**23)

    def busy(_number: int) -> None:
        hashlib.sha256(data).digest()  # outside of the interpreter's lock

    def best(run: Callable[[], object]) -> float:
        taken = []
        for _ in range(3):
            began = time.perf_counter()
            run()
            taken.append(time.perf_counter() - began)
        return min(taken)

    with ThreadPoolExecutor(cores) as pool:
        together = best(lambda: list(pool.map(busy, range(cores))))
    return float(np.clip(cores * best(lambda: busy(0)) / together, 1.0, cores))


def timed(run: Callable[[int], None], most: int) -> float:
    """Seconds for each step of ``run(steps)``, which takes ``most`` steps at most: the best of three, as other programs only ever make it slower."""
    few = min(2, most)
    run(few)
    began = time.perf_counter()
    run(few)
    steps = int(np.clip(_TIMED / 3 / max(1e-6, (time.perf_counter() - began) / few), few, min(200, most)))
    best = np.inf
    for _ in range(3):
        began = time.perf_counter()
        run(steps)
        best = min(best, (time.perf_counter() - began) / steps)
    return float(best)


def _settled(estimates: tuple[Estimate, ...], first: Told | None = None) -> Choice:
    able = [(e.seconds, e.engine) for e in estimates if e.seconds is not None]
    at_home = [pair for pair in able if not isinstance(pair[1], Processes)]
    seconds, engine = min(at_home, key=lambda pair: pair[0])
    for other_seconds, other in able:
        if isinstance(other, Processes) and other_seconds < _CLEARLY * seconds:
            seconds, engine = other_seconds, other
    if len(able) == 1:
        return Choice(engine, "no other engine can do it", estimates, first)
    return Choice(engine, "it was measured to be the quickest", estimates, first)


def _by_first(job: Job, models: Sequence[int], cores: int) -> Choice:
    whole("number of models", len(models))
    began = time.perf_counter()
    (first,) = Sequential().run(job, models[:1], lambda _done: None)
    each, left = time.perf_counter() - began, len(models) - 1
    processes = Processes(cores)
    return _settled(
        (
            Estimate(Sequential(), each * left),
            by_seconds(processes, job, lambda: in_processes(each, left, cores)),
        ),
        first,
    )
