"""Optimisers that know of the noise. Any other optimiser of torch works too: it is post-processing."""

from collections.abc import Iterable
from typing import Any, final

import torch
from torch import Tensor
from torch.optim import Optimizer

from privet.arguments import at_least, positive
from privet.errors import InvalidArgument

__all__ = ["CorrectedAdam"]


@final
class CorrectedAdam(Optimizer):
    """Adam, with the noise's own variance taken off the second moment.

    The squares of a noisy gradient are too large by the variance of the noise, which is public and the same in all
    coordinates; where it dominates, Adam becomes momentum with a smaller step. The step is
    η m̂/√max(v̂ − φ̂, floor), where φ̂ is the noise's variance, averaged as v̂ is, so that it is right for a clip bound that
    adapts too. ``floor`` is the square of the smallest gradient that counts.

    ``noise_deviation`` is set by the private loop before each step.

    Reference: Tang, Shpilevskiy & Lécuyer 2023, Algorithm 1 (DP-AdamBC).
    """

    def __init__(
        self,
        params: Iterable[Tensor],
        lr: float = 1e-3,
        *,
        betas: tuple[float, float] = (0.9, 0.999),
        floor: float = 1e-8,
    ) -> None:
        positive("lr", lr)
        positive("floor", floor)
        for beta in betas:
            if not 0 <= beta < 1:
                raise InvalidArgument(f"'betas' must lie in [0, 1), got {betas!r}. Use (0.9, 0.999).")
        try:
            super().__init__(params, {"lr": lr, "betas": betas, "floor": floor})
        except Exception as refused:  # torch says which of them is none
            raise InvalidArgument(
                f"'params' must be the parameters of a model, and torch refuses them ({type(refused).__name__}). "
                f"Give model.parameters()."
            ) from refused
        self.noise_deviation = 0.0

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]  # noqa: ANN401 - as torch has it
        """One step on the noisy gradient."""
        if closure is not None:
            raise InvalidArgument(
                "'closure' must be None, because a noisy gradient is drawn once. Leave it out."
            )
        variance = at_least("noise_deviation", self.noise_deviation, 0) ** 2
        for group in self.param_groups:
            first, second = group["betas"]
            for parameter in group["params"]:
                if parameter.grad is not None:
                    self._move(parameter, parameter.grad, group, first, second, variance)

    def _move(
        self,
        parameter: Tensor,
        gradient: Tensor,
        group: dict[str, Any],
        first: float,
        second: float,
        variance: float,
    ) -> None:
        state = self.state[parameter]
        if not state:
            state["step"], state["noise"] = 0, 0.0
            state["mean"], state["square"] = torch.zeros_like(parameter), torch.zeros_like(parameter)
        state["step"] += 1
        state["noise"] = second * state["noise"] + (1 - second) * variance
        mean, square = state["mean"], state["square"]
        mean.lerp_(gradient, 1 - first)
        square.mul_(second).addcmul_(gradient, gradient, value=1 - second)
        seen = 1 - second ** state["step"]
        scale = square.div(seen).sub_(state["noise"] / seen).clamp_(min=group["floor"]).sqrt_()
        parameter.addcdiv_(mean, scale, value=-group["lr"] / (1 - first ** state["step"]))
