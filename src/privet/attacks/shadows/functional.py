"""Any torch module, many at a time: ``torch.func`` carries one model's gradient over a stack of weights and buffers."""

from collections.abc import Sequence
from typing import final

import torch
from torch import Tensor, nn
from torch.func import functional_call, grad, stack_module_state, vmap

from privet.attacks.model_views import Outputs
from privet.attacks.shadows.optimizers import Descent, Rate
from privet.attacks.torch_outputs import row_losses
from privet.torch_internals import BatchNormBase, DropoutBase

__all__ = ["Functional", "couples_rows", "refusal"]

_COUPLING = (BatchNormBase,)


def couples_rows(module: nn.Module) -> bool:
    """Whether a row's output depends on the other rows of its batch."""
    return any(isinstance(part, _COUPLING) for part in module.modules())


def refusal(module: nn.Module) -> str | None:
    """Why the modules cannot be stacked, as far as can be seen without trying."""
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
    """A stack of modules of one kind under way. Buffers, such as running statistics, are each model's own."""

    def __init__(self, modules: Sequence[nn.Module], descent: Descent, gives: Outputs) -> None:
        self._modules = modules
        parameters, self._buffers = stack_module_state(list(modules))
        self._names = list(parameters)
        self._walk = descent.walk([value.detach() for value in parameters.values()])
        template = modules[0]

        def loss(
            weights: dict[str, Tensor],
            buffers: dict[str, Tensor],
            rows: Tensor,
            labels: Tensor,
            shares: Tensor,
        ) -> Tensor:
            found = functional_call(template, (weights, buffers), (rows,))
            return (row_losses(found, labels, gives) * shares).sum()

        self._gradient = vmap(grad(loss), randomness="error")

    def step(
        self, batch: Tensor, labels: Tensor, shares: float | Tensor, sizes: Sequence[int], rate: Rate
    ) -> None:
        """One step of every model; ``shares`` is each row's part in its model's mean loss."""
        weights = dict(zip(self._names, self._walk.weights, strict=True))
        parts = torch.as_tensor(shares, dtype=self._walk.weights[0].dtype).expand(labels.shape)
        with torch.enable_grad():
            gradients = self._gradient(weights, self._buffers, batch, labels, parts)
        for index, name in enumerate(self._names):
            self._walk.receive(index, gradients[name])
        self._walk.step(rate)

    def write_back(self) -> None:
        """Put weights and buffers into the modules that they came from."""
        with torch.no_grad():
            for model, module in enumerate(self._modules):
                for name, stacked in zip(self._names, self._walk.weights, strict=True):
                    module.get_parameter(name).copy_(stacked[model])
                for name, stacked in self._buffers.items():
                    module.get_buffer(name).copy_(stacked[model])
