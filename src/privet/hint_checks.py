"""Values against type hints: a reader for each hint gives the value back, or says what is needed.

A reader accepts what a caller may sensibly write for a type: an int or a numpy scalar for a float, a list or a range for a tuple, text for a
path, a list for an array. It converts these. Where it refuses, it tells the type of the value and never the value, which may be
private. A hint that it does not know accepts everything: a check that is unsure must not refuse.
"""

import inspect
import operator
import os
import sys
import types
import typing
from collections import abc
from collections.abc import Callable
from enum import Enum
from pathlib import Path

import numpy as np

__all__ = ["Mismatch", "Reader", "reader_for"]

Reader = Callable[[object], object]
_NUMERIC = {"f": "biuf", "i": "biu", "u": "biu", "b": "b"}


class Mismatch(Exception):
    """A value is not of its type: what is needed, what was got, and the fix, without the value."""

    def __init__(self, needed: str, got: str, fix: str) -> None:
        super().__init__(needed, got, fix)
        self.needed, self.got, self.fix = needed, got, fix


def reader_for(hint: object) -> Reader | None:
    """The reader of a type hint. None means that every value is accepted."""
    hint = _plain(hint)
    if hint is typing.Any or hint is object or isinstance(hint, (str, typing.ForwardRef, typing.ParamSpec)):
        return None
    if hint is None or hint is type(None):
        return _instances(type(None), "None", "Leave it out.")
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        return _union(inner)
    if origin is typing.Literal:
        return _literal(inner)
    kind = origin if origin is not None else hint
    if not isinstance(kind, type):
        return _callables if kind is abc.Callable else None
    if kind in _SIMPLE:
        return _SIMPLE[kind]
    if kind is abc.Callable:  # type: ignore[comparison-overlap]
        return _callables
    if kind is type:
        return _classes(inner)
    if kind is np.ndarray:
        return _arrays(inner)
    if kind in _CONTAINERS:
        return _CONTAINERS[kind](inner)
    if getattr(kind, "_is_protocol", False):
        return _protocol(kind)
    return _objects(kind)


def _plain(hint: object) -> object:
    """The hint without annotations, aliases and new names; the bound of a type variable."""
    while True:
        if isinstance(hint, typing.TypeVar):
            hint = typing.Any if hint.__bound__ is None else hint.__bound__
        elif isinstance(hint, typing.NewType):
            hint = hint.__supertype__
        elif typing.get_origin(hint) in (typing.Annotated, typing.Final, typing.ClassVar):
            hint = typing.get_args(hint)[0]
        elif type(hint).__name__ == "TypeAliasType":
            hint = hint.__value__  # type: ignore[attr-defined]
        else:
            return hint


def _refused(needed: str, value: object, fix: str) -> Mismatch:
    if isinstance(value, type):
        return Mismatch(needed, f"the class {value.__name__}", fix)
    return Mismatch(needed, f"a value of type {type(value).__name__}", fix)


def _is(value: object, kind: type) -> bool:
    """``isinstance``, also for objects that raise when they are asked for their class."""
    try:
        return isinstance(value, kind)
    except Exception:
        return False


def _item(value: object) -> object:
    """The Python number in a numpy scalar, or in an array or tensor without axes; the value itself otherwise."""
    if isinstance(value, (np.bool_, np.number)):
        return value.item()
    tensor = getattr(sys.modules.get("torch"), "Tensor", ())
    if isinstance(value, (np.ndarray, tensor)) and value.ndim == 0:
        return value.item()
    return value


def _floats(value: object) -> object:
    kind = type(value)
    if kind is float or kind is int:
        return value
    if _is(value, float) or _is(value, int):
        return value
    number = _item(value)
    if type(number) in (float, int):
        return number
    raise _refused("a real number", value, "Give it as a Python int or float.")


def _ints(value: object) -> object:
    if type(value) is int or _is(value, int):
        return value
    number = _item(value)
    if type(number) is int:
        return number
    raise _refused("a whole number", value, "Give it as a Python int.")


def _bools(value: object) -> object:
    if value is True or value is False:
        return value
    number = _item(value)
    if type(number) is bool or (type(number) is int and number in (0, 1)):
        return bool(number)
    raise _refused("True or False", value, "Give a bool.")


def _texts(value: object) -> object:
    if type(value) is str or _is(value, str):
        return value
    raise _refused("text", value, "Give it as a Python str.")


def _bytes(value: object) -> object:
    if _is(value, bytes):
        return value
    raise _refused("bytes", value, "Give it as Python bytes.")


def _paths(value: object) -> object:
    if _is(value, Path):
        return value
    try:
        if isinstance(text := os.fspath(value), str):  # type: ignore[call-overload]
            return Path(text)
    except Exception:  # no path, or an object whose __fspath__ fails
        pass
    raise _refused("a path", value, "Give text or a Path.")


def _callables(value: object) -> object:
    if callable(value):
        return value
    raise _refused("a function", value, "Give a function, or an object that can be called.")


def _hashables(value: object) -> object:
    try:
        hash(value)
    except Exception:
        raise _refused("a value that can be hashed", value, "Give text, a number or a tuple.") from None
    return value


def _iterables(value: object) -> object:
    if not isinstance(value, (str, bytes)) and hasattr(type(value), "__iter__"):
        return value
    raise _refused("several values", value, "Give a list.")


def _instances(kind: type, needed: str, fix: str) -> Reader:
    def read(value: object) -> object:
        if type(value) is kind or _is(value, kind):
            return value
        raise _refused(needed, value, fix)

    return read


def _objects(kind: type) -> Reader:
    """Objects of one class; the subclasses that can be made are named when one is missing."""
    needed = f"{_article(kind.__name__)} {kind.__name__}"

    def read(value: object) -> object:
        if type(value) is kind or _is(value, kind):
            return value
        if isinstance(value, type) and issubclass(value, kind):
            raise _refused(
                needed, value, f"Write {value.__name__}(…): an object is needed, and not its class."
            )
        raise _refused(needed, value, _how_to_make(kind))

    return read


def _article(noun: str) -> str:
    return "an" if noun[:1] in "AEIOaeio" else "a"


def _how_to_make(kind: type) -> str:
    if issubclass(kind, Enum):
        return f"Write one of {', '.join(f'{kind.__name__}.{name}' for name in kind.__members__)}."
    names = [kind.__name__]
    if inspect.isabstract(kind):
        names = sorted(
            {
                below.__name__
                for below in _below(kind)
                if not inspect.isabstract(below)
                and below.__module__.startswith("privet.")
                and not below.__name__.startswith("_")
            }
        )
    if not names:
        return f"Write an object of a class that extends {kind.__name__}."
    shown = ", ".join(f"{name}(…)" for name in names[:4])
    return f"Write {shown}." if len(names) == 1 else f"Write an object such as {shown}."


def _below(kind: type) -> set[type]:
    found: set[type] = set()
    for below in type.__subclasses__(kind):
        found |= {below} | _below(below)
    return found


def _protocol(kind: type) -> Reader | None:
    members = {
        name
        for above in kind.__mro__
        if getattr(above, "_is_protocol", False) and above is not typing.Protocol and above is not typing.Generic
        for name in {**vars(above), **vars(above).get("__annotations__", {})}
        if not name.startswith("_") or name in ("__call__", "__len__", "__getitem__", "__iter__")
    }  # fmt: skip
    if not members:
        return None
    needed = f"an object with {' and '.join(sorted(members))}"

    def read(value: object) -> object:
        try:
            if all(hasattr(value, name) for name in members):
                return value
        except Exception:
            pass
        raise _refused(needed, value, f"See {kind.__name__}.")

    return read


def _union(hints: tuple[object, ...]) -> Reader | None:
    readers = [reader_for(hint) for hint in hints]
    known = [reader for reader in readers if reader is not None]
    if len(known) < len(readers):
        return None
    exact = frozenset(hint for hint in hints if isinstance(hint, type) and hint is not bool) | {type(None)}
    exact = exact if type(None) in hints or None in hints else exact - {type(None)}

    def read(value: object) -> object:
        if type(value) in exact:
            return value
        refusals = []
        for reader in known:
            try:
                return reader(value)
            except Mismatch as refused:
                refusals.append(refused)
        needs = list(dict.fromkeys(refused.needed for refused in refusals))
        # The fix is that of the first form, unless the value was almost of another: an object that holds a wrong item.
        near = [refused for refused in refusals if refused.got != refusals[0].got]
        got = near[0].got if near else refusals[0].got
        fix = (near or refusals)[0].fix
        raise Mismatch(", ".join(needs[:-1]) + " or " + needs[-1] if len(needs) > 1 else needs[0], got, fix)

    return read


def _literal(values: tuple[object, ...]) -> Reader:
    needed = "one of " + ", ".join(map(repr, values))

    def read(value: object) -> object:
        for known in values:
            if type(value) is type(known) and value == known:
                return value
        raise _refused(needed, value, "Write one of these.")

    return read


def _classes(inner: tuple[object, ...]) -> Reader:
    above = _plain(inner[0]) if inner else object
    above = typing.get_origin(above) or above

    def read(value: object) -> object:
        if isinstance(value, type) and (not isinstance(above, type) or issubclass(value, above)):
            return value
        name = getattr(above, "__name__", "object")
        raise _refused(f"a class that extends {name}", value, "Give the class itself.")

    return read


def _arrays(inner: tuple[object, ...]) -> Reader:
    """Arrays: what numpy reads as one, of the kind of number that is declared."""
    scalar = (typing.get_args(inner[1]) or (np.generic,))[0] if len(inner) == 2 else np.generic
    known = isinstance(scalar, type) and issubclass(scalar, np.generic) and scalar is not np.generic
    dtype = np.dtype(scalar) if known else None
    kinds = _NUMERIC.get(dtype.kind, "") if dtype is not None else ""
    needed = "an array of booleans" if kinds == "b" else "an array of numbers" if kinds else "an array"
    fix = "Give a numpy array, or what numpy reads as one."

    def read(value: object) -> object:
        if isinstance(value, np.ndarray):
            if kinds and value.dtype.kind not in kinds:
                raise Mismatch(needed, f"an array of type {value.dtype}", fix)
            return value
        if (
            isinstance(value, (str, bytes, bool, int, float, complex, dict, set, frozenset, type))
            or value is None
        ):
            raise _refused(needed, value, fix)
        if not isinstance(value, (list, tuple, range)) and not hasattr(type(value), "__array__"):
            raise _refused(needed, value, fix)
        try:
            array = np.asarray(value)
            array = array.astype(dtype) if kinds and dtype is not None and not array.size else array
        except Exception:  # ragged rows, or an object whose __array__ fails
            raise _refused(needed, value, fix) from None
        if kinds and array.dtype.kind not in kinds:
            raise Mismatch(needed, f"what numpy reads as an array of type {array.dtype}", fix)
        return array

    return read


def _each(reader: Reader | None, values: abc.Iterable[object], needed: str, got: str) -> list[object]:
    if reader is None:
        return list(values)
    found = []
    for value in values:
        try:
            found.append(reader(value))
        except Mismatch as refused:
            raise Mismatch(needed, f"{got} that holds {refused.got}", refused.fix) from None
    return found


def _listed(value: object, needed: str) -> abc.Iterable[object]:
    """A list in any of its forms: no text, no set, nothing that can be read only once."""
    if isinstance(value, np.ndarray) and value.ndim > 0:
        return value.tolist() if value.ndim == 1 else list(value)
    if isinstance(value, (list, tuple, range)):
        return value
    if _is(value, abc.Sequence) and not isinstance(value, (str, bytes, bytearray, memoryview)):
        try:
            return list(typing.cast("abc.Sequence[object]", value))
        except Exception:
            pass
    raise _refused(needed, value, "Give a list or a tuple.")


def _tuples(inner: tuple[object, ...]) -> Reader:
    if inner == () or (len(inner) == 2 and inner[1] is Ellipsis):
        reader = reader_for(inner[0]) if inner else None
        needed = f"a tuple of {_needed(inner[0])}" if inner else "a tuple"

        def read(value: object) -> object:
            items = _listed(value, needed)
            found = _each(reader, items, needed, f"a {type(value).__name__}")
            return value if type(value) is tuple and _same(found, value) else _as_tuple(value, found)

        return read
    readers = [reader_for(hint) for hint in inner]
    needed = f"a tuple of {len(inner)}: {', '.join(_needed(hint) for hint in inner)}"

    def read_fixed(value: object) -> object:
        items = list(_listed(value, needed))
        if len(items) != len(readers):
            raise Mismatch(
                needed, f"a {type(value).__name__} of another length", f"Give {len(readers)} values."
            )
        found = [
            _each(reader, [item], needed, f"a {type(value).__name__}")[0]
            for reader, item in zip(readers, items, strict=True)
        ]
        return value if type(value) is tuple and _same(found, value) else _as_tuple(value, found)

    return read_fixed


def _as_tuple(value: object, found: list[object]) -> object:
    """A tuple of what was read; a named tuple stays what it is."""
    return value if isinstance(value, tuple) and _same(found, value) else tuple(found)


def _same(found: abc.Sequence[object], items: abc.Sequence[object]) -> bool:
    return all(map(operator.is_, found, items))


def _sequences(inner: tuple[object, ...]) -> Reader:
    reader = reader_for(inner[0]) if inner else None
    needed = f"a list of {_needed(inner[0])}" if inner else "a list"

    def read(value: object) -> object:
        items = _listed(value, needed)
        found = _each(reader, items, needed, f"a {type(value).__name__}")
        return value if isinstance(items, (list, tuple, range)) and _same(found, items) else found

    return read


def _sets(inner: tuple[object, ...]) -> Reader:
    reader = reader_for(inner[0]) if inner else None
    needed = f"a set of {_needed(inner[0])}" if inner else "a set"

    def read(value: object) -> object:
        if not isinstance(value, (set, frozenset, list, tuple)):
            raise _refused(needed, value, "Give a set.")
        found = _each(reader, value, needed, f"a {type(value).__name__}")
        try:
            return value if isinstance(value, frozenset) else frozenset(found)
        except Exception:
            raise _refused(needed, value, "Give values that can be hashed.") from None

    return read


def _mappings(inner: tuple[object, ...]) -> Reader:
    keys, values = (reader_for(inner[0]), reader_for(inner[1])) if len(inner) == 2 else (None, None)
    needed = f"a dict from {_needed(inner[0])} to {_needed(inner[1])}" if len(inner) == 2 else "a dict"

    def read(value: object) -> object:
        if not _is(value, abc.Mapping):
            raise _refused(needed, value, "Give a dict.")
        mapping = typing.cast("abc.Mapping[object, object]", value)
        _each(keys, mapping, needed, f"a {type(value).__name__}")
        _each(values, mapping.values(), needed, f"a {type(value).__name__}")
        return value

    return read


def _needed(hint: object) -> str:
    """What a hint needs, in words: asked of its own refusal."""
    reader = reader_for(hint)
    if reader is None:
        return "any value"
    try:
        reader(_Nothing())
    except Mismatch as refused:
        return refused.needed
    return "any value"


class _Nothing:
    """What no hint accepts: it cannot be hashed."""

    __hash__ = None  # type: ignore[assignment]


_SIMPLE: dict[type, Reader] = {
    float: _floats,
    int: _ints,
    bool: _bools,
    str: _texts,
    bytes: _bytes,
    Path: _paths,
    abc.Hashable: _hashables,
    abc.Iterable: _iterables,
    abc.Iterator: _iterables,
}
_CONTAINERS: dict[type, Callable[[tuple[object, ...]], Reader]] = {
    tuple: _tuples,
    list: _sequences,
    abc.Sequence: _sequences,
    frozenset: _sets,
    set: _sets,
    abc.Set: _sets,
    dict: _mappings,
    abc.Mapping: _mappings,
    abc.MutableMapping: _mappings,
}
