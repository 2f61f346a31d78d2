"""Optimisers that know the noise. Any other torch optimiser works too: it is post-processing."""

from collections.abc import Iterable, Sequence
from typing import Any, final

import torch
from torch import Tensor
from torch.optim import Optimizer

from privet.arguments import at_least, positive
from privet.errors import InvalidArgument

__all__ = ["CorrectedAdam"]


@final
class CorrectedAdam(Optimizer):
    """Adam, with the variance of the noise subtracted from the second moment.

    The squares of a noisy gradient are too large by the variance of the noise, which is public and the same
    in all coordinates. Where the noise dominates, plain Adam becomes momentum with a smaller step. The step
    here is η m̂/√max(v̂ − φ̂, floor). φ̂ is the variance of the noise, averaged like v̂, so it is also right
    for an adaptive clip bound. ``floor`` is the square of the smallest gradient that counts.

    The private loop sets ``noise_deviation`` before each step.

    Reference: Tang, Shpilevskiy & Lécuyer 2023, Algorithm 1 (DP-AdamBC).
    """

    def __init__(
        self,
        params: Iterable[Tensor],
        lr: float = 1e-3,
        *,
        betas: Sequence[float] = (0.9, 0.999),
        floor: float = 1e-8,
    ) -> None:
        positive("lr", lr)
        positive("floor", floor)
        if len(betas) != 2 or not all(0 <= beta < 1 for beta in betas):
            raise InvalidArgument(f"'betas' must be two numbers in [0, 1), got {betas!r}. Use (0.9, 0.999).")
        try:
            super().__init__(params, {"lr": lr, "betas": tuple(betas), "floor": floor})
        except Exception as refused:  # torch says which of them is wrong
            raise InvalidArgument(
                f"'params' must be the parameters of a model, and torch refuses them "
                f"({type(refused).__name__}). Give model.parameters()."
            ) from refused
        self.noise_deviation = 0.0

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]  # noqa: ANN401 - as in torch
        """Take one step on the noisy gradient."""
        if closure is not None:
            raise InvalidArgument(
                "'closure' must be None, because a noisy gradient is computed once. Leave it out."
            )
        variance = at_least("noise_deviation", self.noise_deviation, 0) ** 2
        for group in self.param_groups:
            first, second = group["betas"]
            for parameter in group["params"]:
                if parameter.grad is not None:
                    self._update(parameter, parameter.grad, group, first, second, variance)

    def _update(
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
        correction = 1 - second ** state["step"]
        scale = square.div(correction).sub_(state["noise"] / correction).clamp_(min=group["floor"]).sqrt_()
        parameter.addcdiv_(mean, scale, value=-group["lr"] / (1 - first ** state["step"]))
