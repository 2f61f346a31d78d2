"""How the words after an option of the command line are read, such as ``age:0:100`` after ``--mean``.

A list is written as a CSV line, so that ``"a,b",c`` has two members. A list of whole numbers is a list of
numbers. Any other is a list of text: ``01234`` is text, as a postcode should be. A column's name may hold
colons where only numbers follow it.
"""

import csv
from typing import Any

from privet.errors import InvalidArgument
from privet.releasing.keys import Category

__all__ = [
    "read_bounded_column",
    "read_categories",
    "read_columns",
    "read_number",
    "read_whole",
    "require_categories",
    "require_parts",
]


def read_bounded_column(option: str, words: str) -> tuple[str, float, float]:
    """``age:0:100`` as a column and its bounds."""
    column, lower, upper = require_parts(
        option, words, words.rsplit(":", 2), 3, "COL:LOW:HIGH, as in age:0:100"
    )
    return column, read_number(option, lower), read_number(option, upper)


def read_columns(option: str, words: str) -> list[tuple[str, tuple[Any, ...] | None]]:
    """``city:a,b;sex:f,m`` as columns with their categories; None where a column has no list."""
    parts = [part.partition(":") for part in words.split(";")]
    return [(name, read_categories(option, values) if colon else None) for name, colon, values in parts]


def read_categories(option: str, words: str) -> tuple[Any, ...]:
    """``a,b,c`` as categories, of which all are whole numbers or all are text."""
    try:
        values = next(csv.reader([words], strict=True), [])
    except csv.Error:
        values = []
    if any(value == "" for value in values) or not values:
        raise InvalidArgument(f"{option} must list values between its commas, got {words!r}. Write a,b,c.")
    if all(_is_whole(value) for value in values):
        return tuple(int(value) for value in values)
    return tuple(values)


def require_categories(option: str, column: str, values: tuple[Category, ...] | None) -> tuple[Category, ...]:
    """The categories of a column, which must be listed."""
    if values is None:
        raise InvalidArgument(
            f"{option} must list the values of each column, got none for {column!r}. Write city:a,b;sex:f,m."
        )
    return values


def read_number(option: str, text: str) -> float:
    """A real number."""
    try:
        return float(text)
    except ValueError:
        raise InvalidArgument(f"{option} must have a number here, got {text!r}. Write one.") from None


def read_whole(option: str, text: str) -> int:
    """A whole number."""
    if not _is_whole(text):
        raise InvalidArgument(f"{option} must have a whole number here, got {text!r}. Write one.")
    return int(text)


def require_parts(option: str, words: str, parts: list[str], count: int, form: str) -> list[str]:
    """The parts of the words: exactly ``count``, none of them empty.

    ``form`` says how to write them, with an example.
    """
    if len(parts) != count or not all(parts):
        raise InvalidArgument(f"{option} must be {form}, got {words!r}. Write it in this way.")
    return parts


def _is_whole(text: str) -> bool:
    digits = text.removeprefix("-")
    return digits.isascii() and digits.isdigit() and len(digits) < 19 and str(int(text)) == text
