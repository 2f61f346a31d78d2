"""A plugin for pytest: the tests of this process compute clipped sums on the second device.

``ClippedSums`` gets a copy of the model, and the lots, on the device. The sums and norms come back to the CPU, where the
tests compare them with their oracle. So the laws of the CPU are those of the device.
"""

import copy
from contextlib import nullcontext

import torch
from second_device import DEVICE, with_float64
from torch import nn

import privet.training
import privet.training.loop.step
import privet.training.per_example
from privet.training.double_precision import has_float64
from privet.training.per_example import ClippedSums

Real = ClippedSums
assert not has_float64(DEVICE)  # from now on, also for the few models in float64


class OnSecondDevice:
    """``ClippedSums`` of a copy of the model on the second device."""

    def __init__(self, model, loss, clipping, **options):
        self._here = model
        is_double = any(p.dtype is torch.float64 for p in model.parameters())
        self._device = with_float64 if is_double else nullcontext
        with self._device():
            self._there = copy.deepcopy(model).to(DEVICE)
            self._sums = Real(self._there, _move_loss(loss), clipping, **options)

    def add(self, inputs, targets, out, **options):
        with self._device():
            with torch.no_grad():
                for own, moved in zip(self._here.parameters(), self._there.parameters(), strict=True):
                    moved.copy_(own)
            there = out.to(DEVICE)
            norms = self._sums.add(tuple(x.to(DEVICE) for x in inputs), targets.to(DEVICE), there, **options)
            out.copy_(there)
            return norms.cpu()

    def __getattr__(self, name):
        return getattr(self._sums, name)


def _move_loss(loss):
    return copy.deepcopy(loss).to(DEVICE) if isinstance(loss, nn.Module) else loss


privet.training.per_example.ClippedSums = OnSecondDevice
privet.training.ClippedSums = OnSecondDevice
