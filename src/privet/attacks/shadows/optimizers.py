"""Optimizers: torch's own for one model, and the same update rules in place for a stack of models.

A stack is a list of tensors whose first axis is the model. Where all models have the same learning rate, the
whole stack is updated in one operation. A model that is done has learning rate 0, which no rule here moves.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, final

import torch
from torch import Tensor

from privet.arguments import at_least, positive
from privet.errors import InvalidArgument

__all__ = ["SGD", "Adam", "AdamW", "Optimizer", "OptimizerState"]

LearningRate = float | Tensor  # one for all models, or one for each


class OptimizerState(ABC):
    """The weights of a stack of models during training, and the state of the optimizer."""

    def __init__(self, weights: Sequence[Tensor]) -> None:
        self.weights = list(weights)

    @abstractmethod
    def accumulator(self, index: int) -> tuple[Tensor, float]:
        """The tensor that the gradient of weight ``index`` is added to, and the factor that it is multiplied
        by before.
        """

    @abstractmethod
    def step(self, rate: LearningRate) -> None:
        """Update all weights, after every gradient was added."""

    def add_gradient(self, index: int, gradient: Tensor) -> None:
        """Add a gradient that was computed elsewhere."""
        target, factor = self.accumulator(index)
        target.mul_(factor).add_(gradient) if factor else target.copy_(gradient)


def _make_optimizer(
    kind: Callable[..., torch.optim.Optimizer],
    parameters: Iterable[Tensor],
    **options: Any,  # noqa: ANN401 - torch's own
) -> torch.optim.Optimizer:
    try:
        return kind(parameters, **options)
    except Exception as refused:  # torch says which of them is wrong
        raise InvalidArgument(
            f"'parameters' must be those of a model, and 'rate' at least 0, and torch refuses them "
            f"({type(refused).__name__}). Give model.parameters()."
        ) from refused


class Optimizer(ABC):
    """An update rule without its learning rate."""

    @abstractmethod
    def torch_optimizer(self, parameters: Iterable[Tensor], rate: float) -> torch.optim.Optimizer:
        """Torch's own optimizer with this rule, for one model."""

    @abstractmethod
    def start(self, weights: Sequence[Tensor]) -> OptimizerState:
        """The state before the first step, for a stack of models."""

    @property
    @abstractmethod
    def state_size(self) -> int:
        """How many numbers are stored for each weight, besides the weight."""


@final
@dataclass(frozen=True, kw_only=True)
class SGD(Optimizer):
    """Stochastic gradient descent with momentum: v ← μ v + g + λ w, w ← w − η v (Nesterov: w ← w − η (g + λ w
    + μ v)).
    """

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

    def torch_optimizer(self, parameters: Iterable[Tensor], rate: float) -> torch.optim.Optimizer:
        return _make_optimizer(
            torch.optim.SGD,
            parameters,
            lr=rate,
            momentum=self.momentum,
            weight_decay=self.weight_decay,
            nesterov=self.nesterov,
        )

    def start(self, weights: Sequence[Tensor]) -> OptimizerState:
        return _Momentum(weights, self)

    @property
    def state_size(self) -> int:
        return 2 if self.nesterov else 1


@dataclass(frozen=True, kw_only=True)
class _Moments(Optimizer):
    betas: Sequence[float] = (0.9, 0.999)
    epsilon: float = 1e-8
    weight_decay: float = 0.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "betas", tuple(self.betas))
        if len(self.betas) != 2 or not all(0 <= beta < 1 for beta in self.betas):
            raise InvalidArgument(
                f"'betas' must be two numbers in [0, 1), got {self.betas!r}. Use (0.9, 0.999)."
            )
        positive("epsilon", self.epsilon)
        at_least("weight_decay", self.weight_decay, 0)

    @property
    def state_size(self) -> int:
        return 3


@final
@dataclass(frozen=True, kw_only=True)
class Adam(_Moments):
    """Adam; weight decay is added to the gradient, as torch does."""

    def torch_optimizer(self, parameters: Iterable[Tensor], rate: float) -> torch.optim.Optimizer:
        return _make_optimizer(
            torch.optim.Adam,
            parameters,
            lr=rate,
            betas=(self.betas[0], self.betas[1]),
            eps=self.epsilon,
            weight_decay=self.weight_decay,
        )

    def start(self, weights: Sequence[Tensor]) -> OptimizerState:
        return _Adaptive(weights, self, decoupled=False)


@final
@dataclass(frozen=True, kw_only=True)
class AdamW(_Moments):
    """Adam with decoupled weight decay: w ← w (1 − η λ) before the step."""

    weight_decay: float = 1e-2

    def torch_optimizer(self, parameters: Iterable[Tensor], rate: float) -> torch.optim.Optimizer:
        return _make_optimizer(
            torch.optim.AdamW,
            parameters,
            lr=rate,
            betas=(self.betas[0], self.betas[1]),
            eps=self.epsilon,
            weight_decay=self.weight_decay,
        )

    def start(self, weights: Sequence[Tensor]) -> OptimizerState:
        return _Adaptive(weights, self, decoupled=True)


@final
class _Momentum(OptimizerState):
    """Without Nesterov the matrix product adds the gradient to the velocity, which saves one pass."""

    def __init__(self, weights: Sequence[Tensor], rule: SGD) -> None:
        super().__init__(weights)
        self._rule = rule
        self._velocities = [torch.zeros_like(w) for w in weights]
        self._gradients = [torch.zeros_like(w) for w in weights] if rule.nesterov else []

    def accumulator(self, index: int) -> tuple[Tensor, float]:
        if self._gradients:
            return self._gradients[index], 0.0
        return self._velocities[index], self._rule.momentum

    def step(self, rate: LearningRate) -> None:
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
                weight.sub_(direction * _expand_rate(rate, weight))


@final
class _Adaptive(OptimizerState):
    def __init__(self, weights: Sequence[Tensor], rule: _Moments, *, decoupled: bool) -> None:
        super().__init__(weights)
        self._rule, self._decoupled, self._steps_done = rule, decoupled, 0
        self._gradients = [torch.zeros_like(w) for w in weights]
        self._means = [torch.zeros_like(w) for w in weights]
        self._squares = [torch.zeros_like(w) for w in weights]

    def accumulator(self, index: int) -> tuple[Tensor, float]:
        return self._gradients[index], 0.0

    def step(self, rate: LearningRate) -> None:
        rule = self._rule
        first, second = rule.betas
        self._steps_done += 1
        bias_correction = 1 - first**self._steps_done
        spread = (1 - second**self._steps_done) ** 0.5
        for weight, gradient, mean, square in zip(
            self.weights, self._gradients, self._means, self._squares, strict=True
        ):
            along = rate if isinstance(rate, float) else _expand_rate(rate, weight)
            if rule.weight_decay and self._decoupled:
                weight.mul_(1 - along * rule.weight_decay)
            elif rule.weight_decay:
                gradient.add_(weight, alpha=rule.weight_decay)
            mean.lerp_(gradient, 1 - first)
            square.mul_(second).addcmul_(gradient, gradient, value=1 - second)
            torch.sqrt(square, out=gradient)  # the gradient is not needed any more
            gradient.div_(spread).add_(rule.epsilon)
            if isinstance(along, float):
                weight.addcdiv_(mean, gradient, value=-along / bias_correction)
            else:
                weight.sub_(mean / gradient * (along / bias_correction))


def _expand_rate(rate: Tensor, weight: Tensor) -> Tensor:
    """One learning rate for each model, with the axes of a weight of the stack."""
    return rate.view(-1, *[1] * (weight.ndim - 1))
