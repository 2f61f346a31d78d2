"""What the server does with the mean update: add it, with momentum, or as Adam does.

The mean update stands for the negative gradient. Everything here is a function of noisy updates, so it is
post-processing: an optimiser costs no privacy.

Reference: Reddi et al. 2021, Algorithm 2, with bias correction as in Kingma & Ba 2015 for Adam.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor

from privet.arguments import at_least, open_fraction, positive
from privet.errors import InvalidArgument

__all__ = ["ServerAdam", "ServerOptimizer", "ServerSGD"]


class ServerOptimizer(ABC):
    """How the mean update changes the weights. The state is a list of tensors of the size of the model."""

    @abstractmethod
    def make_state(self, size: int) -> list[Tensor]:
        """The state before the first round."""

    @abstractmethod
    def apply(self, weights: Tensor, update: Tensor, state: Sequence[Tensor], round_number: int) -> None:
        """Change the weights, and the state, in place."""


@final
@dataclass(frozen=True, kw_only=True)
class ServerSGD(ServerOptimizer):
    """w ← w + learning rate · update; with momentum m, of the running sum v ← m v + update.

    A learning rate of 1 without momentum is plain federated averaging.
    """

    learning_rate: float = 1.0
    momentum: float = 0.0

    def __post_init__(self) -> None:
        positive("learning_rate", self.learning_rate)
        if at_least("momentum", self.momentum, 0) >= 1:
            raise InvalidArgument(
                f"'momentum' must be at least 0 and below 1, got {self.momentum!r}. 0.9 is usual."
            )

    def make_state(self, size: int) -> list[Tensor]:
        return [torch.zeros(size)] if self.momentum else []

    def apply(self, weights: Tensor, update: Tensor, state: Sequence[Tensor], round_number: int) -> None:
        del round_number
        if self.momentum:
            update = state[0].mul_(self.momentum).add_(update)
        weights.add_(update, alpha=self.learning_rate)


@final
@dataclass(frozen=True, kw_only=True)
class ServerAdam(ServerOptimizer):
    """Adam on the mean updates. ``tau`` keeps small coordinates, which are mostly noise, from large steps.

    With noise on the updates, choose ``tau`` of the size of the noise in a mean update.
    """

    learning_rate: float = 0.01
    beta1: float = 0.9
    beta2: float = 0.99
    tau: float = 1e-3

    def __post_init__(self) -> None:
        positive("learning_rate", self.learning_rate)
        open_fraction("beta1", self.beta1)
        open_fraction("beta2", self.beta2)
        positive("tau", self.tau)

    def make_state(self, size: int) -> list[Tensor]:
        return [torch.zeros(size), torch.zeros(size)]

    def apply(self, weights: Tensor, update: Tensor, state: Sequence[Tensor], round_number: int) -> None:
        first, second = state
        first.mul_(self.beta1).add_(update, alpha=1 - self.beta1)
        second.mul_(self.beta2).addcmul_(update, update, value=1 - self.beta2)
        mean = first / (1 - self.beta1**round_number)
        size = (second / (1 - self.beta2**round_number)).sqrt_().add_(self.tau)
        weights.addcdiv_(mean, size, value=self.learning_rate)
