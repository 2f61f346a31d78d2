"""What scikit-learn's users pass: numpy's scalars as parameters, and tables that hold anything."""

from typing import Any

import numpy as np

from privet.arguments import shown
from privet.errors import InvalidArgument
from privet.mechanisms.records import listed
from privet.randomness import NoiseSource, SecureNoise, SeededNoise

__all__ = ["answers_of", "noise_source", "numbers", "plain", "table"]


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

    numpy would choose one type for all values, so that one record could change what all others are. A row of another
    length than the first is missing as a whole.
    """
    if not isinstance(rows, (list, tuple)) or not rows or not isinstance(rows[0], (list, tuple)):
        return rows
    width = len(rows[0])
    found = np.empty((len(rows), width), dtype=object)
    for place, row in enumerate(rows):
        fits = isinstance(row, (list, tuple, np.ndarray)) and len(row) == width
        for column in range(width):
            value = row[column] if fits else np.nan
            found[place, column] = np.nan if isinstance(value, (list, tuple, dict, np.ndarray)) else value
    return found


def answers_of(y: Any, count: int) -> np.ndarray:  # noqa: ANN401 - whatever scikit-learn takes
    """One answer for each row, as objects; none of them makes an error."""
    rows = y.reshape(-1).tolist() if isinstance(y, np.ndarray) else None if y is None else listed(y)
    if rows is None or len(rows) != count:
        raise InvalidArgument(
            "'y' must hold one answer for each row of 'X', and does not (requires y to be passed). Give both from one table."
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


def _number(value: Any) -> float:  # noqa: ANN401 - whatever a table holds
    try:
        return float(value)
    except (TypeError, ValueError):
        return float("nan")
    except OverflowError:  # a whole number beyond float64
        return float("inf") if value > 0 else float("-inf")
