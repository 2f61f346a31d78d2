"""A column that is, or will be, published: its distinct values, and one code for each row.

Equality of two rows is then a comparison of whole numbers, whatever the values are. A missing value has the
code 0 and is equal to another missing value: both look the same to a reader.

>>> column = encode_values("zip", ["02139", None, "02139"])
>>> column, column.codes.tolist()
(PublishedColumn('zip', text, 1 distinct values), [1, 0, 1])
"""

import sys
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cached_property
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from privet.arguments import format_value
from privet.errors import InvalidArgument
from privet.scores import Bits

__all__ = [
    "PublishedColumn",
    "ValueKind",
    "encode_arrow",
    "encode_pandas",
    "encode_values",
    "recognize_column",
    "stack_columns",
]


@final
class ValueKind(StrEnum):
    """What the values of a column are, which decides how near two of them are."""

    TEXT = "text"
    NUMBER = "number"
    DATE = "date"


@final
@dataclass(frozen=True, eq=False)
class PublishedColumn:
    """A column as its distinct values and a code for each row.

    ``categories`` are distinct and in order: text, float64 numbers, or dates (datetime64[D]). Code 0 is a
    missing value, and code c the category c − 1. Two whole numbers that float64 cannot tell apart have
    different codes, and so have two times of one day.
    """

    name: str
    kind: ValueKind
    categories: NDArray[Any]
    codes: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.codes)

    def __repr__(self) -> str:
        return f"PublishedColumn({self.name!r}, {self.kind}, {len(self.categories)} distinct values)"

    @cached_property
    def missing(self) -> Bits:
        """Which rows have no value."""
        missing: Bits = self.codes == 0
        return missing

    @cached_property
    def values(self) -> NDArray[Any]:
        """One value for each row; where it is missing: NaN, NaT or the empty text."""
        return np.concatenate([_nothing(self.kind), self.categories])[self.codes]

    def take(self, rows: NDArray[Any]) -> "PublishedColumn":
        """These rows. The categories stay, so codes can be compared with those of the whole column."""
        return replace(self, codes=self.codes[rows])


def _nothing(kind: ValueKind) -> NDArray[Any]:
    """The value that stands for a missing one, as an array of length 1."""
    match kind:
        case ValueKind.NUMBER:
            return np.array([np.nan])
        case ValueKind.DATE:
            return np.array(["NaT"], dtype="datetime64[D]")
        case ValueKind.TEXT:
            return np.array([""], dtype=object)


def encode_values(name: str, values: object) -> PublishedColumn:
    """A column of a sequence or an array."""
    array = np.asarray(values) if isinstance(values, np.ndarray) else _to_array(values)
    if array.ndim != 1:
        raise InvalidArgument(
            f"'data' must have one value for each row in column {format_value(name)}, got an array with "
            f"{array.ndim} axes. Give one axis."
        )
    if array.dtype.kind in "biuf":
        missing = np.isnan(array) if array.dtype.kind == "f" else np.zeros(len(array), dtype=np.bool_)
    elif array.dtype.kind == "M":
        missing = np.isnat(array)
    elif array.dtype.kind == "U":
        array, missing = array.astype(object), np.zeros(len(array), dtype=np.bool_)
    else:
        array = array.astype(object)
        missing = np.fromiter(map(_is_missing, array), dtype=np.bool_, count=len(array))
    if array.dtype.kind == "O":
        texts = np.array([_write(value) for value in array[~missing]], dtype=object)
        return _from_present(name, texts, missing)
    return _from_present(name, array[~missing], missing)


def _to_array(values: object) -> NDArray[Any]:
    items: list[Any] = list(values)  # type: ignore[call-overload]
    present = [item for item in items if not _is_missing(item)]
    if present and all(isinstance(item, (bool, int, float, np.number, np.bool_)) for item in present):
        wide = len(present) == len(items) and all(isinstance(item, int) for item in items)
        if not wide:
            return np.array([np.nan if _is_missing(item) else float(item) for item in items])
        if all(-(2**63) <= item < 2**63 for item in items):
            return np.array(items, dtype=np.int64)
    array = np.empty(len(items), dtype=object)
    array[:] = items
    return array


def _is_missing(value: object) -> bool:
    if value is None:
        return True
    if isinstance(value, (float, np.floating)):
        return bool(np.isnan(value))
    if isinstance(value, (np.datetime64, np.timedelta64)):
        return bool(np.isnat(value))
    return type(value).__name__ in ("NAType", "NaTType")


def _write(value: object) -> str:
    return value if isinstance(value, str) else str(value)


def _from_present(name: str, present: NDArray[Any], missing: Bits) -> PublishedColumn:
    """A column of the values that are there. ``present`` is of one type and can be sorted."""
    distinct, places = np.unique(present, return_inverse=True)
    codes = np.zeros(len(missing), dtype=np.int64)
    codes[~missing] = places + 1
    if distinct.dtype.kind == "M":
        return PublishedColumn(name, ValueKind.DATE, distinct.astype("datetime64[D]"), codes)
    if distinct.dtype.kind in "biuf":
        return PublishedColumn(name, ValueKind.NUMBER, distinct.astype(np.float64), codes)
    return PublishedColumn(name, ValueKind.TEXT, distinct.astype(object), codes)


def _from_codes(name: str, distinct: NDArray[Any], codes: NDArray[np.int64]) -> PublishedColumn:
    """A column of distinct values in any order, and of codes of which −1 is missing."""
    column = encode_values(name, distinct)
    order = np.concatenate([column.codes, [0]])  # the last one is for −1
    return replace(column, codes=order[codes])


def encode_pandas(name: object, series: Any) -> PublishedColumn:  # noqa: ANN401 - a pandas series
    """A column of a pandas series."""
    pandas: Any = sys.modules["pandas"]
    if getattr(series, "ndim", 1) != 1:
        raise InvalidArgument("'data' must have column names that differ, got one twice. Rename a column.")
    if isinstance(series.dtype, pandas.DatetimeTZDtype):
        series = series.dt.tz_convert("UTC").dt.tz_localize(None)
    codes, distinct = pandas.factorize(series)
    numbers = pandas.api.types.is_numeric_dtype(series.dtype) or series.dtype == np.bool_
    plain = distinct.to_numpy() if hasattr(distinct, "to_numpy") else np.asarray(distinct)
    if numbers and plain.dtype == object:
        plain = np.array([float(value) for value in plain])
    return _from_codes(str(name), plain, codes.astype(np.int64))


def encode_arrow(name: str, values: Any) -> PublishedColumn:  # noqa: ANN401 - an Arrow array
    """A column of an Arrow array."""
    pyarrow: Any = sys.modules["pyarrow"]
    chunked = pyarrow.chunked_array([values]) if isinstance(values, pyarrow.Array) else values
    if pyarrow.types.is_decimal(chunked.type):
        chunked = chunked.cast(pyarrow.float64())
    if not pyarrow.types.is_dictionary(chunked.type):
        nested = pyarrow.types.is_nested(chunked.type)
        if nested or pyarrow.types.is_null(chunked.type):
            return encode_values(name, chunked.to_pylist())
        chunked = chunked.dictionary_encode()
    if len(chunked) == 0:  # Arrow cannot join chunks of encoded dates where there are none
        kinds = pyarrow.types
        values_type = chunked.type.value_type
        timed = kinds.is_timestamp(values_type) or kinds.is_date(values_type)
        numeric = kinds.is_integer(values_type) or kinds.is_floating(values_type)
        return encode_values(
            name, np.array([], dtype="datetime64[D]" if timed else float if numeric else object)
        )
    whole = chunked.unify_dictionaries().combine_chunks()
    codes = whole.indices.cast(pyarrow.int64()).fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
    dictionary = whole.dictionary
    if pyarrow.types.is_timestamp(dictionary.type) or pyarrow.types.is_date(dictionary.type):
        distinct = dictionary.cast(pyarrow.timestamp("us")).to_numpy(zero_copy_only=False)
    elif pyarrow.types.is_integer(dictionary.type) or pyarrow.types.is_floating(dictionary.type):
        distinct = dictionary.to_numpy(zero_copy_only=False)
    else:
        distinct = _to_array(dictionary.to_pylist())
    return _from_codes(name, distinct, codes)


def stack_columns(first: PublishedColumn, second: PublishedColumn) -> PublishedColumn:
    """Two columns, one below the other, with common codes."""
    if first.kind != second.kind:
        first, second = _as_text(first), _as_text(second)
    kind = first.kind
    texts = [first.categories, second.categories]
    distinct, places = np.unique(np.concatenate(texts), return_inverse=True)
    count = len(first.categories)
    renamed = [np.concatenate([[0], part + 1]) for part in (places[:count], places[count:])]
    codes = np.concatenate([renamed[0][first.codes], renamed[1][second.codes]])
    return PublishedColumn(first.name, kind, distinct, codes.astype(np.int64))


def _as_text(column: PublishedColumn) -> PublishedColumn:
    if column.kind is ValueKind.TEXT:
        return column
    form = "{:.17g}".format if column.kind is ValueKind.NUMBER else str
    texts = np.array([form(value) for value in column.categories], dtype=object)
    return _from_codes(column.name, texts, column.codes - 1)


def recognize_column(column: PublishedColumn) -> PublishedColumn:
    """The column as numbers or dates, where each of its texts is one; else as it is."""
    if column.kind is not ValueKind.TEXT or len(column.categories) == 0:
        return column
    for read in (_read_numbers, _read_dates):
        values = read(column.categories)
        if values is not None:
            return _from_codes(column.name, values, column.codes - 1)
    return column


def _read_numbers(texts: NDArray[Any]) -> NDArray[Any] | None:
    for text in texts:
        digits = text.lstrip("-")
        if not digits[:1].isdecimal() or (digits[0] == "0" and digits[1:2].isdecimal()):
            return None
    try:
        values = np.array([float(text) for text in texts])
    except ValueError:
        return None
    return values if np.isfinite(values).all() else None


def _read_dates(texts: NDArray[Any]) -> NDArray[Any] | None:
    if any(len(text) != 10 or text[4] != "-" or text[7] != "-" for text in texts):
        return None
    try:
        return np.array(list(texts), dtype="datetime64[D]")
    except ValueError:
        return None
