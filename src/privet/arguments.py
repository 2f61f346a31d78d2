"""Checks of public arguments: each returns the value, or says what is wrong and how to mend it."""

import math

from privet.errors import InvalidArgument

__all__ = ["at_least", "finite", "format_value", "fraction", "halves", "open_fraction", "positive", "whole"]


def format_value(value: object) -> str:
    """A value for a message: its repr, shortened if long; a description if repr fails."""
    try:
        text = repr(value)
    except (ValueError, RecursionError):
        return f"a value of type {type(value).__name__} that is too long to show"
    except Exception:  # an object whose repr fails
        return f"a value of type {type(value).__name__}"
    return text if len(text) <= 80 else f"{text[:60]}… ({len(text)} characters)"


def finite(name: str, value: float) -> float:
    """A finite real number."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise InvalidArgument(
            f"'{name}' must be a real number, got {format_value(value)} of type {type(value).__name__}. "
            f"Give it as a Python int or float."
        )
    if not _is_finite(value):
        raise InvalidArgument(f"'{name}' must be finite, got {format_value(value)}. Give an ordinary number.")
    return value


def positive(name: str, value: float) -> float:
    """A finite number above zero."""
    if finite(name, value) <= 0:
        raise InvalidArgument(f"'{name}' must be above 0, got {format_value(value)}. Give a positive number.")
    return value


def at_least(name: str, value: float, least: float) -> float:
    """A finite number that is not below ``least``."""
    if finite(name, value) < least:
        raise InvalidArgument(
            f"'{name}' must be at least {least:g}, got {format_value(value)}. Give a number from {least:g} "
            "upwards."
        )
    return value


def fraction(name: str, value: float) -> float:
    """A number in (0, 1]: a rate."""
    if not 0 < finite(name, value) <= 1:
        raise InvalidArgument(
            f"'{name}' must be above 0 and at most 1, got {format_value(value)}. "
            f"A rate is a probability, such as lot size / number of records."
        )
    return value


def open_fraction(name: str, value: float) -> float:
    """A number in (0, 1): a probability that is neither impossible nor certain."""
    if not 0 < finite(name, value) < 1:
        raise InvalidArgument(
            f"'{name}' must lie strictly between 0 and 1, got {format_value(value)}. Give a probability "
            "inside."
        )
    return value


def whole(name: str, value: int, least: int = 1, most: int | None = None) -> int:
    """A whole number that is not below ``least``, nor above ``most``."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise InvalidArgument(
            f"'{name}' must be a whole number, got {format_value(value)}. Give it as a Python int."
        )
    if value < least:
        raise InvalidArgument(
            f"'{name}' must be at least {least}, got {format_value(value)}. Give a whole number from "
            f"{least} upwards."
        )
    if most is not None and value > most:
        raise InvalidArgument(
            f"'{name}' must be at most {most:.0e}, got {format_value(value)}. Give a number that can occur."
        )
    return value


def halves(name: str, value: float, most: float) -> float:
    """A positive multiple of one half."""
    if not 0 < finite(name, value) <= most or 2 * value != int(2 * value):
        raise InvalidArgument(
            f"'{name}' must be a positive multiple of ½ and at most {most:.0e}, got {format_value(value)}. "
            f"Count in whole steps of the grid that the noise is on."
        )
    return value


def _is_finite(value: float) -> bool:
    try:
        return math.isfinite(value)
    except OverflowError:  # a whole number beyond float64
        return False
