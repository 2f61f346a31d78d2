"""The steps of a stack: every model's own batch, share of the loss and rate, put side by side.

Model k takes its own t-th batch at step t. Smaller batches are filled up with rows of weight 0; a model that has taken all of
its steps has rate 0 until the others are done. So each model moves exactly as it would by itself.
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
from privet.attacks.shadows.optimizers import Rate
from privet.attacks.shadows.orders import Order
from privet.attacks.shadows.stacked_mlp import Chain, layers_of
from privet.attacks.shadows.torch_recipe import Fresh, TorchRecipe, changes
from privet.attacks.torch_outputs import refuse_other_classes

__all__ = ["train_stack"]


def train_stack(
    recipe: TorchRecipe,
    made: Sequence[Fresh],
    inputs: Tensor,
    labels: Tensor,
    members: Sequence[NDArray[np.intp]],
    seeds: Sequence[int],
    *,
    steps: int | None = None,
    tick: Tick | None = None,
    ended: threading.Event | None = None,
) -> None:
    """Train the modules together, in place; ``steps`` ends it early, for a measurement."""
    modules = [one.module.train() for one in made]
    orders = [
        Order(rows, epochs=recipe.epochs, batch_size=recipe.batch_size, seed=seed)
        for rows, seed in zip(members, seeds, strict=True)
    ]
    gives = recipe.outputs(modules[0], inputs)
    refuse_other_classes(modules[0], inputs, labels)
    chain = isinstance(layers_of(modules[0], inputs.shape[1:], gives), list)
    stack: Chain | Functional
    if chain:
        states = [one.state for one in made]
        stack = Chain([_layers(module, inputs) for module in modules], states, recipe.optimizer)
    else:
        stack = Functional(modules, recipe.optimizer, gives)
    batches = _Batches(recipe, orders, inputs, labels, seeds, flat=chain)
    most = max(order.steps for order in orders)
    last = most if steps is None else min(steps, most)
    with torch.no_grad():
        for step in range(last):
            if ended is not None and ended.is_set():
                return
            rows, marks, shares, sizes = batches.at(step)
            stack.step(rows, marks, shares, sizes, _rate(recipe, orders, step))
            if tick is not None:
                tick(1 / last)
    stack.write_back()


@final
class _Batches:
    """The models' batches side by side. Where all have as many members, a whole epoch is put in order at once."""

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
        self._change, self._size, self._orders = recipe.augmentation, recipe.batch_size, orders
        self._inputs = inputs.flatten(1) if flat and self._change is None else inputs
        self._labels, self._flat = labels, flat
        self._shape = self._inputs.shape[1:]
        self._space = torch.empty(len(orders) * self._size, *self._shape, dtype=inputs.dtype)
        self._generators = [changes(seed) for seed in seeds]
        self._even = len({(order.steps, order.members) for order in orders}) == 1
        self._epoch = -1
        self._rows = self._marks = torch.empty(0)

    def at(self, step: int) -> tuple[Tensor, Tensor, float | Tensor, list[int]]:
        """Inputs, labels, each row's part in its model's mean loss, and how many rows of each model count."""
        rows, marks, shares, sizes = self._evenly(step) if self._even else self._unevenly(step)
        count = rows.numel()
        if self._change is None:
            batch = torch.index_select(self._inputs, 0, rows.reshape(-1), out=self._space[:count])
            batch = batch.view(*rows.shape, *self._shape)
        else:
            batch = self._inputs[rows]
            for model, (size, generator) in enumerate(zip(sizes, self._generators, strict=True)):
                if size:
                    batch[model, :size] = self._change(batch[model, :size].clone(), generator)
            batch = batch.flatten(2) if self._flat else batch
        return batch, marks, shares, sizes

    def _evenly(self, step: int) -> tuple[Tensor, Tensor, float, list[int]]:
        epoch, place = divmod(step, self._orders[0].each)
        if epoch != self._epoch:
            self._rows = torch.from_numpy(np.stack([order.epoch(epoch) for order in self._orders]))
            self._marks, self._epoch = self._labels[self._rows], epoch
        part = slice(place * self._size, (place + 1) * self._size)
        rows = self._rows[:, part]
        return rows, self._marks[:, part], 1 / rows.shape[1], [rows.shape[1]] * len(self._orders)

    def _unevenly(self, step: int) -> tuple[Tensor, Tensor, Tensor, list[int]]:
        sizes = [order.size(step) for order in self._orders]
        rows = np.zeros((len(sizes), max(sizes)), dtype=np.int64)
        for row, size, order in zip(rows, sizes, self._orders, strict=True):
            if size:
                row[:size] = order.batch(step)
        counts = torch.tensor(sizes).unsqueeze(1)
        shares = (torch.arange(rows.shape[1]) < counts) / counts.clamp_min(1)
        found = torch.from_numpy(rows)
        return found, self._labels[found], shares.to(self._inputs.dtype), sizes


def _layers(module: nn.Module, inputs: Tensor) -> list[nn.Module]:
    found = layers_of(module, inputs.shape[1:])
    assert isinstance(found, list)
    return found


def _rate(recipe: TorchRecipe, orders: Sequence[Order], step: int) -> Rate:
    lengths = {order.steps for order in orders}
    rates = {steps: recipe.rate(step, steps) if step < steps else 0.0 for steps in lengths}
    if len(lengths) == 1:
        return rates[orders[0].steps]
    return torch.tensor([rates[order.steps] for order in orders])
