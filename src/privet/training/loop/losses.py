"""Per-example losses, from a torch loss module or a function that returns one number for each example."""

from collections.abc import Callable
from typing import final

import torch
from torch import Tensor, nn

from privet.errors import InvalidArgument
from privet.training.loop.binary_outputs import has_one_output
from privet.training.per_example import per_example_loss

__all__ = ["PerExampleLoss", "TorchLoss", "as_per_example_loss", "require_binary", "require_labels"]

PerExampleLoss = Callable[[Tensor, Tensor], Tensor]
TorchLoss = PerExampleLoss | nn.Module


def as_per_example_loss(loss: TorchLoss) -> PerExampleLoss:
    """Make a loss with one number for each example. The ``reduction`` of a module is ignored."""
    if isinstance(loss, nn.CrossEntropyLoss):
        return _CheckedCrossEntropy(loss)
    if isinstance(loss, nn.BCELoss | nn.BCEWithLogitsLoss):
        return _BinaryCrossEntropy(loss)
    if isinstance(loss, nn.Module):
        return per_example_loss(loss)
    if not callable(loss):
        raise InvalidArgument(
            f"'loss' must be a torch loss or a function, got {type(loss).__name__}. Give "
            "nn.CrossEntropyLoss(), or a function of (outputs, targets) that returns one number for each "
            "example."
        )
    return loss


@final
class _CheckedCrossEntropy:
    """Cross entropy that refuses a wrong label before torch does, and does not show its value."""

    __slots__ = ("_ignored", "_loss")

    def __init__(self, loss: nn.CrossEntropyLoss) -> None:
        self._loss, self._ignored = per_example_loss(loss), loss.ignore_index

    def __call__(self, outputs: Tensor, targets: Tensor) -> Tensor:
        require_labels(targets, outputs, self._ignored)
        return self._loss(outputs, targets)


@final
class _BinaryCrossEntropy:
    """Binary cross entropy for integer labels too. Labels and outputs may be [examples] or [examples, 1]."""

    __slots__ = ("_loss",)

    def __init__(self, loss: nn.Module) -> None:
        self._loss = per_example_loss(loss)

    def __call__(self, outputs: Tensor, targets: Tensor) -> Tensor:
        require_binary(targets)
        if has_one_output(outputs) and has_one_output(targets) and outputs.numel() == targets.numel():
            outputs, targets = outputs.reshape(-1), targets.reshape(-1)
        return self._loss(outputs, targets if targets.is_floating_point() else targets.to(outputs.dtype))


def require_binary(targets: Tensor) -> None:
    """Refuse integer labels other than 0 and 1."""
    if targets.is_floating_point() or targets.dtype == torch.bool:
        return
    try:
        low, high = (int(end) for end in targets.aminmax()) if targets.numel() else (0, 0)
    except RuntimeError:
        return  # inside vmap, where values cannot be read; the same targets were checked before
    if low < 0 or high > 1:
        raise InvalidArgument(
            "'targets' must be 0 or 1, because the model has one output for two classes. Some are not. "
            "Number the two classes 0 and 1, or give the model an output for each class."
        )


def require_labels(targets: Tensor, outputs: Tensor, ignored: int) -> None:
    """Refuse labels without an output. Outputs may have fewer rows than there are targets."""
    if targets.is_floating_point() or outputs.dim() < 2:
        return
    # [examples, tokens, classes], or [examples, classes, …] as in torch
    classes_last = outputs.dim() == 3 and outputs.shape[1:2] == targets.shape[1:]
    classes = outputs.shape[-1 if classes_last else 1]
    if classes == 1:
        raise InvalidArgument(
            "'loss' must be binary for a model with one output, got cross entropy, which is 0 for a single "
            "class. Give nn.BCEWithLogitsLoss(), or nn.BCELoss() if the model ends in a sigmoid. 'train' "
            "chooses it by itself."
        )
    try:
        low, high = (int(end) for end in targets.aminmax()) if targets.numel() else (0, 0)
        wrong = (low < 0 or high >= classes) and bool(
            (((targets < 0) | (targets >= classes)) & (targets != ignored)).any()
        )
    except RuntimeError:
        return  # inside vmap, where values cannot be read; the same targets were checked before
    if wrong:
        raise InvalidArgument(
            f"'targets' must be labels from 0 to {classes - 1}, because the model has {classes} outputs. "
            "Some are not. Number the classes from 0, or give the model more outputs."
        )
