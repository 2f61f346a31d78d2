"""Arrays: what numpy reads as one, of numbers where numbers are declared. Whether they are whole is for the
function to say.
"""

import typing

import numpy as np

from privet.type_hints.mismatch import Mismatch, Reader, is_a, mismatch

__all__ = ["array_reader"]

_NUMBERS = "biufO"  # of numpy's kinds of types; objects are read one by one
_NO_ARRAYS = (str, bytes, bool, int, float, complex, dict, set, frozenset, type, type(None))


def array_reader(inner: tuple[object, ...]) -> Reader:
    """The reader of ``NDArray[scalar]``."""
    scalar = (typing.get_args(inner[1]) or (np.generic,))[0] if len(inner) == 2 else np.generic
    numeric = isinstance(scalar, type) and issubclass(scalar, (np.bool_, np.number))
    needed = "an array of numbers" if numeric else "an array"
    fix = "Give a numpy array, or what numpy reads as one."

    def read(value: object) -> object:
        found = value
        if not is_a(value, np.ndarray):
            is_list = is_a(value, (list, tuple, range))
            if is_a(value, _NO_ARRAYS) or not (is_list or hasattr(type(value), "__array__")):
                raise mismatch(needed, value, fix)
            try:
                found = np.asarray(value)
            except Exception:  # rows of several lengths, or an object whose __array__ fails
                raise mismatch(needed, value, fix) from None
        array = typing.cast("np.ndarray", found)
        if numeric and array.size and array.dtype.kind not in _NUMBERS:
            raise Mismatch(needed, f"a {type(value).__name__} of type {array.dtype}", fix)
        return found

    return read
