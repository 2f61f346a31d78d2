"""What a client does with the model that it was sent: some steps on its own data.

The steps are written out here: torch.optim imports for seconds, and a client of Flower is a new process for
every message. The order of the examples, and a dropout, come from a public seed, the round and the client, so
the same run gives the same weights in one process and on many machines.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import final

import numpy as np
import torch
from torch import Tensor, nn

from privet.arguments import at_least, positive, whole
from privet.errors import InvalidArgument
from privet.training.loop.losses import TorchLoss, as_per_example_loss, find_logits
from privet.training.loop.model_calls import call_model
from privet.training.sampling.examples import Examples, TensorExamples

__all__ = [
    "FedAvg",
    "FedSGD",
    "LocalObjective",
    "LocalTraining",
    "require_examples",
    "train_with_seed",
]


@final
class LocalObjective:
    """The mean loss of a model on some examples of one client. Without a loss the model computes its own."""

    def __init__(self, examples: Examples, loss: TorchLoss | None) -> None:
        self.examples = examples
        self._is_plain = type(loss) is nn.CrossEntropyLoss and loss.reduction == "mean"
        self._loss = loss
        self._per_example = None if loss is None else as_per_example_loss(loss)

    def __len__(self) -> int:
        return len(self.examples)

    def mean_loss(self, model: nn.Module, indices: Tensor) -> Tensor:
        """The mean loss on these examples."""
        parts = list(self.examples.split(indices))
        if len(parts) == 1:
            return self._mean(model, parts[0])
        weighted = [self._mean(model, part) * (len(part) / len(indices)) for part in parts]
        return torch.stack(weighted).sum()

    def batch_losses(self, model: nn.Module, order: Tensor, size: int) -> Iterator[Tensor]:
        """The mean loss of one batch after the other, in this order. The model may change in between."""
        if not isinstance(self.examples, TensorExamples):
            for batch in torch.split(order, size):
                yield self.mean_loss(model, batch)
            return
        # All rows are gathered at once, because a batch is then a view.
        gathered = [torch.split(column.index_select(0, order), size) for column in self.examples.columns]
        for columns in zip(*gathered, strict=True):
            yield self._mean_of(model, columns)

    def _mean(self, model: nn.Module, indices: Tensor) -> Tensor:
        return self._mean_of(model, self.examples.take(indices))

    def _mean_of(self, model: nn.Module, columns: tuple[Tensor, ...]) -> Tensor:
        names = self.examples.input_names
        if self._per_example is None:
            loss: Tensor = call_model(model, columns, names).loss
            return loss
        *inputs, targets = columns
        outputs = call_model(model, tuple(inputs), names)
        if self._is_plain and isinstance(outputs, Tensor) and outputs.dim() == 2:
            assert isinstance(self._loss, nn.Module)
            mean: Tensor = self._loss(find_logits(outputs), targets)
            return mean
        return self._per_example(outputs, targets).mean()


class LocalTraining(ABC):
    """What a client does in a round. Its update is (weights after − weights before)."""

    @abstractmethod
    def train(self, model: nn.Module, objective: LocalObjective, generator: np.random.Generator) -> None:
        """Train the model in place on one client's examples."""


@final
@dataclass(frozen=True, kw_only=True)
class FedAvg(LocalTraining):
    """Federated averaging: several epochs of gradient descent on batches. With ``proximal``, FedProx.

    ``proximal`` is μ of FedProx: each client also minimises (μ/2)‖w − w₀‖², w₀ being the weights that it was
    sent. So clients with unusual data do not move far away.

    Reference: McMahan et al. 2017, Algorithm 1; Li et al. 2020, Algorithm 2, for FedProx.
    """

    epochs: int = 1
    batch_size: int = 32
    learning_rate: float = 0.1
    momentum: float = 0.0
    proximal: float = 0.0

    def __post_init__(self) -> None:
        whole("epochs", self.epochs)
        whole("batch_size", self.batch_size)
        positive("learning_rate", self.learning_rate)
        at_least("momentum", self.momentum, 0)
        at_least("proximal", self.proximal, 0)

    def train(self, model: nn.Module, objective: LocalObjective, generator: np.random.Generator) -> None:
        trainable = [parameter for parameter in model.parameters() if parameter.requires_grad]
        before = [parameter.detach().clone() for parameter in trainable] if self.proximal else []
        velocities = [torch.zeros_like(parameter) for parameter in trainable] if self.momentum else []
        for loss in self._losses(model, objective, generator):
            gradients = _compute_gradients(loss, trainable)
            with torch.no_grad():
                for number, parameter in enumerate(trainable):
                    step = gradients[number]
                    if self.proximal:
                        step = step + self.proximal * (parameter - before[number])
                    if self.momentum:
                        step = velocities[number].mul_(self.momentum).add_(step)
                    parameter.sub_(step, alpha=self.learning_rate)

    def _losses(
        self, model: nn.Module, objective: LocalObjective, generator: np.random.Generator
    ) -> Iterator[Tensor]:
        for _ in range(self.epochs):
            order = torch.from_numpy(generator.permutation(len(objective)))
            yield from objective.batch_losses(model, order, self.batch_size)


@final
@dataclass(frozen=True, kw_only=True)
class FedSGD(LocalTraining):
    """Federated SGD: one gradient of all examples of a client, times the learning rate.

    Reference: McMahan et al. 2017, Section 2.
    """

    learning_rate: float = 0.1

    def __post_init__(self) -> None:
        positive("learning_rate", self.learning_rate)

    def train(self, model: nn.Module, objective: LocalObjective, generator: np.random.Generator) -> None:
        del generator
        trainable = [parameter for parameter in model.parameters() if parameter.requires_grad]
        loss = objective.mean_loss(model, torch.arange(len(objective)))
        with torch.no_grad():
            for parameter, gradient in zip(trainable, _compute_gradients(loss, trainable), strict=True):
                parameter.sub_(gradient, alpha=self.learning_rate)


def _compute_gradients(loss: Tensor, trainable: list[nn.Parameter]) -> tuple[Tensor, ...]:
    """The gradient of each parameter; 0 for one that the loss does not depend on."""
    return torch.autograd.grad(loss, trainable, allow_unused=True, materialize_grads=True)


def train_with_seed(training: Callable[[np.random.Generator], None], seed: tuple[int, ...]) -> None:
    """Run this with torch's random numbers, and a generator, that follow from the seed. Then restore them."""
    sequence = np.random.SeedSequence(seed)
    before = torch.get_rng_state()
    torch.default_generator.manual_seed(int(sequence.generate_state(1, np.uint64)[0] >> 1))
    try:
        training(np.random.default_rng(sequence))
    finally:
        torch.set_rng_state(before)


def require_examples(objective: LocalObjective) -> LocalObjective:
    """Refuse a client without data."""
    if len(objective) == 0:
        raise InvalidArgument("A client must have examples, got none. Leave this client out.")
    return objective
