"""The loss of each example, from what people write: a torch loss module, or a function that gives one number for each."""

from collections.abc import Callable
from typing import final

import torch
from torch import Tensor, nn

from privet.errors import InvalidArgument
from privet.training.loop.binary_outputs import has_one_output
from privet.training.per_example import per_example_loss

__all__ = ["Loss", "loss_of", "require_binary", "require_labels"]

Loss = Callable[[Tensor, Tensor], Tensor]


def loss_of(loss: Loss | nn.Module) -> Loss:
    """One loss for each example; nothing is averaged over the batch, whatever the module's ``reduction`` says."""
    if isinstance(loss, nn.CrossEntropyLoss):
        return _Classes(loss)
    if isinstance(loss, nn.BCELoss | nn.BCEWithLogitsLoss):
        return _TwoClasses(loss)
    if isinstance(loss, nn.Module):
        return per_example_loss(loss)
    if not callable(loss):
        raise InvalidArgument(
            f"'loss' must be a torch loss or a function, got {type(loss).__name__}. "
            f"Give nn.CrossEntropyLoss(), or a function of (outputs, targets) with one number for each example."
        )
    return loss


@final
class _Classes:
    """Cross entropy that says what is wrong with a label before torch does, and without showing it."""

    __slots__ = ("_ignored", "_loss")

    def __init__(self, loss: nn.CrossEntropyLoss) -> None:
        self._loss, self._ignored = per_example_loss(loss), loss.ignore_index

    def __call__(self, outputs: Tensor, targets: Tensor) -> Tensor:
        require_labels(targets, outputs, self._ignored)
        return self._loss(outputs, targets)


@final
class _TwoClasses:
    """Binary cross entropy whose labels may be whole numbers, and in another of the shapes [examples] and [examples, 1] than the outputs."""

    __slots__ = ("_loss",)

    def __init__(self, loss: nn.Module) -> None:
        self._loss = per_example_loss(loss)

    def __call__(self, outputs: Tensor, targets: Tensor) -> Tensor:
        require_binary(targets)
        if has_one_output(outputs) and has_one_output(targets) and outputs.numel() == targets.numel():
            outputs, targets = outputs.reshape(-1), targets.reshape(-1)
        return self._loss(outputs, targets if targets.is_floating_point() else targets.to(outputs.dtype))


def require_binary(targets: Tensor) -> None:
    """Refuses whole-number labels other than 0 and 1."""
    if targets.is_floating_point() or targets.dtype == torch.bool:
        return
    try:
        low, high = (int(end) for end in targets.aminmax()) if targets.numel() else (0, 0)
    except RuntimeError:
        return  # inside of vmap, where values cannot be asked for; the same targets were seen before
    if low < 0 or high > 1:
        raise InvalidArgument(
            "'targets' must be 0 or 1, because the model has one output for two classes; some are not. "
            "Number the two classes 0 and 1, or give the model an output for each class."
        )


def require_labels(targets: Tensor, outputs: Tensor, ignored: int) -> None:
    """Refuses labels that no output stands for. Outputs may have fewer rows than there are targets."""
    if targets.is_floating_point() or outputs.dim() < 2:
        return
    last = outputs.dim() == 3 and outputs.shape[1:2] == targets.shape[1:]  # [examples, tokens, classes]
    classes = outputs.shape[-1 if last else 1]
    if classes == 1:
        raise InvalidArgument(
            "'loss' must be binary for a model with one output, got cross entropy, which is 0 for a single class. "
            "Give nn.BCEWithLogitsLoss(), or nn.BCELoss() if the model ends in a sigmoid; 'train' chooses it itself."
        )
    try:
        low, high = (int(end) for end in targets.aminmax()) if targets.numel() else (0, 0)
        wrong = (low < 0 or high >= classes) and bool(
            (((targets < 0) | (targets >= classes)) & (targets != ignored)).any()
        )
    except RuntimeError:
        return  # inside of vmap, where values cannot be asked for; the same targets were seen before
    if wrong:
        raise InvalidArgument(
            f"'targets' must be labels from 0 to {classes - 1}, because the model has {classes} outputs; some are not. "
            f"Number the classes from 0, or give the model more outputs."
        )
