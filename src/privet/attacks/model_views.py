"""Views of models as people have them: estimators with ``predict_proba``, functions, torch modules.

``see`` picks the view. A bare function does not say whether it gives probabilities or logits, and guessing would change
every score, so it is wrapped by the one who knows: ``Probabilities(f)`` or ``Logits(f)``.
"""

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Any, Protocol, final, runtime_checkable

import numpy as np
from scipy.special import log_softmax

from privet.arguments import whole
from privet.attacks.fitted import class_names, class_numbers, framed, numbered
from privet.errors import InvalidArgument, PrivetError, ProgramFailed
from privet.views import BlackBox, LabelOnly, Labels, Numbers, Rows

__all__ = [
    "Logits",
    "Outputs",
    "Predictions",
    "Probabilities",
    "ask",
    "log_of_logits",
    "log_of_probabilities",
    "pieces",
    "see",
]

_SUM_TOLERANCE = 1e-2  # half precision, summed over a thousand classes


@final
class Outputs(Enum):
    """What the numbers are that a model gives."""

    LOGITS = "logits"
    PROBABILITIES = "probabilities"


@runtime_checkable
class _PredictsProbabilities(Protocol):
    def predict_proba(self, inputs: Any) -> Any: ...  # noqa: ANN401 - scikit-learn has no types


@runtime_checkable
class _Predicts(Protocol):
    def predict(self, inputs: Any) -> Any: ...  # noqa: ANN401


@final
@dataclass(frozen=True)
class Probabilities(BlackBox):
    """A function from rows to probabilities: rows × classes, or one column with the probability of class 1.

    ``classes`` are the labels of the columns where they are not 0, 1, 2 …; a class that is missing has confidence 0.

    >>> view = Probabilities(lambda rows: np.array([[0.9, 0.1]] * len(rows)))
    >>> view.labels(np.zeros((2, 3))).tolist()
    [0, 0]
    """

    function: Callable[[Rows], object]
    batch: int = 65536
    classes: tuple[int, ...] | None = None

    def log_confidences(self, inputs: Rows) -> Numbers:
        table = np.concatenate(
            [_table(ask(self.function, rows), len(rows)) for rows in pieces(inputs, self.batch)]
        )
        if self.classes is None:
            return log_of_probabilities(table)
        if len(self.classes) == 1 and table.shape[1] == 1:  # a model that knows one class is sure of it
            return _placed(
                log_of_probabilities(np.concatenate([table, 1.0 - table], axis=1))[:, :1], self.classes
            )
        return _placed(log_of_probabilities(table), self.classes)


@final
@dataclass(frozen=True)
class Logits(BlackBox):
    """A function from rows to logits: rows × classes, or one column with the logit of class 1.

    >>> Logits(lambda rows: np.array([[2.0, 0.0]] * len(rows))).confidences(np.zeros((1, 3))).round(3).tolist()
    [[0.881, 0.119]]
    """

    function: Callable[[Rows], object]
    batch: int = 65536

    def log_confidences(self, inputs: Rows) -> Numbers:
        found = [_table(ask(self.function, rows), len(rows)) for rows in pieces(inputs, self.batch)]
        return log_of_logits(np.concatenate(found), "Wrap the function in Probabilities instead.")


@final
@dataclass(frozen=True)
class Predictions(LabelOnly):
    """A function from rows to predicted classes, numbered from 0."""

    function: Callable[[Rows], object]
    batch: int = 65536

    def labels(self, inputs: Rows) -> Labels:
        found = [_array(ask(self.function, rows)) for rows in pieces(inputs, self.batch)]
        answer = np.concatenate(found)
        if (
            answer.dtype.kind == "f"
            and np.array_equal(answer, np.floor(answer))
            and np.isfinite(answer).all()
        ):
            answer = answer.astype(np.int64)
        if answer.shape != (len(inputs),) or answer.dtype.kind not in "iub":
            raise InvalidArgument(
                f"'function' must give one whole number for each row, got an array of shape {answer.shape} and type "
                f"{answer.dtype}. Number the classes from 0; where it gives confidences, wrap it in Probabilities or Logits."
            )
        return answer.astype(np.int64)


def see(model: object, *, batch: int = 256, gives: Outputs | None = None) -> LabelOnly:
    """The widest view that a model allows.

    - a torch module: ``WhiteBox``. It is asked in evaluation mode, on its own device and in its own type, in batches; its
      mode is put back. ``gives`` says what its last layer gives. Where it is left out, its last layer or operation says it, and any
      other module gives logits; outputs that look like probabilities are then refused, and ask for ``gives``.
    - an object with ``predict_proba``: ``BlackBox``. Columns are placed by ``classes_`` where these are whole numbers; where
      they are words, a label is its place among them. What was fitted on a pandas frame is asked with named columns.
    - an object with ``predict`` alone: ``LabelOnly``.
    - a view: itself. A bare function is refused: wrap it in ``Probabilities`` or ``Logits``.
    """
    whole("batch", batch)
    if isinstance(model, LabelOnly):
        return model
    torch = sys.modules.get("torch")  # where torch was never loaded, nothing can be one of its modules
    if torch is not None and isinstance(model, torch.nn.Module):
        from privet.attacks.torch_views import TorchView

        return TorchView(model, batch=batch, gives=gives)
    if isinstance(model, _PredictsProbabilities):
        return Probabilities(framed(model, model.predict_proba), classes=class_numbers(model))
    if isinstance(model, _Predicts):
        return Predictions(numbered(framed(model, model.predict), class_names(model)))
    if callable(model):
        raise InvalidArgument(
            f"'model' must say what it gives, got a bare function of type {type(model).__name__}. "
            f"Wrap it: Probabilities(f) or Logits(f)."
        )
    raise InvalidArgument(
        f"'model' must be a torch module, an estimator with predict_proba, or a view, got {type(model).__name__}. "
        f"Wrap what asks it: Probabilities(f) or Logits(f)."
    )


def ask(model: Callable[[Any], object], rows: Any) -> object:  # noqa: ANN401 - an array or a tensor
    """What a model says of some rows. Its own error may show records, so it is the cause and no part of the message."""
    try:
        return model(rows)
    except (PrivetError, MemoryError):
        raise
    except Exception as failed:
        raise ProgramFailed(
            f"The model must answer every record, and it failed with {type(failed).__name__}, which stands above. "
            f"Check that it takes records as they are given: their shape, type and scale."
        ) from failed


def _array(found: object, dtype: type | None = None) -> Any:  # noqa: ANN401 - of any type
    try:
        return np.asarray(found, dtype=dtype)
    except Exception:  # rows of several lengths, text, or an object that only looks like an array
        raise InvalidArgument(
            f"'function' must give an array of numbers, got {type(found).__name__} that numpy cannot read as one. "
            f"Give rows × classes."
        ) from None


def pieces(inputs: Rows, size: int) -> Iterator[Rows]:
    """The rows, at most ``size`` at a time."""
    if inputs.ndim == 0 or len(inputs) == 0:
        raise InvalidArgument(
            "'inputs' must hold at least one record, got none. Give one row for each record."
        )
    for start in range(0, len(inputs), whole("batch", size)):
        yield inputs[start : start + size]


def log_of_probabilities(
    table: Numbers, fix: str = "Wrap it in Logits if these are logits, or normalise them."
) -> Numbers:
    """ln p, after a check that these are probabilities; one column is that of class 1."""
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


def log_of_logits(table: Numbers, fix: str) -> Numbers:
    """ln softmax, after a check that these are not probabilities already; one column is the logit of class 1."""
    if np.isnan(table).any():
        raise InvalidArgument(_NAN)
    if table.shape[1] == 1:
        return np.concatenate([-np.logaddexp(0.0, table), -np.logaddexp(0.0, -table)], axis=1)
    if len(table) and table.min() >= 0 and np.abs(table.sum(axis=1) - 1.0).max() < 1e-4:
        raise InvalidArgument(
            f"'model' must give logits, got rows of probabilities (none below 0, each sum 1), whose softmax would hide "
            f"most of what they tell. {fix}"
        )
    answer: Numbers = np.asarray(log_softmax(np.clip(table, -1e300, 1e300), axis=1), dtype=np.float64)
    return answer


_NAN = (
    "'model' must give numbers, got NaN. Look for records that hold NaN, or for a training run that diverged."
)


def _table(found: object, rows: int) -> Numbers:
    table: Numbers = _array(found, np.float64)
    if table.ndim == 1:
        table = table[:, None]
    if table.ndim != 2 or len(table) != rows or table.shape[1] == 0:
        raise InvalidArgument(
            f"'function' must give rows × classes for {rows} rows, got an array of shape {table.shape}. "
            f"Give one row of confidences for each record."
        )
    return table


def _placed(log_confidences: Numbers, classes: tuple[int, ...]) -> Numbers:
    if log_confidences.shape[1] != len(classes):
        raise InvalidArgument(
            f"'classes' must name each of the {log_confidences.shape[1]} columns, got {len(classes)} names. "
            f"Give one class for each column that the function gives."
        )
    wide = np.full((len(log_confidences), max(classes) + 1), -np.inf)
    wide[:, list(classes)] = log_confidences
    return wide
