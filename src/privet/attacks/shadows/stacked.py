"""Many models trained together: stacked weights, and one vectorised step for all of them.

Each model has its own members, order and seed. A chain of simple layers is trained by batched products in
place (``stacked_mlp``), in small stacks that fit a core's own cache, with one thread for each core: these
threads never wait for each other, and the threads inside of one large product do. Any other module is trained
by ``torch.func`` (``functional``), one tile at a time.
"""

import math
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass
from typing import final

import numpy as np
import torch
from torch import Tensor, nn

from privet.arguments import whole
from privet.attacks.shadows import functional
from privet.attacks.shadows.cores import usable_cores
from privet.attacks.shadows.engine import Job, ModelSignals, ShadowEngine, Tick, check_models, query_model
from privet.attacks.shadows.stacked_mlp import chain_layers
from privet.attacks.shadows.stacking import train_stack
from privet.attacks.shadows.timing import time_step
from privet.attacks.shadows.torch_recipe import InitialModel, TorchRecipe, initialize_model, to_tensor
from privet.errors import InvalidArgument
from privet.record_inputs import has_several_inputs

__all__ = ["Stacked", "seconds_per_model_step", "time_with_threads"]

_MEMORY = 2**30  # bytes of weights, optimizer state and activations at a time
_TOGETHER = 8  # models that one thread trains together; with more, memory traffic costs more than it saves


@final
@dataclass(frozen=True)
class Stacked(ShadowEngine):
    """Tiles of ``tile`` models, trained by ``threads`` threads (by default as many as torch uses) within
    ``memory`` bytes.
    """

    tile: int = 16
    threads: int | None = None
    memory: int = _MEMORY

    def __post_init__(self) -> None:
        whole("tile", self.tile)
        whole("memory", self.memory)
        if self.threads is not None:
            whole("threads", self.threads)

    @property
    def name(self) -> str:
        return f"stacked, tiles of {self.tile}"

    def refusal(self, job: Job) -> str | None:
        recipe = job.recipe
        if not isinstance(recipe, TorchRecipe):
            return f"a {type(recipe).__name__} does not say how its models are trained"
        if has_several_inputs(job.inputs):
            return "its records have several inputs"
        if recipe.stopping is not None:
            return "each model stops at its own epoch"
        module = initialize_model(recipe, 0).module
        if isinstance(
            chain_layers(
                module, job.inputs.shape[1:], recipe.outputs(module, to_tensor(module, job.inputs[:2]))
            ),
            list,
        ):
            return None
        refusal = functional.refusal(module)
        if refusal is None and functional.couples_rows(module) and len(set(job.members.sum(axis=1))) > 1:
            return (
                "batch statistics need batches of one size, and the models have different numbers of members"
            )
        return refusal if refusal is not None else _try_functional(recipe, job)

    def run(self, job: Job, models: Sequence[int], tick: Tick) -> Iterator[ModelSignals]:
        recipe = job.recipe
        if not isinstance(recipe, TorchRecipe):
            raise InvalidArgument(
                f"'recipe' must be a TorchRecipe for models that are stacked, got {type(recipe).__name__}. "
                f"Take another engine."
            )
        if has_several_inputs(job.inputs) or recipe.stopping is not None:
            raise InvalidArgument(
                f"'recipe' must be one whose models can be stacked, and {self.refusal(job)}. "
                f"Take another engine."
            )
        check_models(job, models)
        inputs, labels = (
            to_tensor(initialize_model(recipe, 0).module, job.inputs),
            torch.as_tensor(job.labels),
        )
        together, busy = self._layout(recipe, inputs, len(models))
        stacks = [models[at : at + together] for at in range(0, len(models), together)]
        work = _Work(job, recipe, inputs, labels, tick)
        if busy == 1:
            for stack in stacks:
                yield from work.train(stack, work.initialize(stack))
        else:
            yield from work.train_in_threads(stacks, busy)

    def _layout(self, recipe: TorchRecipe, inputs: Tensor, models: int) -> tuple[int, int]:
        """How many models one thread trains together, and how many threads are busy at once."""
        example = initialize_model(recipe, 0).module
        size = max(1, min(self.tile, models, self.memory // _bytes_per_model(recipe, example, inputs)))
        if not isinstance(chain_layers(example, inputs.shape[1:], recipe.outputs(example, inputs)), list):
            return size, 1
        busy = min(self.threads or torch.get_num_threads(), usable_cores(), size)
        return min(_TOGETHER, -(-size // busy)), busy


def seconds_per_model_step(
    engine: Stacked,
    job: Job,
    recipe: TorchRecipe,
    inputs: Tensor,
    labels: Tensor,
    models: Sequence[int],
    to_beat: float,
) -> float:
    """Seconds for one step of one model on a machine of its own, measured with as many threads as a run would
    have.
    """
    together, busy = engine._layout(recipe, inputs, len(models))
    stacks = [models[at : at + together] for at in range(0, together * busy, together)]
    stacks = [stack for stack in stacks if len(stack)]
    members = [[np.flatnonzero(job.members[model]) for model in stack] for stack in stacks]
    seeds = [[job.seeds[model] for model in stack] for stack in stacks]
    made = [[initialize_model(recipe, seed) for seed in group] for group in seeds]

    batches = -(-max(len(rows) for group in members for rows in group) // recipe.batch_size)
    most_steps = recipe.epochs * batches

    def train(index: int, steps: int) -> None:
        train_stack(recipe, made[index], inputs, labels, members[index], seeds[index], steps=steps)

    if len(stacks) == 1:
        together = len(stacks[0])
        return time_with_threads(lambda steps: train(0, steps), most_steps, to_beat * together)[1] / together
    before = torch.get_num_threads()
    with ThreadPoolExecutor(busy, initializer=torch.set_num_threads, initargs=(1,)) as pool:

        def train_all(steps: int) -> None:
            list(pool.map(train, range(len(stacks)), [steps] * len(stacks)))

        seconds = time_step(train_all, most_steps, len(stacks))
    torch.set_num_threads(before)
    return seconds / sum(map(len, stacks))


def time_with_threads(
    run: Callable[[int], None], most_steps: int, to_beat: float = math.inf
) -> tuple[float, float]:
    """Seconds for each step of ``run`` with one thread, and with as many as torch uses.

    The second is never above the first: threads of torch that wait for one without a core keep working, so on
    a loaded machine their processor time says little, and that of one thread is the better estimate. It is
    not measured where all threads together could not beat ``to_beat`` seconds.
    """
    threads = torch.get_num_threads()
    with _one_thread():
        alone = time_step(run, most_steps)
    if threads == 1 or alone / threads > to_beat:
        return alone, alone
    return alone, min(alone, time_step(run, most_steps, threads))


@contextmanager
def _one_thread() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


@final
class _Work:
    """One run of the engine: its job, and what all stacks share."""

    def __init__(self, job: Job, recipe: TorchRecipe, inputs: Tensor, labels: Tensor, tick: Tick) -> None:
        self._job, self._recipe, self._inputs, self._labels, self._tick = job, recipe, inputs, labels, tick
        self._cancelled = threading.Event()

    def initialize(self, stack: Sequence[int]) -> list[InitialModel]:
        """Models before their first step.

        Initial weights come from torch's global generator, so one thread draws them all.
        """
        return [initialize_model(self._recipe, self._job.seeds[model]) for model in stack]

    def train(self, stack: Sequence[int], made: list[InitialModel]) -> list[ModelSignals]:
        """Train a stack, and ask each of its models about every record."""
        members = [np.flatnonzero(self._job.members[model]) for model in stack]
        seeds = [self._job.seeds[model] for model in stack]
        train_stack(
            self._recipe,
            made,
            self._inputs,
            self._labels,
            members,
            seeds,
            tick=lambda part: self._tick(part * len(stack)),
            cancelled=self._cancelled,
        )
        return [
            query_model(self._job, model, self._recipe.view(initial.module))
            for model, initial in zip(stack, made, strict=True)
        ]

    def train_in_threads(self, stacks: list[Sequence[int]], busy: int) -> Iterator[ModelSignals]:
        """Train ``busy`` stacks at once, one thread each."""
        before = torch.get_num_threads()
        pool = ThreadPoolExecutor(busy, initializer=torch.set_num_threads, initargs=(1,))
        try:
            left = iter(stacks)
            running: set[Future[list[ModelSignals]]] = set()
            while True:
                for stack in left:
                    running.add(pool.submit(self.train, stack, self.initialize(stack)))
                    if len(running) >= busy:
                        break
                if not running:
                    return
                finished, running = wait(running, return_when=FIRST_COMPLETED)
                for future in finished:
                    yield from future.result()
        finally:
            self._cancelled.set()
            pool.shutdown(wait=True, cancel_futures=True)
            torch.set_num_threads(before)


def _bytes_per_model(recipe: TorchRecipe, module: nn.Module, inputs: Tensor) -> int:
    """The memory of one model of a stack: weights, optimizer state, and every layer's output twice."""
    outputs = [inputs[0].numel()]
    hooks = [
        part.register_forward_hook(
            lambda _part, _in, out: outputs.append(out.numel() if isinstance(out, Tensor) else 0)
        )
        for part in module.modules()
        if not list(part.children())
    ]
    with torch.no_grad():
        module.eval()(inputs[:1])
    for hook in hooks:
        hook.remove()
    module.train()
    weights = sum(p.numel() for p in module.parameters())
    return 4 * (weights * (2 + recipe.optimizer.state_size) + 2 * recipe.batch_size * sum(outputs))


def _try_functional(recipe: TorchRecipe, job: Job) -> str | None:
    """Why ``torch.func`` does not take the module, found out by one step of two models.

    None where it does.
    """
    rows = [np.flatnonzero(job.members[model]) for model in (0, min(1, len(job.members) - 1))]
    made = [initialize_model(recipe, 0), initialize_model(recipe, 1)]
    try:
        with _one_thread():
            train_stack(
                recipe,
                made,
                to_tensor(made[0].module, job.inputs),
                torch.as_tensor(job.labels),
                rows,
                (0, 1),
                steps=1,
            )
    except (RuntimeError, NotImplementedError, ValueError, TypeError) as error:
        return f"torch.func does not take it ({str(error).splitlines()[0][:80]})"
    return None
