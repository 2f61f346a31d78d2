"""Labels that are words or start from 1: their numbers, by classes that somebody has declared.

Classes are never learnt from the data. A class that only one record has would show that this record is there,
and the ledger does not cover that.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from torch import Tensor

from privet.arguments import format_value
from privet.errors import InvalidArgument

__all__ = ["as_classes", "encode_labels"]


def as_classes(classes: Sequence[Any] | None) -> tuple[Any, ...] | None:
    """Read the declared classes: at least two, each once."""
    if classes is None:
        return None
    try:
        declared = tuple(np.asarray(list(classes)).tolist()) if not isinstance(classes, str) else ()
        different = len(set(declared))
    except (TypeError, ValueError):  # lists, dictionaries: no names of classes
        declared, different = (), 0
    if len(declared) < 2 or different < len(declared):
        raise InvalidArgument(
            f"'classes' must be at least two different classes, got {format_value(classes)}. List each class "
            "once, in the order of the model's outputs."
        )
    return declared


def encode_labels(labels: Any, classes: tuple[Any, ...] | None) -> Any:  # noqa: ANN401 - of any container
    """The position of each label among the classes. Without classes, numbers stay as they are.

    >>> encode_labels(["no", "yes", "no"], ("no", "yes"))
    array([0, 1, 0])
    """
    if classes is None:
        if _are_words(labels):
            raise InvalidArgument(
                "'classes' must be given if the labels are words, got None: classes that are read from the "
                "data would show that a rare one occurs. Give classes=('no', 'yes'), for example, in the "
                "order of the model's outputs."
            )
        return labels
    values = labels.cpu().numpy() if isinstance(labels, Tensor) else np.asarray(labels)
    shape = values.shape[:1] if values.ndim == 2 and values.shape[1] == 1 else values.shape
    positions = {label: position for position, label in enumerate(classes)}
    numbers = [positions.get(value, -1) for value in values.reshape(-1).tolist()]
    if -1 in numbers:
        raise InvalidArgument(
            f"'data' must have labels among the declared classes {format_value(list(classes))}, and some are "
            "not. Declare all classes, or leave out other records by a public rule."
        )
    return np.asarray(numbers, dtype=np.int64).reshape(shape)


def _are_words(labels: Any) -> bool:  # noqa: ANN401 - of any container
    if isinstance(labels, Tensor):
        return False
    if isinstance(labels, str | bytes):
        return True
    if isinstance(labels, np.ndarray):
        return labels.dtype.kind in "USOT" and (labels.size == 0 or _is_word(labels.reshape(-1)[0]))
    return isinstance(labels, list | tuple) and bool(labels) and _is_word(labels[0])


def _is_word(value: object) -> bool:
    return isinstance(value, str | bytes)
