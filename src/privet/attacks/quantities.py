"""Regression models in the membership game: how well the model predicts a record's own quantity.

A classifier has a confidence p in the true label, and φ = ln(p/(1−p)) is the signal of most attacks, with the
loss −ln p. A regression model has an error r = y − f(x). Its loss is r²/2s², that of a Gaussian with standard
deviation s, so p = exp(−r²/2s²) takes the place of the confidence, and φ = −ln(exp(r²/2s²) − 1). For small
errors φ is −2 ln|r| plus a constant, which is near to Gaussian over reference models; for large ones it is
−r²/2s². So every attack on φ plays the same game: loss, LiRA, RMIA and the others. The order of losses does
not depend on s, the *unit*; it is the same number for the target and for all reference models.

A record has its quantity among its inputs (the field ``target``), and the label 1: the quantity is the true
one. Attacks that need classes or see labels only do not apply.

*Deviation*: the papers define these attacks for classifiers; the residual as their signal is ours.
"""

import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, final, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from privet.arguments import positive
from privet.attacks.fitted import name_columns
from privet.attacks.outputs import Outputs, batches, query
from privet.errors import InvalidArgument
from privet.frame_columns import FrameColumns
from privet.record_inputs import has_several_inputs, join_inputs, split_inputs, to_arguments
from privet.scores import Records
from privet.views import BlackBox, Numbers, Rows

__all__ = [
    "Quantities",
    "features_of",
    "is_regression",
    "predict_function",
    "quantity_records",
    "targets_of",
    "typical_error",
]

TARGET, _INPUTS = "target", "inputs"
_QUANTILE = 0.75


@runtime_checkable
class _PredictsNumbers(Protocol):
    def predict(self, inputs: Any) -> Any: ...  # noqa: ANN401 - scikit-learn has no types


@final
@dataclass(frozen=True)
class Quantities(BlackBox):
    """A function from rows to one predicted quantity each, and the unit of its errors.

    >>> view = Quantities(lambda rows: rows[:, 0], unit=1.0)
    >>> records = quantity_records(np.array([[1.0], [2.0]]), np.array([1.5, 4.0]))
    >>> view.predictions(records.inputs).tolist(), view.confidences(records.inputs).round(3).tolist()
    ([1.0, 2.0], [[0.118, 0.882], [0.865, 0.135]])
    """

    function: Callable[[Any], object]
    unit: float
    batch: int = 65536

    def __post_init__(self) -> None:
        positive("unit", self.unit)

    def predictions(self, inputs: Rows) -> Numbers:
        """The predicted quantity of every row."""
        answers = [
            _one_number_each(query(self.function, rows), len(features))
            for features in batches(features_of(inputs), self.batch)
            for rows in [to_arguments(features)]
        ]
        return np.concatenate(answers)

    def log_confidences(self, inputs: Rows) -> Numbers:
        """ln(1 − p) and ln p of every row, with p = exp(−r²/2s²) for the error r of its own quantity."""
        with np.errstate(over="ignore", divide="ignore"):
            loss = 0.5 * ((targets_of(inputs) - self.predictions(inputs)) / self.unit) ** 2
            return np.stack([np.log(-np.expm1(-loss)), -loss], axis=1)


def quantity_records(
    inputs: Rows,
    targets: NDArray[Any],
    groups: NDArray[np.str_] | None = None,
    columns: FrameColumns | None = None,
) -> Records:
    """Records of a regression model: inputs, and the true quantity of each.

    >>> records = quantity_records(np.zeros((3, 2)), np.array([0.5, 1.0, 7.0]))
    >>> records.inputs["target"].tolist(), records.labels.tolist()
    ([0.5, 1.0, 7.0], [1, 1, 1])
    """
    columns = FrameColumns.of(inputs) if columns is None else columns
    rows, values = np.asarray(inputs), _to_targets(targets, len(inputs))
    parts = split_inputs(rows) if has_several_inputs(rows) else {_INPUTS: rows}
    table = join_inputs(parts | {TARGET: values})
    return Records(table, np.ones(len(rows), dtype=np.int64), groups, columns)


def targets_of(rows: Rows) -> Numbers:
    """The true quantity of every row; refused where the rows have none."""
    if rows.dtype.names is None or TARGET not in rows.dtype.names:
        raise InvalidArgument(
            "'records' must have their quantities for a regression model, got records of classes. Give "
            "(inputs, quantities), or make them by quantity_records(inputs, quantities)."
        )
    targets: Numbers = split_inputs(rows)[TARGET]
    return targets


def features_of(rows: Rows) -> Rows:
    """The rows without their quantity, as the model takes them."""
    if not has_several_inputs(rows):
        return rows
    parts = {name: part for name, part in split_inputs(rows).items() if name != TARGET}
    return parts[_INPUTS] if list(parts) == [_INPUTS] else join_inputs(parts)


def is_regression(model: object, gives: Outputs | None = None) -> bool:
    """Whether a model predicts a quantity: a regressor of scikit-learn, or what ``gives`` says."""
    if gives is not None:
        return gives is Outputs.QUANTITIES
    if isinstance(model, Quantities):
        return True
    base: Any = sys.modules.get("sklearn.base")  # without scikit-learn, no model is one of its regressors
    if base is None or isinstance(model, type) or not isinstance(model, base.BaseEstimator):
        return False
    return bool(base.is_regressor(model))


def predict_function(model: object, columns: FrameColumns | None = None) -> Callable[[Any], object]:
    """The function from rows to quantities of a regressor, a torch module, or a function."""
    if isinstance(model, Quantities):
        return model.function
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(model, torch.nn.Module):
        from privet.attacks.torch_views import TorchView

        return TorchView(model).outputs
    if isinstance(model, _PredictsNumbers):
        return name_columns(model, model.predict, columns)
    if callable(model):
        return model
    raise InvalidArgument(
        f"'model' must predict quantities, got {type(model).__name__}. Give an estimator with predict, a "
        f"torch module or a function."
    )


def typical_error(predictions: Numbers, targets: Numbers) -> float:
    """The unit of errors: the size that three of four errors stay below.

    Where half of the records are members without any error, it is the median error of the others. It uses no
    membership.

    >>> typical_error(np.zeros(4), np.array([1.0, -2.0, 3.0, 4.0]))
    3.25
    """
    errors = np.abs(targets - predictions)
    sizes = np.quantile(errors, _QUANTILE), np.sqrt(np.mean(errors**2)), np.std(targets)
    for size in map(float, sizes):
        if 0 < size < np.inf:
            return size
    return 1.0


def _one_number_each(answer: object, rows: int) -> Numbers:
    try:
        values = np.asarray(answer, dtype=np.float64)
    except (TypeError, ValueError):
        values = np.empty(0)
    if values.shape not in ((rows,), (rows, 1)):
        raise InvalidArgument(
            f"'model' must predict one quantity for each of {rows} rows, got an array of shape "
            f"{values.shape}. Audit one output of a model with several."
        )
    if not np.isfinite(values).all():
        raise InvalidArgument(
            "'model' must predict numbers, got NaN or infinity. Look for records that hold NaN, or for a "
            "training run that diverged."
        )
    return values.reshape(rows)


def _to_targets(targets: object, rows: int) -> Numbers:
    try:
        values = np.asarray(targets, dtype=np.float64)
    except (TypeError, ValueError):
        values = np.full(0, np.nan)
    if values.shape not in ((rows,), (rows, 1)) or not np.isfinite(values).all():
        raise InvalidArgument(
            f"'targets' must be one finite number for each of {rows} records, got something else. Leave out "
            f"records without a quantity, and audit one quantity at a time."
        )
    return values.reshape(rows)
