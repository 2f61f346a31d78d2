"""What a model is made of, so that a change between two steps is seen before anything stale is used.

A layer that is put in place of another, a parameter that is replaced, frozen or thawed: what was learnt of the model
no longer holds. To look through the whole model in every step would cost as much as a small step. So all places where a
part is kept are remembered, and in every step each is asked whether the same part is still there.
"""

from itertools import chain
from typing import Any, final

from torch import nn

__all__ = ["Inventory"]


@final
class Inventory:
    """The modules and parameters of a model at one time, by identity."""

    __slots__ = ("_flags", "_kinds", "_parts", "_sizes")

    def __init__(self, model: nn.Module) -> None:
        modules = list(model.modules())
        self._kinds = [(m, type(m), m.__dict__.get("forward")) for m in modules]
        holders: list[dict[str, Any]] = list(
            chain.from_iterable((m._modules, m._parameters) for m in modules)
        )
        self._sizes = [(h, len(h)) for h in holders]
        self._parts = [(h, name, part) for h in holders for name, part in h.items()]
        self._flags = [(p, p.requires_grad) for p in model.parameters()]

    def holds(self) -> bool:
        """Whether every part is where it was, of the type it was, and as trainable as it was."""
        for holder, size in self._sizes:
            if len(holder) != size:
                return False
        for holder, name, part in self._parts:
            if holder.get(name, holder) is not part:
                return False
        for module, kind, forward in self._kinds:
            if module.__class__ is not kind or module.__dict__.get("forward") is not forward:
                return False
        return all(parameter.requires_grad is flag for parameter, flag in self._flags)
