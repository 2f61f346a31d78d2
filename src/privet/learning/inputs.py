"""What users of scikit-learn pass: numpy's scalars as parameters, and tables that hold anything."""

import re
import warnings
from collections import Counter
from collections.abc import Iterable
from typing import Any

import numpy as np

from privet.adjacency import Adjacency
from privet.arguments import format_value
from privet.callers import level_of_caller
from privet.errors import InvalidArgument
from privet.mechanisms.records import list_records
from privet.randomness import NoiseSource, SecureNoise, SeededNoise
from privet.type_hints.mismatch import is_a

from sklearn.exceptions import DataConversionWarning  # type: ignore[import-untyped]  # isort: skip
from sklearn.utils.validation import validate_data  # type: ignore[import-untyped]  # isort: skip

__all__ = [
    "choose_noise_source",
    "list_classes",
    "read_adjacency",
    "read_table",
    "read_targets",
    "to_numbers",
    "to_scalar",
    "to_table",
]

_NO_WIDTH = -1  # of a value that is no row


def to_scalar(value: Any) -> Any:  # noqa: ANN401 - a parameter of any type
    """A numpy scalar as a Python scalar; anything else unchanged."""
    return value.item() if isinstance(value, np.generic) else value


def list_classes(classes: Iterable[Any]) -> np.ndarray:
    """The declared classes in order, each once."""
    try:
        return np.unique(np.asarray(list(classes)))
    except (TypeError, ValueError):
        raise InvalidArgument(
            f"'classes' must be names or numbers that can be sorted, got {format_value(classes)}. List each "
            f"class once, all of one type."
        ) from None


def read_adjacency(adjacency: object, fix: str) -> Adjacency:
    """An adjacency, or that of a class: a class is the kind of default that scikit-learn allows."""
    if isinstance(adjacency, type) and issubclass(adjacency, Adjacency) and adjacency is not Adjacency:
        adjacency = adjacency()
    if not isinstance(adjacency, Adjacency):
        raise InvalidArgument(f"'adjacency' must be an adjacency, got {format_value(adjacency)}. {fix}")
    return adjacency


def choose_noise_source(noise: object, random_state: object) -> NoiseSource:
    """Where the noise of a fit comes from: the given source, a seed, or the operating system."""
    if random_state is not None:
        if noise is not None:
            raise InvalidArgument(
                f"'random_state' must be None where 'noise' is given, got {format_value(random_state)}. "
                f"Give one of the two."
            )
        return SeededNoise(int(to_scalar(random_state)))
    if noise is None:
        return SecureNoise()
    if not isinstance(noise, NoiseSource):
        raise InvalidArgument(
            f"'noise' must be a source of noise or None, got {format_value(noise)}. Leave it out for "
            "secure noise."
        )
    return noise


def to_table(rows: Any) -> Any:  # noqa: ANN401 - whatever scikit-learn takes
    """A list of rows as an array of objects, with every value unchanged; anything else as it was given.

    numpy would choose one type for all values, so that one record could change the type of all others. The
    width of the table, which is public, is the width of most rows. A row of another width counts as missing.
    """
    if is_a(rows, np.ndarray) and rows.ndim == 1 and rows.dtype == object:
        rows = list(rows)
    if not is_a(rows, (list, tuple)) or not rows:
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


# as scikit-learn takes
def read_table(estimator: Any, *tables: Any, reset: bool = True) -> Any:  # noqa: ANN401
    """What scikit-learn reads from ``tables``.

    Missing values and texts stay: an error that depended on them would tell that they are there. A refusal
    is repeated without the numbers that scikit-learn shows. Sentences that its users search for stay.
    """
    try:
        return validate_data(estimator, *tables, dtype=None, ensure_all_finite=False, reset=reset)
    except InvalidArgument:
        raise
    except Exception as failure:
        message = str(failure) if type(failure) in (ValueError, TypeError) else ""
        public = re.match(_PUBLIC_REFUSALS, message)
        why = ""
        if public is not None:
            reshape = _RESHAPE if "2D array" in public[0] else ""
            why = f" ({public[0].rstrip('.:')}.{reshape})"
        refusal = InvalidArgument(
            f"'X' must be a table with one row for each record, and 'y' must hold one answer for each, and "
            f"scikit-learn cannot read them so{why}. Give two arrays of the same length."
        )
    raise refusal from None


_RESHAPE = (
    " Reshape your data either using array.reshape(-1, 1) if your data has a single feature or "
    "array.reshape(1, -1) if it contains a single sample."
)

# Sentences about shapes, names and numbers of columns alone.
_PUBLIC_REFUSALS = (
    r"Expected 2D array, got (?:scalar array|1D array)|Found array with .*? while a minimum of .*?\."
    r"|Found array with dim .*?\.|X has \d+ features, but .*"
    r"|Found input variables with inconsistent numbers of samples.*"
    r"|This .* requires y to be passed, but the target y is None|Complex data not supported"
    r"|The feature names should match[^\n]*|[Ss]parse (?:data|input)[^\n]*"
    r"|y should be a 1d array, got an array of shape[^\n]*|X does not contain any features[^\n]*"
    r"|bad input shape[^\n]*|The truth value[^\n]*|Sparse data was passed[^\n]*"
)


def read_targets(y: Any, count: int) -> np.ndarray:  # noqa: ANN401 - whatever scikit-learn takes
    """One answer for each row, as objects. No value of an answer raises an error."""
    if type(y).__name__ == "DataFrame" and len(y.columns) == 1:
        y = y[y.columns[0]]
    if hasattr(type(y), "__array__") and not is_a(y, Iterable):
        y = np.asarray(y)
    if is_a(y, np.ndarray) and y.ndim == 2 and y.shape[1] == 1:
        warnings.warn(
            "A column-vector y was passed when a 1d array was expected. Write y.ravel().",
            DataConversionWarning,
            stacklevel=level_of_caller(),
        )
        y = y.reshape(-1)
    if y is None:
        raise InvalidArgument(
            "'y' must hold one answer for each row of 'X', and there is none (requires y to be passed, but "
            "the target y is None). Give both from one table."
        )
    try:
        rows = y.tolist() if isinstance(y, np.ndarray) and y.ndim else list_records(y)
    except Exception:  # a number, or a container that fails
        rows = []
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
