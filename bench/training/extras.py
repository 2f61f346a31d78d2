"""What a step's time does not show: the noise alone, the lots of an epoch, and the import."""

import statistics
import subprocess
import sys
import time
from dataclasses import dataclass
from functools import partial

import torch
from catalogue import TASKS
from noise import cases, least
from race import apart, say
from torch import nn

from privet.randomness import SecureNoise
from privet.training import Flat, PoissonSampling, PrivateLoop, TrainingPlan
from privet.training.sampling.reading import as_examples

PARAMETERS = 1_300_000
POPULATION = 20_000
DRAWS = 256
IMPORTS = {"import torch": "import torch", "import privet.training": "import torch, privet.training"}


@dataclass
class Extras:
    noise: dict[str, float] | str  # nanoseconds a parameter
    loading: dict[str, tuple[float, float, float] | str]  # milliseconds of drawing, of gathering, of a step
    imports: dict[str, float]  # seconds


def extras(models: list[str], threads: int, *, quick: bool) -> Extras:
    say("noise")
    noise = apart(partial(_noise, 3 if quick else 15), threads)
    loading = {}
    for model in models:
        say(f"lots of an epoch: {model}")
        loading[model] = apart(partial(_loading, model, 15 if quick else 40), threads)
    say("imports")
    return Extras(noise, loading, _imports(2 if quick else 5))


def _noise(rounds: int) -> dict[str, float]:
    wanted = cases(torch.zeros(PARAMETERS))
    return {name: 1e9 * s / PARAMETERS for name, s in least(wanted, rounds, time.perf_counter).items()}


def _loading(name: str, steps: int) -> tuple[float, float, float]:
    """A Poisson run over a table in memory: medians of drawing a lot, of gathering it, and of the step, gathering included."""
    task = TASKS[name]
    lot = sorted(task.lots)[1]
    rows = as_examples(task.data(POPULATION))
    plan = TrainingPlan(
        population=POPULATION,
        sampling=PoissonSampling(lot / POPULATION),
        steps=steps,
        noise_multiplier=1.0,
        clip_bound=1.0,
    )
    model, loss = task.model(), nn.CrossEntropyLoss()
    private = PrivateLoop(model, torch.optim.SGD(model.parameters(), lr=0.01), rows, plan, Flat(1.0))
    gathering, stepping = [], []
    for drawn in private.lots():
        start = time.perf_counter()
        rows.take(drawn.indices)
        gathered = time.perf_counter()
        private.step(drawn, loss)
        stepping.append(time.perf_counter() - gathered)
        gathering.append(gathered - start)
    lots = plan.sampling.make_sampler(POPULATION, SecureNoise())
    for _ in range(DRAWS):
        lots.draw()
    start = time.perf_counter()
    for _ in range(DRAWS):  # a whole number of the blocks in which they are drawn
        lots.draw()
    drawing = (time.perf_counter() - start) / DRAWS
    return 1e3 * drawing, 1e3 * statistics.median(gathering), 1e3 * statistics.median(stepping)


def _imports(rounds: int) -> dict[str, float]:
    found: dict[str, list[float]] = {name: [] for name in IMPORTS}
    for _ in range(rounds):
        for name, line in IMPORTS.items():
            start = time.perf_counter()
            subprocess.run([sys.executable, "-c", line], check=True)
            found[name].append(time.perf_counter() - start)
    return {name: min(times) for name, times in found.items()}
