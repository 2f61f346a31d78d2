"""Losses with one number per example, from torch's loss modules and from any other loss.

``class_losses`` has the losses of class labels, ``special_losses`` those of several outputs or lengths, and
``alone`` everything else. To add a loss whose output has the shape of its target, add its class to
``_ELEMENTWISE``. To add another one, add its rule to ``_RULES``.
"""

import copy
from collections.abc import Callable
from typing import Any, final

from torch import Tensor, nn

from privet.errors import InvalidArgument
from privet.training.per_example.alone import EachAlone
from privet.training.per_example.class_losses import ClassLoss
from privet.training.per_example.special_losses import CTC, GaussianNLL, OfSeveralOutputs, RowLoss

__all__ = ["LossFunction", "find_ignored_label", "is_row_wise", "per_example_loss"]

LossFunction = Callable[[Any, Tensor], Tensor]
"""(outputs, targets) → one loss per example. The outputs are whatever the model returns."""


def per_example_loss(loss: nn.Module | LossFunction) -> LossFunction:
    """Turn a loss module into ``loss(outputs, targets) -> [examples]``.

    ``reduction="mean"`` and ``"none"`` average over an example's own outputs, and ``"sum"`` adds them.
    Nothing is averaged over the batch. Cross entropy takes the classes along the second size, as torch does.
    For sequences it also takes them along the last: outputs [examples, tokens, classes] with targets
    [examples, tokens]. Tokens equal to ``ignore_index`` do not count: the mean is over the example's other
    tokens, and is 0 if there are none. (A mean over all tokens of a batch would make an example's loss depend
    on other examples.)

    Class weights: an example with one label y has the loss w_y ℓ. Torch's mean would divide by the weights of
    the whole batch. An example with several labels has the weighted mean over its own labels.

    Any other module or function is called as it is. If it returns one number for a batch, it is called for
    every example alone (see ``alone``).

    >>> import torch
    >>> loss = per_example_loss(nn.CrossEntropyLoss())
    >>> loss(torch.zeros(2, 4), torch.tensor([1, 3]))
    tensor([1.3863, 1.3863])
    """
    if not callable(loss):
        raise InvalidArgument(
            f"'loss' must be a torch loss or a function, got {type(loss).__name__}. Give "
            "nn.CrossEntropyLoss(), or a function of (outputs, targets) that returns one number for each "
            "example."
        )
    rule = _RULES.get(type(loss))
    return EachAlone(loss) if rule is None else rule(loss)


def find_ignored_label(loss: object) -> int | None:
    """The ignored label of a loss whose gradient is softmax minus label; None for any other loss."""
    if type(loss) is nn.CrossEntropyLoss:
        loss = ClassLoss(loss)
    return loss.ignored if isinstance(loss, ClassLoss) else None


def is_row_wise(loss: object) -> bool:
    """Whether the loss of a row is known to depend on that row only, because it is a loss of this module."""
    known = (_Elementwise, ClassLoss, RowLoss)
    return isinstance(loss, known) or _RULES.get(type(loss)) in known


@final
class _Elementwise:
    """A loss with the shape of the outputs. The rows of an example are averaged, or added."""

    __slots__ = ("_adds", "_loss", "_weights")

    def __init__(self, loss: nn.Module) -> None:
        # "batchmean" of KLDivLoss divides the sum by the number of examples.
        self._adds = loss.reduction in ("sum", "batchmean")
        self._loss = copy.copy(loss)
        self._loss.reduction = "none"  # type: ignore[assignment]
        self._weights = [
            w for n in ("weight", "pos_weight") if isinstance(w := getattr(loss, n, None), Tensor)
        ]

    def __call__(self, outputs: Tensor, targets: Tensor) -> Tensor:
        if outputs.shape != targets.shape:
            if not _have_one_number(outputs, targets):
                raise InvalidArgument(
                    f"'targets' must have the shape of the outputs, got {tuple(targets.shape)} for "
                    f"{tuple(outputs.shape)}. Reshape one of them; broadcasting would mix examples."
                )
            outputs, targets = outputs.reshape(-1), targets.reshape(-1)
        for weight in self._weights:
            if weight.dim() >= outputs.dim() and weight.shape[weight.dim() - outputs.dim()] != 1:
                raise InvalidArgument(
                    f"'weight' of the loss must not have a number for each example of a batch, got shape "
                    f"{tuple(weight.shape)} for outputs of {tuple(outputs.shape)}, because lots differ in "
                    "size. Give one number for each output of an example."
                )
        losses = self._loss(outputs, targets.to(outputs.dtype))
        if losses.dim() == 1:
            return losses  # type: ignore[no-any-return]
        rows = losses.flatten(1)
        return rows.sum(1) if self._adds else rows.mean(1)  # type: ignore[no-any-return]


def _have_one_number(outputs: Tensor, targets: Tensor) -> bool:
    """Whether both are [examples] or [examples, 1]."""
    if not outputs.dim() or not targets.dim():
        return False
    return outputs.shape[0] == targets.shape[0] == outputs.numel() == targets.numel()


# Their losses have the shape of the outputs, so a row belongs to one example.
_ELEMENTWISE: set[type[nn.Module]] = {
    nn.BCELoss,
    nn.BCEWithLogitsLoss,
    nn.HingeEmbeddingLoss,
    nn.HuberLoss,
    nn.KLDivLoss,
    nn.L1Loss,
    nn.MSELoss,
    nn.PoissonNLLLoss,
    nn.SmoothL1Loss,
    nn.SoftMarginLoss,
}

# A subclass may compute something else, so only the classes themselves have a rule.
_RULES: dict[type, Callable[[Any], LossFunction]] = {
    **dict.fromkeys(_ELEMENTWISE, _Elementwise),
    nn.CrossEntropyLoss: ClassLoss,
    nn.NLLLoss: ClassLoss,
    nn.MultiMarginLoss: RowLoss,
    nn.MultiLabelMarginLoss: RowLoss,
    nn.MultiLabelSoftMarginLoss: RowLoss,
    nn.CTCLoss: CTC,
    nn.GaussianNLLLoss: GaussianNLL,
    nn.CosineEmbeddingLoss: OfSeveralOutputs,
    nn.MarginRankingLoss: OfSeveralOutputs,
    nn.TripletMarginLoss: OfSeveralOutputs,
}
