"""The reader of a type hint."""

import types
import typing
from collections import abc
from pathlib import Path

import numpy as np

from privet.type_hints.arrays import array_reader
from privet.type_hints.containers import (
    fixed_tuple_reader,
    mapping_reader,
    read_iterable,
    sequence_reader,
    set_reader,
    tuple_reader,
)
from privet.type_hints.exact_types import accept_exact_lists
from privet.type_hints.mismatch import Mismatch, Reader, mismatch
from privet.type_hints.objects import (
    LEAVE_OUT,
    class_reader,
    named_tuple_reader,
    none_reader,
    object_reader,
    protocol_reader,
)
from privet.type_hints.scalars import (
    read_bool,
    read_bytes,
    read_callable,
    read_float,
    read_hashable,
    read_int,
    read_path,
    read_text,
)

__all__ = ["reader_for"]

_SIMPLE: dict[object, Reader] = {
    type(None): none_reader,
    float: read_float,
    int: read_int,
    bool: read_bool,
    str: read_text,
    bytes: read_bytes,
    Path: read_path,
    abc.Callable: read_callable,
    abc.Hashable: read_hashable,
    abc.Iterable: read_iterable,
    abc.Iterator: read_iterable,
}
_LISTS: dict[object, abc.Callable[[Reader | None, str], Reader]] = {
    tuple: tuple_reader,
    list: sequence_reader,
    abc.Sequence: sequence_reader,
    frozenset: set_reader,
    set: set_reader,
    abc.Set: set_reader,
}
_MAPPINGS = (dict, abc.Mapping, abc.MutableMapping)


def reader_for(hint: object) -> Reader | None:
    """The reader of a type hint. None means that every value is accepted.

    >>> reader_for(tuple[float, ...])([1, 2.5])
    (1, 2.5)
    >>> reader_for(typing.Any) is None
    True
    """
    hint = _plain(hint)
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        return _union_reader(inner)
    if origin is typing.Literal:
        return _literal_reader(inner)
    kind = hint if origin is None else origin
    if kind in _SIMPLE:
        return _SIMPLE[kind]
    if (
        not isinstance(kind, type) or kind is object or kind.__module__ == "typing"
    ):  # such as Any and TextIO, for which other objects may stand
        return None
    reader = _class_hint_reader(kind, inner)
    return reader if reader is None else accept_exact_lists(hint, reader)


def _class_hint_reader(kind: type, inner: tuple[object, ...]) -> Reader | None:
    if kind is type:
        return class_reader(_plain(inner[0]) if inner else object)
    if kind is np.ndarray:
        return array_reader(inner)
    if kind is tuple and inner and inner[-1] is not Ellipsis:
        return fixed_tuple_reader([reader_for(one) for one in inner], [_describe_need(one) for one in inner])
    if kind in _MAPPINGS:
        key, value = inner if len(inner) == 2 else (typing.Any, typing.Any)
        needed = f"a dict from {_describe_need(key)} to {_describe_need(value)}" if inner else "a dict"
        return mapping_reader(reader_for(key), reader_for(value), needed)
    if kind in _LISTS:
        item = inner[0] if inner else typing.Any
        return _LISTS[kind](reader_for(item), _describe_need(item))
    if getattr(kind, "_is_protocol", False):
        return protocol_reader(kind)
    if issubclass(kind, tuple) and hasattr(kind, "_fields"):
        hints = _field_hints(kind)
        return named_tuple_reader(
            kind, {name: reader_for(hints.get(name, typing.Any)) for name in kind._fields}
        )
    return object_reader(kind)


def _field_hints(kind: type) -> dict[str, object]:
    try:
        return typing.get_type_hints(kind)
    except Exception:  # a hint for the type checker alone
        return {}


def _plain(hint: object) -> object:
    """The hint without annotations, aliases and new names; the bound of a type variable."""
    while True:
        if isinstance(hint, typing.TypeVar):
            hint = typing.Any if hint.__bound__ is None else hint.__bound__
        elif isinstance(hint, typing.NewType):
            hint = hint.__supertype__
        elif typing.get_origin(hint) in (typing.Annotated, typing.Final, typing.ClassVar):
            hint = typing.get_args(hint)[0]
        elif type(hint).__name__ == "TypeAliasType":  # Python 3.12
            hint = hint.__value__  # type: ignore[attr-defined]
        else:
            return type(None) if hint is None else hint


def _union_reader(hints: tuple[object, ...]) -> Reader | None:
    readers = [reader_for(hint) for hint in hints]
    known = [reader for reader in readers if reader is not None]
    if len(known) < len(readers):
        return None
    exact = frozenset(hint for hint in hints if isinstance(hint, type) and hint not in (int, float))

    def read(value: object) -> object:
        if type(value) in exact:
            return value
        refusals = []
        for reader in known:
            try:
                return reader(value)
            except Mismatch as refused:
                refusals.append(refused)
        # A container that holds a wrong item is nearest to what was meant.
        near = max(refusals, key=lambda refused: " that holds " in refused.got)
        fixes = [near.fix] if near.got != refusals[0].got else [refused.fix for refused in refusals]
        fix = " ".join(list(dict.fromkeys(one for one in fixes if one != LEAVE_OUT))[:2])
        raise Mismatch(_either([refused.needed for refused in refusals]), near.got, fix)

    return read


def _either(needs: list[str]) -> str:
    names = list(dict.fromkeys(needs))
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} or {names[-1]}"


def _literal_reader(values: tuple[object, ...]) -> Reader:
    needed = "one of " + ", ".join(map(repr, values))

    def read(value: object) -> object:
        for known in values:
            if type(value) is type(known) and value == known:
                return value
        raise mismatch(needed, value, "Write one of these.")

    return read


def _describe_need(hint: object) -> str:
    """What a hint needs, in words: asked of its own refusal."""
    reader = reader_for(hint)
    if reader is not None:
        try:
            reader(_Unwanted())
        except Mismatch as refused:
            return refused.needed
    return "any value"


class _Unwanted:
    """A value that every reader refuses: it cannot even be hashed."""

    __hash__ = None  # type: ignore[assignment]
