"""Numbers as text: rates in per cent, counts in a thousand, and ε rounded in the safe direction."""

import math

from privet.auditing import Rate

__all__ = [
    "at_least",
    "at_least_in_a_thousand",
    "at_most",
    "at_most_in_a_thousand",
    "count",
    "fraction",
    "in_a_thousand",
    "one_in",
    "percent",
    "percent_at_most",
    "points",
    "rate_range",
    "small",
    "some_in_a_thousand",
]


def percent(value: float) -> str:
    """A share in per cent with two or three significant digits; no line break before the sign.

    >>> [percent(value).replace("\\u00a0", " ") for value in (0.0123, 0.001, 0.97531, 0.99966, 0.0)]
    ['1.2 %', '0.1 %', '97.5 %', '99.966 %', '0 %']
    """
    return _with_sign(f"{100 * value:.{_decimals(value)}f}")


def percent_at_most(value: float) -> str:
    """A share in per cent, rounded up: for what a proof allows.

    >>> percent_at_most(0.06315).replace("\\u00a0", " ")
    '6.4 %'
    """
    decimals = _decimals(value)
    scale = 10.0**decimals
    return _with_sign(f"{min(math.ceil(100 * value * scale - 1e-9) / scale, 100.0):.{decimals}f}")


def rate_range(rate: Rate) -> str:
    """The interval of a rate."""
    return f"{percent(rate.lower)} to {percent(rate.upper)}"


def at_least(epsilon: float) -> str:
    """A lower bound, rounded down.

    >>> at_least(0.999), at_least(0.0)
    ('0.99', '0')
    """
    return _two_decimals(math.floor(100 * epsilon + 1e-9) / 100)


def at_most(epsilon: float) -> str:
    """An upper bound, rounded up.

    >>> at_most(2.991), at_most(float("inf"))
    ('3', '∞')
    """
    return _two_decimals(math.ceil(100 * epsilon - 1e-9) / 100) if math.isfinite(epsilon) else "∞"


def fraction(value: float) -> str:
    """An area or another number from 0 to 1, with three digits."""
    return f"{value:.3f}"


def count(number: int) -> str:
    """A count with separators.

    >>> count(12345)
    '12,345'
    """
    return f"{number:,}"


def points(difference: float) -> str:
    """A difference of two shares in points of a hundred, without its sign."""
    value = f"{abs(100 * difference):.1f}"
    return f"{value} point" if value == "1.0" else f"{value} points"


def in_a_thousand(share: float) -> int:
    """How many of a thousand, to the nearest."""
    return round(1000 * share)


def small(delta: float) -> str:
    """A tiny probability with its power of ten.

    >>> small(1e-5), small(2.5e-6), small(0.0), small(0.01)
    ('10⁻⁵', '2.5·10⁻⁶', '0', '0.01')
    """
    if delta == 0 or delta >= 1e-3:
        return f"{delta:g}"
    digits, power = f"{delta:.3e}".split("e")
    digits = digits.rstrip("0").rstrip(".")
    raised = str(int(power)).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))
    return f"10{raised}" if digits == "1" else f"{digits}·10{raised}"


def some_in_a_thousand(share: float) -> str:
    """How many of a thousand, in words: a few in a million are not "none".

    >>> some_in_a_thousand(0.0163), some_in_a_thousand(0.0002), some_in_a_thousand(0.0)
    ('16', 'fewer than 1', 'none')
    """
    if share == 0:
        return "none"
    return "fewer than 1" if share < 5e-4 else str(in_a_thousand(share))


def at_most_in_a_thousand(share: float) -> int:
    """How many of a thousand, rounded up."""
    return math.ceil(1000 * share - 1e-9)


def at_least_in_a_thousand(share: float) -> int:
    """How many of a thousand, rounded down."""
    return math.floor(1000 * share + 1e-9)


def one_in(share: float) -> str:
    """A small share as one in so many.

    >>> one_in(0.001)
    'one in 1,000'
    """
    return f"one in {round(1 / share):,}"


def _decimals(value: float) -> int:
    """Decimals of a share in per cent: one from 10 % on, two digits below, and near 100 % enough to differ
    from 100 %.
    """
    near = min(value, 1 - value) if value > 0.999 else value
    if near <= 0:
        return 0
    return min(max(1 - math.floor(math.log10(100 * near) + 1e-12), 1), 8)


def _with_sign(number: str) -> str:
    return (number.rstrip("0").rstrip(".") if "." in number else number) + "\u00a0%"


def _two_decimals(value: float) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".")
