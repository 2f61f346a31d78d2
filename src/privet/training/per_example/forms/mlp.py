"""Multilayer perceptrons, with one row per example, without autograd.

On a small network the time of a step is the number of torch operations. An MLP needs few: its gradients are
known in closed form, so only the loss goes through autograd. Cross entropy does not either: its gradient is
the softmax minus the label, and one compiled loop computes it, with its norm, from the input of the last
layer. Let g be the gradient of a layer's output and x the layer's input. Then the squared norm of the
example's gradient is (‖x‖² + 1)‖g‖², and the gradient of the layer before is (gW)∘a′. One compiled loop
computes a′ and the norm of a layer. The sums are one matrix product each, as in ``single_token_linear``.

Models that are not an MLP, or that have hooks, go through taps. So does a loss that uses the parameters
itself.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple, final

import torch
from torch import Tensor, nn

from privet.torch_internals import get_parameters, has_global_hooks, has_hooks
from privet.training.per_example.forms.gradient_form import load_kernels
from privet.training.per_example.mixed_precision import multiplies_in_full
from privet.training.threads import choose_threads

__all__ = ["MLP"]

FEW_OUTPUTS = 16
"""The loop of the loss also computes the last layer, if this has at most so many outputs."""

_ACTIVATIONS: dict[type[nn.Module], int] = {nn.ReLU: 1, nn.Tanh: 2, nn.Sigmoid: 3}  # as in ``mlp_loops``
_IN_PLACE = {1: torch.relu_, 2: torch.tanh_, 3: torch.sigmoid_}
_EMPTY_VECTOR, _EMPTY_MATRIX = torch.empty(0).numpy(), torch.empty(0, 0).numpy()


class _Layer(NamedTuple):
    """A linear layer, the activation after it (0 for none), and the indices of its trainable parameters."""

    module: nn.Linear
    activation: int
    weight: int | None
    bias: int | None


@final
class MLP:
    """A multilayer perceptron. Its memory is reused in every step, because fresh memory is slow."""

    __slots__ = ("_cache", "_layers", "_modules", "width")

    def __init__(self, layers: list[_Layer], modules: list[nn.Module]) -> None:
        self._layers = layers
        self._modules = modules
        self._cache: dict[tuple[str, int], Tensor] = {}
        self.width = sum(k.module.in_features + k.module.out_features for k in layers)  # numbers per example

    @staticmethod
    def from_model(model: nn.Module, indices: dict[int, int]) -> "MLP | None":
        """The model as an MLP, or None. ``indices`` has each trainable parameter's index by its identity."""
        parts = _list_modules(model)
        if parts is None or not parts or type(parts[0]) is not nn.Linear or load_kernels("mlp_loops") is None:
            return None
        layers: list[_Layer] = []
        seen: set[int] = set()
        for part in parts:
            if type(part) is nn.Linear:
                own = [p for p in (part.weight, part.bias) if p is not None]
                names = set(get_parameters(part))
                if names != {"weight", "bias"} or any(type(p) is not nn.Parameter for p in own):
                    return None
                if any(id(p) in seen for p in own):
                    return None  # two layers share a parameter
                seen.update(id(p) for p in own)
                bias = None if part.bias is None else indices.get(id(part.bias))
                layers.append(_Layer(part, 0, indices.get(id(part.weight)), bias))
            elif type(part) in _ACTIVATIONS and not layers[-1].activation:
                layers[-1] = layers[-1]._replace(activation=_ACTIVATIONS[type(part)])
            else:
                return None
        if not set(indices.values()) <= {i for k in layers for i in (k.weight, k.bias)}:
            return None
        return MLP(layers, list(model.modules()))

    def accepts(self, inputs: tuple[Tensor, ...]) -> bool:
        """Whether this lot can be computed here: plain matrices, and no hooks on the layers."""
        x = inputs[0]
        if len(inputs) != 1 or x.dim() != 2:
            return False
        if x.requires_grad or not _is_plain(x) or x.shape[1] != self._layers[0].module.in_features:
            return False
        for layer in self._layers:
            weight, bias = layer.module.weight, layer.module.bias
            if not _is_plain(weight) or (bias is not None and not _is_plain(bias)):
                return False
        if torch.is_autocast_enabled("cpu") or has_global_hooks() or not multiplies_in_full(x.device):
            return False
        return not any(has_hooks(m) for m in self._modules)

    def forward(self, x: Tensor) -> list[Tensor]:
        """The input of each layer."""
        inputs = [x]
        for number, layer in enumerate(self._layers[:-1]):
            module = layer.module
            out = self._get_matrix("x", number, x.shape[0], module.out_features)
            x = _multiply(module, x, out)
            if layer.activation:
                _IN_PLACE[layer.activation](x)
            inputs.append(x)
        return inputs

    def outputs(self, x: Tensor) -> Tensor:
        """The output of the last layer, in memory of its own."""
        layer = self._layers[-1]
        y = _multiply(layer.module, x, torch.empty(x.shape[0], layer.module.out_features))
        return _IN_PLACE[layer.activation](y) if layer.activation else y

    def cross_entropy_gradient(
        self, x: Tensor, targets: Tensor, ignored: int, norms: Tensor
    ) -> Tensor | None:
        """The gradient of cross entropy at the outputs, from the last layer's input. Sets ``norms`` as well.

        None if the targets are not labels, if one is out of range, or if the last layer has an activation.
        """
        layer = self._layers[-1]
        if targets.dtype is not torch.int64 or targets.dim() != 1 or not targets.is_cpu or layer.activation:
            return None
        module, width = layer.module, layer.module.out_features
        y = self._get_matrix("y", 0, x.shape[0], width)
        if width > FEW_OUTPUTS:
            _multiply(module, x, y)
            weight, bias = _EMPTY_MATRIX, _EMPTY_VECTOR
        else:
            weight = module.weight.detach().numpy()
            bias = _EMPTY_VECTOR if module.bias is None else module.bias.detach().numpy()
        kernels: Any = load_kernels("mlp_loops")
        trained = float(layer.weight is not None), float(layer.bias is not None)
        labels_are_valid = kernels.cross_entropy_gradient(
            choose_threads(x.numel()),
            x.numpy(),
            weight,
            bias,
            y.numpy(),
            targets.numpy(),
            ignored,
            *trained,
            norms.numpy(),
        )
        return y if labels_are_valid else None

    def backward(
        self, outputs: Tensor | None, inputs: list[Tensor], gradient: Tensor, norms: Tensor
    ) -> list[Tensor]:
        """Add the squared norms to ``norms``. Returns the gradient at each linear layer's output.

        Without ``outputs`` the gradient is that of the last linear layer, and ``norms`` has its norms
        already.
        """
        kernels: Any = load_kernels("mlp_loops")
        gradients: list[Tensor] = [gradient] * len(self._layers)
        norms_array = norms.numpy()
        after = outputs
        for number in range(len(self._layers) - 1, -1, -1):
            layer, x = self._layers[number], inputs[number]
            if after is not None:
                trained = float(layer.weight is not None), float(layer.bias is not None)
                arrays = x.numpy(), after.numpy(), gradient.numpy(), layer.activation
                kernels.add_layer_squared_norms(choose_threads(x.numel()), *arrays, *trained, norms_array)
            gradients[number] = gradient
            if number:
                target = self._get_matrix("g", number, x.shape[0], x.shape[1])
                gradient = torch.mm(gradient, layer.module.weight, out=target)
            after = x
        return gradients

    @staticmethod
    def clip_factors(norms: Tensor, bound: float) -> Tensor | None:
        """min(1, bound/√norms); None if a norm is not finite."""
        kernels: Any = load_kernels("mlp_loops")
        factors = torch.empty(norms.shape)
        return factors if kernels.clip_factors(norms.numpy(), bound, factors.numpy()) else None

    def write_sums(
        self,
        inputs: list[Tensor],
        gradients: list[Tensor],
        factors: Tensor,
        views: Sequence[Tensor],
        overwrite: bool,
    ) -> None:
        """Add the clipped sums to the views of a buffer, or overwrite them."""
        kernels: Any = load_kernels("mlp_loops")
        scales = factors.numpy()
        for layer, x, g in zip(self._layers, inputs, gradients, strict=True):
            sums = _EMPTY_VECTOR if layer.bias is None else views[layer.bias].numpy()
            kernels.scale_and_sum(choose_threads(g.numel()), g.numpy(), scales, sums, overwrite)
            if layer.weight is not None:
                if overwrite:
                    torch.mm(g.t(), x, out=views[layer.weight])
                else:
                    views[layer.weight].addmm_(g.t(), x)

    def _get_matrix(self, kind: str, number: int, rows: int, width: int) -> Tensor:
        """Memory for a matrix. The cache has the size of the largest lot so far."""
        matrix = self._cache.get((kind, number))
        if matrix is None or matrix.shape[0] < rows:
            matrix = self._cache[kind, number] = torch.empty(rows, width)
        return matrix if matrix.shape[0] == rows else matrix[:rows]


def _multiply(module: nn.Linear, x: Tensor, out: Tensor) -> Tensor:
    """The output of a linear layer, in ``out``."""
    weight = module.weight.t()
    if module.bias is None:
        return torch.mm(x, weight, out=out)
    return torch.addmm(module.bias, x, weight, out=out)


def _is_plain(tensor: Tensor) -> bool:
    return tensor.dtype is torch.float32 and tensor.is_cpu and tensor.is_contiguous()


def _list_modules(model: nn.Module) -> list[nn.Module] | None:
    """The layers of nested nn.Sequential, in order; None if the model is not an MLP."""
    if "forward" in model.__dict__:
        return None
    if type(model) is not nn.Sequential:
        return [model] if type(model) is nn.Linear or type(model) in _ACTIVATIONS else None
    layers: list[nn.Module] = []
    for child in model:
        inner = _list_modules(child)
        if inner is None:
            return None
        layers += inner
    return layers
