"""The training loop of a stack: every model's own batch, loss weights and learning rate, side by side.

Model k takes its own t-th batch at step t. Smaller batches are padded with rows of weight 0. A model that has
taken all of its steps has learning rate 0 until the others are done. So each model is updated exactly as it
would be by itself.
"""

import threading
from collections.abc import Sequence
from typing import final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from privet.attacks.shadows.engine import Tick
from privet.attacks.shadows.functional import Functional
from privet.attacks.shadows.optimizers import LearningRate
from privet.attacks.shadows.orders import Order
from privet.attacks.shadows.stacked_mlp import StackedMLP, chain_layers
from privet.attacks.shadows.torch_recipe import InitialModel, TorchRecipe, augmentation_generator
from privet.attacks.torch_outputs import require_two_classes

__all__ = ["train_stack"]


def train_stack(
    recipe: TorchRecipe,
    made: Sequence[InitialModel],
    inputs: Tensor,
    labels: Tensor,
    members: Sequence[NDArray[np.intp]],
    seeds: Sequence[int],
    *,
    steps: int | None = None,
    tick: Tick | None = None,
    cancelled: threading.Event | None = None,
) -> None:
    """Train the modules together, in place; ``steps`` ends it early, for a measurement."""
    modules = [initial.module.train() for initial in made]
    orders = [
        Order(rows, epochs=recipe.epochs, batch_size=recipe.batch_size, seed=seed)
        for rows, seed in zip(members, seeds, strict=True)
    ]
    gives = recipe.outputs(modules[0], inputs)
    require_two_classes(modules[0], inputs, labels)
    chain = isinstance(chain_layers(modules[0], inputs.shape[1:], gives), list)
    stack: StackedMLP | Functional
    if chain:
        states = [initial.state for initial in made]
        stack = StackedMLP([_layers(module, inputs) for module in modules], states, recipe.optimizer)
    else:
        stack = Functional(modules, recipe.optimizer, gives)
    batches = _Batches(recipe, orders, inputs, labels, seeds, flat=chain)
    most_steps = max(order.steps for order in orders)
    last = most_steps if steps is None else min(steps, most_steps)
    with torch.no_grad():
        for step in range(last):
            if cancelled is not None and cancelled.is_set():
                return
            rows, targets, shares, sizes = batches.at(step)
            stack.step(rows, targets, shares, sizes, _learning_rate(recipe, orders, step))
            if tick is not None:
                tick(1 / last)
    stack.write_back()


@final
class _Batches:
    """The models' batches side by side.

    Where all models have equally many members, a whole epoch is prepared at once.
    """

    def __init__(
        self,
        recipe: TorchRecipe,
        orders: Sequence[Order],
        inputs: Tensor,
        labels: Tensor,
        seeds: Sequence[int],
        *,
        flat: bool,
    ) -> None:
        self._augment, self._size, self._orders = recipe.augmentation, recipe.batch_size, orders
        self._inputs = inputs.flatten(1) if flat and self._augment is None else inputs
        self._labels, self._flat = labels, flat
        self._shape = self._inputs.shape[1:]
        self._buffer = torch.empty(len(orders) * self._size, *self._shape, dtype=inputs.dtype)
        self._generators = [augmentation_generator(seed) for seed in seeds]
        self._equal = len({(order.steps, order.members) for order in orders}) == 1
        self._epoch = -1
        self._rows = self._targets = torch.empty(0)

    def at(self, step: int) -> tuple[Tensor, Tensor, float | Tensor, list[int]]:
        """Inputs, labels, the weight of each row in its model's mean loss, and each model's rows without
        padding.
        """
        rows, targets, shares, sizes = (
            self._equal_batches(step) if self._equal else self._padded_batches(step)
        )
        count = rows.numel()
        if self._augment is None:
            batch = torch.index_select(self._inputs, 0, rows.reshape(-1), out=self._buffer[:count])
            batch = batch.view(*rows.shape, *self._shape)
        else:
            batch = self._inputs[rows]
            for model, (size, generator) in enumerate(zip(sizes, self._generators, strict=True)):
                if size:
                    batch[model, :size] = self._augment(batch[model, :size].clone(), generator)
            batch = batch.flatten(2) if self._flat else batch
        return batch, targets, shares, sizes

    def _equal_batches(self, step: int) -> tuple[Tensor, Tensor, float, list[int]]:
        epoch, batch = divmod(step, self._orders[0].batches_per_epoch)
        if epoch != self._epoch:
            self._rows = torch.from_numpy(np.stack([order.epoch(epoch) for order in self._orders]))
            self._targets, self._epoch = self._labels[self._rows], epoch
        part = slice(batch * self._size, (batch + 1) * self._size)
        rows = self._rows[:, part]
        return rows, self._targets[:, part], 1 / rows.shape[1], [rows.shape[1]] * len(self._orders)

    def _padded_batches(self, step: int) -> tuple[Tensor, Tensor, Tensor, list[int]]:
        sizes = [order.size(step) for order in self._orders]
        rows = np.zeros((len(sizes), max(sizes)), dtype=np.int64)
        for row, size, order in zip(rows, sizes, self._orders, strict=True):
            if size:
                row[:size] = order.batch(step)
        counts = torch.tensor(sizes).unsqueeze(1)
        shares = (torch.arange(rows.shape[1]) < counts) / counts.clamp_min(1)
        padded = torch.from_numpy(rows)
        return padded, self._labels[padded], shares.to(self._inputs.dtype), sizes


def _layers(module: nn.Module, inputs: Tensor) -> list[nn.Module]:
    layers = chain_layers(module, inputs.shape[1:])
    assert isinstance(layers, list)
    return layers


def _learning_rate(recipe: TorchRecipe, orders: Sequence[Order], step: int) -> LearningRate:
    lengths = {order.steps for order in orders}
    rates = {steps: recipe.rate(step, steps) if step < steps else 0.0 for steps in lengths}
    if len(lengths) == 1:
        return rates[orders[0].steps]
    return torch.tensor([rates[order.steps] for order in orders])
