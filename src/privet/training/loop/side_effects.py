"""Side effects: refuse a forward pass that writes private data into the model, because no noise covers it.

A running mean in a buffer, a codebook that follows its inputs, or the range of a quantiser would be published
with the weights. But the ledger covers gradients only.

Buffers that are not saved with the model (``persistent=False``) are scratch space, and allowed. So are the
vectors of spectral normalisation, which depend on the weights only. All other buffers are copied. Torch
counts the writes to a tensor. The values are compared if the count has changed, and in the first step,
because writes through ``.data`` are not counted. A buffer that differs is restored. Parameters are checked by
their counts only.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import final

from torch import Tensor, nn
from torch.nn.utils.spectral_norm import SpectralNorm

from privet.errors import InvalidArgument
from privet.torch_internals import (
    SpectralNormParametrization,
    get_buffers,
    get_forward_pre_hooks,
    get_version,
    is_persistent,
)

__all__ = ["SideEffects"]


@final
@dataclass(slots=True)
class _BufferSnapshot:
    """A buffer, and its value at the beginning of the step."""

    name: str
    buffers: dict[str, Tensor | None]
    key: str
    value: Tensor | None = None
    writes: int = -1
    copy: Tensor | None = None
    is_new: bool = True

    def record(self) -> None:
        """Record the value before a step. Code outside of the model may have changed it."""
        value = self.buffers[self.key]
        self.is_new = self.copy is None or value is not self.value or _count_writes(value) != self.writes
        if self.is_new:
            self.value, self.writes = value, _count_writes(value)
            self.copy = None if value is None else value.clone()

    def restore(self) -> bool:
        """Restore the recorded value. Return whether it had changed."""
        now = self.buffers[self.key]
        if now is self.value and _count_writes(now) == self.writes and not self.is_new:
            return False
        self.buffers[self.key] = self.value
        changed = now is not self.value
        if self.value is not None and self.copy is not None and not _are_equal(self.copy, self.value):
            self.value.data.copy_(self.copy)
            changed = True
        self.writes = _count_writes(self.value)
        return changed


@final
class SideEffects:
    """Watches the parameters and the saved buffers of one model."""

    def __init__(self, model: nn.Module) -> None:
        self._parameters = list(model.named_parameters())
        self._buffers = [
            _BufferSnapshot(f"{path}.{name}" if path else name, get_buffers(module), name)
            for path, module in model.named_modules()
            for name in get_buffers(module)
            if is_persistent(module, name) and name not in _weight_buffers(module)
        ]

    @contextmanager
    def forbid(self) -> Iterator[None]:
        """Raise if the block changes the model, and restore the buffers."""
        writes = [get_version(value) for _, value in self._parameters]
        for buffer in self._buffers:
            buffer.record()
        try:
            yield
        except BaseException:
            for buffer in self._buffers:
                buffer.restore()  # so that the next attempt starts from the same state
            raise
        changed = [buffer.name for buffer in self._buffers if buffer.restore()]
        for (name, value), count in zip(self._parameters, writes, strict=True):
            if get_version(value) != count:
                changed.append(name)
        if changed:
            raise InvalidArgument(
                f"'model' must not write into itself in its forward pass, got a write to '{changed[0]}', "
                "which would be published without noise. Put that submodule into evaluation mode, or "
                "register the buffer with persistent=False."
            )


def _are_equal(first: Tensor, second: Tensor) -> bool:
    """Whether they are equal, where NaN equals NaN."""
    return bool(((first == second) | (first.isnan() & second.isnan())).all())


def _count_writes(value: Tensor | None) -> int:
    return -1 if value is None or value.is_inference() else get_version(value)


def _weight_buffers(module: nn.Module) -> set[str]:
    if isinstance(module, SpectralNormParametrization):
        return {"_u", "_v"}
    hooks = [hook for hook in get_forward_pre_hooks(module).values() if isinstance(hook, SpectralNorm)]
    return {f"{hook.name}_{vector}" for hook in hooks for vector in "uv"}
