"""Losses of one number for each example, from torch's loss modules."""

from collections.abc import Callable
from typing import final

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

from privet.errors import InvalidArgument

__all__ = ["ignored_label", "is_row_wise", "per_example_loss"]


def per_example_loss(loss: nn.Module) -> Callable[[Tensor, Tensor], Tensor]:
    """Turns a loss module into ``loss(outputs, targets) -> [examples]``.

    ``reduction="mean"`` and ``"none"`` average over an example's own outputs, ``"sum"`` adds them up; nothing is
    averaged over the batch. Cross entropy takes classes along the second size, as torch does, or, for
    sequences, along the last: outputs [examples, tokens, classes] with targets [examples, tokens]. Tokens equal to
    ``ignore_index`` count neither above nor below: the mean is over the example's own other tokens, and is 0 if there
    are none. (A mean over all tokens of a batch would make one example's loss depend on the others'.)

    >>> loss = per_example_loss(nn.CrossEntropyLoss())
    >>> loss(torch.zeros(2, 4), torch.tensor([1, 3]))
    tensor([1.3863, 1.3863])
    """
    if isinstance(loss, nn.CrossEntropyLoss):
        return _CrossEntropy(loss)
    if type(loss) not in _ELEMENTWISE:
        raise InvalidArgument(
            f"'loss' must be one of {', '.join(sorted(k.__name__ for k in _ELEMENTWISE))} or CrossEntropyLoss, got "
            f"{type(loss).__name__}. Write a function of (outputs, targets) that gives one number for each example."
        )
    return _Elementwise(loss)


def ignored_label(loss: object) -> int | None:
    """The label that does not count, if the gradient of this loss is softmax less the label; None of any other loss."""
    if isinstance(loss, nn.CrossEntropyLoss):
        loss = _CrossEntropy(loss)
    return loss.ignored if isinstance(loss, _CrossEntropy) else None


def is_row_wise(loss: object) -> bool:
    """Whether the loss of a row is known to be a function of that row alone, because it is one of those here."""
    known = (_Elementwise, _CrossEntropy, nn.CrossEntropyLoss)
    return isinstance(loss, known) or type(loss) in _ELEMENTWISE


# Of the same shape as their outputs, so that what belongs to an example is a row.
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
        import copy

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
        """The label that does not count, unless classes have weights or labels are smoothed."""
        return self._ignored if self._weight is None and not self._smoothing else None

    def __call__(self, outputs: Tensor, targets: Tensor) -> Tensor:
        if outputs.dim() == 2:
            losses = self._entropies(outputs, targets)
            return losses if self._adds or targets.dim() == 2 else self._weighted(losses, targets)
        if outputs.dim() == 3 and outputs.shape[:2] == targets.shape:
            if outputs.shape[1] == outputs.shape[2]:
                raise InvalidArgument(
                    "'outputs' must show which size is the classes, got as many tokens as classes. "
                    "Use a function that flattens the tokens itself."
                )
            tokens = self._entropies(outputs.flatten(0, 1), targets.flatten())
            tokens = tokens.view(targets.shape)
        elif outputs.dim() > 2 and (outputs.shape[0], *outputs.shape[2:]) == tuple(targets.shape):
            tokens = self._entropies(outputs, targets).flatten(1)
        else:
            raise InvalidArgument(
                f"'targets' must have one class for each output, got shape {tuple(targets.shape)} for outputs of "
                f"{tuple(outputs.shape)}. Put the classes along the second or the last size of the outputs."
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
        kept = targets != self._ignored
        if self._weight is None:
            return kept.to(dtype)
        return self._weight[targets.masked_fill(~kept, 0)].to(dtype) * kept

    def _weighted(self, losses: Tensor, targets: Tensor) -> Tensor:
        # The weight of a class stays on the example; torch's mean divides by the weights of the whole batch.
        return losses
