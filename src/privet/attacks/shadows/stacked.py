"""Many models trained together: stacked weights, one vectorised step for all, each with its own members, order and seed.

A chain of simple layers is stepped by batched products in place (``chains``), in small stacks that stay in a core's own
cache, one thread for each core: threads that never meet are not held up by each other, which a product that is itself
cut up is. Any other module is stepped by ``torch.func`` (``functional``), one tile at a time.
"""

import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import final

import numpy as np
import torch
from torch import Tensor, nn

from privet.arguments import whole
from privet.attacks.shadows import functional
from privet.attacks.shadows.chains import layers_of
from privet.attacks.shadows.choice import timed
from privet.attacks.shadows.cores import usable_cores
from privet.attacks.shadows.engine import Engine, Job, Tick, Told, check_models, told
from privet.attacks.shadows.stacking import train_stack
from privet.attacks.shadows.torch_recipe import Fresh, TorchRecipe, fresh, table
from privet.errors import InvalidArgument

__all__ = ["Stacked", "seconds_per_model_step"]

_MEMORY = 2**30  # bytes of weights, moments and activations at a time
_TOGETHER = 8  # models of a chain that one thread steps together; with more the gain is lost to memory


@final
@dataclass(frozen=True)
class Stacked(Engine):
    """Tiles of ``tile`` models; ``threads`` of them are busy at once, by default as many as torch uses."""

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
        module = fresh(recipe, 0).module
        if isinstance(
            layers_of(module, job.inputs.shape[1:], recipe.outputs(module, table(module, job.inputs[:2]))),
            list,
        ):
            return None
        seen = functional.refusal(module)
        if seen is None and functional.couples_rows(module) and len(set(job.members.sum(axis=1))) > 1:
            return (
                "batch statistics need batches of one size, and the models have different numbers of members"
            )
        return seen if seen is not None else _tried(recipe, job)

    def run(self, job: Job, models: Sequence[int], tick: Tick) -> Iterator[Told]:
        recipe = job.recipe
        if not isinstance(recipe, TorchRecipe):
            raise InvalidArgument(
                f"'recipe' must be a TorchRecipe for models that are stacked, got {type(recipe).__name__}. Take another engine."
            )
        check_models(job, models)
        inputs, labels = table(fresh(recipe, 0).module, job.inputs), torch.as_tensor(job.labels)
        together, busy = self._layout(recipe, inputs, len(models))
        stacks = [models[at : at + together] for at in range(0, len(models), together)]
        work = _Work(job, recipe, inputs, labels, tick)
        if busy == 1:
            for stack in stacks:
                yield from work.done(stack, work.made(stack))
        else:
            yield from work.threaded(stacks, busy)

    def _layout(self, recipe: TorchRecipe, inputs: Tensor, models: int) -> tuple[int, int]:
        """How many models are stepped together, and by how many threads at once."""
        example = fresh(recipe, 0).module
        size = max(1, min(self.tile, models, self.memory // _bytes(recipe, example, inputs)))
        if not isinstance(layers_of(example, inputs.shape[1:], recipe.outputs(example, inputs)), list):
            return size, 1
        busy = min(self.threads or torch.get_num_threads(), usable_cores(), size)
        return min(_TOGETHER, -(-size // busy)), busy


def seconds_per_model_step(
    engine: Stacked, job: Job, recipe: TorchRecipe, inputs: Tensor, labels: Tensor, models: Sequence[int]
) -> float:
    """A short measurement: wall-clock time for one step of one model, in as many threads as a run would have."""
    together, busy = engine._layout(recipe, inputs, len(models))
    stacks = [models[at : at + together] for at in range(0, together * busy, together)]
    stacks = [stack for stack in stacks if len(stack)]
    members = [[np.flatnonzero(job.members[model]) for model in stack] for stack in stacks]
    seeds = [[job.seeds[model] for model in stack] for stack in stacks]
    made = [[fresh(recipe, seed) for seed in group] for group in seeds]

    batches = -(-max(len(rows) for group in members for rows in group) // recipe.batch_size)
    most = recipe.epochs * batches

    def one(place: int, steps: int) -> None:
        train_stack(recipe, made[place], inputs, labels, members[place], seeds[place], steps=steps)

    if len(stacks) == 1:
        return timed(lambda steps: one(0, steps), most) / len(stacks[0])
    before = torch.get_num_threads()
    with ThreadPoolExecutor(busy, initializer=torch.set_num_threads, initargs=(1,)) as pool:

        def all_of_them(steps: int) -> None:
            list(pool.map(one, range(len(stacks)), [steps] * len(stacks)))

        each = timed(all_of_them, most)
    torch.set_num_threads(before)
    return each / sum(map(len, stacks))


@final
class _Work:
    def __init__(self, job: Job, recipe: TorchRecipe, inputs: Tensor, labels: Tensor, tick: Tick) -> None:
        self._job, self._recipe, self._inputs, self._labels, self._tick = job, recipe, inputs, labels, tick
        self._ended = threading.Event()

    def made(self, stack: Sequence[int]) -> list[Fresh]:
        """First weights are drawn from torch's global randomness, so one thread draws them all."""
        return [fresh(self._recipe, self._job.seeds[model]) for model in stack]

    def done(self, stack: Sequence[int], made: list[Fresh]) -> list[Told]:
        members = [np.flatnonzero(self._job.members[model]) for model in stack]
        seeds = [self._job.seeds[model] for model in stack]
        share = len(stack)
        train_stack(
            self._recipe,
            made,
            self._inputs,
            self._labels,
            members,
            seeds,
            tick=lambda part: self._tick(part * share),
            ended=self._ended,
        )
        return [
            told(self._job, model, self._recipe.view(one.module))
            for model, one in zip(stack, made, strict=True)
        ]

    def threaded(self, stacks: list[Sequence[int]], busy: int) -> Iterator[Told]:
        before = torch.get_num_threads()
        pool = ThreadPoolExecutor(busy, initializer=torch.set_num_threads, initargs=(1,))
        try:
            left = iter(stacks)
            running: set[Future[list[Told]]] = set()
            while True:
                for stack in left:
                    running.add(pool.submit(self.done, stack, self.made(stack)))
                    if len(running) >= busy:
                        break
                if not running:
                    return
                finished, running = wait(running, return_when=FIRST_COMPLETED)
                for future in finished:
                    yield from future.result()
        finally:
            self._ended.set()
            pool.shutdown(wait=True, cancel_futures=True)
            torch.set_num_threads(before)


def _bytes(recipe: TorchRecipe, module: nn.Module, inputs: Tensor) -> int:
    """What one model of a stack takes: weights, what the optimiser keeps, and every layer's output twice."""
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
    return 4 * (weights * (2 + recipe.optimizer.kept) + 2 * recipe.batch_size * sum(outputs))


def _tried(recipe: TorchRecipe, job: Job) -> str | None:
    """Whether ``torch.func`` takes the module: two models, one step."""
    rows = [np.flatnonzero(job.members[model]) for model in (0, min(1, len(job.members) - 1))]
    made = [fresh(recipe, 0), fresh(recipe, 1)]
    try:
        train_stack(
            recipe,
            made,
            table(made[0].module, job.inputs),
            torch.as_tensor(job.labels),
            rows,
            (0, 1),
            steps=1,
        )
    except (RuntimeError, NotImplementedError, ValueError, TypeError) as error:
        return f"torch.func does not take it ({str(error).splitlines()[0][:80]})"
    return None
