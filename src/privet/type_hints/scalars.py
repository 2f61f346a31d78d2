"""Numbers, text, paths and functions. numpy's scalars, and arrays and tensors without axes, are read as
Python's numbers.
"""

import os
import sys
from pathlib import Path

import numpy as np

from privet.type_hints.mismatch import Mismatch, is_a, mismatch

__all__ = [
    "LARGEST",
    "read_bool",
    "read_bytes",
    "read_callable",
    "read_float",
    "read_hashable",
    "read_int",
    "read_path",
    "read_text",
]

LARGEST = int(sys.float_info.max)
"""The largest whole number that is accepted."""


def read_float(value: object) -> object:
    """A real number. Whether it is finite is for the function to say."""
    kind = type(value)
    if kind is float:
        return value
    if kind is int or is_a(value, (float, int)):
        return _within_float64(value, "a real number")
    number = _python_number(value)
    if type(number) in (float, int):
        return number
    raise mismatch("a real number", value, "Give it as a Python int or float.")


def read_int(value: object) -> object:
    """A whole number."""
    if type(value) is int or is_a(value, int):
        return _within_float64(value, "a whole number")
    number = _python_number(value)
    if type(number) is int:
        return number
    raise mismatch("a whole number", value, "Give it as a Python int.")


def read_bool(value: object) -> object:
    """True or False. 1 and 0 stay what they are, for the function to take or to refuse."""
    if value is True or value is False:
        return value
    number = _python_number(value)
    if type(number) is bool or (type(number) is int and number in (0, 1)):
        return number
    raise mismatch("True or False", value, "Give a bool.")


def read_text(value: object) -> object:
    """Text."""
    if type(value) is str or is_a(value, str):
        return value
    raise mismatch("text", value, "Give it as a Python str.")


def read_bytes(value: object) -> object:
    """Bytes."""
    if is_a(value, bytes):
        return value
    raise mismatch("bytes", value, "Give it as Python bytes.")


def read_path(value: object) -> object:
    """A path; text and other path objects become one."""
    if is_a(value, Path):
        return value
    try:
        if isinstance(text := os.fspath(value), str):  # type: ignore[call-overload]
            return Path(text)
    except Exception:  # no path, or an object whose __fspath__ fails
        pass
    raise mismatch("a path", value, "Give text or a Path.")


def read_callable(value: object) -> object:
    """A function, a class, or an object with ``__call__``."""
    if callable(value):
        return value
    raise mismatch("a function", value, "Give a function, or an object that can be called.")


def read_hashable(value: object) -> object:
    """A value that can be a key."""
    try:
        hash(value)
    except Exception:
        raise mismatch("a value that can be hashed", value, "Give text, a number or a tuple.") from None
    return value


def _within_float64(value: object, needed: str) -> object:
    """Numbers are counts, rates and seeds: one beyond float64 is a mistake, and most formulas could not take
    it.
    """
    if isinstance(value, int) and not -LARGEST <= value <= LARGEST:
        raise Mismatch(needed, "one beyond the range of float64", "Give a number that can occur.")
    return value


def _python_number(value: object) -> object:
    if type(value) in (int, float, bool):
        return value
    if is_a(value, (np.bool_, np.number)):
        return value.item()  # type: ignore[attr-defined]
    tensor = getattr(sys.modules.get("torch"), "Tensor", np.ndarray)
    if not is_a(value, (np.ndarray, tensor)):
        return value
    try:
        return value.item() if value.ndim == 0 else value  # type: ignore[attr-defined]
    except Exception:  # a tensor without content
        return value
