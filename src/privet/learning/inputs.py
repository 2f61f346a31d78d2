"""What users of scikit-learn pass: numpy's scalars as parameters, and tables that hold anything."""

import warnings
from collections import Counter
from collections.abc import Iterable
from typing import Any

import numpy as np

from privet.adjacency import Adjacency
from privet.arguments import shown
from privet.errors import InvalidArgument
from privet.mechanisms.records import list_records
from privet.randomness import NoiseSource, SecureNoise, SeededNoise

from sklearn.exceptions import DataConversionWarning  # type: ignore[import-untyped]  # isort: skip

__all__ = ["choose_noise_source", "read_adjacency", "read_targets", "to_numbers", "to_scalar", "to_table"]

_NO_WIDTH = -1  # of a value that is no row


def to_scalar(value: Any) -> Any:  # noqa: ANN401 - a parameter of any type
    """A numpy scalar as a Python scalar; anything else unchanged."""
    return value.item() if isinstance(value, np.generic) else value


def read_adjacency(adjacency: object, fix: str) -> Adjacency:
    """An adjacency, or that of a class: a class is the kind of default that scikit-learn allows."""
    if isinstance(adjacency, type) and issubclass(adjacency, Adjacency) and adjacency is not Adjacency:
        adjacency = adjacency()
    if not isinstance(adjacency, Adjacency):
        raise InvalidArgument(f"'adjacency' must be an adjacency, got {shown(adjacency)}. {fix}")
    return adjacency


def choose_noise_source(noise: object, random_state: object) -> NoiseSource:
    """Where the noise of a fit comes from: the given source, a seed, or the operating system."""
    if random_state is not None:
        if noise is not None:
            raise InvalidArgument(
                f"'random_state' must be None where 'noise' is given, got {shown(random_state)}. Give one "
                f"of the two."
            )
        return SeededNoise(int(to_scalar(random_state)))
    if noise is None:
        return SecureNoise()
    if not isinstance(noise, NoiseSource):
        raise InvalidArgument(
            f"'noise' must be a source of noise or None, got {shown(noise)}. Leave it out for secure noise."
        )
    return noise


def to_table(rows: Any) -> Any:  # noqa: ANN401 - whatever scikit-learn takes
    """A list of rows as an array of objects, with every value unchanged; anything else as it was given.

    numpy would choose one type for all values, so that one record could change the type of all others. The
    width of the table, which is public, is the width of most rows. A row of another width counts as missing.
    """
    if isinstance(rows, np.ndarray) and rows.ndim == 1 and rows.dtype == object:
        rows = list(rows)
    if not isinstance(rows, (list, tuple)) or not rows:
        return rows
    widths = Counter(_width(row) for row in rows)
    width = max(widths, key=lambda candidate: (widths[candidate], candidate))
    if width == _NO_WIDTH:
        return rows
    array = np.empty((len(rows), width), dtype=object)
    for index, row in enumerate(rows):
        fits = _width(row) == width
        for column in range(width):
            value = row[column] if fits else np.nan
            array[index, column] = np.nan if isinstance(value, (list, tuple, dict, np.ndarray)) else value
    return array


def read_targets(y: Any, count: int) -> np.ndarray:  # noqa: ANN401 - whatever scikit-learn takes
    """One answer for each row, as objects. No value of an answer raises an error."""
    if type(y).__name__ == "DataFrame" and len(y.columns) == 1:
        y = y[y.columns[0]]
    if hasattr(y, "__array__") and not isinstance(y, Iterable):
        y = np.asarray(y)
    if isinstance(y, np.ndarray) and y.ndim == 2 and y.shape[1] == 1:
        warnings.warn(
            "A column-vector y was passed when a 1d array was expected. Write y.ravel().",
            DataConversionWarning,
            stacklevel=4,
        )
        y = y.reshape(-1)
    if y is None:
        raise InvalidArgument(
            "'y' must hold one answer for each row of 'X', and there is none (requires y to be passed, but "
            "the target y is None). Give both from one table."
        )
    rows = y.tolist() if isinstance(y, np.ndarray) else list_records(y)
    if len(rows) != count:
        raise InvalidArgument(
            "'y' must hold one answer for each row of 'X', and does not. Give both from one table."
        )
    targets = np.empty(count, dtype=object)
    for index, value in enumerate(rows):
        targets[index] = value
    return targets


def to_numbers(rows: np.ndarray) -> np.ndarray:
    """The rows as numbers.

    A value that is no number becomes NaN, because an error would tell that it is there.
    """
    if rows.dtype != object and np.issubdtype(rows.dtype, np.number):
        return np.asarray(rows, dtype=float)
    flat = [_number(value) for value in rows.ravel().tolist()]
    return np.array(flat, dtype=float).reshape(rows.shape)


def _width(row: object) -> int:
    return (
        len(row)
        if isinstance(row, (list, tuple)) or (isinstance(row, np.ndarray) and row.ndim == 1)
        else _NO_WIDTH
    )


def _number(value: Any) -> float:  # noqa: ANN401 - whatever a table holds
    try:
        return float(value)
    except OverflowError:  # a whole number beyond float64
        return float("inf") if value > 0 else float("-inf")
    except Exception:  # an error would tell something of a record
        return float("nan")
