"""What a model says of a target with each value of the secret filled in: targets × values.

A query for each target and value. Targets go in pieces, so that memory holds a few arrays of targets × values
and never targets × values × classes.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from privet.attacks.inversion.attributes.secret import SecretAttribute
from privet.attacks.membership.signals import check_labels
from privet.attacks.outputs import query
from privet.errors import InvalidArgument
from privet.scores import Records
from privet.views import BlackBox, LabelOnly, Labels, Numbers, Rows, WhiteBox

__all__ = [
    "CandidateAnswers",
    "PredictedNumbers",
    "ask_confidences",
    "ask_errors",
    "ask_gradient_norms",
    "ask_labels",
    "log_error_density",
]

_ROWS = 2**16  # queries at a time


@final
@dataclass(frozen=True, eq=False)
class CandidateAnswers:
    """The answers to all candidates, targets × values.

    ``right`` says whether the model predicts the target's true label; ``log_confidence`` is ln p of the true
    label, and ``log_largest`` ln p of the predicted one.
    """

    right: NDArray[np.bool_]
    log_confidence: Numbers
    log_largest: Numbers


@final
@dataclass(frozen=True)
class PredictedNumbers:
    """What an adversary sees of a regression model: one number for each row."""

    function: Callable[[Rows], object]

    def numbers(self, inputs: Rows) -> Numbers:
        """The predicted number of every row."""
        try:
            answer = np.asarray(query(self.function, inputs), dtype=np.float64)
        except (TypeError, ValueError):
            answer = np.zeros((0, 0))
        if answer.size != len(inputs) or not np.isfinite(answer).all():
            raise InvalidArgument(
                f"'function' must give one finite number for each of {len(inputs)} rows, got an array of "
                f"shape {answer.shape} or something that is no number. Give the predict method of a "
                f"regression model."
            )
        return answer.reshape(len(inputs))


def ask_errors(
    view: PredictedNumbers, secret: SecretAttribute, inputs: Rows, numbers: NDArray[Any]
) -> Numbers:
    """True minus predicted number, for each target with each value."""
    errors = [repeated - view.numbers(rows) for rows, repeated in _pieces(secret, inputs, numbers)]
    return np.concatenate(errors).reshape(-1, secret.count)


def log_error_density(errors: Numbers, spread: float) -> Numbers:
    """ln of a normal density of errors with this standard deviation, without its constant."""
    density: Numbers = -0.5 * (errors / spread) ** 2
    return density


def ask_confidences(
    view: BlackBox, secret: SecretAttribute, inputs: Rows, labels: Labels
) -> CandidateAnswers:
    """Confidences for each target with each value."""
    parts = []
    for rows, repeated in _pieces(secret, inputs, labels):
        table = view.log_confidences(rows)
        of_label = table[np.arange(len(rows)), check_labels(Records(rows, repeated), table.shape[1])]
        parts.append((np.argmax(table, axis=1) == repeated, of_label, table.max(axis=1)))
    right, of_label, largest = (
        np.concatenate(part).reshape(-1, secret.count) for part in zip(*parts, strict=True)
    )
    return CandidateAnswers(right, of_label, largest)


def ask_labels(view: LabelOnly, secret: SecretAttribute, inputs: Rows) -> Labels:
    """The predicted label of each target with each value."""
    answers = [
        view.labels(rows) for rows, _ in _pieces(secret, inputs, np.zeros(len(inputs), dtype=np.int64))
    ]
    return np.concatenate(answers).reshape(-1, secret.count)


def ask_gradient_norms(view: WhiteBox, secret: SecretAttribute, inputs: Rows, labels: Labels) -> Numbers:
    """The norm of the loss's gradient in all parameters, for each target with each value."""
    norms = [
        np.sqrt((view.gradient_norms(rows, repeated) ** 2).sum(axis=1))
        for rows, repeated in _pieces(secret, inputs, labels)
    ]
    return np.concatenate(norms).reshape(-1, secret.count)


def _pieces(secret: SecretAttribute, inputs: Rows, labels: NDArray[Any]) -> list[tuple[Rows, NDArray[Any]]]:
    """Each target with each value, target by target."""
    if inputs.ndim != 2 or max(secret.columns) >= inputs.shape[1]:
        raise InvalidArgument(
            f"'inputs' must be rows × columns with the columns of the secret, got an array of shape "
            f"{inputs.shape}. Give targets as the model takes them."
        )
    step = max(1, _ROWS // secret.count)
    values = np.arange(secret.count)
    pieces = []
    for start in range(0, len(inputs), step):
        part = inputs[start : start + step]
        rows = secret.fill(np.repeat(part, secret.count, axis=0), np.tile(values, len(part)))
        pieces.append((rows, np.repeat(labels[start : start + step], secret.count)))
    return pieces
