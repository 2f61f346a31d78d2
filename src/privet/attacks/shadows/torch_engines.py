"""How long each engine would take for a torch recipe. Torch is loaded only where a recipe has loaded it."""

import sys
from collections.abc import Sequence

import numpy as np

from privet.attacks.shadows.choice import Estimate, by_seconds, in_processes, timed
from privet.attacks.shadows.engine import Job, Sequential
from privet.attacks.shadows.processes import Processes
from privet.attacks.shadows.recipe import Recipe

__all__ = ["measured", "trains"]


def trains(recipe: Recipe) -> bool:
    """Whether it is a torch recipe."""
    home = sys.modules.get("privet.attacks.shadows.torch_recipe")
    return home is not None and isinstance(recipe, home.TorchRecipe)


def measured(job: Job, models: Sequence[int], cores: int) -> tuple[Estimate, ...]:
    """An estimate of each engine, from a few steps."""
    import torch

    from privet.attacks.shadows.orders import Order
    from privet.attacks.shadows.stacked import Stacked, seconds_per_model_step
    from privet.attacks.shadows.torch_recipe import TorchRecipe, fresh, table, train_one

    recipe = job.recipe
    assert isinstance(recipe, TorchRecipe)
    chosen = [np.flatnonzero(job.members[model]) for model in models]
    total = [Order(rows, epochs=recipe.epochs, batch_size=recipe.batch_size, seed=0).steps for rows in chosen]
    made = fresh(recipe, job.seeds[models[0]])
    inputs, labels = table(made.module, job.inputs), torch.as_tensor(job.labels)

    def alone(steps: int) -> None:
        train_one(recipe, made, inputs, labels, chosen[0], job.seeds[models[0]], steps=steps)

    each = timed(alone, total[0])
    threads = torch.get_num_threads()
    single = each
    if threads > 1:
        torch.set_num_threads(1)
        try:
            single = timed(alone, total[0])
        finally:
            torch.set_num_threads(threads)
    stacked, processes = Stacked(), Processes(cores)
    return (
        Estimate(Sequential(), each * sum(total)),
        by_seconds(
            stacked,
            job,
            lambda: seconds_per_model_step(stacked, job, recipe, inputs, labels, models) * sum(total),
        ),
        by_seconds(processes, job, lambda: in_processes(single * max(total), len(models), cores)),
    )
