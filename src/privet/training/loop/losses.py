"""Per-example losses, from a torch loss module or a function that returns one number for each example."""

from collections.abc import Callable, Mapping
from typing import Any, final

import torch
from torch import Tensor, nn

from privet.errors import InvalidArgument
from privet.training.loop.binary_outputs import has_one_output
from privet.training.per_example import per_example_loss
from privet.training.per_example.class_losses import ClassLoss

__all__ = [
    "PerExampleLoss",
    "TorchLoss",
    "as_labels",
    "as_per_example_loss",
    "find_logits",
    "is_torch_loss",
    "require_binary",
    "require_labels",
]

PerExampleLoss = Callable[[Any, Tensor], Tensor]
TorchLoss = PerExampleLoss | nn.Module


def as_per_example_loss(loss: TorchLoss) -> PerExampleLoss:
    """Make a loss with one number for each example. The ``reduction`` of a module is ignored.

    A loss of torch takes the model's ``logits`` where the model returns an object or a dictionary. Any other
    loss gets what the model returns.
    """
    if type(loss) in (nn.CrossEntropyLoss, nn.NLLLoss):
        return _CheckedClassLoss(loss)  # type: ignore[arg-type]
    if type(loss) in (nn.BCELoss, nn.BCEWithLogitsLoss):
        return _BinaryCrossEntropy(loss)  # type: ignore[arg-type]
    if is_torch_loss(loss):
        return _OfLogits(per_example_loss(loss))
    return per_example_loss(loss)


def is_torch_loss(loss: object) -> bool:
    """Whether this is a loss of torch itself, and not one of the user's."""
    return isinstance(loss, nn.Module) and type(loss).__module__ == "torch.nn.modules.loss"


@final
class _OfLogits:
    """A loss of the model's logits."""

    __slots__ = ("_loss",)

    def __init__(self, loss: PerExampleLoss) -> None:
        self._loss = loss

    def __call__(self, outputs: Any, targets: Tensor) -> Tensor:  # noqa: ANN401 - of any model
        return self._loss(find_logits(outputs), targets)


@final
class _CheckedClassLoss:
    """A loss of labels that refuses a wrong label before torch does, and does not show its value.

    Labels may be [examples], [examples, 1], whole numbers in floats, or one-hot rows of integers.
    """

    __slots__ = ("_ignored", "_loss")

    def __init__(self, loss: nn.CrossEntropyLoss | nn.NLLLoss) -> None:
        self._loss, self._ignored = ClassLoss(loss), loss.ignore_index

    def __call__(self, outputs: Any, targets: Tensor) -> Tensor:  # noqa: ANN401 - of any model
        logits = find_logits(outputs)
        targets = as_labels(targets, logits)
        require_labels(targets, logits, self._ignored)
        # Models that return an object have the classes last.
        return self._loss(logits, targets, classes_last=not isinstance(outputs, Tensor))


@final
class _BinaryCrossEntropy:
    """Binary cross entropy for integer labels too. Labels and outputs may be [examples] or [examples, 1]."""

    __slots__ = ("_loss",)

    def __init__(self, loss: nn.Module) -> None:
        self._loss = per_example_loss(loss)

    def __call__(self, outputs: Any, targets: Tensor) -> Tensor:  # noqa: ANN401 - of any model
        outputs = find_logits(outputs)
        require_binary(targets)
        if has_one_output(outputs) and has_one_output(targets) and outputs.numel() == targets.numel():
            outputs, targets = outputs.reshape(-1), targets.reshape(-1)
        return self._loss(outputs, targets)


def find_logits(outputs: Any) -> Any:  # noqa: ANN401 - of any model
    """The logits of an object or a dictionary that a model returns; anything else as it is.

    Models of transformers have ``logits``, and models of torchvision for segmentation have ``out``.
    """
    if isinstance(outputs, Tensor | tuple | list):
        return outputs
    for name in ("logits", "out"):
        found = outputs.get(name) if isinstance(outputs, Mapping) else getattr(outputs, name, None)
        if isinstance(found, Tensor):
            return found
    return outputs


def as_labels(targets: Tensor, outputs: Tensor) -> Tensor:
    """Labels in the form that cross entropy takes. The form follows from shapes and types, not from values.

    The outputs may have fewer rows than there are targets. A column [examples, 1] becomes [examples]. One-hot
    rows of integers, in the shape of the outputs, become probabilities. Whole numbers in floats become
    integers; other floats are refused.
    """
    if outputs.dim() == 2 and outputs.shape[1] > 1:
        if targets.shape[1:] == (1,):
            targets = targets.reshape(-1)
        if targets.shape[1:] == outputs.shape[1:] and not targets.is_floating_point():
            return targets.to(outputs.dtype)
    if targets.is_floating_point() and targets.dim() == outputs.dim() - 1:
        return _as_whole_numbers(targets)
    return targets if targets.is_floating_point() else targets.long()


def _as_whole_numbers(targets: Tensor) -> Tensor:
    labels = targets.long()
    try:
        is_whole = bool((labels == targets).all())
    except RuntimeError:
        return labels  # inside vmap, where values cannot be read; the same targets were checked before
    if not is_whole:
        raise InvalidArgument(
            "'targets' must be labels for cross entropy, got numbers that are not whole. Number the classes "
            "from 0, or give nn.MSELoss() if the targets are quantities."
        )
    return labels


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
