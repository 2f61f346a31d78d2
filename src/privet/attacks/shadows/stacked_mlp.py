"""Stacks of multilayer perceptrons: batched matrix products, forwards and backwards in number.

Autograd builds a graph, allocates every intermediate, and writes gradients that the optimizer reads again. A
chain of simple layers needs none of that: buffers are allocated once, and the matrix product of the backward
pass adds into the velocity directly. A stack has the model as its first axis. Each model has its own weights,
batch, dropout mask and learning rate.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import final

import torch
from torch import Tensor, nn

from privet.attacks.outputs import Outputs
from privet.attacks.shadows.optimizers import LearningRate, Optimizer, OptimizerState
from privet.torch_internals import has_hooks

__all__ = ["StackedMLP", "chain_layers"]

_PASSING = (nn.Identity, nn.Flatten)
_KNOWN = (nn.Linear, nn.ReLU, nn.Tanh, nn.Sigmoid, nn.GELU, nn.Dropout, *_PASSING)


def chain_layers(
    module: nn.Module, shape: Sequence[int], gives: Outputs = Outputs.LOGITS
) -> list[nn.Module] | str:
    """The layers of a chain for records of this shape, or why the module is not a chain."""
    if gives is not Outputs.LOGITS:
        return "it gives probabilities, and a chain is trained on logits"
    layers: list[nn.Module] = []
    refused = _unroll(module, layers)
    if refused is not None:
        return refused
    chain = [layer for layer in layers if type(layer) is not nn.Identity]
    if len(shape) != 1 and not (chain and type(chain[0]) is nn.Flatten):
        return "its records have several axes and it does not begin with Flatten"
    if any(type(part) is nn.Flatten and (part.start_dim, part.end_dim) != (1, -1) for part in chain):
        return "a Flatten keeps some axes"
    if any(type(part) is nn.Dropout and part.p == 1 for part in chain):
        return "a Dropout drops everything"
    parameters = [p for layer in layers for p in layer.parameters()]
    if len({id(p) for p in parameters}) != len(parameters):
        return "layers share a weight"
    if not all(p.requires_grad and p.dtype == parameters[0].dtype for p in parameters):
        return "some weights are frozen, or of another type"
    if not any(type(layer) is nn.Linear for layer in layers):
        return "it has no Linear layer"
    return [layer for layer in chain if type(layer) not in _PASSING and getattr(layer, "p", 1.0) != 0]


def _unroll(module: nn.Module, layers: list[nn.Module]) -> str | None:
    if has_hooks(module):
        return "it has hooks"
    if type(module) is nn.Sequential:
        for part in module:
            refused = _unroll(part, layers)
            if refused is not None:
                return refused
        return None
    if type(module) not in _KNOWN:
        return f"{type(module).__name__} is not a layer of a chain"
    layers.append(module)
    return None


@final
class StackedMLP:
    """A stack of chains during training.

    ``states`` is each model's random state after its initial weights were drawn.
    """

    def __init__(
        self, chains: Sequence[Sequence[nn.Module]], states: Sequence[Tensor], optimizer: Optimizer
    ) -> None:
        weights: list[Tensor] = []
        self._modules = chains
        generators = [torch.Generator() for _ in states]
        for generator, state in zip(generators, states, strict=True):
            generator.set_state(state)
        for number, first in enumerate(chains[0]):
            for name, parameter in first.named_parameters():
                # Inputs × outputs, the faster layout for the product; a bias is a row.
                same = [getattr(chain[number], name).detach() for chain in chains]
                weights.append(torch.stack([w.t() if parameter.ndim == 2 else w.unsqueeze(0) for w in same]))
        self._state = optimizer.start(weights)
        self._layers: list[_StackedLayer] = []
        at = 0
        for number, module in enumerate(chains[0]):
            fed = bool(self._layers) and isinstance(self._layers[-1], _Linear)
            layer = _layer(module, at, self._state, fed, generators)
            layer.first = number == 0
            at += sum(1 for _ in module.parameters())
            self._layers.append(layer)
        self._minus: Tensor = torch.full((1, 1), -1.0, dtype=weights[0].dtype)

    def step(
        self, batch: Tensor, labels: Tensor, shares: float | Tensor, sizes: Sequence[int], rate: LearningRate
    ) -> None:
        """One step of every model: batch [models, rows, features], labels [models, rows].

        ``shares`` is the weight of each row in its model's mean loss, 0 for padding rows; ``sizes`` counts
        the other rows.
        """
        flow = batch
        for layer in self._layers:
            flow = layer.forward(flow, sizes)
        if flow.shape[2] == 1:  # one logit: ∂ loss/∂z = σ(z) − y
            flow = flow.sigmoid_().sub_(labels.unsqueeze(2))
        else:
            flow = torch.softmax(flow, dim=2, out=flow)
            flat = flow.view(-1, flow.shape[2])
            flat.scatter_add_(1, labels.reshape(-1, 1), self._minus.expand(len(flat), 1))
        flow.mul_(shares if isinstance(shares, float) else shares.unsqueeze(2))
        for layer in reversed(self._layers):
            flow = layer.backward(flow)
        self._state.step(rate)

    def write_back(self) -> None:
        """Copy the weights into the modules that they came from."""
        at = 0
        for number, first in enumerate(self._modules[0]):
            for name, parameter in first.named_parameters():
                for model, chain in enumerate(self._modules):
                    value = self._state.weights[at][model]
                    getattr(chain[number], name).data.copy_(value.t() if parameter.ndim == 2 else value[0])
                at += 1


class _StackedLayer(ABC):
    """One layer of every model. Buffers grow to the largest batch so far, and are reused."""

    first = False  # the first layer passes no gradient on

    @abstractmethod
    def forward(self, x: Tensor, sizes: Sequence[int]) -> Tensor: ...

    @abstractmethod
    def backward(self, dy: Tensor) -> Tensor: ...


@final
class _ReusedMemory:
    def __init__(self) -> None:
        self._memory = self._view = torch.empty(0)

    def reshape(self, like: Tensor, shape: Sequence[int]) -> Tensor:
        if self._view.shape != shape:
            count = math.prod(shape)
            if self._memory.numel() < count:
                self._memory = torch.empty(count, dtype=like.dtype)
            self._view = self._memory[:count].view(*shape)
        return self._view


@final
class _Linear(_StackedLayer):
    def __init__(self, at: int, bias: bool, state: OptimizerState) -> None:
        self._at, self._bias, self._state = at, bias, state
        self._out, self._back = _ReusedMemory(), _ReusedMemory()
        self._x = torch.empty(0)

    def forward(self, x: Tensor, sizes: Sequence[int]) -> Tensor:
        weight = self._state.weights[self._at]
        self._x = x
        out = torch.bmm(x, weight, out=self._out.reshape(x, (*x.shape[:2], weight.shape[2])))
        return out.add_(self._state.weights[self._at + 1]) if self._bias else out

    def backward(self, dy: Tensor) -> Tensor:
        target, factor = self._state.accumulator(self._at)
        target.baddbmm_(self._x.transpose(1, 2), dy, beta=factor)
        if self._bias:
            self._state.add_gradient(self._at + 1, dy.sum(dim=1, keepdim=True))
        if self.first:
            return dy
        weight = self._state.weights[self._at]
        back = self._back.reshape(dy, (*dy.shape[:2], weight.shape[1]))
        return torch.bmm(dy, weight.transpose(1, 2), out=back)


@final
class _Activation(_StackedLayer):
    """``onwards(x, out)``, and ``back(dy, saved, out)`` from the saved output or input."""

    def __init__(
        self,
        onwards: Callable[[Tensor, Tensor], Tensor],
        back: Callable[[Tensor, Tensor, Tensor], Tensor],
        *,
        keeps_input: bool,
        fed: bool,
    ) -> None:
        self._onwards, self._back, self._keeps_input = onwards, back, keeps_input
        self._in_place = fed and not keeps_input  # a matrix product does not need its output again
        self._out, self._dx = _ReusedMemory(), _ReusedMemory()
        self._saved = torch.empty(0)

    def forward(self, x: Tensor, sizes: Sequence[int]) -> Tensor:
        y = self._onwards(x, x if self._in_place else self._out.reshape(x, x.shape))
        self._saved = x if self._keeps_input else y
        return y

    def backward(self, dy: Tensor) -> Tensor:
        return self._back(dy, self._saved, self._dx.reshape(dy, dy.shape))


@final
class _Dropout(_StackedLayer):
    """Masks are drawn model by model, as ``nn.Dropout`` draws them from the same state."""

    def __init__(self, rate: float, generators: Sequence[torch.Generator]) -> None:
        self._keep_rate, self._generators = 1 - rate, generators
        self._mask, self._out = _ReusedMemory(), _ReusedMemory()

    def forward(self, x: Tensor, sizes: Sequence[int]) -> Tensor:
        mask = self._mask.reshape(x, x.shape)
        for model, (generator, rows) in enumerate(zip(self._generators, sizes, strict=True)):
            mask[model, :rows].bernoulli_(self._keep_rate, generator=generator)
            mask[model, rows:].zero_()
        mask.div_(self._keep_rate)
        return torch.mul(x, mask, out=self._out.reshape(x, x.shape))

    def backward(self, dy: Tensor) -> Tensor:
        return dy.mul_(self._mask.reshape(dy, dy.shape))


def _layer(
    module: nn.Module, at: int, state: OptimizerState, fed: bool, generators: Sequence[torch.Generator]
) -> _StackedLayer:
    aten = torch.ops.aten
    match module:
        case nn.Linear():
            return _Linear(at, module.bias is not None, state)
        case nn.ReLU():
            return _Activation(
                lambda x, out: torch.clamp_min(x, 0, out=out),
                lambda dy, y, out: aten.threshold_backward.grad_input(dy, y, 0, grad_input=out),
                keeps_input=False,
                fed=fed,
            )
        case nn.Tanh():
            return _Activation(
                lambda x, out: torch.tanh(x, out=out),
                lambda dy, y, out: aten.tanh_backward.grad_input(dy, y, grad_input=out),
                keeps_input=False,
                fed=fed,
            )
        case nn.Sigmoid():
            return _Activation(
                lambda x, out: torch.sigmoid(x, out=out),
                lambda dy, y, out: aten.sigmoid_backward.grad_input(dy, y, grad_input=out),
                keeps_input=False,
                fed=fed,
            )
        case nn.GELU():
            form = module.approximate
            return _Activation(
                lambda x, out: aten.gelu.out(x, approximate=form, out=out),
                lambda dy, x, out: aten.gelu_backward.grad_input(dy, x, approximate=form, grad_input=out),
                keeps_input=True,
                fed=fed,
            )
        case nn.Dropout():
            return _Dropout(module.p, generators)
        case _:
            raise AssertionError(f"chain_layers let a {type(module).__name__} through")
