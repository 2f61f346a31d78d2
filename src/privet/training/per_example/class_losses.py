"""Cross entropy and negative log-likelihood of class labels, for each example."""

from typing import final

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

from privet.errors import InvalidArgument

__all__ = ["ClassLoss"]


@final
class ClassLoss:
    """The loss of labels, one or several for each example, or of class probabilities.

    The outputs are logits for ``nn.CrossEntropyLoss`` and log-probabilities for ``nn.NLLLoss``.
    """

    __slots__ = ("_adds", "_ignored", "_is_nll", "_smoothing", "_weight")

    def __init__(self, loss: nn.CrossEntropyLoss | nn.NLLLoss) -> None:
        self._adds = loss.reduction == "sum"
        self._ignored = loss.ignore_index
        self._is_nll = isinstance(loss, nn.NLLLoss)
        self._smoothing = getattr(loss, "label_smoothing", 0.0)
        self._weight = loss.weight

    @property
    def ignored(self) -> int | None:
        """The ignored label of plain cross entropy; None if classes have weights or labels are smoothed."""
        plain = self._weight is None and not self._smoothing and not self._is_nll
        return self._ignored if plain else None

    def __call__(self, outputs: Tensor, targets: Tensor, *, classes_last: bool = False) -> Tensor:
        if outputs.dim() == 2 and (targets.dim() == 1 or outputs.shape == targets.shape):
            # The class weight stays on the example. Torch's mean would divide by the weights of the batch.
            return self._losses(outputs, targets)
        if outputs.dim() > 2 and outputs.shape == targets.shape and targets.is_floating_point():
            positions = self._losses(outputs, targets).flatten(1)
            return positions.sum(1) if self._adds else positions.mean(1)
        if outputs.dim() == 3 and outputs.shape[:2] == targets.shape:
            if outputs.shape[1] == outputs.shape[2] and not classes_last:
                raise InvalidArgument(
                    "'outputs' must have different numbers of tokens and classes, got the same, so the sizes "
                    "cannot be told apart. Use a function that flattens the tokens itself."
                )
            tokens = self._losses(outputs.flatten(0, 1), targets.flatten())
            tokens = tokens.view(targets.shape)
        elif outputs.dim() > 2 and (outputs.shape[0], *outputs.shape[2:]) == tuple(targets.shape):
            tokens = self._losses(outputs, targets).flatten(1)
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

    def _losses(self, outputs: Tensor, targets: Tensor) -> Tensor:
        weight = None if self._weight is None else self._weight.to(outputs)
        if self._is_nll:
            return F.nll_loss(outputs, targets, weight=weight, ignore_index=self._ignored, reduction="none")
        return F.cross_entropy(
            outputs,
            targets.to(outputs.dtype) if targets.is_floating_point() else targets,
            weight=weight,
            ignore_index=self._ignored,
            reduction="none",
            label_smoothing=self._smoothing,
        )

    def _counts(self, targets: Tensor, dtype: torch.dtype) -> Tensor:
        mask = targets != self._ignored
        if self._weight is None:
            return mask.to(dtype)
        return self._weight.to(targets.device)[targets.masked_fill(~mask, 0)].to(dtype) * mask
