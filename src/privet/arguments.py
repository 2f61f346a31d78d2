"""Checks of public arguments: each returns the value, or says what is wrong and how to mend it."""

import math

from privet.errors import InvalidArgument

__all__ = ["at_least", "finite", "fraction", "open_fraction", "positive", "whole"]


def finite(name: str, value: float) -> float:
    """A finite real number."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise InvalidArgument(
            f"'{name}' must be a real number, got {value!r} of type {type(value).__name__}. "
            f"Give it as a Python int or float."
        )
    if not math.isfinite(value):
        raise InvalidArgument(f"'{name}' must be finite, got {value!r}. Give an ordinary number.")
    return value


def positive(name: str, value: float) -> float:
    """A finite number above zero."""
    if finite(name, value) <= 0:
        raise InvalidArgument(f"'{name}' must be above 0, got {value!r}. Give a positive number.")
    return value


def at_least(name: str, value: float, least: float) -> float:
    """A finite number that is not below ``least``."""
    if finite(name, value) < least:
        raise InvalidArgument(
            f"'{name}' must be at least {least:g}, got {value!r}. Give a number from {least:g} upwards."
        )
    return value


def fraction(name: str, value: float) -> float:
    """A number in (0, 1]: a rate."""
    if not 0 < finite(name, value) <= 1:
        raise InvalidArgument(
            f"'{name}' must be above 0 and at most 1, got {value!r}. "
            f"A rate is a probability, such as lot size / number of records."
        )
    return value


def open_fraction(name: str, value: float) -> float:
    """A number in (0, 1): a probability that is neither impossible nor certain."""
    if not 0 < finite(name, value) < 1:
        raise InvalidArgument(
            f"'{name}' must lie strictly between 0 and 1, got {value!r}. Give a probability inside."
        )
    return value


def whole(name: str, value: int, least: int = 1) -> int:
    """A whole number that is not below ``least``."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise InvalidArgument(
            f"'{name}' must be a whole number, got {value!r}. Give it as a Python int."
        )
    if value < least:
        raise InvalidArgument(
            f"'{name}' must be at least {least}, got {value!r}. Give a whole number from {least} upwards."
        )
    return value
