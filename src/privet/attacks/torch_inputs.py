"""What a torch module is called with: one tensor, or several inputs as a dictionary of tensors.

Inputs with names reach ``forward`` by keyword; those of a tuple reach it in their order.
"""

import inspect
from collections.abc import Callable
from functools import partial

import numpy as np
import torch
from torch import Tensor, nn

from privet.attacks.outputs import query
from privet.errors import InvalidArgument
from privet.record_inputs import are_positional, has_several_inputs, split_inputs
from privet.views import Rows

__all__ = ["ModelInputs", "call_module", "map_inputs", "query_module", "to_model_inputs"]

ModelInputs = Tensor | dict[str, Tensor]


def to_model_inputs(module: nn.Module, rows: Rows, device: torch.device | None = None) -> ModelInputs:
    """The records in the module's type, on its device.

    Whole numbers are indices where the module has an embedding, and numbers elsewhere.
    """
    dtype = next((p.dtype for p in module.parameters() if p.is_floating_point()), torch.float32)
    indices = any(isinstance(part, nn.Embedding | nn.EmbeddingBag) for part in module.modules())
    convert = partial(_to_tensor, device=device or torch.device("cpu"), dtype=dtype, indices=indices)
    if not has_several_inputs(rows):
        return convert(rows)
    return {name: convert(part) for name, part in split_inputs(rows).items()}


def call_module(module: nn.Module, inputs: ModelInputs) -> object:
    """What the module gives."""
    if isinstance(inputs, Tensor):
        return module(inputs)
    names = tuple(inputs)
    if are_positional(names):
        return module(*inputs.values())
    _check_names(module, names)
    return module(**inputs)


def query_module(module: nn.Module, inputs: ModelInputs) -> object:
    """What the module gives; its own error is the cause of another, which shows no record."""
    return query(lambda rows: call_module(module, rows), inputs)


def map_inputs(change: Callable[[Tensor], Tensor], inputs: ModelInputs) -> ModelInputs:
    """The same change of every input, such as a choice of rows."""
    if isinstance(inputs, Tensor):
        return change(inputs)
    return {name: change(part) for name, part in inputs.items()}


def _to_tensor(rows: Rows, *, device: torch.device, dtype: torch.dtype, indices: bool) -> Tensor:
    if rows.dtype.kind not in "biufc":
        raise InvalidArgument(
            f"'inputs' must be numbers for a torch module, got an array of type {rows.dtype}. "
            f"Encode words and categories as in the model's training."
        )
    # A tensor shares memory, and torch warns about memory that is read-only.
    tensor = torch.as_tensor(np.ascontiguousarray(rows) if rows.flags.writeable else rows.copy())
    if not tensor.is_floating_point() and indices:
        return tensor.to(device, torch.int64)
    return tensor.to(device, dtype)


def _check_names(module: nn.Module, names: tuple[str, ...]) -> None:
    try:
        arguments = inspect.signature(module.forward).parameters
    except (TypeError, ValueError):  # a module of a compiled library does not tell its arguments
        return
    if any(argument.kind is inspect.Parameter.VAR_KEYWORD for argument in arguments.values()):
        return
    unknown = [name for name in names if name not in arguments]
    if unknown:
        raise InvalidArgument(
            f"'inputs' must have the names of the model's arguments ({', '.join(arguments)}), got "
            f"{', '.join(unknown)}. Rename or leave out these inputs, or give a tuple in the model's order."
        )
