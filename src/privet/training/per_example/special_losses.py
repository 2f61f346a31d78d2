"""Losses of torch with their own shapes: margins, pairs of outputs, variances, and sequences to align."""

import copy
import math
from typing import Any, final

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

from privet.errors import InvalidArgument

__all__ = ["CTC", "GaussianNLL", "OfSeveralOutputs", "RowLoss"]


@final
class RowLoss:
    """A loss that is one number for each row of outputs, such as a margin over the classes."""

    __slots__ = ("_loss",)

    def __init__(self, loss: nn.Module) -> None:
        self._loss = _remove_reduction(loss)

    def __call__(self, outputs: Tensor, targets: Tensor) -> Tensor:
        if outputs.dim() != 2 or targets.shape not in (outputs.shape[:1], outputs.shape):
            raise InvalidArgument(
                f"'outputs' must be [examples, classes] for this loss, with targets for each, got "
                f"{tuple(outputs.shape)} and {tuple(targets.shape)}. Reshape them."
            )
        return self._loss(outputs, targets)  # type: ignore[no-any-return]


@final
class OfSeveralOutputs:
    """A loss of two or three outputs for each example: embeddings, or scores to be ranked.

    The model returns a tuple. Losses without a target, such as ``nn.TripletMarginLoss``, ignore it.
    """

    __slots__ = ("_adds", "_count", "_loss", "_takes_targets")

    def __init__(self, loss: nn.Module) -> None:
        self._loss, self._adds = _remove_reduction(loss), loss.reduction == "sum"
        self._takes_targets = not isinstance(loss, nn.TripletMarginLoss)
        self._count = 2 if self._takes_targets else 3

    def __call__(self, outputs: Any, targets: Tensor) -> Tensor:  # noqa: ANN401 - a tuple of the model
        parts = _require_tensors(outputs, self._count)
        if self._takes_targets:
            losses = self._loss(*parts, targets.reshape(-1) if targets.numel() == len(targets) else targets)
        else:
            losses = self._loss(*parts)
        if losses.dim() == 1:
            return losses  # type: ignore[no-any-return]
        rows = losses.flatten(1)
        return rows.sum(1) if self._adds else rows.mean(1)  # type: ignore[no-any-return]


@final
class GaussianNLL:
    """½ (ln v + (μ − y)²/v) for a model that returns a tuple of means μ and variances v.

    As in torch, variances below ``eps`` are replaced by ``eps`` in the value, and keep their gradient.
    """

    __slots__ = ("_adds", "_constant", "_eps")

    def __init__(self, loss: nn.GaussianNLLLoss) -> None:
        self._adds, self._eps = loss.reduction == "sum", loss.eps
        self._constant = 0.5 * math.log(2 * math.pi) if loss.full else 0.0

    def __call__(self, outputs: Any, targets: Tensor) -> Tensor:  # noqa: ANN401 - a tuple of the model
        means, variances = _require_tensors(outputs, 2)
        if variances.shape == means.shape[:-1]:
            variances = variances.unsqueeze(-1)
        if targets.shape != means.shape and targets.numel() == means.numel():
            targets = targets.reshape(means.shape)
        if targets.shape != means.shape or variances.shape[:-1] != means.shape[:-1]:
            raise InvalidArgument(
                f"'targets' must have the shape of the model's means {tuple(means.shape)}, got "
                f"{tuple(targets.shape)}, and variances {tuple(variances.shape)}. Reshape one of them."
            )
        _require_not_negative(variances)
        raised = variances + (variances.detach().clamp(min=self._eps) - variances.detach())
        errors = (means - targets.to(means.dtype)).square()
        losses = 0.5 * (raised.log() + errors / raised) + self._constant
        rows = losses.reshape(len(losses), -1)
        return rows.sum(1) if self._adds else rows.mean(1)


@final
class CTC:
    """Connectionist temporal classification, for log-probabilities [time, examples, classes] as in torch.

    The model returns them, or a tuple of them and the lengths [examples] of the inputs. Targets are
    [examples, tokens], padded at the end by the blank or by negative numbers. ``reduction="mean"`` divides an
    example's loss by the number of its own tokens, as torch does.
    """

    __slots__ = ("_averages", "_blank", "_zero_infinity")

    def __init__(self, loss: nn.CTCLoss) -> None:
        self._blank, self._zero_infinity = loss.blank, loss.zero_infinity
        self._averages = loss.reduction == "mean"

    def __call__(self, outputs: Any, targets: Tensor) -> Tensor:  # noqa: ANN401 - a tensor, or a tuple
        if isinstance(outputs, Tensor):
            log_probabilities = outputs
            lengths = torch.full(
                (outputs.shape[1] if outputs.dim() == 3 else 0,), len(outputs), dtype=torch.int64
            )
        else:
            log_probabilities, lengths = _require_tensors(outputs, 2)
        if log_probabilities.dim() != 3 or log_probabilities.shape[1] != len(targets) or targets.dim() != 2:
            raise InvalidArgument(
                f"'outputs' must be [time, examples, classes] and 'targets' [examples, tokens] for CTCLoss, "
                f"got {tuple(log_probabilities.shape)} and {tuple(targets.shape)}. Permute the outputs."
            )
        is_token = (targets != self._blank) & (targets >= 0)
        counts = is_token.sum(1)
        losses = F.ctc_loss(
            log_probabilities,
            targets.masked_fill(~is_token, self._blank),
            lengths.to(torch.int64),
            counts,
            blank=self._blank,
            reduction="none",
            zero_infinity=self._zero_infinity,
        )
        return losses / counts.clamp(min=1) if self._averages else losses


def _remove_reduction(loss: nn.Module) -> nn.Module:
    copied = copy.copy(loss)
    copied.reduction = "none"  # type: ignore[assignment]
    return copied


def _require_tensors(outputs: Any, count: int) -> tuple[Tensor, ...]:  # noqa: ANN401 - of any model
    if isinstance(outputs, tuple | list) and len(outputs) == count and all(map(torch.is_tensor, outputs)):
        return tuple(outputs)
    raise InvalidArgument(
        f"'model' must return a tuple of {count} tensors for this loss, got {type(outputs).__name__}. "
        "Return them in the order of the loss's arguments."
    )


def _require_not_negative(variances: Tensor) -> None:
    try:
        is_negative = bool((variances < 0).any())
    except RuntimeError:
        return  # inside vmap, where values cannot be read; the same outputs were checked before
    if is_negative:
        raise InvalidArgument(
            "'model' must return variances that are not negative, got some that are. End the model in "
            "softplus or exp for them."
        )
