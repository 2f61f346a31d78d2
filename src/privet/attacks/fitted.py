"""What a fitted estimator remembers of its training: how its classes are called, and how its columns are.

Columns of ``predict_proba`` follow ``classes_``. Where these are whole numbers from 0 up, a label is its number. Where they
are words, or numbers below 0, a label is its place among them.
"""

import sys
from collections.abc import Callable
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from privet.views import Rows

__all__ = ["class_names", "class_numbers", "name_columns", "number_predictions"]

Names = NDArray[Any]
Ask = Callable[[Rows], object]


@runtime_checkable
class _NamesClasses(Protocol):
    classes_: Any


@runtime_checkable
class _NamesColumns(Protocol):
    feature_names_in_: Any


def class_numbers(model: object) -> tuple[int, ...] | None:
    """The labels of the columns, where they are whole numbers and not the usual 0, 1, 2 …"""
    classes = _classes(model)
    if classes is None or not _are_numbers(classes):
        return None
    usual = len(classes) > 1 and np.array_equal(classes, np.arange(len(classes)))
    return None if usual else tuple(int(one) for one in classes)


def class_names(model: object) -> Names | None:
    """What the columns are called, where these are no whole numbers from 0 up; None where a label is a number already."""
    classes = _classes(model)
    return None if classes is None or _are_numbers(classes) else classes


def number_predictions(predict: Ask, names: Names | None) -> Ask:
    """Predictions as places among the names, where classes have some."""
    if names is None:
        return predict
    places = {name: place for place, name in enumerate(names.tolist())}

    def answer(rows: Rows) -> object:
        return np.array([places[one] for one in np.asarray(predict(rows)).tolist()], dtype=np.int64)

    return answer


def name_columns(model: object, ask: Ask) -> Ask:
    """The same question with named columns, for a model that was fitted on a pandas frame.

    A table of several kinds reaches an attack as objects; each column gets its own type back.
    """
    pandas: Any = sys.modules.get("pandas")  # where it was never loaded, nothing was fitted on a frame
    if pandas is None or not isinstance(model, _NamesColumns):
        return ask
    names = list(model.feature_names_in_)

    def answer(rows: Rows) -> object:
        if rows.ndim != 2 or rows.shape[1] != len(names):
            return ask(rows)  # the model says best what it misses
        return ask(pandas.DataFrame(rows, columns=names).infer_objects())

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
