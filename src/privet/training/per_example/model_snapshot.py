"""A snapshot of a model's modules and parameters. It shows a change between two steps.

If a layer is replaced, or a parameter is replaced, frozen or thawed, what was learnt about the model is no
longer true. Walking through the whole model in every step would cost as much as a small step. So the snapshot
remembers every dictionary that holds a part, and checks in every step that the same part is still there.
"""

from itertools import chain
from typing import Any, final

from torch import nn

from privet.torch_internals import get_children, get_parameters

__all__ = ["ModelSnapshot"]


@final
class ModelSnapshot:
    """The modules and parameters of a model at one time, by identity."""

    __slots__ = ("_flags", "_parts", "_sizes", "_types")

    def __init__(self, model: nn.Module) -> None:
        modules = list(model.modules())
        self._types = [(m, type(m), m.__dict__.get("forward")) for m in modules]
        holders: list[dict[str, Any]] = list(
            chain.from_iterable((get_children(m), get_parameters(m)) for m in modules)
        )
        self._sizes = [(h, len(h)) for h in holders]
        self._parts = [(h, name, part) for h in holders for name, part in h.items()]
        self._flags = [(p, p.requires_grad) for p in model.parameters()]

    def unchanged(self) -> bool:
        """Whether every part is where it was, has the same type, and is trainable or frozen as before."""
        for holder, size in self._sizes:
            if len(holder) != size:
                return False
        for holder, name, part in self._parts:
            if holder.get(name, holder) is not part:
                return False
        for module, kind, forward in self._types:
            if module.__class__ is not kind or module.__dict__.get("forward") is not forward:
                return False
        return all(parameter.requires_grad is flag for parameter, flag in self._flags)
