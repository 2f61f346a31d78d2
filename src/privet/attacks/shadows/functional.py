"""Stacks of any torch module: ``torch.func`` maps one model's gradient over stacked weights and buffers."""

from collections.abc import Sequence
from typing import final

import torch
from torch import Tensor, nn
from torch.func import functional_call, grad, stack_module_state, vmap

from privet.attacks.outputs import Outputs
from privet.attacks.shadows.optimizers import LearningRate, Optimizer
from privet.attacks.torch_outputs import row_losses
from privet.torch_internals import BatchNormBase, DropoutBase

__all__ = ["Functional", "couples_rows", "refusal"]

_COUPLING = (BatchNormBase,)


def couples_rows(module: nn.Module) -> bool:
    """Whether a row's output depends on the other rows of its batch."""
    return any(isinstance(part, _COUPLING) for part in module.modules())


def refusal(module: nn.Module) -> str | None:
    """Why the modules cannot be stacked, as far as that is known without trying.

    None where nothing speaks against it.
    """
    if any(isinstance(part, DropoutBase) and part.p > 0 for part in module.modules()):
        return "its dropout would not be that of the model by itself"
    if not all(parameter.requires_grad for parameter in module.parameters()):
        return "some weights are frozen"
    names = [name for name, _ in module.named_parameters(remove_duplicate=False)]
    if len(names) != len(list(module.parameters())):
        return "layers share a weight"
    if not names:
        return "it has no weights"
    return None


@final
class Functional:
    """A stack of modules of one class during training.

    Each model has its own buffers, such as running statistics.
    """

    def __init__(self, modules: Sequence[nn.Module], optimizer: Optimizer, gives: Outputs) -> None:
        self._modules = modules
        parameters, self._buffers = stack_module_state(list(modules))
        self._names = list(parameters)
        self._state = optimizer.start([value.detach() for value in parameters.values()])
        template = modules[0]

        def loss(
            weights: dict[str, Tensor],
            buffers: dict[str, Tensor],
            rows: Tensor,
            labels: Tensor,
            shares: Tensor,
        ) -> Tensor:
            outputs = functional_call(template, (weights, buffers), (rows,))
            return (row_losses(outputs, labels, gives) * shares).sum()

        self._gradient = vmap(grad(loss), randomness="error")

    def step(
        self, batch: Tensor, labels: Tensor, shares: float | Tensor, sizes: Sequence[int], rate: LearningRate
    ) -> None:
        """One step of every model; ``shares`` is the weight of each row in its model's mean loss."""
        weights = dict(zip(self._names, self._state.weights, strict=True))
        row_weights = torch.as_tensor(shares, dtype=self._state.weights[0].dtype).expand(labels.shape)
        with torch.enable_grad():
            gradients = self._gradient(weights, self._buffers, batch, labels, row_weights)
        for index, name in enumerate(self._names):
            self._state.add_gradient(index, gradients[name])
        self._state.step(rate)

    def write_back(self) -> None:
        """Put weights and buffers into the modules that they came from."""
        with torch.no_grad():
            for model, module in enumerate(self._modules):
                for name, stacked in zip(self._names, self._state.weights, strict=True):
                    module.get_parameter(name).copy_(stacked[model])
                for name, stacked in self._buffers.items():
                    module.get_buffer(name).copy_(stacked[model])
