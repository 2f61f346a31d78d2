"""Whether a torch module gives logits or probabilities, of all classes or of class 1 alone, and the loss that
follows.

A binary model may have one output, [rows] or [rows, 1]: the logit of class 1, or its probability. A mistake
between the two audits another model: a probability is never below 0, so read as a logit it always says class
1.
"""

from typing import Protocol, runtime_checkable

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

from privet.attacks.outputs import Outputs
from privet.attacks.torch_inputs import ModelInputs, call_module, map_inputs, query_module
from privet.errors import InvalidArgument
from privet.torch_internals import DropoutBase
from privet.views import Numbers

__all__ = [
    "ENOUGH_ROWS",
    "bare_outputs",
    "detect_outputs",
    "last_layer_gives",
    "last_operation_gives",
    "may_be_probabilities",
    "require_two_classes",
    "row_losses",
]

ENOUGH_ROWS = 8  # with fewer rows, all logits may lie between 0 and 1 by chance
_RESHAPES = (
    "View",
    "Reshape",
    "UnsafeView",
    "Squeeze",
    "Unsqueeze",
    "Select",
    "Slice",
    "Alias",
    "Clone",
    "ToCopy",
    "Clamp",
)
_PASSING = (nn.Identity, nn.Flatten, nn.Unflatten, DropoutBase)


@runtime_checkable
class _HoldsLogits(Protocol):
    logits: Tensor


def last_layer_gives(module: nn.Module) -> Outputs | None:
    """What the last layer of a Sequential provably gives; None where only the module's own code knows.

    ``LogSoftmax`` gives logits: its softmax is the softmax of what came before.
    """
    last = type(_last(module))  # the exact type: a subclass may do more
    if last in (nn.Sigmoid, nn.Softmax):
        return Outputs.PROBABILITIES
    if last in (nn.Linear, nn.LogSoftmax):
        return Outputs.LOGITS
    if last is nn.LogSigmoid:
        raise InvalidArgument(
            "'model' must give logits or probabilities, got a module that ends in LogSigmoid, the logarithm "
            "of one probability. Leave the last layer off: what comes before it is a logit."
        )
    return None


def bare_outputs(output: object) -> object:
    """The tensor of an output; language models give an object that holds it as ``logits``."""
    if isinstance(output, dict) and isinstance(output.get("logits"), Tensor):
        return output["logits"]
    return output.logits if isinstance(output, _HoldsLogits) and not isinstance(output, Tensor) else output


def last_operation_gives(module: nn.Module, inputs: ModelInputs) -> Outputs | None:
    """What the last operation of a forward pass gives, by the graph of a few rows.

    None where that is neither.

    It uses evaluation mode and a fork of torch's random state, so the module and its later draws are
    unchanged.
    """
    modes = [(part, part.training) for part in module.modules()]
    module.eval()
    try:
        with torch.enable_grad(), torch.random.fork_rng(devices=[]):
            # With an input gradient there is a graph even where all weights are frozen.
            output = query_module(module, map_inputs(_with_gradient, inputs))
    finally:
        for part, mode in modes:
            part.training = mode
    output = bare_outputs(output)
    node = output.grad_fn if isinstance(output, Tensor) else None
    while node is not None and node.name().startswith(_RESHAPES):
        node = node.next_functions[0][0]
    name = "" if node is None else node.name()
    if name.startswith(("SigmoidBackward", "SoftmaxBackward")):
        return Outputs.PROBABILITIES
    return Outputs.LOGITS if name.startswith(("LogSoftmaxBackward", "AddmmBackward", "MmBackward")) else None


def detect_outputs(module: nn.Module, inputs: ModelInputs) -> Outputs | None:
    """What the module gives, by its last layer or else by its last operation."""
    return last_layer_gives(module) or last_operation_gives(module, inputs)


def may_be_probabilities(table: Numbers) -> bool:
    """Whether a single output lies between 0 and 1 for many rows: it may be a logit or a probability."""
    return bool(
        table.shape[1] == 1 and len(table) >= ENOUGH_ROWS and table.min() >= 0.0 and table.max() <= 1.0
    )


def row_losses(output: object, labels: Tensor, gives: Outputs) -> Tensor:
    """The cross-entropy of each row: outputs [rows], [rows, 1] or [rows, classes], labels [rows]; of
    quantities the squared error.
    """
    outputs = bare_outputs(output)
    if not isinstance(outputs, Tensor):
        raise InvalidArgument(
            f"'model' must give a tensor, or an object that holds 'logits', got {type(outputs).__name__}. "
            f"Wrap it in a module that gives the logits of each record."
        )
    if gives is Outputs.QUANTITIES:
        return (outputs.reshape(len(labels)) - labels.to(outputs.dtype)).square()
    rows = outputs.reshape(len(labels), -1) if outputs.ndim < 2 else outputs
    if rows.shape[1] == 1:
        value, target = rows[:, 0], labels.to(rows.dtype)
        if gives is Outputs.LOGITS:
            return F.binary_cross_entropy_with_logits(value, target, reduction="none")
        return F.binary_cross_entropy(value, target, reduction="none")
    if gives is Outputs.LOGITS:
        return F.cross_entropy(rows, labels, reduction="none")
    logs = rows.clamp_min(torch.finfo(rows.dtype).tiny).log()
    return F.nll_loss(logs, labels, reduction="none")


def require_two_classes(module: nn.Module, inputs: ModelInputs, labels: Tensor) -> None:
    """Refuse labels above 1 for a module with one output, which torch would train on without an error."""
    if labels.is_floating_point() or not len(labels) or int(labels.max()) < 2:
        return
    mode = module.training
    with torch.no_grad():
        output = bare_outputs(call_module(module.eval(), map_inputs(lambda part: part[:1], inputs)))
    module.train(mode)
    if isinstance(output, Tensor) and output.numel() == 1:
        raise InvalidArgument(
            f"'labels' must be 0 or 1 for a model with one output, got up to {int(labels.max())}. "
            f"Give the model one output for each class."
        )


def _with_gradient(rows: Tensor) -> Tensor:
    few = rows[:2].detach()
    return few.clone().requires_grad_() if few.is_floating_point() else few


def _last(module: nn.Module) -> nn.Module:
    """The layer whose output is the output of the module, through nested Sequentials."""
    if type(module) is nn.Sequential:
        layers = [part for part in module if not isinstance(part, _PASSING)]
        if layers:
            return _last(layers[-1])
    return module
