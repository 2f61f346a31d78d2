"""Views of models: estimators with ``predict_proba``, functions, torch modules.

``see`` picks the view. A bare function does not say whether it gives probabilities or logits, and a wrong
guess would change every score. So the user wraps it: ``Probabilities(f)`` or ``Logits(f)``.
"""

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, final, runtime_checkable

import numpy as np

from privet.arguments import whole
from privet.attacks.fitted import class_names, class_numbers, name_columns, number_predictions
from privet.attacks.outputs import (
    Outputs,
    batches,
    log_confidences_of_logits,
    log_confidences_of_probabilities,
    query,
)
from privet.errors import InvalidArgument
from privet.frame_columns import FrameColumns
from privet.record_inputs import to_arguments
from privet.views import BlackBox, LabelOnly, Labels, Numbers, Rows

__all__ = [
    "Logits",
    "Predictions",
    "Probabilities",
    "see",
]


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

    ``classes`` are the labels of the columns where they are not 0, 1, 2 …; a missing class has confidence 0.

    >>> view = Probabilities(lambda rows: np.array([[0.9, 0.1]] * len(rows)))
    >>> view.labels(np.zeros((2, 3))).tolist()
    [0, 0]
    """

    function: Callable[[Rows], object]
    batch: int = 65536
    classes: Sequence[int] | None = None

    def __post_init__(self) -> None:
        if self.classes is not None:
            object.__setattr__(self, "classes", tuple(self.classes))

    def log_confidences(self, inputs: Rows) -> Numbers:
        tables = [_check_table(_ask(self.function, rows), len(rows)) for rows in batches(inputs, self.batch)]
        table = np.concatenate(tables)
        if self.classes is None:
            return log_confidences_of_probabilities(table)
        if len(self.classes) == 1 and table.shape[1] == 1:  # a model with one class is sure of it
            return _place_columns(
                log_confidences_of_probabilities(np.concatenate([table, 1.0 - table], axis=1))[:, :1],
                self.classes,
            )
        return _place_columns(log_confidences_of_probabilities(table), self.classes)


@final
@dataclass(frozen=True)
class Logits(BlackBox):
    """A function from rows to logits: rows × classes, or one column with the logit of class 1.

    >>> view = Logits(lambda rows: np.array([[2.0, 0.0]] * len(rows)))
    >>> view.confidences(np.zeros((1, 3))).round(3).tolist()
    [[0.881, 0.119]]
    """

    function: Callable[[Rows], object]
    batch: int = 65536

    def log_confidences(self, inputs: Rows) -> Numbers:
        tables = [_check_table(_ask(self.function, rows), len(rows)) for rows in batches(inputs, self.batch)]
        return log_confidences_of_logits(
            np.concatenate(tables), "Wrap the function in Probabilities instead."
        )


@final
@dataclass(frozen=True)
class Predictions(LabelOnly):
    """A function from rows to predicted classes, numbered from 0."""

    function: Callable[[Rows], object]
    batch: int = 65536

    def labels(self, inputs: Rows) -> Labels:
        answers = [
            np.atleast_1d(_to_array(_ask(self.function, rows))) for rows in batches(inputs, self.batch)
        ]
        answer = np.concatenate(answers)
        if (
            answer.dtype.kind == "f"
            and np.array_equal(answer, np.floor(answer))
            and np.isfinite(answer).all()
        ):
            answer = answer.astype(np.int64)
        if answer.shape != (len(inputs),) or answer.dtype.kind not in "iub":
            raise InvalidArgument(
                f"'function' must give one whole number for each row, got an array of shape {answer.shape} "
                f"and type {answer.dtype}. Number the classes from 0; where it gives confidences, wrap it in "
                f"Probabilities or Logits."
            )
        return answer.astype(np.int64)


def see(
    model: object, *, batch: int = 256, gives: Outputs | None = None, columns: FrameColumns | None = None
) -> LabelOnly:
    """The widest view that a model allows.

    - a torch module: ``WhiteBox``. It runs in evaluation mode, on its own device and in its own type, in
      batches; its mode is restored. ``gives`` says what its last layer gives. Without it, the last layer or
      operation decides, and any other module counts as giving logits; outputs that look like probabilities
      are then refused with a request for ``gives``.
    - an object with ``predict_proba``: ``BlackBox``. Columns follow ``classes_`` where these are whole
      numbers; where they are words, a label is its position among them. A model that was fitted on a pandas
      data frame gets named columns; ``columns`` also gives them their types.
    - an object with ``predict`` alone: ``LabelOnly``.
    - a view: itself. A bare function is refused: wrap it in ``Probabilities`` or ``Logits``.
    """
    whole("batch", batch)
    if isinstance(model, LabelOnly):
        return model
    torch = sys.modules.get("torch")  # without torch, no object is one of its modules
    if torch is not None and isinstance(model, torch.nn.Module):
        from privet.attacks.torch_views import TorchView

        return TorchView(model, batch=batch, gives=gives)
    if isinstance(model, _PredictsProbabilities):
        return Probabilities(name_columns(model, model.predict_proba, columns), classes=class_numbers(model))
    if isinstance(model, _Predicts):
        return Predictions(
            number_predictions(name_columns(model, model.predict, columns), class_names(model))
        )
    if callable(model):
        raise InvalidArgument(
            f"'model' must say what it gives, got a bare function of type {type(model).__name__}. "
            f"Wrap it: Probabilities(f) or Logits(f)."
        )
    raise InvalidArgument(
        f"'model' must be a torch module, an estimator with predict_proba, or a view, got "
        f"{type(model).__name__}. Wrap a function that queries it: Probabilities(f) or Logits(f)."
    )


def _ask(function: Callable[[Any], object], rows: Rows) -> object:
    """The function's answer; several inputs reach it as they were given, as a dictionary or a tuple."""
    return query(function, to_arguments(rows))


def _to_array(answer: object, dtype: type | None = None) -> Any:  # noqa: ANN401 - of any type
    try:
        return np.asarray(answer, dtype=dtype)
    except Exception:  # rows of several lengths, text, or an object that only looks like an array
        raise InvalidArgument(
            f"'function' must give an array of numbers, got {type(answer).__name__}, which numpy cannot read "
            f"as one. Give rows × classes."
        ) from None


def _check_table(answer: object, rows: int) -> Numbers:
    table: Numbers = _to_array(answer, np.float64)
    if table.ndim == 1:
        table = table[:, None]
    if table.ndim != 2 or len(table) != rows or table.shape[1] == 0:
        raise InvalidArgument(
            f"'function' must give rows × classes for {rows} rows, got an array of shape {table.shape}. "
            f"Give one row of confidences for each record."
        )
    return table


def _place_columns(log_confidences: Numbers, classes: Sequence[int]) -> Numbers:
    if log_confidences.shape[1] != len(classes):
        raise InvalidArgument(
            f"'classes' must name each of the {log_confidences.shape[1]} columns, got {len(classes)} names. "
            f"Give one class for each column that the function gives."
        )
    wide = np.full((len(log_confidences), max(classes) + 1), -np.inf)
    wide[:, list(classes)] = log_confidences
    return wide
