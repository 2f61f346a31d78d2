"""Tuples, lists, sets and dicts. Lists, ranges and arrays are read as tuples; each item is read by the hint
of the items.
"""

import operator
import typing
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from privet.type_hints.mismatch import Mismatch, Reader, is_a, mismatch

__all__ = [
    "fixed_tuple_reader",
    "mapping_reader",
    "read_iterable",
    "sequence_reader",
    "set_reader",
    "tuple_reader",
]

_MOST = 10**7  # items: more are no parameter, and a range can have any number


def tuple_reader(item: Reader | None, needed: str) -> Reader:
    """Tuples of any length."""
    needed = f"a tuple of {needed}"

    def read(value: object) -> object:
        if item is None and is_a(value, np.ndarray):
            # Values of any type are categories and candidates, which are written out. An array of them comes
            # from data.
            raise mismatch(needed, value, "Write out every value.")
        found = _items(item, _read_list(value, needed), needed, value)
        return value if is_a(value, tuple) and _same(found, value) else tuple(found)

    return read


def fixed_tuple_reader(items: Sequence[Reader | None], needs: Sequence[str]) -> Reader:
    """Tuples of one length, each place with its own hint."""
    needed = f"a tuple of {len(items)} ({', '.join(needs)})"

    def read(value: object) -> object:
        given = _read_list(value, needed)
        if len(given) != len(items):
            got = f"a {type(value).__name__} of another length"
            raise Mismatch(needed, got, f"Give {len(items)} values.")
        found = [_items(item, [one], needed, value)[0] for item, one in zip(items, given, strict=True)]
        return value if is_a(value, tuple) and _same(found, value) else tuple(found)

    return read


def sequence_reader(item: Reader | None, needed: str) -> Reader:
    """Lists and tuples, as they are unless an item is converted."""
    needed = f"a list of {needed}"

    def read(value: object) -> object:
        given = _read_list(value, needed)
        found = _items(item, given, needed, value)
        return value if given is value and _same(found, given) else found

    return read


def set_reader(item: Reader | None, needed: str) -> Reader:
    """Frozen sets; sets, lists and tuples become one."""
    needed = f"a set of {needed}"

    def read(value: object) -> object:
        if not is_a(value, (set, frozenset, list, tuple)):
            raise mismatch(needed, value, "Give a set.")
        found = _items(item, typing.cast("Iterable[object]", value), needed, value)
        if is_a(value, frozenset):
            return value
        try:
            return frozenset(found)
        except Exception:  # items that cannot be hashed
            raise mismatch(needed, value, "Give values that can be hashed.") from None

    return read


def mapping_reader(key: Reader | None, value_of: Reader | None, needed: str) -> Reader:
    """Dicts and other mappings."""

    def read(value: object) -> object:
        if not is_a(value, Mapping):
            raise mismatch(needed, value, "Give a dict.")
        try:
            pairs = list(typing.cast("Mapping[object, object]", value).items())
        except Exception:
            raise mismatch(needed, value, "Give a dict.") from None
        _items(key, [name for name, _ in pairs], needed, value)
        _items(value_of, [one for _, one in pairs], needed, value)
        return value

    return read


def read_iterable(value: object) -> object:
    """Anything that gives one value after the other, but for text."""
    if not is_a(value, (str, bytes)) and hasattr(type(value), "__iter__"):
        return value
    raise mismatch("several values", value, "Give a list.")


def _read_list(value: object, needed: str) -> Sequence[object]:
    """A list in any of its forms: no text, no set, and nothing that can be read only once."""
    if is_a(value, (list, tuple)):
        return typing.cast("Sequence[object]", value)
    refused = mismatch(needed, value, "Give a list or a tuple.")
    if is_a(value, (str, bytes, bytearray, memoryview)) or not is_a(value, (Sequence, np.ndarray)):
        raise refused
    try:
        array = typing.cast("np.ndarray", value) if is_a(value, np.ndarray) else None
        if array is not None:
            return array.tolist() if array.ndim == 1 else list(array)
        sequence = typing.cast("Sequence[object]", value)
        if len(sequence) <= _MOST:
            return [sequence[place] for place in range(len(sequence))]
    except Exception:  # a length or an item that cannot be had
        pass
    raise refused


def _items(item: Reader | None, values: Iterable[object], needed: str, container: object) -> list[object]:
    if item is None:
        return list(values)
    found = []
    for value in values:
        try:
            found.append(item(value))
        except Mismatch as refused:
            got = f"a {type(container).__name__} that holds {refused.got}"
            raise Mismatch(needed, got, refused.fix) from None
    return found


def _same(found: Sequence[object], given: object) -> bool:
    return all(map(operator.is_, found, typing.cast("Sequence[object]", given)))
