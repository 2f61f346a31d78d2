"""How weights follow gradients: torch's own optimisers for one model, and the same rules in place for a stack of models.

A stack is a list of tensors whose first axis is the model. Where all models have the same rate the whole stack moves in one
operation; a model that is done has rate 0, and stands still under every rule here.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, final

import torch
from torch import Tensor
from torch.optim import Optimizer

from privet.arguments import at_least, positive
from privet.errors import InvalidArgument

__all__ = ["SGD", "Adam", "AdamW", "Descent", "Walk"]

Rate = float | Tensor  # one for all models, or one for each


class Walk(ABC):
    """A stack of models under way."""

    def __init__(self, weights: Sequence[Tensor]) -> None:
        self.weights = list(weights)

    @abstractmethod
    def into(self, index: int) -> tuple[Tensor, float]:
        """Where the gradient of weight ``index`` is added, and what that is multiplied by before."""

    @abstractmethod
    def step(self, rate: Rate) -> None:
        """Move all weights, once every gradient has been added."""

    def receive(self, index: int, gradient: Tensor) -> None:
        """Add a gradient that was computed elsewhere."""
        target, kept = self.into(index)
        target.mul_(kept).add_(gradient) if kept else target.copy_(gradient)


def _made(kind: Callable[..., Optimizer], parameters: Iterable[Tensor], **options: Any) -> Optimizer:  # noqa: ANN401 - torch's own
    try:
        return kind(parameters, **options)
    except Exception as refused:  # torch says which of them is none
        raise InvalidArgument(
            f"'parameters' must be those of a model, and 'rate' at least 0, and torch refuses them ({type(refused).__name__}). "
            f"Give model.parameters()."
        ) from refused


class Descent(ABC):
    """A rule of descent, without its rate."""

    @abstractmethod
    def optimizer(self, parameters: Iterable[Tensor], rate: float) -> Optimizer:
        """Torch's own optimiser of this rule."""

    @abstractmethod
    def walk(self, weights: Sequence[Tensor]) -> Walk:
        """The same rule for a stack."""

    @property
    @abstractmethod
    def kept(self) -> int:
        """How many numbers a walk keeps for each weight, besides the weight."""


@final
@dataclass(frozen=True, kw_only=True)
class SGD(Descent):
    """Stochastic gradient descent with momentum: v ← μ v + g + λ w, w ← w − η v (Nesterov: w ← w − η (g + λ w + μ v))."""

    momentum: float = 0.9
    weight_decay: float = 0.0
    nesterov: bool = False

    def __post_init__(self) -> None:
        if not 0 <= self.momentum < 1:
            raise InvalidArgument(f"'momentum' must lie in [0, 1), got {self.momentum!r}. Use 0.9.")
        at_least("weight_decay", self.weight_decay, 0)
        if self.nesterov and self.momentum == 0:
            raise InvalidArgument(
                "'nesterov' must be False where momentum is 0, got True. Give a momentum, such as 0.9."
            )

    def optimizer(self, parameters: Iterable[Tensor], rate: float) -> Optimizer:
        return _made(
            torch.optim.SGD,
            parameters,
            lr=rate,
            momentum=self.momentum,
            weight_decay=self.weight_decay,
            nesterov=self.nesterov,
        )

    def walk(self, weights: Sequence[Tensor]) -> Walk:
        return _Momentum(weights, self)

    @property
    def kept(self) -> int:
        return 2 if self.nesterov else 1


@dataclass(frozen=True, kw_only=True)
class _Moments(Descent):
    betas: tuple[float, float] = (0.9, 0.999)
    epsilon: float = 1e-8
    weight_decay: float = 0.0

    def __post_init__(self) -> None:
        if len(self.betas) != 2 or not all(0 <= beta < 1 for beta in self.betas):
            raise InvalidArgument(
                f"'betas' must be two numbers in [0, 1), got {self.betas!r}. Use (0.9, 0.999)."
            )
        positive("epsilon", self.epsilon)
        at_least("weight_decay", self.weight_decay, 0)

    @property
    def kept(self) -> int:
        return 3


@final
@dataclass(frozen=True, kw_only=True)
class Adam(_Moments):
    """Adam; weight decay is added to the gradient, as torch does."""

    def optimizer(self, parameters: Iterable[Tensor], rate: float) -> Optimizer:
        return _made(
            torch.optim.Adam,
            parameters,
            lr=rate,
            betas=self.betas,
            eps=self.epsilon,
            weight_decay=self.weight_decay,
        )

    def walk(self, weights: Sequence[Tensor]) -> Walk:
        return _Adaptive(weights, self, decoupled=False)


@final
@dataclass(frozen=True, kw_only=True)
class AdamW(_Moments):
    """Adam with weight decay of its own: w ← w (1 − η λ) before the step."""

    weight_decay: float = 1e-2

    def optimizer(self, parameters: Iterable[Tensor], rate: float) -> Optimizer:
        return _made(
            torch.optim.AdamW,
            parameters,
            lr=rate,
            betas=self.betas,
            eps=self.epsilon,
            weight_decay=self.weight_decay,
        )

    def walk(self, weights: Sequence[Tensor]) -> Walk:
        return _Adaptive(weights, self, decoupled=True)


@final
class _Momentum(Walk):
    """Without Nesterov the gradient is added to the velocity by the matrix product itself: one pass less."""

    def __init__(self, weights: Sequence[Tensor], rule: SGD) -> None:
        super().__init__(weights)
        self._rule = rule
        self._velocities = [torch.zeros_like(w) for w in weights]
        self._gradients = [torch.zeros_like(w) for w in weights] if rule.nesterov else []

    def into(self, index: int) -> tuple[Tensor, float]:
        if self._gradients:
            return self._gradients[index], 0.0
        return self._velocities[index], self._rule.momentum

    def step(self, rate: Rate) -> None:
        rule = self._rule
        for index, (weight, velocity) in enumerate(zip(self.weights, self._velocities, strict=True)):
            direction = velocity
            if self._gradients:
                direction = self._gradients[index]
                direction.add_(weight, alpha=rule.weight_decay)
                velocity.mul_(rule.momentum).add_(direction)
                direction.add_(velocity, alpha=rule.momentum)
            elif rule.weight_decay:
                velocity.add_(weight, alpha=rule.weight_decay)
            if isinstance(rate, float):
                weight.add_(direction, alpha=-rate)
            else:
                weight.sub_(direction * _along(rate, weight))


@final
class _Adaptive(Walk):
    def __init__(self, weights: Sequence[Tensor], rule: _Moments, *, decoupled: bool) -> None:
        super().__init__(weights)
        self._rule, self._decoupled, self._taken = rule, decoupled, 0
        self._gradients = [torch.zeros_like(w) for w in weights]
        self._means = [torch.zeros_like(w) for w in weights]
        self._squares = [torch.zeros_like(w) for w in weights]

    def into(self, index: int) -> tuple[Tensor, float]:
        return self._gradients[index], 0.0

    def step(self, rate: Rate) -> None:
        rule = self._rule
        first, second = rule.betas
        self._taken += 1
        short = 1 - first**self._taken
        spread = (1 - second**self._taken) ** 0.5
        for weight, gradient, mean, square in zip(
            self.weights, self._gradients, self._means, self._squares, strict=True
        ):
            along = rate if isinstance(rate, float) else _along(rate, weight)
            if rule.weight_decay and self._decoupled:
                weight.mul_(1 - along * rule.weight_decay)
            elif rule.weight_decay:
                gradient.add_(weight, alpha=rule.weight_decay)
            mean.lerp_(gradient, 1 - first)
            square.mul_(second).addcmul_(gradient, gradient, value=1 - second)
            torch.sqrt(square, out=gradient)  # the gradient has been used up
            gradient.div_(spread).add_(rule.epsilon)
            if isinstance(along, float):
                weight.addcdiv_(mean, gradient, value=-along / short)
            else:
                weight.sub_(mean / gradient * (along / short))


def _along(rate: Tensor, weight: Tensor) -> Tensor:
    """One rate for each model, beside a weight of the stack."""
    return rate.view(-1, *[1] * (weight.ndim - 1))
