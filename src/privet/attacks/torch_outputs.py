"""What the numbers of a torch module are, and the loss that follows: logits or probabilities, of all classes or of class 1 alone.

A binary model may have one output, [rows] or [rows, 1]: the logit of class 1, or its probability. Whoever takes one for the other
reports another model: a probability is never below 0, so that read as a logit it always says class 1.
"""

from typing import Protocol, runtime_checkable

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

from privet.attacks.model_views import Outputs, ask
from privet.errors import InvalidArgument
from privet.views import Numbers

__all__ = [
    "ENOUGH_ROWS",
    "bare_outputs",
    "found_outputs",
    "last_layer_gives",
    "last_operation_gives",
    "may_be_probabilities",
    "refuse_other_classes",
    "row_losses",
]

ENOUGH_ROWS = 8  # below, a few logits may lie between 0 and 1 by chance, and nothing is said
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
_PASSING = (nn.Identity, nn.Flatten, nn.Unflatten, nn.modules.dropout._DropoutNd)


@runtime_checkable
class _HoldsLogits(Protocol):
    logits: Tensor


def last_layer_gives(module: nn.Module) -> Outputs | None:
    """What the last layer of a Sequential provably gives; None where only the module's own code knows.

    ``LogSoftmax`` gives logits: its softmax is the softmax of what came before.
    """
    last = type(_last(module))  # the very layer: a subclass may do more
    if last in (nn.Sigmoid, nn.Softmax):
        return Outputs.PROBABILITIES
    if last in (nn.Linear, nn.LogSoftmax):
        return Outputs.LOGITS
    if last is nn.LogSigmoid:
        raise InvalidArgument(
            "'model' must give logits or probabilities, got a module that ends in LogSigmoid, the logarithm of one "
            "probability. Leave the last layer off: what comes before it is a logit."
        )
    return None


def bare_outputs(output: object) -> object:
    """The numbers of an answer; language models give an object that holds them as ``logits``."""
    return output.logits if isinstance(output, _HoldsLogits) and not isinstance(output, Tensor) else output


def last_operation_gives(module: nn.Module, inputs: Tensor) -> Outputs | None:
    """What the last operation of a forward pass says, by the graph of a few rows; None where it says neither.

    Evaluation mode and a fork of torch's randomness: the module and its later draws stay as they are.
    """
    modes = [(part, part.training) for part in module.modules()]
    module.eval()
    try:
        with torch.enable_grad(), torch.random.fork_rng(devices=[]):
            rows = inputs[:2].detach()
            # With a gradient of its own there is a graph also where all weights are frozen.
            found = ask(module, rows.clone().requires_grad_() if rows.is_floating_point() else rows)
    finally:
        for part, mode in modes:
            part.training = mode
    found = bare_outputs(found)
    node = found.grad_fn if isinstance(found, Tensor) else None
    while node is not None and node.name().startswith(_RESHAPES):
        node = node.next_functions[0][0]
    name = "" if node is None else node.name()
    if name.startswith(("SigmoidBackward", "SoftmaxBackward")):
        return Outputs.PROBABILITIES
    return Outputs.LOGITS if name.startswith(("LogSoftmaxBackward", "AddmmBackward", "MmBackward")) else None


def found_outputs(module: nn.Module, inputs: Tensor) -> Outputs | None:
    """What the module gives, by its last layer or else by its last operation."""
    return last_layer_gives(module) or last_operation_gives(module, inputs)


def may_be_probabilities(table: Numbers) -> bool:
    """Whether one output lies between 0 and 1 for each of enough rows, so that nobody can tell what it is."""
    return bool(
        table.shape[1] == 1 and len(table) >= ENOUGH_ROWS and table.min() >= 0.0 and table.max() <= 1.0
    )


def row_losses(outputs: Tensor, labels: Tensor, gives: Outputs) -> Tensor:
    """The cross-entropy of each row: outputs [rows], [rows, 1] or [rows, classes], labels [rows]."""
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


def refuse_other_classes(module: nn.Module, inputs: Tensor, labels: Tensor) -> None:
    """One output tells two classes apart; more of them would be learnt as nonsense, without an error."""
    if not len(labels) or int(labels.max()) < 2:
        return
    mode = module.training
    with torch.no_grad():
        found = module.eval()(inputs[:1])
    module.train(mode)
    if isinstance(found, Tensor) and found.numel() == 1:
        raise InvalidArgument(
            f"'labels' must be 0 or 1 for a model with one output, got up to {int(labels.max())}. "
            f"Give the model one output for each class."
        )


def _last(module: nn.Module) -> nn.Module:
    """The layer whose output is the module's, as far as Sequentials say it."""
    if type(module) is nn.Sequential:
        kept = [part for part in module if not isinstance(part, _PASSING)]
        if kept:
            return _last(kept[-1])
    return module
