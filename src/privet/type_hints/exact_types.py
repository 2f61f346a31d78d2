"""Long lists of items of exactly the declared types are accepted as they are, without a call for each item.

An answer with a thousand keys is a thousand pairs, and a reader for each of their values takes longer than
the sums over a million rows. Here the *set* of the types of all items is compared with the hint. This is a
shortcut only: it accepts values that the readers would give back unchanged, and leaves all others to them.
"""

import types
import typing
from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from typing import TypeAlias, cast

from privet.type_hints.mismatch import Reader
from privet.type_hints.scalars import LARGEST

__all__ = ["accept_exact_lists"]

_Check: TypeAlias = Callable[[Sequence[object]], bool]
_Checks: TypeAlias = dict[type, _Check]
"""The types that a value may have, and what all values of one type must fulfil."""


def accept_exact_lists(hint: object, reader: Reader) -> Reader:
    """The reader of a hint of a tuple or a list, with the shortcut before it."""
    checks = _checks_for(hint)
    if not checks:
        return reader

    def read(value: object) -> object:
        check = checks.get(type(value))
        return value if check is not None and check((value,)) else reader(value)

    return read


def _checks_for(hint: object) -> _Checks:
    """Values of types that are missing here are left to the readers; all are where there is no type."""
    if isinstance(hint, type) and hint in _SIMPLE:
        return _SIMPLE[hint]
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        return _either([_checks_for(one) for one in inner])
    if origin is tuple and inner and inner[-1] is not Ellipsis:
        places = [_checks_for(one) for one in inner]
        return {tuple: _fixed_check(places)} if all(places) else {}
    if origin in (tuple, list, Sequence):
        checks = _checks_for(inner[0]) if inner else {}
        kinds = (tuple,) if origin is tuple else (tuple, list)
        return dict.fromkeys(kinds, _items_check(checks)) if checks else {}
    return {}


def _either(alternatives: list[_Checks]) -> _Checks:
    """Values of any of several hints. None where one hint is not known here, or where two have different
    checks of one type: the reader of the first may convert what the second gives back as it is.
    """
    found: _Checks = {}
    for checks in alternatives:
        if not checks or any(found.get(kind, check) is not check for kind, check in checks.items()):
            return {}
        found.update(checks)
    return found


def _fulfil(checks: _Checks, values: Sequence[object]) -> bool:
    kinds = set(map(type, values))
    if not kinds <= checks.keys():
        return False
    return all(
        checks[kind](values if len(kinds) == 1 else [value for value in values if type(value) is kind])
        for kind in kinds
    )


def _items_check(checks: _Checks) -> _Check:
    """Lists of any length, whose items fulfil the checks."""

    def check(values: Sequence[object]) -> bool:
        items = chain.from_iterable(cast("Iterable[Iterable[object]]", values))
        return _fulfil(checks, list(items))

    return check


def _fixed_check(places: list[_Checks]) -> _Check:
    """Tuples of one length, each place with its own checks."""

    def check(values: Sequence[object]) -> bool:
        tuples = cast("Sequence[tuple[object, ...]]", values)
        if set(map(len, tuples)) - {len(places)}:
            return False
        return all(_fulfil(checks, [one[place] for one in tuples]) for place, checks in enumerate(places))

    return check


def _all(values: Sequence[object]) -> bool:
    del values
    return True


def _all_within_float64(values: Sequence[object]) -> bool:
    numbers = cast("Sequence[int]", values)
    return min(numbers) >= -LARGEST and max(numbers) <= LARGEST


_SIMPLE: dict[object, _Checks] = {
    str: {str: _all},
    bool: {bool: _all},
    int: {int: _all_within_float64},
    float: {float: _all, int: _all_within_float64},
    type(None): {type(None): _all},
}
