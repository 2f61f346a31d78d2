"""What scikit-learn's users pass: numpy's scalars as parameters, and tables that hold anything."""

import re
import warnings
from collections import Counter
from collections.abc import Iterable
from typing import Any

import numpy as np

from privet.arguments import shown
from privet.callers import level_of_caller
from privet.errors import InvalidArgument
from privet.mechanisms.records import listed
from privet.randomness import NoiseSource, SecureNoise, SeededNoise
from privet.type_hints.mismatch import is_a

from sklearn.exceptions import DataConversionWarning  # type: ignore[import-untyped]  # isort: skip - after the check
from sklearn.utils.validation import validate_data  # type: ignore[import-untyped]  # isort: skip

__all__ = ["answers_of", "noise_source", "numbers", "plain", "table", "validated"]

_NO_ROW = -1  # the width of what is no row


def plain(value: Any) -> Any:  # noqa: ANN401 - a parameter of any type
    """A numpy scalar as Python's own; anything else as it is."""
    return value.item() if isinstance(value, np.generic) else value


def noise_source(noise: object, random_state: object) -> NoiseSource:
    """Where the noise of a fit comes from: what was given, a seed, or the operating system."""
    if random_state is not None:
        if noise is not None:
            raise InvalidArgument(
                f"'random_state' must be None where 'noise' is given, got {shown(random_state)}. Give one of the two."
            )
        return SeededNoise(int(plain(random_state)))
    if noise is None:
        return SecureNoise()
    if not isinstance(noise, NoiseSource):
        raise InvalidArgument(
            f"'noise' must be a source of noise or None, got {shown(noise)}. Leave it out for secure noise."
        )
    return noise


def table(rows: Any) -> Any:  # noqa: ANN401 - whatever scikit-learn takes
    """A list of rows as an array of objects, each value as it is; anything else as it was given.

    numpy would choose one type for all values, so that one record could change what all others are. The width of the
    table, which is public, is what most rows have; a row of another length is missing as a whole.
    """
    if is_a(rows, np.ndarray) and rows.ndim == 1 and rows.dtype == object:
        rows = list(rows)
    if not is_a(rows, (list, tuple)) or not rows:
        return rows
    widths = Counter(_width(row) for row in rows)
    width = max(widths, key=lambda known: (widths[known], known))
    if width == _NO_ROW:
        return rows
    found = np.empty((len(rows), width), dtype=object)
    for place, row in enumerate(rows):
        fits = _width(row) == width
        for column in range(width):
            value = row[column] if fits else np.nan
            found[place, column] = np.nan if isinstance(value, (list, tuple, dict, np.ndarray)) else value
    return found


def validated(estimator: Any, *tables: Any, reset: bool = True) -> Any:  # noqa: ANN401 - whatever scikit-learn takes
    """What scikit-learn reads from tables. Missing values and texts stay: an error that depended on them would tell that they are there.

    Its refusals are said again without the numbers that it shows. Sentences that its users search for stay.
    """
    try:
        return validate_data(estimator, *tables, dtype=None, ensure_all_finite=False, reset=reset)
    except InvalidArgument:
        raise
    except Exception as refused:
        said = str(refused) if type(refused) in (ValueError, TypeError) else ""
        public = re.match(_PUBLIC_REFUSALS, said)
        reshape = " Reshape your data either using array.reshape(-1, 1) if your data has a single feature or array.reshape(1, -1) if it contains a single sample."
        why = "" if public is None else f" ({public[0].rstrip('.:')}.{reshape * ('2D array' in public[0])})"
        wrong = InvalidArgument(
            f"'X' must be a table with one row for each record, and 'y' must hold one answer for each, and scikit-learn cannot "
            f"read them so{why}. Give two arrays of the same length."
        )
    raise wrong from None


# Of shapes, names and numbers of columns alone.
_PUBLIC_REFUSALS = (
    r"Expected 2D array, got (?:scalar array|1D array)|Found array with .*? while a minimum of .*?\.|Found array with dim .*?\."
    r"|X has \d+ features, but .*|Found input variables with inconsistent numbers of samples.*"
    r"|This .* requires y to be passed, but the target y is None|Complex data not supported|The feature names should match[^\n]*"
    r"|[Ss]parse (?:data|input)[^\n]*|y should be a 1d array, got an array of shape[^\n]*"
    r"|X does not contain any features[^\n]*|bad input shape[^\n]*|The truth value[^\n]*|Sparse data was passed[^\n]*"
)


def answers_of(y: Any, count: int) -> np.ndarray:  # noqa: ANN401 - whatever scikit-learn takes
    """One answer for each row, as objects; none of them makes an error."""
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
            "'y' must hold one answer for each row of 'X', and there is none (requires y to be passed, but the target y "
            "is None). Give both from one table."
        )
    try:
        rows = y.tolist() if isinstance(y, np.ndarray) and y.ndim else listed(y)
    except Exception:  # a number, or a container that fails
        rows = []
    if len(rows) != count:
        raise InvalidArgument(
            "'y' must hold one answer for each row of 'X', and does not. Give both from one table."
        )
    found = np.empty(count, dtype=object)
    for place, value in enumerate(rows):
        found[place] = value
    return found


def numbers(rows: np.ndarray) -> np.ndarray:
    """The rows as numbers; what is none becomes NaN, because an error would tell that it is there."""
    if rows.dtype != object and np.issubdtype(rows.dtype, np.number):
        return np.asarray(rows, dtype=float)
    flat = [_number(value) for value in rows.ravel().tolist()]
    return np.array(flat, dtype=float).reshape(rows.shape)


def _width(row: object) -> int:
    return (
        len(row)
        if isinstance(row, (list, tuple)) or (isinstance(row, np.ndarray) and row.ndim == 1)
        else _NO_ROW
    )


def _number(value: Any) -> float:  # noqa: ANN401 - whatever a table holds
    try:
        return float(value)
    except OverflowError:  # a whole number beyond float64
        return float("inf") if value > 0 else float("-inf")
    except Exception:  # whatever it is, to raise it would tell of a record
        return float("nan")
