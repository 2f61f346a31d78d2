"""Losses with one number per example, from torch's loss modules.

To add a loss whose output has the shape of its target, add its class to ``_ELEMENTWISE``.
"""

import copy
from collections.abc import Callable
from typing import final

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

from privet.errors import InvalidArgument

__all__ = ["LossFunction", "find_ignored_label", "is_row_wise", "per_example_loss"]

LossFunction = Callable[[Tensor, Tensor], Tensor]
"""(outputs, targets) → one loss per example."""


def per_example_loss(loss: nn.Module) -> LossFunction:
    """Turn a loss module into ``loss(outputs, targets) -> [examples]``.

    ``reduction="mean"`` and ``"none"`` average over an example's own outputs, and ``"sum"`` adds them.
    Nothing is averaged over the batch. Cross entropy takes the classes along the second size, as torch does.
    For sequences it also takes them along the last: outputs [examples, tokens, classes] with targets
    [examples, tokens]. Tokens equal to ``ignore_index`` do not count: the mean is over the example's other
    tokens, and is 0 if there are none. (A mean over all tokens of a batch would make an example's loss depend
    on other examples.)

    >>> loss = per_example_loss(nn.CrossEntropyLoss())
    >>> loss(torch.zeros(2, 4), torch.tensor([1, 3]))
    tensor([1.3863, 1.3863])
    """
    if isinstance(loss, nn.CrossEntropyLoss):
        return _CrossEntropy(loss)
    if type(loss) not in _ELEMENTWISE:
        names = sorted(kind.__name__ for kind in _ELEMENTWISE)
        raise InvalidArgument(
            f"'loss' must be one of {', '.join(names)} or CrossEntropyLoss, got {type(loss).__name__}. "
            f"Write a function of (outputs, targets) that gives one number for each example."
        )
    return _Elementwise(loss)


def find_ignored_label(loss: object) -> int | None:
    """The ignored label of a loss whose gradient is softmax minus label; None for any other loss."""
    if isinstance(loss, nn.CrossEntropyLoss):
        loss = _CrossEntropy(loss)
    return loss.ignored if isinstance(loss, _CrossEntropy) else None


def is_row_wise(loss: object) -> bool:
    """Whether the loss of a row is known to depend on that row only, because it is a loss of this module."""
    known = (_Elementwise, _CrossEntropy, nn.CrossEntropyLoss)
    return isinstance(loss, known) or type(loss) in _ELEMENTWISE


# Their losses have the shape of the outputs, so a row belongs to one example.
_ELEMENTWISE: set[type[nn.Module]] = {
    nn.BCELoss,
    nn.BCEWithLogitsLoss,
    nn.HuberLoss,
    nn.L1Loss,
    nn.MSELoss,
    nn.PoissonNLLLoss,
    nn.SmoothL1Loss,
    nn.SoftMarginLoss,
}


@final
class _Elementwise:
    __slots__ = ("_adds", "_loss")

    def __init__(self, loss: nn.Module) -> None:
        self._adds = loss.reduction == "sum"
        self._loss = copy.copy(loss)
        self._loss.reduction = "none"  # type: ignore[assignment]

    def __call__(self, outputs: Tensor, targets: Tensor) -> Tensor:
        if outputs.shape != targets.shape:
            raise InvalidArgument(
                f"'targets' must have the shape of the outputs, got {tuple(targets.shape)} for "
                f"{tuple(outputs.shape)}. Reshape one of them; broadcasting would mix examples."
            )
        losses = self._loss(outputs, targets)
        if losses.dim() == 1:
            return losses  # type: ignore[no-any-return]
        rows = losses.flatten(1)
        return rows.sum(1) if self._adds else rows.mean(1)  # type: ignore[no-any-return]


@final
class _CrossEntropy:
    __slots__ = ("_adds", "_ignored", "_smoothing", "_weight")

    def __init__(self, loss: nn.CrossEntropyLoss) -> None:
        self._adds = loss.reduction == "sum"
        self._ignored = loss.ignore_index
        self._smoothing = loss.label_smoothing
        self._weight = loss.weight

    @property
    def ignored(self) -> int | None:
        """The ignored label; None if classes have weights or labels are smoothed."""
        return self._ignored if self._weight is None and not self._smoothing else None

    def __call__(self, outputs: Tensor, targets: Tensor) -> Tensor:
        if outputs.dim() == 2:
            # The class weight stays on the example. Torch's mean would divide by the weights of the batch.
            return self._entropies(outputs, targets)
        if outputs.dim() == 3 and outputs.shape[:2] == targets.shape:
            if outputs.shape[1] == outputs.shape[2]:
                raise InvalidArgument(
                    "'outputs' must have different numbers of tokens and classes, got the same, so the sizes "
                    "cannot be told apart. Use a function that flattens the tokens itself."
                )
            tokens = self._entropies(outputs.flatten(0, 1), targets.flatten())
            tokens = tokens.view(targets.shape)
        elif outputs.dim() > 2 and (outputs.shape[0], *outputs.shape[2:]) == tuple(targets.shape):
            tokens = self._entropies(outputs, targets).flatten(1)
        else:
            raise InvalidArgument(
                f"'targets' must have one class for each output, got shape {tuple(targets.shape)} for "
                f"outputs of {tuple(outputs.shape)}. Put the classes along the second or the last size of "
                f"the outputs."
            )
        total = tokens.sum(1)
        if self._adds:
            return total
        return total / self._counts(targets.flatten(1), tokens.dtype).sum(1).clamp(min=1e-12)

    def _entropies(self, outputs: Tensor, targets: Tensor) -> Tensor:
        return F.cross_entropy(
            outputs,
            targets,
            weight=self._weight,
            ignore_index=self._ignored,
            reduction="none",
            label_smoothing=self._smoothing,
        )

    def _counts(self, targets: Tensor, dtype: torch.dtype) -> Tensor:
        mask = targets != self._ignored
        if self._weight is None:
            return mask.to(dtype)
        return self._weight[targets.masked_fill(~mask, 0)].to(dtype) * mask
