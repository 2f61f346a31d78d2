"""One value at a time: as a number, as a whole number, as text, and as a name of a unit or a key.

Every function looks at one value and at nothing else. No function raises: a value of another type gives None.
Columns without a type of their own (``object`` of pandas) are read by these functions, and columns with a
type are read by the same rules. The reason: whether a library gives a type to a column depends on all of its
rows, and one row must not change what the others count. So a number is the same as bool, int, float or
Decimal: 7 and 7.0 have one name.
"""

import math
import re
from collections.abc import Callable
from datetime import UTC, date, datetime, time
from decimal import Decimal
from enum import StrEnum
from numbers import Real
from typing import Any, TypeVar, final
from uuid import UUID

import numpy as np

from privet.releasing.keys import Category

__all__ = [
    "ValuePart",
    "decode_key",
    "format_clock",
    "format_date",
    "format_instant",
    "format_number",
    "parse_date",
    "parse_instant",
    "read_part",
]

_EXACT = 2**53  # whole floats up to here are written as whole numbers
_MOST_DIGITS = 60  # before or after the point
_LARGEST = 2**200  # larger whole numbers are written in base 16: Python refuses 4,300 digits in base 10
_WHOLE = re.compile(r"-?[0-9]+")
_DATE = r"(?:(\d{4}-\d\d-\d\d)|1970-01-01([+-]\d{1,12}) days)"
_CLOCK = r"(\d\d):(\d\d):(\d\d)(?:\.(\d{1,9}))?"
_Read = TypeVar("_Read")


@final
class ValuePart(StrEnum):
    """What a value of a column without a type can be read as."""

    NUMBER = "number"
    """A float. Text has none: the engine reads it as in any column of text."""
    WHOLE = "whole"
    """A whole number of 64 bits."""
    TEXT = "text"
    """The text of a text."""
    WRITTEN = "written"
    """The text of any plain value. Public keys that are text are compared with it."""
    NAME = "name"
    """Keys that are discovered, and units: equal for the same number, text, date or time.

    ``decode_key`` decodes it."""


def read_part(part: ValuePart, value: object) -> Any:  # noqa: ANN401 - a float, a whole number or text
    """A value read as this part, or None."""
    return _read_safely(_PARTS[part], value)


def decode_key(name: str) -> Category:
    """The key that a name encodes.

    >>> [decode_key(read_part(ValuePart.NAME, value)) for value in (True, 7.0, 0.5, "7")]
    [True, 7, 0.5, '7']
    """
    kind, written = name[0], name[1:]
    if kind == "b":
        return written == "true"
    return _number_or_text(written) if kind == "n" else written


def format_number(value: float | Decimal) -> str:
    """A number in its shortest form; a whole one without a point, whatever its type.

    >>> [format_number(x) for x in (7, 7.0, -0.0, 0.1, 1e300, Decimal("1.50"))]
    ['7', '7', '0', '0.1', '1e+300', '1.5']
    """
    if isinstance(value, Decimal):
        near = float(value)
        if math.isfinite(near) and Decimal(repr(near)) == value:
            return format_number(near)
        # An exponent of thousands would give a whole number of thousands of digits: minutes for one value.
        if abs(value.adjusted()) > _MOST_DIGITS or not value.is_finite():
            return str(value.normalize())
        return format_number(int(value)) if value == value.to_integral_value() else str(value.normalize())
    if isinstance(value, int):
        return str(value) if abs(value) < _LARGEST else hex(value)
    return str(int(value)) if abs(value) <= _EXACT and value == int(value) else repr(value)


def format_date(days: int) -> str:
    """A number of days since 1970 as a date, also beyond the calendar.

    >>> format_date(18262), format_date(2**31 - 1)
    ('2020-01-01', '1970-01-01+2147483647 days')
    """
    try:
        return date.fromordinal(days + _EPOCH).isoformat()
    except (ValueError, OverflowError):
        return f"1970-01-01{days:+d} days"


def format_clock(nanoseconds: int) -> str:
    """A number of nanoseconds since midnight as a time, with a fraction of 0, 6 or 9 digits."""
    seconds, fraction = divmod(nanoseconds, 10**9)
    digits = f".{fraction:09d}" if fraction % 1000 else f".{fraction // 1000:06d}" if fraction else ""
    return f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}{digits}"


def format_instant(nanoseconds: int, *, utc: bool) -> str:
    """A number of nanoseconds since 1970 as date and time.

    >>> format_instant(1_500_000_000, utc=True)
    '1970-01-01 00:00:01.500000+00:00'
    """
    days, rest = divmod(nanoseconds, 86_400 * 10**9)
    return f"{format_date(days)} {format_clock(rest)}{'+00:00' if utc else ''}"


def parse_date(text: str) -> int | None:
    """The days since 1970 that ``format_date`` writes as this text, or None."""
    match = re.fullmatch(_DATE, text, re.ASCII)
    if match is None:
        return None
    try:
        days = int(match[2]) if match[1] is None else date.fromisoformat(match[1]).toordinal() - _EPOCH
    except ValueError:
        return None
    return days if format_date(days) == text else None


def parse_instant(text: str, *, utc: bool | None) -> int | None:
    """The nanoseconds that ``format_instant`` writes as this text, or None; of ``format_clock`` if ``utc`` is
    None."""
    day, _, clock = text.rpartition(" ")
    zone = "+00:00" if utc else ""
    match = re.fullmatch(_CLOCK, clock.removesuffix(zone), re.ASCII)
    days = 0 if utc is None else parse_date(day)
    if match is None or days is None:
        return None
    seconds = ((days * 24 + int(match[1])) * 60 + int(match[2])) * 60 + int(match[3])
    nanoseconds = seconds * 10**9 + int((match[4] or "").ljust(9, "0"))
    written = format_clock(nanoseconds) if utc is None else format_instant(nanoseconds, utc=utc)
    return nanoseconds if written == text else None


_EPOCH = date(1970, 1, 1).toordinal()


def _read_safely(read: Callable[[object], _Read | None], value: object) -> _Read | None:
    try:
        return read(_to_python(value))
    except Exception:  # an object of a user may raise anything, and an error would tell that it is there
        return None


def _to_python(value: object) -> object:
    """A numpy scalar as a Python object; every kind of missing value as None."""
    if isinstance(value, (str, bool, int)) and not isinstance(value, np.generic):
        return value
    if isinstance(value, (np.datetime64, np.timedelta64)):
        return None if np.isnat(value) else value
    if isinstance(value, np.generic):
        value = value.item()
    missing = isinstance(value, (float, Decimal, date, np.generic)) and value != value  # noqa: PLR0124
    return None if missing else value


def _number(value: object) -> float | None:
    if not isinstance(value, (Real, Decimal, np.floating)):
        return None
    try:
        number = float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf  # type: ignore[operator]
    return None if math.isnan(number) else number


def _whole(value: object) -> int | None:
    if not isinstance(value, (int, float, Decimal)) or not -(2**63) <= value < 2**63 or value != int(value):
        return None
    return int(value)


def _text(value: object) -> str | None:
    if not isinstance(value, str):
        return None
    value.encode()  # raises for a lone surrogate, which is no text
    return str(value)


def _write_value(value: object) -> str | None:
    name = _name(value)
    return None if name is None else name[1:]


def _name(value: object) -> str | None:
    match value:
        case bool():
            return "btrue" if value else "bfalse"
        case int() | float() | Decimal():
            written = format_number(value)
            return f"t{written}" if isinstance(_number_or_text(written), str) else f"n{written}"
        case str():
            return f"t{_text(value)}"
        case datetime():
            return f"t{_instant(value)}"
        case date():
            return f"t{format_date(value.toordinal() - _EPOCH)}"
        case np.datetime64():
            return f"t{format_instant(_nanoseconds(value), utc=False)}"
        case time() if value.tzinfo is None:
            whole = (value.hour * 60 + value.minute) * 60 + value.second
            return f"t{format_clock(whole * 10**9 + value.microsecond * 1000)}"
        case UUID():
            return f"t{value}"
    return None


def _instant(value: datetime) -> str:
    aware = value.tzinfo is not None
    plain = value.astimezone(UTC).replace(tzinfo=None) if aware else value.replace(tzinfo=None)
    days = plain.toordinal() - _EPOCH
    seconds = ((days * 24 + plain.hour) * 60 + plain.minute) * 60 + plain.second
    nanoseconds = getattr(value, "nanosecond", 0)  # of a pandas timestamp
    return format_instant(seconds * 10**9 + plain.microsecond * 1000 + nanoseconds, utc=aware)


def _nanoseconds(value: np.datetime64) -> int:
    unit, count = np.datetime_data(value.dtype)
    if unit in ("Y", "M", "W", "D", "h", "m"):
        value, unit, count = value.astype("datetime64[s]"), "s", 1
    return int(value.astype(np.int64)) * count * {"s": 10**9, "ms": 10**6, "us": 1000, "ns": 1}[unit]


def _number_or_text(written: str) -> Category:
    if _WHOLE.fullmatch(written):
        return int(written)
    try:
        number = float(written)
    except ValueError:
        return written
    return number if format_number(number) == written else written


_PARTS: dict[ValuePart, Callable[[object], Any]] = {
    ValuePart.NUMBER: _number,
    ValuePart.WHOLE: _whole,
    ValuePart.TEXT: _text,
    ValuePart.WRITTEN: _write_value,
    ValuePart.NAME: _name,
}
