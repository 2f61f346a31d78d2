"""The score of a model on private validation data: right answers, counted with noise.

*Guarantee*. One record more or less moves the count by at most 1, so the count with discrete Gaussian noise
of standard deviation s has the event ``DiscreteGaussian(s)``.
"""

from dataclasses import dataclass
from typing import Any, final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from privet.errors import InvalidArgument
from privet.events import DiscreteGaussian
from privet.mechanisms.sampling import discrete_gaussian
from privet.randomness import NoiseSource
from privet.record_hashes import hash_records

__all__ = ["ValidationSet", "mark_right_answers", "noisy_count", "require_disjoint", "score_event"]

_AT_ONCE = 2048


@final
@dataclass(frozen=True, eq=False)
class ValidationSet:
    """Inputs and labels that no run is trained on."""

    inputs: Tensor
    labels: Tensor

    @staticmethod
    def read(data: object, name: str = "validation") -> "ValidationSet":
        """A pair of arrays or tensors of one length."""
        if not isinstance(data, tuple | list) or len(data) != 2:
            raise InvalidArgument(
                f"'{name}' must be a pair (inputs, labels), got {type(data).__name__}. Give two arrays."
            )
        inputs, labels = (_as_tensor(part, name) for part in data)
        if inputs.ndim == 0 or labels.ndim != 1 or len(inputs) != len(labels) or len(labels) == 0:
            raise InvalidArgument(
                f"'{name}' must have one label for each of its inputs, and at least one, and has not. Give "
                f"arrays of one length."
            )
        if labels.is_floating_point() or labels.is_complex():
            raise InvalidArgument(
                f"'{name}' must have whole numbers as labels, got {labels.dtype}. Give class numbers."
            )
        return ValidationSet(inputs, labels.long())

    def __len__(self) -> int:
        return len(self.labels)


def _as_tensor(part: object, name: str) -> Tensor:
    if isinstance(part, Tensor):
        return part.detach()
    try:
        found: NDArray[Any] = np.asarray(part)
        return torch.as_tensor(found)
    except (TypeError, ValueError, RuntimeError):
        raise InvalidArgument(
            f"'{name}' must be a pair of arrays of numbers, got {type(part).__name__}. Give two arrays."
        ) from None


def require_disjoint(training: ValidationSet, validation: ValidationSet) -> None:
    """Refuse a validation set that shares records with the training set. *Leaks*: that it does."""
    if training.inputs.shape[1:] != validation.inputs.shape[1:]:
        raise InvalidArgument(
            f"'validation' must have inputs of the shape of 'data', {list(training.inputs.shape[1:])}, got "
            f"{list(validation.inputs.shape[1:])}. Prepare both alike."
        )
    ours, theirs = (hash_records(each.inputs.numpy(force=True)) for each in (training, validation))
    if np.isin(theirs, ours).any():
        raise InvalidArgument(
            "'validation' must share no record with 'data', and does, so its scores would reward "
            "memorising. Remove duplicates, then split the records into two parts."
        )


def score_event(scale: float) -> DiscreteGaussian:
    """The event of one noisy count."""
    return DiscreteGaussian(scale, 1)


def noisy_count(right: NDArray[np.bool_], scale: float, noise: NoiseSource) -> int:
    """The number of right answers, with noise."""
    return int(right.sum()) + int(discrete_gaussian(scale, 1, noise)[0])


@torch.no_grad()
def mark_right_answers(model: nn.Module, validation: ValidationSet) -> NDArray[np.bool_]:
    """Which labels the model predicts; secret. Outputs that are not finite are wrong answers."""
    model.eval()
    weight = next(model.parameters(), None)
    marks: list[Tensor] = []
    for start in range(0, len(validation), _AT_ONCE):
        inputs = validation.inputs[start : start + _AT_ONCE]
        if weight is not None:
            inputs = inputs.to(weight.device, weight.dtype if inputs.is_floating_point() else inputs.dtype)
        outputs = model(inputs)
        labels = validation.labels[start : start + _AT_ONCE].to(outputs.device)
        rows = outputs.reshape(len(labels), -1)
        guesses = rows.argmax(1) if rows.shape[1] > 1 else (rows[:, 0] > 0).long()
        marks.append(((guesses == labels) & rows.isfinite().all(1)).cpu())
    return np.asarray(torch.cat(marks).numpy(), dtype=np.bool_)
