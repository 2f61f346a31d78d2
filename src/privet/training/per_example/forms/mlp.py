"""Networks that are a chain of matrix products and activations, one row for each example, without autograd.

On a small network a step is a matter of how many operations torch is asked for. A chain needs few: its gradients are
known beforehand, so only the loss goes through autograd, and cross entropy, whose gradient is softmax less the label, does not
either: one compiled loop takes a row of the last layer's input to that gradient and its norm. With g the gradient of a layer's output and x its input, the
squared norm of the example's gradient is (‖x‖² + 1)‖g‖², and the gradient of the layer before is (gW)∘a′. One
compiled loop does a′ and the norm of a layer; the sums are one matrix product each, as in ``straight``.

What is not such a chain, or is watched by a hook, goes the usual way. So does a loss that looks at the parameters itself.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple, final

import torch
from torch import Tensor, nn
from torch.nn.modules import module as torch_modules

from privet.training.per_example.forms.products import compiled
from privet.training.threads import choose_threads

__all__ = ["Chain"]

THIN = 16
"""Up to how many outputs the last layer is computed in the loop of its loss."""

_ACTIVATIONS: dict[type[nn.Module], int] = {nn.ReLU: 1, nn.Tanh: 2, nn.Sigmoid: 3}  # numbers of ``loops``
_IN_PLACE = {1: torch.relu_, 2: torch.tanh_, 3: torch.sigmoid_}
_NOTHING, _NO_MATRIX = torch.empty(0).numpy(), torch.empty(0, 0).numpy()


class _Link(NamedTuple):
    """One matrix product and the activation after it (0 for none); the places of what is trainable."""

    module: nn.Linear
    activation: int
    weight: int | None
    bias: int | None


@final
class Chain:
    """A chain of layers; it has room that is used again in every step, since fresh memory is slow."""

    __slots__ = ("_links", "_modules", "_room", "width")

    def __init__(self, links: list[_Link], modules: list[nn.Module]) -> None:
        self._links = links
        self._modules = modules
        self._room: dict[tuple[str, int], Tensor] = {}
        self.width = sum(k.module.in_features + k.module.out_features for k in links)  # numbers of an example

    @staticmethod
    def of(model: nn.Module, indices: dict[int, int]) -> "Chain | None":
        """The model as a chain, if it is one; ``indices`` is the place of each trainable parameter by its identity."""
        parts = _parts(model)
        if parts is None or not parts or type(parts[0]) is not nn.Linear or compiled("mlp_loops") is None:
            return None
        links: list[_Link] = []
        seen: set[int] = set()
        for part in parts:
            if type(part) is nn.Linear:
                own = [p for p in (part.weight, part.bias) if p is not None]
                if set(part._parameters) != {"weight", "bias"} or any(
                    type(p) is not nn.Parameter for p in own
                ):
                    return None
                if any(id(p) in seen for p in own):
                    return None  # a parameter that is used twice
                seen.update(id(p) for p in own)
                bias = None if part.bias is None else indices.get(id(part.bias))
                links.append(_Link(part, 0, indices.get(id(part.weight)), bias))
            elif type(part) in _ACTIVATIONS and not links[-1].activation:
                links[-1] = links[-1]._replace(activation=_ACTIVATIONS[type(part)])
            else:
                return None
        if not set(indices.values()) <= {i for k in links for i in (k.weight, k.bias)}:
            return None
        return Chain(links, list(model.modules()))

    def takes(self, inputs: tuple[Tensor, ...]) -> bool:
        """Whether this lot may go this way: rows of plain numbers, and nobody who watches the layers."""
        x = inputs[0]
        if len(inputs) != 1 or x.dim() != 2:
            return False
        if x.requires_grad or not _plain(x) or x.shape[1] != self._links[0].module.in_features:
            return False
        for link in self._links:
            weight, bias = link.module.weight, link.module.bias
            if not _plain(weight) or (bias is not None and not _plain(bias)):
                return False
        if torch.is_autocast_enabled("cpu") or torch_modules._has_any_global_hook():  # type: ignore[no-untyped-call]
            return False
        return not any(
            m._forward_hooks or m._forward_pre_hooks or m._backward_hooks or m._backward_pre_hooks
            for m in self._modules
        )

    def forward(self, x: Tensor) -> list[Tensor]:
        """What goes into each layer."""
        inputs = [x]
        for number, link in enumerate(self._links[:-1]):
            module = link.module
            out = self._rows("x", number, x.shape[0], module.out_features)
            x = _layer(module, x, out)
            if link.activation:
                _IN_PLACE[link.activation](x)
            inputs.append(x)
        return inputs

    def outputs(self, x: Tensor) -> Tensor:
        """What comes out of the last layer; it is nobody else's memory."""
        link = self._links[-1]
        y = _layer(link.module, x, torch.empty(x.shape[0], link.module.out_features))
        return _IN_PLACE[link.activation](y) if link.activation else y

    def entropy_gradient(self, x: Tensor, targets: Tensor, ignored: int, norms: Tensor) -> Tensor | None:
        """The gradient of cross entropy at the outputs, from what goes into the last layer; norms = its squared norms.

        None if the targets are no labels, if one is out of range, or if the last layer has an activation.
        """
        link = self._links[-1]
        if targets.dtype is not torch.int64 or targets.dim() != 1 or not targets.is_cpu or link.activation:
            return None
        module, width = link.module, link.module.out_features
        y = self._rows("y", 0, x.shape[0], width)
        if width > THIN:
            _layer(module, x, y)
            weight, bias = _NO_MATRIX, _NOTHING
        else:
            weight = module.weight.detach().numpy()
            bias = _NOTHING if module.bias is None else module.bias.detach().numpy()
        loops: Any = compiled("mlp_loops")
        trained = float(link.weight is not None), float(link.bias is not None)
        known = loops.entropy(
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
        return y if known else None

    def backward(
        self, outputs: Tensor | None, inputs: list[Tensor], gradient: Tensor, norms: Tensor
    ) -> list[Tensor]:
        """norms += the squared norms; gives the gradients at the products' outputs, which may be written to.

        Without ``outputs`` the gradient is that of the last product, and its norms are there already.
        """
        loops: Any = compiled("mlp_loops")
        found: list[Tensor] = [gradient] * len(self._links)
        squares = norms.numpy()
        after = outputs
        for number in range(len(self._links) - 1, -1, -1):
            link, x = self._links[number], inputs[number]
            if after is not None:
                trained = float(link.weight is not None), float(link.bias is not None)
                given = x.numpy(), after.numpy(), gradient.numpy(), link.activation
                loops.add_chain_squares(choose_threads(x.numel()), *given, *trained, squares)
            found[number] = gradient
            if number:
                room = self._rows("g", number, x.shape[0], x.shape[1])
                gradient = torch.mm(gradient, link.module.weight, out=room)
            after = x
        return found

    @staticmethod
    def factors(norms: Tensor, bound: float) -> Tensor | None:
        """min(1, bound/√norms); None if one of them is not finite."""
        loops: Any = compiled("mlp_loops")
        found = torch.empty(norms.shape)
        return found if loops.flat_factors(norms.numpy(), bound, found.numpy()) else None

    def put_sums(
        self,
        inputs: list[Tensor],
        gradients: list[Tensor],
        factors: Tensor,
        views: Sequence[Tensor],
        fresh: bool,
    ) -> None:
        """The clipped sums into the views of a buffer: added, or, if it is ``fresh``, in place of what is there."""
        loops: Any = compiled("mlp_loops")
        scales = factors.numpy()
        for link, x, g in zip(self._links, inputs, gradients, strict=True):
            sums = _NOTHING if link.bias is None else views[link.bias].numpy()
            loops.scale_and_sum(choose_threads(g.numel()), g.numpy(), scales, sums, fresh)
            if link.weight is not None:
                if fresh:
                    torch.mm(g.t(), x, out=views[link.weight])
                else:
                    views[link.weight].addmm_(g.t(), x)

    def _rows(self, kind: str, number: int, rows: int, width: int) -> Tensor:
        """Room for a matrix, kept for the largest lot so far."""
        kept = self._room.get((kind, number))
        if kept is None or kept.shape[0] < rows:
            kept = self._room[kind, number] = torch.empty(rows, width)
        return kept if kept.shape[0] == rows else kept[:rows]


def _layer(module: nn.Linear, x: Tensor, out: Tensor) -> Tensor:
    """The product of a layer, into ``out``."""
    weight = module.weight.t()
    if module.bias is None:
        return torch.mm(x, weight, out=out)
    return torch.addmm(module.bias, x, weight, out=out)


def _plain(tensor: Tensor) -> bool:
    return tensor.dtype is torch.float32 and tensor.is_cpu and tensor.is_contiguous()


def _parts(model: nn.Module) -> list[nn.Module] | None:
    """The layers of nested sequences, in order; None if something is neither, or has a forward of its own."""
    if "forward" in model.__dict__:
        return None
    if type(model) is not nn.Sequential:
        return [model] if type(model) is nn.Linear or type(model) in _ACTIVATIONS else None
    found: list[nn.Module] = []
    for child in model:
        inner = _parts(child)
        if inner is None:
            return None
        found += inner
    return found
