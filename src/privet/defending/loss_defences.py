"""Training defences that change the loss of a batch, and the loop that they share.

The loop is that of ``TorchRecipe``: the same initial weights, order of records, schedule and optimizer for
the same seed. So a defence of strength 0 gives the plain model, bit for bit.
"""

import hashlib
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from privet.attacks.outputs import Outputs
from privet.attacks.shadows.fingerprints import fingerprint
from privet.attacks.shadows.orders import Order
from privet.attacks.shadows.recipe import Recipe
from privet.attacks.shadows.torch_recipe import (
    InitialModel,
    TorchRecipe,
    augmentation_generator,
    initialize_model,
)
from privet.attacks.torch_inputs import to_model_inputs
from privet.defending.defence import TrainingDefence
from privet.errors import InvalidArgument
from privet.views import BlackBox, Labels, Rows

__all__ = ["BatchLoss", "LossDefence", "LossRun", "hash_own_code", "require_torch_recipe", "train_by_loss"]


@final
@dataclass(frozen=True)
class LossBatch:
    """One step: the inputs, the labels, their places among the model's records, and the epoch from 0."""

    inputs: Tensor
    labels: Tensor
    places: Tensor
    epoch: int


BatchLoss = Callable[[nn.Module, LossBatch], Tensor]


@final
@dataclass(frozen=True, eq=False)
class LossRun:
    """One training before its first step."""

    recipe: TorchRecipe
    inputs: Tensor
    labels: Tensor
    classes: int
    seed: int


class LossDefence(TrainingDefence):
    """A defence that is a loss.

    ``begin`` may train other models first; ``trained_on`` are the places of the records that the steps use;
    ``finish`` is what users see of the trained module.
    """

    @abstractmethod
    def begin(self, run: LossRun) -> BatchLoss:
        """The loss of every batch of one training."""

    def trained_on(self, records: int, seed: int) -> NDArray[np.intp]:
        """The places of the records that the steps use: all of them, unless the defence needs some apart."""
        del seed
        return np.arange(records)

    def finish(self, run: LossRun, module: nn.Module) -> BlackBox:
        """The view of the trained module."""
        return run.recipe.view(module)

    def protect(self, recipe: Recipe) -> Recipe:
        return _LossRecipe(require_torch_recipe(recipe, self.name), self)


@final
@dataclass(frozen=True, eq=False)
class _LossRecipe(Recipe):
    """A torch recipe with another loss."""

    inner: TorchRecipe
    defence: LossDefence

    def fit(self, inputs: Rows, labels: Labels, seed: int) -> BlackBox:
        made = initialize_model(self.inner, seed)
        rows = to_model_inputs(made.module, inputs)
        if not isinstance(rows, Tensor) or self.inner.outputs(made.module, rows) is not Outputs.LOGITS:
            raise InvalidArgument(
                f"'recipe' must have one input and give the logits of every class for the defence "
                f"{self.defence.name!r}, got something else. Leave the last softmax out."
            )
        run = LossRun(self.inner, rows, torch.as_tensor(labels), _count_classes(made.module, rows), seed)
        train_by_loss(run, made, self.defence.begin(run), self.defence.trained_on(len(rows), seed))
        return self.defence.finish(run, made.module)

    def description(self) -> str | None:
        return fingerprint((self.inner.description(), repr(self.defence), hash_own_code()))


def train_by_loss(run: LossRun, made: InitialModel, loss: BatchLoss, places: NDArray[np.intp]) -> None:
    """Train a module in place."""
    recipe, module = run.recipe, made.module
    generator = augmentation_generator(run.seed)
    order = Order(places, epochs=recipe.epochs, batch_size=recipe.batch_size, seed=run.seed)
    optimizer = recipe.optimizer.torch_optimizer(module.parameters(), recipe.learning_rate)
    module.train()
    with torch.random.fork_rng(devices=[]):
        torch.random.set_rng_state(made.state)
        for step in range(order.steps):
            rows = torch.from_numpy(order.batch(step))
            batch = run.inputs[rows]
            if recipe.augmentation is not None:
                batch = recipe.augmentation(batch, generator)
            for group in optimizer.param_groups:
                group["lr"] = recipe.rate(step, order.steps)
            with torch.enable_grad():
                found = loss(
                    module, LossBatch(batch, run.labels[rows], rows, step // order.batches_per_epoch)
                )
                optimizer.zero_grad(set_to_none=True)
                found.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
    module.eval()


def require_torch_recipe(recipe: Recipe, name: str) -> TorchRecipe:
    """The recipe, which must be one of torch: the defence changes its training."""
    if isinstance(recipe, TorchRecipe) and recipe.stopping is None:
        return recipe
    raise InvalidArgument(
        f"'recipe' must be a TorchRecipe without early stopping for the defence {name!r}, got a "
        f"{type(recipe).__name__}. Give TorchRecipe(model=…), or take a defence on answers."
    )


def _count_classes(module: nn.Module, inputs: Tensor) -> int:
    was_training = module.training
    module.eval()
    with torch.no_grad():
        shape = module(inputs[:2]).shape
    module.train(was_training)
    return int(shape[-1])


@cache
def hash_own_code() -> str:
    """A hash of the defences' code, so that a cache never gives the answers of older code."""
    digest = hashlib.sha256()
    for source in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(source.read_bytes())
    return digest.hexdigest()
