"""Private data as arrays, without an error that tells anything about a single record.

The *kind* of container (a list, a one-dimensional array, a table with d columns) is public, and a wrong kind
is refused. The content of a record is private: a value that is not a number becomes NaN, which every query
counts as missing. An exception would tell that somebody has such a record.
"""

import math
from collections.abc import Iterable, Mapping, Set
from decimal import Decimal
from numbers import Real
from typing import Any, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

from privet.errors import InvalidArgument
from privet.type_hints.mismatch import is_a

__all__ = ["Floats", "indices", "list_records", "number_rows", "numbers", "records"]

Floats: TypeAlias = NDArray[np.float64]

_TABLES = ("DataFrame", "Table", "RecordBatch")  # of Polars, pandas and Arrow; each has ``columns``


def records(data: object) -> list[Any]:
    """The records one by one, as Python objects."""
    container = _open(data)
    return container if isinstance(container, list) else container.tolist()


def numbers(data: object) -> Floats:
    """One number for each record; NaN where a record is no number.

    >>> numbers([1, 2.5, True, "three", None, 10**400]).tolist()
    [1.0, 2.5, 1.0, nan, nan, inf]
    """
    container = _open(data)
    if isinstance(container, np.ndarray):
        if container.ndim != 1:
            raise InvalidArgument(
                f"'data' must have one value for each record, got {container.ndim} dimensions. "
                f"Select one column, or ask a query over vectors."
            )
        if container.dtype.kind in "biuf":
            return container.astype(np.float64)
        container = container.tolist()
    return np.fromiter((_number(value) for value in container), dtype=np.float64, count=len(container))


def number_rows(data: object, dimension: int) -> Floats:
    """An array of n rows and ``dimension`` columns; a row of another length counts as missing.

    >>> number_rows([(1, 2), (3,), None], 2).tolist()
    [[1.0, 2.0], [nan, nan], [nan, nan]]
    """
    container = _open(data)
    if isinstance(container, np.ndarray):
        if container.ndim > 1 and container.shape[1:] != (dimension,):
            raise InvalidArgument(
                f"'data' must be a table with {dimension} columns, as the query says, got a shape of "
                f"{container.shape[1:]} for each record. Give one row for each record."
            )
        if container.ndim == 2 and container.dtype.kind in "biuf":
            return container.astype(np.float64)
        container = container.tolist()
    missing = [math.nan] * dimension
    rows = [_row(row, dimension) or missing for row in container]
    return np.array(rows, dtype=np.float64).reshape(len(rows), dimension)


def indices(data: object, known: Mapping[Any, int]) -> NDArray[np.int64]:
    """The index of each record among the ``known`` values; −1 for a value that is not known."""
    rows = records(data)
    return np.fromiter((_index(value, known) for value in rows), dtype=np.int64, count=len(rows))


def _number(value: object) -> float:
    if not isinstance(value, (Real, Decimal, np.bool_)):
        return math.nan
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf  # type: ignore[operator]
    except Exception:  # an error would tell something of a record
        return math.nan


def _row(row: object, dimension: int) -> list[float] | None:
    if isinstance(row, (str, bytes, Mapping)) or not isinstance(row, Iterable):
        return None
    try:
        values = [_number(value) for value in row]
    except Exception:  # as above
        return None
    return values if len(values) == dimension else None


def _index(value: object, known: Mapping[Any, int]) -> int:
    try:
        return known.get(value, -1)
    except Exception:  # it cannot be hashed or compared, so it is not known
        return -1


def _open(data: object) -> list[Any] | NDArray[Any]:
    """An array unchanged, and anything else as a list of its records."""
    if is_a(data, np.ndarray):
        data = cast("NDArray[Any]", data)
        if data.ndim == 0:
            raise _not_records(data)
        return data
    if is_a(data, (str, bytes, Mapping, Set)) or not is_a(data, Iterable):
        raise _not_records(data)
    try:
        rows = list_records(data)
    except Exception:  # a container that fails, or that has no end
        raise _not_records(data) from None
    if type(data).__name__ not in _TABLES:
        return rows
    table = np.empty((len(rows), _width(data)), dtype=object)
    for index, row in enumerate(rows):
        table[index] = row
    return table


def _width(table: Any) -> int:  # noqa: ANN401 - a table of any library
    return len(table.columns)


def list_records(data: Any) -> list[Any]:  # noqa: ANN401 - a column or a table of any library
    """The records of a column or a table, each with its own value and type.

    numpy would choose one type for all of them: a single missing value would turn whole numbers into floats,
    and a single text would turn all numbers into texts. One record must not change another.
    """
    library, kind = type(data).__module__.partition(".")[0], type(data).__name__
    match library, kind:
        case "polars", "DataFrame":
            return list(data.rows())
        case "pyarrow", "Table" | "RecordBatch":
            return list(zip(*(column.to_pylist() for column in data.columns), strict=True))
        case "pyarrow", _:
            return list(data.to_pylist())
        case "pandas", "DataFrame" | "Series":
            return list(data.to_numpy(dtype=object))
    return list(data)


def _not_records(data: object) -> InvalidArgument:
    return InvalidArgument(
        f"'data' must be a sequence of records, got {type(data).__name__}. Give a list or an array."
    )
