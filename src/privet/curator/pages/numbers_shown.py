"""Numbers on pages: what was spent is rounded up, what is left is rounded down, a value to its own error."""

import math
from datetime import UTC, datetime
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal

from privet.reporting.numbers import small

__all__ = ["moment", "plain_number", "show_left", "show_spent", "small", "to_error"]


_UNBOUNDED = 1e300  # the worker writes the largest number for an infinite error


def show_spent(epsilon: float) -> str:
    """A cost, rounded up to three digits.

    >>> show_spent(0.10004), show_spent(2.0), show_spent(math.inf)
    ('0.101', '2', '∞')
    """
    return _round(epsilon, ROUND_CEILING)


def show_left(epsilon: float) -> str:
    """What is left, rounded down to three digits.

    >>> show_left(0.10004), show_left(0.0)
    ('0.1', '0')
    """
    return _round(epsilon, ROUND_FLOOR)


def to_error(value: float, error: float) -> str:
    """A value with as many digits as its error is worth: two of the error.

    >>> to_error(12345.678, 31.2), to_error(41.8372, 0.123), to_error(5120, 0)
    ('12,346', '41.84', '5,120')
    """
    if not (math.isfinite(value) and math.isfinite(error)):
        return plain_number(value)
    decimals = 0 if error <= 0 else max(0, 1 - math.floor(math.log10(error)))
    if error <= 0 and value != int(value):
        return f"{value:,.6g}"
    return f"{value:,.{min(decimals, 12)}f}"


def plain_number(value: float) -> str:
    """Any number, with four digits.

    >>> plain_number(0.12345), plain_number(31.24), plain_number(123456.0), plain_number(math.inf)
    ('0.1235', '31.24', '123,456', 'no bound')
    """
    if not abs(value) < _UNBOUNDED:
        return "no bound" if value > 0 else "−∞"
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.4g}"


def moment(when: datetime | int) -> str:
    """A time in UTC, to the minute."""
    time = datetime.fromtimestamp(when, UTC) if isinstance(when, int) else when.astimezone(UTC)
    return time.strftime("%Y-%m-%d %H:%M")


def _round(value: float, rounding: str) -> str:
    if not math.isfinite(value):
        return "∞"
    if value == 0:
        return "0"
    slack = 1e-9 * abs(value)  # 0.1 is a little more than a tenth
    near = value - slack if rounding == ROUND_CEILING else value + slack
    return f"{float(Context(3, rounding).create_decimal(Decimal(near))):.3g}"
