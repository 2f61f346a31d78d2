"""What a forward pass writes into a model: no noise covers it, so it is refused.

A running mean in a buffer, a codebook that follows its inputs, or the range that a quantiser has seen would be published
with the weights, while the ledger covers gradients alone.

Buffers that are not saved with the model (``persistent=False``) are scratch space, and allowed; so are the vectors of spectral
normalisation, which follow the weights. Of all others a copy is kept. Torch counts the writes to a tensor: where the count has
gone on, and in the first step, because writes by way of ``.data`` are not counted, the values are compared, and put back if
they differ. Parameters are watched by their counts alone.
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
class _Watched:
    """A buffer, and what it was when it was last seen."""

    name: str
    holder: dict[str, Tensor | None]
    key: str
    value: Tensor | None = None
    writes: int = -1
    copy: Tensor | None = None
    fresh: bool = True

    def look(self) -> None:
        """See what a step begins with; others than the model may have changed it."""
        value = self.holder[self.key]
        self.fresh = self.copy is None or value is not self.value or _writes(value) != self.writes
        if self.fresh:
            self.value, self.writes = value, _writes(value)
            self.copy = None if value is None else value.clone()

    def is_changed(self) -> bool:
        """Whether it is another now; it is then put back."""
        now = self.holder[self.key]
        if now is self.value and _writes(now) == self.writes and not self.fresh:
            return False
        self.holder[self.key] = self.value
        changed = now is not self.value
        if self.value is not None and self.copy is not None and not _same(self.copy, self.value):
            self.value.data.copy_(self.copy)
            changed = True
        self.writes = _writes(self.value)
        return changed


@final
class SideEffects:
    """Watches over the parameters and the saved buffers of one model."""

    def __init__(self, model: nn.Module) -> None:
        self._parameters = list(model.named_parameters())
        self._buffers = [
            _Watched(f"{path}.{name}" if path else name, get_buffers(module), name)
            for path, module in model.named_modules()
            for name in get_buffers(module)
            if is_persistent(module, name) and name not in _follows_weights(module)
        ]

    @contextmanager
    def refused(self) -> Iterator[None]:
        """A block that leaves the model as it was, or raises."""
        written = [get_version(value) for _, value in self._parameters]
        for buffer in self._buffers:
            buffer.look()
        try:
            yield
        except BaseException:
            for buffer in self._buffers:
                buffer.is_changed()  # put back, so that the next try begins where this one did
            raise
        changed = [buffer.name for buffer in self._buffers if buffer.is_changed()]
        for (name, value), count in zip(self._parameters, written, strict=True):
            if get_version(value) != count:
                changed.append(name)
        if changed:
            raise InvalidArgument(
                f"'model' must not write into itself when it is called, got '{changed[0]}', which its forward pass changes, and "
                f"which would be published without noise. Put that part into evaluation mode, or register a buffer with "
                f"persistent=False."
            )


def _same(first: Tensor, value: Tensor) -> bool:
    """Equal, where a NaN is equal to itself."""
    return bool(((first == value) | (first.isnan() & value.isnan())).all())


def _writes(value: Tensor | None) -> int:
    return -1 if value is None or value.is_inference() else get_version(value)


def _follows_weights(module: nn.Module) -> set[str]:
    if isinstance(module, SpectralNormParametrization):
        return {"_u", "_v"}
    hooks = [hook for hook in get_forward_pre_hooks(module).values() if isinstance(hook, SpectralNorm)]
    return {f"{hook.name}_{vector}" for hook in hooks for vector in "uv"}
