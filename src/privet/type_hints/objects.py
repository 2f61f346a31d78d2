"""Objects of a class, of an enumeration or with the members of a protocol; classes themselves."""

import inspect
import typing
from enum import Enum

from privet.type_hints.mismatch import Mismatch, Reader, is_a, mismatch

__all__ = [
    "LEAVE_OUT",
    "class_reader",
    "named_tuple_reader",
    "none_reader",
    "object_reader",
    "protocol_reader",
]

_PACKAGE = __name__.partition(".")[0]
LEAVE_OUT = "Leave it out."
_FEW = 4  # names in a message


def none_reader(value: object) -> object:
    """None alone."""
    if value is None:
        return value
    raise mismatch("None", value, LEAVE_OUT)


def object_reader(kind: type) -> Reader:
    """Objects of one class."""
    needed = f"{'an' if kind.__name__[:1] in 'AEIOaeio' else 'a'} {kind.__name__}"

    def read(value: object) -> object:
        if type(value) is kind or is_a(value, kind):
            return value
        if is_a(value, type) and issubclass(typing.cast("type", value), kind):
            name = typing.cast("type", value).__name__
            raise mismatch(needed, value, f"Write {name}(…): an object is needed, and not its class.")
        raise mismatch(needed, value, _how_to_make(kind))

    return read


def named_tuple_reader(kind: type, fields: dict[str, Reader | None]) -> Reader:
    """Named tuples, whose constructors check nothing: each field is read. A bare tuple is not one."""
    whole = object_reader(kind)

    def read(value: object) -> object:
        found = typing.cast("tuple[object, ...]", whole(value))
        for item, reader in zip(found, fields.values(), strict=False):
            if reader is not None:
                try:
                    reader(item)
                except Mismatch as refused:
                    needed = f"a {kind.__name__} of {', '.join(fields)}"
                    raise Mismatch(needed, f"one that holds {refused.got}", refused.fix) from None
        return value

    return read


def class_reader(above: object) -> Reader:
    """A class that extends another."""
    above = typing.get_origin(above) or above

    def read(value: object) -> object:
        if is_a(value, type) and (
            not isinstance(above, type) or issubclass(typing.cast("type", value), above)
        ):
            return value
        name = getattr(above, "__name__", "object")
        raise mismatch(f"a class that extends {name}", value, "Give the class itself.")

    return read


def protocol_reader(kind: type) -> Reader | None:
    """Objects with all members of a protocol; None where it has none that can be looked for."""
    members = {
        name
        for above in kind.__mro__
        if getattr(above, "_is_protocol", False) and above.__module__ != "typing"
        for name in {**vars(above), **vars(above).get("__annotations__", {})}
        if not name.startswith("_") or name in ("__call__", "__len__", "__getitem__", "__iter__")
    }
    if not members:
        return None
    needed = f"an object with {' and '.join(sorted(members))}"

    def read(value: object) -> object:
        try:
            if all(hasattr(value, name) for name in members):
                return value
        except Exception:  # a property that fails
            pass
        raise mismatch(needed, value, f"See {kind.__name__}.")

    return read


def _how_to_make(kind: type) -> str:
    if issubclass(kind, Enum):
        return f"Write one of {', '.join(f'{kind.__name__}.{name}' for name in kind.__members__)}."
    if not kind.__module__.startswith(f"{_PACKAGE}."):
        return f"Give an object of the class {kind.__name__} of {kind.__module__.partition('.')[0]}."
    names = sorted({below.__name__ for below in _below(kind) if _is_offered(below)})
    if not names and inspect.isabstract(kind):
        return f"Write an object of a class that extends {kind.__name__}."
    names = names or [kind.__name__]
    shown = ", ".join(f"{name}(…)" for name in names[:_FEW])
    return f"Write {shown}." if len(names) == 1 else f"Write an object such as {shown}."


def _is_offered(kind: type) -> bool:
    return (
        kind.__module__.startswith(f"{_PACKAGE}.")
        and not kind.__name__.startswith("_")
        and not type.__subclasses__(kind)
        and not inspect.isabstract(kind)
    )


def _below(kind: type) -> set[type]:
    found: set[type] = set()
    below: type
    for below in type.__subclasses__(kind):
        found |= {below} | _below(below)
    return found
