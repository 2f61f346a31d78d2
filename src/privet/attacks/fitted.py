"""What a fitted estimator remembers of its training: the names of its classes and of its columns.

Columns of ``predict_proba`` follow ``classes_``. Where these are whole numbers from 0 up, a label is that
number. Where they are words, or numbers below 0, a label is its position among them.
"""

import sys
from collections.abc import Callable
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from privet.frame_columns import FrameColumns
from privet.views import Rows

__all__ = ["class_names", "class_numbers", "name_columns", "number_predictions"]

Names = NDArray[Any]
Predict = Callable[[Rows], object]


@runtime_checkable
class _NamesClasses(Protocol):
    classes_: Any


@runtime_checkable
class _NamesColumns(Protocol):
    feature_names_in_: Any


@runtime_checkable
class _CountsColumns(Protocol):
    n_features_in_: Any


def class_numbers(model: object) -> tuple[int, ...] | None:
    """The labels of the columns, where they are whole numbers other than 0, 1, 2 …; else None."""
    classes = _classes(model)
    if classes is None or not _are_numbers(classes):
        return None
    usual = len(classes) > 1 and np.array_equal(classes, np.arange(len(classes)))
    return None if usual else tuple(int(label) for label in classes)


def class_names(model: object) -> Names | None:
    """The names of the classes, where they are not whole numbers from 0 up; else None."""
    classes = _classes(model)
    return None if classes is None or _are_numbers(classes) else classes


def number_predictions(predict: Predict, names: Names | None) -> Predict:
    """A function whose predictions are class numbers, for a model whose classes have names."""
    if names is None:
        return predict
    number_of = {name: number for number, name in enumerate(names.tolist())}

    def answer(rows: Rows) -> object:
        return np.array([number_of[name] for name in np.asarray(predict(rows)).tolist()], dtype=np.int64)

    return answer


def name_columns(model: object, predict: Predict, columns: FrameColumns | None = None) -> Predict:
    """The same query with named columns, for a model that was fitted on a pandas data frame.

    A table of mixed types reaches an attack as objects; each column gets its own type back. ``columns`` are
    those of the frame that the records came in. Without them the names are those that the model was fitted
    on, and types are inferred. A model that was fitted on an array gets an array.
    """
    pandas: Any = sys.modules.get("pandas")  # without pandas, no model was fitted on a data frame
    if pandas is None:
        return predict
    if columns is not None and (isinstance(model, _NamesColumns) or not isinstance(model, _CountsColumns)):
        return lambda rows: predict(columns.to_frame(rows))
    if not isinstance(model, _NamesColumns):
        return predict
    names = list(model.feature_names_in_)

    def answer(rows: Rows) -> object:
        if rows.ndim != 2 or rows.shape[1] != len(names):
            return predict(rows)  # the model itself reports the error best
        return predict(pandas.DataFrame(rows, columns=names).infer_objects())

    return answer


def _classes(model: object) -> Names | None:
    if not isinstance(model, _NamesClasses):
        return None
    classes = np.asarray(model.classes_)
    return classes if classes.ndim == 1 and len(classes) else None


def _are_numbers(classes: Names) -> bool:
    if classes.dtype.kind == "b":
        return True
    if classes.dtype.kind not in "iuf" or not np.isfinite(classes).all():
        return False
    return bool(classes.min() >= 0 and np.array_equal(classes, np.floor(classes)))
