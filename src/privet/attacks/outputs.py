"""What a model gives, logits or probabilities, and how either becomes log confidences."""

from collections.abc import Callable, Iterator
from enum import Enum
from typing import Any, final

import numpy as np
from scipy.special import log_softmax

from privet.arguments import whole
from privet.errors import InvalidArgument, PrivetError, ProgramFailed
from privet.views import Numbers, Rows

__all__ = [
    "Outputs",
    "batches",
    "log_confidences_of_logits",
    "log_confidences_of_probabilities",
    "query",
]

_SUM_TOLERANCE = 1e-2  # half precision, summed over a thousand classes
_NAN = (
    "'model' must give numbers, got NaN. Look for records that hold NaN, or for a training run that diverged."
)


@final
class Outputs(Enum):
    """What a model gives: logits or probabilities of classes, or a quantity (regression)."""

    LOGITS = "logits"
    PROBABILITIES = "probabilities"
    QUANTITIES = "quantities"


def batches(inputs: Rows, size: int) -> Iterator[Rows]:
    """The rows in batches of at most ``size``."""
    if inputs.ndim == 0 or len(inputs) == 0:
        raise InvalidArgument(
            "'inputs' must hold at least one record, got none. Give one row for each record."
        )
    for start in range(0, len(inputs), whole("batch", size)):
        yield inputs[start : start + size]


def query(model: Callable[[Any], object], rows: Any) -> object:  # noqa: ANN401 - an array or a tensor
    """What a model gives for some rows.

    The model's own error may show records. It is the cause of the error here, and no part of its message.
    """
    try:
        return model(rows)
    except (PrivetError, MemoryError):
        raise
    except Exception as failure:
        raise ProgramFailed(
            f"The model must answer every record, and it failed with {type(failure).__name__}, which stands "
            f"above. Check that it takes records as they are given: their shape, type and scale."
        ) from failure


def log_confidences_of_probabilities(
    table: Numbers, fix: str = "Wrap it in Logits if these are logits, or normalise them."
) -> Numbers:
    """ln p, after a check that these are probabilities; a single column is the probability of class 1."""
    if table.shape[1] == 1:
        table = np.concatenate([1.0 - table, table], axis=1)
    if np.isnan(table).any():
        raise InvalidArgument(_NAN)
    off = np.abs(table.sum(axis=1) - 1.0).max()
    if table.min() < -_SUM_TOLERANCE:
        raise InvalidArgument(f"'model' must give probabilities, got numbers below 0 or above 1. {fix}")
    if off > _SUM_TOLERANCE:
        raise InvalidArgument(
            f"'model' must give probabilities, got rows whose sum is off by up to {off:.3g}. {fix}"
        )
    with np.errstate(divide="ignore"):
        answer: Numbers = np.log(np.clip(table, 0.0, None))
    return answer


def log_confidences_of_logits(table: Numbers, fix: str) -> Numbers:
    """ln softmax, after a check that these are not probabilities already.

    A single column is the logit of class 1.
    """
    if np.isnan(table).any():
        raise InvalidArgument(_NAN)
    if table.shape[1] == 1:
        return np.concatenate([-np.logaddexp(0.0, table), -np.logaddexp(0.0, -table)], axis=1)
    if len(table) and table.min() >= 0 and np.abs(table.sum(axis=1) - 1.0).max() < 1e-4:
        raise InvalidArgument(
            f"'model' must give logits, got rows of probabilities (none below 0, each sum 1), whose softmax "
            f"would hide most of what they tell. {fix}"
        )
    answer: Numbers = np.asarray(log_softmax(np.clip(table, -1e300, 1e300), axis=1), dtype=np.float64)
    return answer
