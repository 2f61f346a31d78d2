"""Which engine trains the models, by a short measurement, and why. The choice is data, and is shown.

Every engine gives the same models, so the quickest is taken. For torch recipes a few steps of each engine are
measured: one model by itself with all threads, one model with a single thread (what each process would do),
and a stack. For other recipes the first model is trained and measured; its answers are used. Processor time
is measured and not the clock, so that other programs on the machine do not change the choice (``timing``).
"""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

from privet.arguments import whole
from privet.attacks.shadows.cluster import Ray, cluster_size
from privet.attacks.shadows.cores import usable_cores
from privet.attacks.shadows.engine import Job, ModelSignals, Sequential, ShadowEngine
from privet.attacks.shadows.processes import Processes
from privet.attacks.shadows.recipe import Recipe
from privet.attacks.shadows.timing import Estimate, estimate, processor_seconds, seconds_in_processes

__all__ = ["EngineChoice", "choose"]

_CLEARLY = 0.9  # processes are taken only where they are clearly quicker


@final
@dataclass(frozen=True, eq=False)
class EngineChoice:
    """The engine that is taken, why, and the estimates of the engines that it was compared with.

    ``first`` holds the signals of the first model where it was trained to time it.
    """

    engine: ShadowEngine
    reason: str
    estimates: tuple[Estimate, ...] = ()
    first: ModelSignals | None = None

    def __str__(self) -> str:
        others = "; ".join(map(str, self.estimates))
        return f"{self.engine.name}, because {self.reason}" + (f" ({others})" if others else "")


def choose(job: Job, models: Sequence[int]) -> EngineChoice:
    """The engine that should finish these models first."""
    cores = usable_cores()
    if cluster_size() > cores and len(models) > 1:
        return EngineChoice(
            Ray(), f"a cluster of {cluster_size()} cores is initialised, and there are {cores} here"
        )
    if _needs_torch(job.recipe):
        from privet.attacks.shadows.torch_engines import estimate_engines

        return _pick_quickest(estimate_engines(job, models, cores))
    return _time_first_model(job, models, cores)


def _needs_torch(recipe: Recipe) -> bool:
    """Whether it is a torch recipe; torch is not loaded to find out."""
    module = sys.modules.get("privet.attacks.shadows.torch_recipe")
    return module is not None and isinstance(recipe, module.TorchRecipe)


def _pick_quickest(estimates: tuple[Estimate, ...], first: ModelSignals | None = None) -> EngineChoice:
    able = [(e.seconds, e.engine) for e in estimates if e.seconds is not None]
    in_this_process = [pair for pair in able if not isinstance(pair[1], Processes)]
    seconds, engine = min(in_this_process, key=lambda pair: pair[0])
    for other_seconds, other in able:
        if isinstance(other, Processes) and other_seconds < _CLEARLY * seconds:
            seconds, engine = other_seconds, other
    if len(able) == 1:
        return EngineChoice(engine, "no other engine can do it", estimates, first)
    return EngineChoice(engine, "it was measured to be the quickest", estimates, first)


def _time_first_model(job: Job, models: Sequence[int], cores: int) -> EngineChoice:
    whole("number of models", len(models))
    answers: list[ModelSignals] = []
    seconds_per_model = processor_seconds(
        lambda: answers.extend(Sequential().run(job, models[:1], lambda _done: None)), cores
    )
    (first,), left = answers, len(models) - 1
    processes = Processes(cores)
    return _pick_quickest(
        (
            Estimate(Sequential(), seconds_per_model * left),
            estimate(processes, job, lambda: seconds_in_processes(seconds_per_model, left, cores)),
        ),
        first,
    )
