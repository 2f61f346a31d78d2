"""Memory that is reused in every step. Fresh memory is slow, because its pages must be mapped first."""

import math
from typing import final

import torch
from torch import Tensor

__all__ = ["Scratch"]

SMALL = 1 << 14
"""Smaller tensors come from torch's own allocator, which caches them."""


@final
class _Buffer:
    __slots__ = ("in_use", "memory", "needed")

    def __init__(self, size: int) -> None:
        self.memory = torch.empty(size)
        self.in_use = self.needed = True


@final
class Scratch:
    """Memory for numbers that are not needed after the pass that borrowed it."""

    __slots__ = ("_buffers",)

    def __init__(self) -> None:
        self._buffers: list[_Buffer] = []

    def start_pass(self) -> None:
        """Free what the last pass borrowed, and drop what it did not need."""
        self._buffers = [buffer for buffer in self._buffers if buffer.needed]
        for buffer in self._buffers:
            buffer.in_use = buffer.needed = False

    def borrow(self, like: Tensor, *shape: int) -> Tensor:
        """An uninitialised tensor of the type of ``like``. Nothing else uses its memory in this pass."""
        size = math.prod(shape)
        if size < SMALL or like.dtype is not torch.float32 or not like.is_cpu:
            return like.new_empty(shape)
        fitting = [b for b in self._buffers if not b.in_use and size <= b.memory.numel() <= 2 * size]
        if fitting:
            chosen = min(fitting, key=lambda buffer: buffer.memory.numel())
            chosen.in_use = chosen.needed = True
        else:
            chosen = _Buffer(size + size // 8)  # lots differ in size
            self._buffers.append(chosen)
        return chosen.memory[:size].view(shape)

    def release(self, borrowed: Tensor) -> None:
        """Free a borrowed tensor before the pass ends."""
        address = borrowed.untyped_storage().data_ptr()
        for buffer in self._buffers:
            if buffer.memory.untyped_storage().data_ptr() == address:
                buffer.in_use = False
