"""A moving average of the weights: the noise averages out, and the weights are already private.

Reference: De et al. 2022, Section 3.4; Polyak & Juditsky 1992 for averaging itself.
"""

from typing import Any, final

import torch
from torch import Tensor, nn

from privet.arguments import open_fraction
from privet.errors import InvalidArgument
from privet.torch_internals import interpolate_all_

__all__ = ["MovingAverage"]

_OTHER_MODEL = (
    "'model' must be the one that the average began with, and its parameters are others. "
    "Call begin(model) first."
)


@final
class MovingAverage:
    """θ̄ ← d_t θ̄ + (1 − d_t) θ, with d_t = min(decay, (1 + t)/(10 + t)), which forgets early weights sooner.

    Buffers are not averaged: the model keeps its own.
    """

    def __init__(self, decay: float = 0.999) -> None:
        self.decay = open_fraction("decay", decay)
        self._weights: list[Tensor] = []
        self._steps = 0

    def begin(self, model: nn.Module) -> None:
        """Start from the current weights."""
        if any(nn.parameter.is_lazy(p) for p in model.parameters()):
            raise InvalidArgument("'model' must know its shapes, got lazy layers. Give it one batch first.")
        self._weights = [p.detach().clone() for p in model.parameters()]
        self._steps = 0

    @torch.no_grad()
    def update(self, model: nn.Module) -> None:
        """Add the weights after a step."""
        steps = self._steps + 1
        decay = min(self.decay, (1 + steps) / (10 + steps))
        try:
            interpolate_all_(self._weights, [p.detach() for p in model.parameters()], 1 - decay)
        except (RuntimeError, ValueError):
            raise InvalidArgument(_OTHER_MODEL) from None
        self._steps = steps

    @torch.no_grad()
    def load_into(self, model: nn.Module) -> None:
        """Copy the averaged weights into the model."""
        try:
            for parameter, weight in zip(model.parameters(), self._weights, strict=True):
                parameter.copy_(weight)
        except (RuntimeError, ValueError):
            raise InvalidArgument(_OTHER_MODEL) from None

    def state(self) -> dict[str, Any]:
        """What ``resume`` needs."""
        return {"steps": self._steps, "weights": self._weights}

    def resume(self, state: dict[str, Any]) -> None:
        """Continue from ``state``."""
        try:
            steps, weights = int(state["steps"]), list(state["weights"])
            for weight, saved in zip(self._weights, weights, strict=True):
                weight.copy_(saved)
        except (KeyError, TypeError, ValueError, RuntimeError, AttributeError):
            raise InvalidArgument(
                "'state' must be what 'state' gave for the same model, and is not. Give it unchanged."
            ) from None
        self._steps = steps
