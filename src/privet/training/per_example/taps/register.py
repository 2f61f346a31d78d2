"""The register of taps: which tap belongs to which layer. Users register layers of their own here."""

from collections.abc import Callable

from torch import nn

from privet.arguments import format_value
from privet.errors import InvalidArgument
from privet.torch_internals import get_parameters
from privet.training.per_example.taps.convolutions import ConvolutionTap
from privet.training.per_example.taps.elman import RNNTap
from privet.training.per_example.taps.layers import (
    BilinearTap,
    EmbeddingBagTap,
    EmbeddingTap,
    GroupNormTap,
    LayerNormTap,
    LinearTap,
    RMSNormTap,
)
from privet.training.per_example.taps.recurrent import GRUTap, LSTMTap
from privet.training.per_example.taps.registered import (
    RegisteredTap,
    RuleOrClass,
    find_rule,
    register_rule,
)
from privet.training.per_example.taps.tape import Tap, Tape

__all__ = ["build_taps", "find_tap", "register_layer"]

# By exact type: a subclass may compute anything, so brute force handles it unless it uses a layer of this
# table.
_TAPS: dict[type[nn.Module], type[Tap]] = {
    nn.Linear: LinearTap,
    nn.Bilinear: BilinearTap,
    nn.Conv1d: ConvolutionTap,
    nn.Conv2d: ConvolutionTap,
    nn.Conv3d: ConvolutionTap,
    nn.Embedding: EmbeddingTap,
    nn.EmbeddingBag: EmbeddingBagTap,
    nn.LayerNorm: LayerNormTap,
    nn.RMSNorm: RMSNormTap,
    nn.GroupNorm: GroupNormTap,
    nn.InstanceNorm1d: GroupNormTap,
    nn.InstanceNorm2d: GroupNormTap,
    nn.InstanceNorm3d: GroupNormTap,
    nn.LSTM: LSTMTap,
    nn.GRU: GRUTap,
    nn.RNN: RNNTap,
}


def register_layer(layer: type[nn.Module]) -> Callable[[RuleOrClass], RuleOrClass]:
    """Decorate a rule for the per-example gradients of a layer of your own.

    The rule is a function ``rule(layer, inputs, gradient)`` that writes the gradients out: it returns
    ``{parameter name: [examples, *shape]}``. Or it is a subclass of ``LayerRule``, which gives norms and sums
    and writes nothing out. ``inputs`` and ``gradient`` have the shape [examples, rows, …]. Without a rule the
    layer is trained as well, and its gradients are written out by brute force.

    *Guarantee*: the first lots of a run compare the rule with autograd on three examples, and refuse a rule
    that differs. Test it on your own inputs with ``privet.testing.check_layer``.

    The rule holds for exactly this type, not for its subclasses. A call is left to brute force if an argument
    is no tensor, if the output is not one tensor, or if their first sizes differ.

    Args:
        layer: the class of the layer. Its parameters must be its own, not those of submodules.

    Example:
        >>> import torch
        >>> class Scale(nn.Module):
        ...     def __init__(self, width):
        ...         super().__init__()
        ...         self.weight = nn.Parameter(torch.ones(width))
        ...     def forward(self, x):
        ...         return x * self.weight.exp()
        >>> @register_layer(Scale)
        ... def scale_gradients(layer, inputs, gradient):
        ...     return {"weight": (inputs[0] * gradient).sum(1) * layer.weight.exp()}
    """
    if not (isinstance(layer, type) and issubclass(layer, nn.Module)):
        raise InvalidArgument(
            f"'layer' must be a class of layers, got {format_value(layer)}. Give the class itself, not "
            f"one of its instances."
        )
    if layer in _TAPS:
        raise InvalidArgument(
            f"'layer' must be a class of your own, got torch's {layer.__name__}, which has a rule. Make a "
            f"subclass and register that."
        )

    def register(rule: RuleOrClass) -> RuleOrClass:
        register_rule(layer, rule)
        return rule

    return register


def find_tap(module: nn.Module) -> type[Tap] | None:
    """The tap of this layer; None if it has none.

    A layer gets no tap if its forward was replaced, or if a hook or a parametrisation replaces its
    parameters.
    """
    kind = _TAPS.get(type(module))
    if kind is None and find_rule(type(module)) is not None:
        kind = RegisteredTap
    return None if kind is None or "forward" in module.__dict__ or not kind.supports(module) else kind


def build_taps(model: nn.Module, indices: dict[int, int], tape: Tape) -> list[Tap]:
    """A tap for each known layer with a trainable parameter. ``indices`` are by the parameter's identity."""
    taps: list[Tap] = []
    for module in model.modules():
        kind = find_tap(module)
        if kind is None:
            continue
        own = {
            name: indices[id(p)]
            for name, p in get_parameters(module).items()
            if p is not None and id(p) in indices
        }
        if own:
            taps.append(kind(module, len(taps), own, tape))
    return taps
