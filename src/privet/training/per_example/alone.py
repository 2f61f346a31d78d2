"""Any loss, made per example: if it returns one number for a batch, it is called for every example alone.

The loss of an example is then what the function returns for a batch of this example only. A mean over a
batch is the mean of these numbers only if nothing else in it depends on the batch. This is checked in every
lot. A mean over all tokens of a batch fails the check, and so does one with class weights, which would
cancel in a batch of one.
"""

import warnings
from collections.abc import Callable
from typing import Any, final

import torch
from torch import Tensor
from torch.func import vmap

from privet.errors import InvalidArgument
from privet.torch_internals import map_tensors
from privet.training.double_precision import to_float64

__all__ = ["EachAlone"]

_TOLERANCE = 1e-3
"""The largest relative difference between a loss of a batch and the mean or sum of its examples' losses."""


@final
class EachAlone:
    """A loss of the user: a module or a function of (outputs, targets)."""

    __slots__ = ("_loss", "_needs_loop")

    def __init__(self, loss: Callable[[Any, Tensor], Tensor]) -> None:
        self._loss, self._needs_loop = loss, False

    def __call__(self, outputs: Any, targets: Tensor) -> Tensor:  # noqa: ANN401 - whatever the model returns
        try:
            losses = self._loss(outputs, targets)
        except TypeError as failure:
            raise InvalidArgument(
                f"'loss' must be a function of (outputs, targets), and raises TypeError: "
                f"{str(failure).partition(chr(10))[0]}. Give one that takes what the model returns."
            ) from failure
        if not isinstance(losses, Tensor) or losses.dim() or not losses.is_floating_point():
            return losses  # the engine refuses everything that is not one number for each example
        if len(targets) == 1:
            return losses.reshape(1)
        alone = self._map_examples(outputs, targets)
        _require_mean_or_sum(losses, alone)
        return alone

    def _map_examples(self, outputs: Any, targets: Tensor) -> Tensor:  # noqa: ANN401 - as above
        if not self._needs_loop:
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")  # of operations that vmap runs slowly
                    return vmap(self._compute_one)(outputs, targets)
            except Exception:
                # What stops vmap stops it for every lot. A fault of the loss itself is raised again below.
                self._needs_loop = True
        rows = [
            self._loss(map_tensors(lambda x, i=i: x[i : i + 1], outputs), targets[i : i + 1])
            for i in range(len(targets))
        ]
        return torch.stack([row.reshape(()) for row in rows])

    def _compute_one(self, output: Any, target: Tensor) -> Tensor:  # noqa: ANN401 - as above
        batch = map_tensors(lambda x: x.unsqueeze(0), output)
        return self._loss(batch, target.unsqueeze(0)).reshape(())


def _require_mean_or_sum(batch: Tensor, alone: Tensor) -> None:
    try:
        whole, losses = float(batch.detach()), to_float64(alone.detach())
    except RuntimeError:
        return  # inside vmap, where values cannot be read; a batch of one has nothing to compare
    slack = _TOLERANCE * float(losses.abs().max()) + 1e-6
    mean, total = float(losses.mean()), float(losses.sum())
    if abs(whole - mean) > slack and abs(whole - total) > slack * len(losses):
        raise InvalidArgument(
            "'loss' must be a mean or a sum over examples if it returns one number for a batch, and is "
            "neither: it has class weights, or a mean over the tokens of all examples. Return one number "
            "for each example."
        )
