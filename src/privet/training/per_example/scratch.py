"""Memory that is used again in every step: fresh memory is slow, because its pages must be found first."""

import math
from typing import final

import torch
from torch import Tensor

__all__ = ["Scratch"]

SMALL = 1 << 14
"""How many numbers torch's own allocator has at hand."""


@final
class _Kept:
    __slots__ = ("memory", "needed", "taken")

    def __init__(self, size: int) -> None:
        self.memory = torch.empty(size)
        self.taken = self.needed = True


@final
class Scratch:
    """Room for numbers that nobody needs after the pass in which it was lent."""

    __slots__ = ("_kept",)

    def __init__(self) -> None:
        self._kept: list[_Kept] = []

    def begin(self) -> None:
        """A new pass: what was lent is free again, and what the last pass did not need is given up."""
        self._kept = [kept for kept in self._kept if kept.needed]
        for kept in self._kept:
            kept.taken = kept.needed = False

    def lend(self, like: Tensor, *shape: int) -> Tensor:
        """A tensor of the kind of ``like``, with anything in it, that is nobody else's until the next pass."""
        size = math.prod(shape)
        if size < SMALL or like.dtype is not torch.float32 or not like.is_cpu:
            return like.new_empty(shape)
        fitting = [k for k in self._kept if not k.taken and size <= k.memory.numel() <= 2 * size]
        if fitting:
            found = min(fitting, key=lambda kept: kept.memory.numel())
            found.taken = found.needed = True
        else:
            found = _Kept(size + size // 8)  # lots differ in size
            self._kept.append(found)
        return found.memory[:size].view(shape)

    def give_back(self, room: Tensor) -> None:
        """Free again before the pass ends, for whoever comes next."""
        where = room.untyped_storage().data_ptr()
        for kept in self._kept:
            if kept.memory.untyped_storage().data_ptr() == where:
                kept.taken = False
