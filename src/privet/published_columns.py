"""A column that is, or will be, published: its distinct values, and one code for each row.

Equality of two rows is then a comparison of whole numbers, whatever the values are. A missing value has the
code 0 and is equal to another missing value: both look the same to a reader.

>>> column = encode_values("zip", ["02139", None, "02139"])
>>> column, column.codes.tolist()
(PublishedColumn('zip', text, 1 distinct values), [1, 0, 1])
"""

import datetime
import sys
from collections.abc import Iterable
from dataclasses import dataclass, replace
from decimal import Decimal
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
    "encode_polars",
    "encode_values",
    "recognize_column",
    "stack_columns",
]


_WHOLE = 2.0**53  # below it float64 has every whole number
_MOST_DIGITS = 15  # a whole number of more digits is a code; float64 may not tell two of them apart


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
    different codes, and so have two times of one day: ``exact`` has what such categories were rounded from,
    and is None where nothing was rounded.
    """

    name: str
    kind: ValueKind
    categories: NDArray[Any]
    codes: NDArray[np.int64]
    exact: NDArray[Any] | None = None

    def __len__(self) -> int:
        return len(self.codes)

    def __repr__(self) -> str:
        return f"PublishedColumn({self.name!r}, {self.kind}, {len(self.categories)} distinct values)"

    @cached_property
    def missing(self) -> Bits:
        """Which rows have no value."""
        missing: Bits = self.codes == 0
        return missing

    @property
    def exact_categories(self) -> NDArray[Any]:
        """The distinct values as they were before they were rounded."""
        return self.categories if self.exact is None else self.exact

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
    array = values if isinstance(values, np.ndarray) else _to_objects(name, values)
    if array.ndim != 1:
        raise InvalidArgument(
            f"'data' must have one value for each row in column {format_value(name)}, got an array with "
            f"{array.ndim} axes. Give one axis."
        )
    if isinstance(array, np.ma.MaskedArray):
        array = _as_objects(array.tolist())  # None where masked
    if array.dtype.kind in "biuf":
        missing = np.isnan(array) if array.dtype.kind == "f" else np.zeros(len(array), dtype=np.bool_)
        return _from_present(name, ValueKind.NUMBER, array[~missing], missing)
    if array.dtype.kind == "M":
        missing = np.isnat(array)
        return _from_present(name, ValueKind.DATE, array[~missing], missing)
    array = array.astype(object)
    missing = np.fromiter(map(_is_missing, array), dtype=np.bool_, count=len(array))
    present = array[~missing].tolist()
    for kind, read in ((ValueKind.NUMBER, _convert_numbers), (ValueKind.DATE, _convert_dates)):
        found = read(present)
        if found is not None:
            return _from_present(name, kind, found, missing)
    return _from_present(name, ValueKind.TEXT, _as_objects(map(_write, present)), missing)


def _to_objects(name: str, values: object) -> NDArray[Any]:
    if isinstance(values, (str, bytes)) or not isinstance(values, Iterable):
        raise InvalidArgument(
            f"'data' must have one value for each row in column {format_value(name)}, got a value of type "
            f"{type(values).__name__}. Give a sequence or an array."
        )
    return _as_objects(values)


def _as_objects(values: Iterable[object]) -> NDArray[Any]:
    items = list(values)
    array = np.empty(len(items), dtype=object)
    for place, item in enumerate(items):  # numpy would take lists of one length for a second axis
        array[place] = item
    return array


def _convert_numbers(present: list[Any]) -> NDArray[Any] | None:
    """The values as numbers, without rounding; None where one of them is no number."""
    numbers = (bool, int, float, Decimal, np.integer, np.floating, np.bool_)
    if not present or not all(isinstance(item, numbers) for item in present):
        return None
    if any(isinstance(item, np.timedelta64) for item in present):  # numpy calls it a whole number
        return None
    plain = [item.item() if isinstance(item, np.generic) else item for item in present]
    try:
        floats = [float(item) for item in plain]
    except OverflowError:  # a whole number above all float64
        return None
    rounded = any(number != item for number, item in zip(floats, plain, strict=True))
    return _as_objects(plain) if rounded else np.array(floats)


def _convert_dates(present: list[Any]) -> NDArray[Any] | None:
    """The values as dates or times, those with a time zone in UTC; None where one of them is none."""
    if not present or not all(isinstance(item, (datetime.date, np.datetime64)) for item in present):
        return None
    if any(isinstance(item, np.datetime64) for item in present):
        return _convert_numpy_dates(present)
    zones = {isinstance(item, datetime.datetime) and item.tzinfo is not None for item in present}
    if len(zones) > 1:
        return None
    if zones == {True}:
        present = [item.astimezone(datetime.UTC).replace(tzinfo=None) for item in present]
    return np.array(present, dtype="datetime64[us]")


def _convert_numpy_dates(present: list[Any]) -> NDArray[Any] | None:
    """Dates of numpy, also beside those of Python, in their finest unit; None where that loses one."""
    if any(isinstance(item, datetime.datetime) and item.tzinfo is not None for item in present):
        return None
    single = [np.datetime64(item) for item in present]
    found = np.array(single)
    exact = all(item == again for item, again in zip(single, found, strict=True))
    return found if exact else None


def _is_missing(value: object) -> bool:
    if value is None:
        return True
    if isinstance(value, (float, np.floating)):
        return bool(np.isnan(value))
    if isinstance(value, Decimal):
        return value.is_nan()
    if isinstance(value, (np.datetime64, np.timedelta64)):
        return bool(np.isnat(value))
    return type(value).__name__ in ("NAType", "NaTType")


def _write(value: object) -> str:
    return value if isinstance(value, str) else str(value)


def _from_present(name: str, kind: ValueKind, present: NDArray[Any], missing: Bits) -> PublishedColumn:
    """A column of the values that are there. ``present`` is of one type and can be sorted."""
    distinct, places = np.unique(present, return_inverse=True)
    codes = np.zeros(len(missing), dtype=np.int64)
    codes[~missing] = places + 1
    categories, exact = _round(kind, distinct)
    return PublishedColumn(name, kind, categories, codes, exact)


def _round(kind: ValueKind, distinct: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any] | None]:
    """The categories of distinct values in order, and the values themselves where categories round them."""
    match kind:
        case ValueKind.TEXT:
            return distinct.astype(object), None
        case ValueKind.DATE:
            days = distinct.astype("datetime64[D]")
            return days, distinct if (days != distinct).any() else None
        case ValueKind.NUMBER:
            numbers = distinct.astype(np.float64)
            whole = distinct.dtype.kind in "iu" and bool((np.abs(numbers) >= _WHOLE).any())
            return numbers, distinct.astype(object) if whole or distinct.dtype == object else None


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
    try:
        codes, distinct = pandas.factorize(series)
    except TypeError:  # lists and the like, which pandas cannot count
        return encode_values(str(name), series.tolist())
    plain = distinct.to_numpy() if hasattr(distinct, "to_numpy") else np.asarray(distinct)
    return _from_codes(str(name), plain, codes.astype(np.int64))


def encode_arrow(name: str, values: Any) -> PublishedColumn:  # noqa: ANN401 - an Arrow array
    """A column of an Arrow array."""
    pyarrow: Any = sys.modules["pyarrow"]
    chunked = pyarrow.chunked_array([values]) if isinstance(values, pyarrow.Array) else values
    if not pyarrow.types.is_dictionary(chunked.type):
        nested = pyarrow.types.is_nested(chunked.type)
        if nested or pyarrow.types.is_null(chunked.type):
            return encode_values(name, chunked.to_pylist())
        try:
            chunked = chunked.dictionary_encode()
        except pyarrow.ArrowNotImplementedError:
            return encode_values(name, chunked.to_pylist())
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
    kinds = pyarrow.types
    timed = kinds.is_timestamp(dictionary.type) or kinds.is_date(dictionary.type)
    if timed or kinds.is_integer(dictionary.type) or kinds.is_floating(dictionary.type):
        return _from_codes(name, dictionary.to_numpy(zero_copy_only=False), codes)
    return _from_codes(name, _as_objects(dictionary.to_pylist()), codes)


def encode_polars(series: Any) -> PublishedColumn:  # noqa: ANN401 - a Polars series
    """A column of a Polars series."""
    if str(series.dtype) in ("Object", "Int128", "UInt128"):  # Arrow has no such types
        return encode_values(series.name, series.to_list())
    return encode_arrow(series.name, series.to_arrow())


def stack_columns(first: PublishedColumn, second: PublishedColumn) -> PublishedColumn:
    """Two columns, one below the other, with common codes."""
    if first.kind != second.kind:
        first, second = _as_text(first), _as_text(second)
    kind, rounded = first.kind, first.exact is not None or second.exact is not None
    both = [column.exact_categories for column in (first, second)]
    if rounded and kind is ValueKind.NUMBER:
        both = [values.astype(object) for values in both]  # Python compares these without rounding
    distinct, places = np.unique(np.concatenate(both), return_inverse=True)
    count = len(first.categories)
    renamed = [np.concatenate([[0], part + 1]) for part in (places[:count], places[count:])]
    codes = np.concatenate([renamed[0][first.codes], renamed[1][second.codes]])
    categories, exact = _round(kind, distinct)
    return PublishedColumn(first.name, kind, categories, codes.astype(np.int64), exact)


def _as_text(column: PublishedColumn) -> PublishedColumn:
    if column.kind is ValueKind.TEXT:
        return column
    form = _write_number if column.kind is ValueKind.NUMBER else str
    return _from_codes(column.name, _as_objects(map(form, column.exact_categories)), column.codes - 1)


def _write_number(value: object) -> str:
    """A number as people write it: 2 for 2.0, and 0.1 with as many digits as it takes."""
    if isinstance(value, float) and value.is_integer() and abs(value) < _WHOLE:
        return str(int(value))
    return repr(float(value)) if isinstance(value, float) else str(value)


def recognize_column(column: PublishedColumn) -> PublishedColumn:
    """The column as numbers or dates, where each of its texts is one; else as it is."""
    if column.kind is not ValueKind.TEXT or len(column.categories) == 0:
        return column
    if not all(isinstance(text, str) for text in column.categories):
        raise InvalidArgument(
            f"'categories' of the text column {format_value(column.name)} must be texts, got other values. "
            f"Let PublishedTable.of make the column."
        )
    for read in (_read_numbers, _read_dates):
        values = read(column.categories)
        if values is not None:
            return _from_codes(column.name, values, column.codes - 1)
    return column


def _read_numbers(texts: NDArray[Any]) -> NDArray[Any] | None:
    for text in texts:
        digits = text.lstrip("-")
        if "_" in text or (len(digits) > _MOST_DIGITS and digits.isdecimal()):
            return None
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
