"""The private parts of torch that Privet uses, each behind one name. No other module uses private torch.

Privet reads what a forward pass left in torch's graph, what a module holds, and whether a tensor was
overwritten. Torch has no public way to ask for these things, so a new version may rename them.
``tests/unit/test_torch_internals.py`` names each private part and asks the installed torch for it. A torch
that lacks one fails there, with its name.

Importing this module imports torch, so only modules that need torch import it.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd import Variable
from torch.autograd.graph import Node
from torch.nn.modules import module as module_internals
from torch.nn.utils.parametrizations import _SpectralNorm as SpectralNormParametrization
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map as map_tensors

__all__ = [
    "TESTED_VERSIONS",
    "BatchNormBase",
    "ConvBase",
    "DropoutBase",
    "InstanceNormBase",
    "SpectralNormParametrization",
    "TorchDispatchMode",
    "count_outputs",
    "get_buffers",
    "get_children",
    "get_forward_class",
    "get_forward_pre_hooks",
    "get_leaf",
    "get_output_dtype",
    "get_output_shape",
    "get_padding",
    "get_parameters",
    "get_version",
    "get_weight_names",
    "has_global_hooks",
    "has_gradient_hooks",
    "has_hooks",
    "has_saved",
    "interpolate_all_",
    "is_persistent",
    "is_view",
    "map_tensors",
    "read_integers",
    "read_saved",
    "run_backward",
    "saved_integer_names",
]

TESTED_VERSIONS = ("2.13.0",)
"""The versions of torch with which the tests have passed."""

BatchNormBase = nn.modules.batchnorm._BatchNorm
"""The base class of all batch normalisations, nn.SyncBatchNorm included."""

InstanceNormBase = nn.modules.instancenorm._InstanceNorm
"""The base class of instance normalisations."""

DropoutBase = nn.modules.dropout._DropoutNd
"""The base class of all dropout layers."""

ConvBase = nn.modules.conv._ConvNd
"""The base class of convolutions."""


def get_parameters(module: nn.Module) -> dict[str, nn.Parameter | None]:
    """The module's own parameters by name, as the module stores them: a change of the model shows here."""
    return module._parameters


def get_children(module: nn.Module) -> dict[str, nn.Module | None]:
    """The module's own submodules by name, as the module stores them."""
    return module._modules


def get_buffers(module: nn.Module) -> dict[str, Tensor | None]:
    """The module's own buffers by name, as the module stores them."""
    return module._buffers


def is_persistent(module: nn.Module, buffer: str) -> bool:
    """Whether a buffer of the module is part of its state_dict."""
    return buffer not in module._non_persistent_buffers_set


def get_forward_pre_hooks(module: nn.Module) -> Mapping[int, object]:
    """The hooks that run before the module's forward."""
    return module._forward_pre_hooks


def has_hooks(module: nn.Module) -> bool:
    """Whether a forward or backward hook is registered on the module."""
    return bool(
        module._forward_hooks
        or module._forward_pre_hooks
        or module._backward_hooks
        or module._backward_pre_hooks
    )


def has_global_hooks() -> bool:
    """Whether a hook is registered that runs for all modules."""
    return bool(module_internals._has_any_global_hook())  # type: ignore[no-untyped-call]


def has_gradient_hooks(parameter: Tensor) -> bool:
    """Whether a hook waits for the gradient of the parameter."""
    return bool(parameter._backward_hooks or parameter._post_accumulate_grad_hooks)


def get_padding(convolution: ConvBase) -> list[int]:
    """The padding before and after each size, from the last size to the first, as ``F.pad`` takes it."""
    return list(convolution._reversed_padding_repeated_twice)


def get_weight_names(recurrent: nn.RNNBase) -> tuple[str, ...]:
    """The names of all parameters of a recurrent layer."""
    return tuple(recurrent._flat_weights_names)


def get_version(tensor: Tensor) -> int:
    """The number of in-place changes of the tensor so far."""
    return tensor._version


def is_view(tensor: Tensor) -> bool:
    """Whether autograd treats the tensor as a view of another one."""
    return tensor._is_view()


def interpolate_all_(tensors: list[Tensor], ends: list[Tensor], weight: float) -> None:
    """tensors[i] += weight · (ends[i] − tensors[i]) for all i, in one call."""
    torch._foreach_lerp_(tensors, ends, weight)


def run_backward(
    losses: Tensor, weights: Tensor, wanted: Sequence[Any], *, keep_graph: bool
) -> tuple[Tensor | None, ...]:
    """The gradients of Σ weights·losses at ``wanted``, as ``torch.autograd.grad`` without its checks.

    An entry of ``wanted`` is a tensor or a ``GradientEdge``. Its gradient is None if the losses do not depend
    on it.
    """
    gradients: tuple[Tensor | None, ...] = Variable._execution_engine.run_backward(
        (losses,), (weights,), keep_graph, False, tuple(wanted), True, accumulate_grad=False
    )
    return gradients


def get_output_shape(node: Any, output: int = 0) -> tuple[int, ...]:  # noqa: ANN401
    """The shape of an output of the operation that the node belongs to."""
    return tuple(node._input_metadata[output].shape)


def get_output_dtype(node: Any, output: int = 0) -> torch.dtype:  # noqa: ANN401
    """The type of the numbers of an output of the operation that the node belongs to."""
    dtype: torch.dtype = node._input_metadata[output].dtype
    return dtype


def count_outputs(node: Any) -> int:  # noqa: ANN401
    """The number of outputs of the operation that the node belongs to."""
    return len(node._input_metadata)


def get_leaf(node: Any) -> Tensor | None:  # noqa: ANN401
    """The tensor of a leaf node (``AccumulateGrad``); None for any other node."""
    if node.name() != "torch::autograd::AccumulateGrad":
        return None
    leaf: Tensor = node.variable
    return leaf


def get_forward_class(node: Node) -> type | None:
    """The subclass of ``torch.autograd.Function`` that made the node; None for torch's own operations."""
    return getattr(node, "_forward_cls", None)


def has_saved(node: Node, name: str) -> bool:
    """Whether nodes of this kind save a value of this name."""
    return hasattr(node, f"_saved_{name}")


def read_saved(node: Node, name: str, default: object = None) -> Any:  # noqa: ANN401
    """A value that the operation saved for its backward pass; ``default`` if it saves none of this name."""
    return getattr(node, f"_saved_{name}", default)


def saved_integer_names(node: Node) -> tuple[str, ...]:
    """The attributes of a node that hold saved integers or tuples of them, except strides and counts."""
    names: list[str] = []
    for name in dir(type(node)):
        if not name.startswith("_saved_") or name.endswith(("_strides", "_keepdim", "_numel")):
            continue
        try:
            value = getattr(node, name)
        except RuntimeError:
            continue  # a tensor that may not be read
        values = value if isinstance(value, tuple) else (value,)
        if all(type(v) in (int, bool) for v in values):
            names.append(name)
    return tuple(names)


def read_integers(nodes: list[Node], fields: list[tuple[int, tuple[str, ...]]]) -> list[int]:
    """The saved integers of some nodes in one list. ``fields`` has (index of the node, its attributes)."""
    integers: list[int] = []
    for index, names in fields:
        node = nodes[index]
        for name in names:
            value: Any = getattr(node, name)
            if type(value) is tuple:
                integers.append(len(value))
                integers += value
            else:
                integers.append(value)
    return integers
