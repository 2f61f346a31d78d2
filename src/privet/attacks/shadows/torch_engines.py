"""How long each engine would take for a torch recipe.

Only ``choice`` imports it, and only where torch is in use.
"""

from collections.abc import Sequence

import numpy as np
import torch

from privet.attacks.shadows.engine import Job, Sequential
from privet.attacks.shadows.orders import Order
from privet.attacks.shadows.processes import Processes
from privet.attacks.shadows.stacked import Stacked, seconds_per_model_step, time_with_threads
from privet.attacks.shadows.timing import Estimate, estimate, seconds_in_processes
from privet.attacks.shadows.torch_recipe import TorchRecipe, initialize_model, to_tensor, train_model
from privet.attacks.torch_inputs import to_model_inputs

__all__ = ["estimate_engines"]


def estimate_engines(job: Job, models: Sequence[int], cores: int) -> tuple[Estimate, ...]:
    """An estimate of each engine, from a few steps."""
    recipe = job.recipe
    assert isinstance(recipe, TorchRecipe)
    members = [np.flatnonzero(job.members[model]) for model in models]
    steps = [
        Order(rows, epochs=recipe.epochs, batch_size=recipe.batch_size, seed=0).steps for rows in members
    ]
    made = initialize_model(recipe, job.seeds[models[0]])
    inputs, labels = to_model_inputs(made.module, job.inputs), torch.as_tensor(job.labels)

    def train_alone(count: int) -> None:
        train_model(recipe, made, inputs, labels, members[0], job.seeds[models[0]], steps=count)

    with_one_thread, seconds_per_step = time_with_threads(train_alone, steps[0])
    stacked, processes = Stacked(), Processes(cores)
    return (
        Estimate(Sequential(), seconds_per_step * sum(steps)),
        estimate(
            stacked,
            job,
            lambda: (
                seconds_per_model_step(
                    stacked,
                    job,
                    recipe,
                    to_tensor(made.module, job.inputs),
                    labels,
                    models,
                    seconds_per_step,
                )
                * sum(steps)
            ),
        ),
        estimate(
            processes, job, lambda: seconds_in_processes(with_one_thread * max(steps), len(models), cores)
        ),
    )
