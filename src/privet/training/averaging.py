"""An average of the weights over the steps: noise averages out, and what is averaged was already private.

Reference: De et al. 2022, Section 3.4; Polyak & Juditsky 1992 for averaging itself.
"""

from typing import Any, final

import torch
from torch import Tensor, nn

from privet.arguments import open_fraction
from privet.errors import InvalidArgument

__all__ = ["MovingAverage"]

_OTHER_MODEL = "'model' must be the one that the average began with, and its parameters are others. Call begin(model) first."


@final
class MovingAverage:
    """θ̄ ← d_t θ̄ + (1 − d_t) θ, with d_t = min(decay, (1 + t)/(10 + t)), so that early weights are forgotten sooner.

    Buffers are the model's own: they are taken as they are in the end.
    """

    def __init__(self, decay: float = 0.999) -> None:
        self.decay = open_fraction("decay", decay)
        self._weights: list[Tensor] = []
        self._steps = 0

    def begin(self, model: nn.Module) -> None:
        """Start from the weights of now."""
        if any(nn.parameter.is_lazy(p) for p in model.parameters()):
            raise InvalidArgument("'model' must know its shapes, got lazy layers. Give it one batch first.")
        self._weights = [p.detach().clone() for p in model.parameters()]
        self._steps = 0

    @torch.no_grad()
    def follow(self, model: nn.Module) -> None:
        """Take in the weights that a step left."""
        steps = self._steps + 1
        kept = min(self.decay, (1 + steps) / (10 + steps))
        try:
            torch._foreach_lerp_(self._weights, [p.detach() for p in model.parameters()], 1 - kept)
        except (RuntimeError, ValueError):
            raise InvalidArgument(_OTHER_MODEL) from None
        self._steps = steps

    @torch.no_grad()
    def load_into(self, model: nn.Module) -> None:
        """Give the model the averaged weights."""
        try:
            for parameter, weight in zip(model.parameters(), self._weights, strict=True):
                parameter.copy_(weight)
        except (RuntimeError, ValueError):
            raise InvalidArgument(_OTHER_MODEL) from None

    def state(self) -> dict[str, Any]:
        """What ``resume`` needs."""
        return {"steps": self._steps, "weights": self._weights}

    def resume(self, state: dict[str, Any]) -> None:
        """Go on where ``state`` was taken."""
        try:
            steps, weights = int(state["steps"]), list(state["weights"])
            for mine, theirs in zip(self._weights, weights, strict=True):
                mine.copy_(theirs)
        except (KeyError, TypeError, ValueError, RuntimeError, AttributeError):
            raise InvalidArgument(
                "'state' must be what 'state' gave for the same model, and is not. Give it unchanged."
            ) from None
        self._steps = steps
