"""What scikit-learn's users pass: numpy's scalars as parameters, and tables that hold anything."""

from typing import Any

import numpy as np

__all__ = ["numbers", "plain"]


def plain(value: Any) -> Any:  # noqa: ANN401 - a parameter of any type
    """A numpy scalar as Python's own; anything else as it is."""
    return value.item() if isinstance(value, np.generic) else value


def numbers(rows: np.ndarray) -> np.ndarray:
    """The rows as numbers; what is none becomes NaN, because an error would tell that it is there."""
    if rows.dtype != object and np.issubdtype(rows.dtype, np.number):
        return np.asarray(rows, dtype=float)
    flat = [_number(value) for value in rows.ravel().tolist()]
    return np.array(flat, dtype=float).reshape(rows.shape)


def _number(value: Any) -> float:  # noqa: ANN401 - whatever a table holds
    try:
        return float(value)
    except (TypeError, ValueError):
        return float("nan")
    except OverflowError:  # a whole number beyond float64
        return float("inf") if value > 0 else float("-inf")
