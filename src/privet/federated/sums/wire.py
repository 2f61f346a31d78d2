"""Messages as bytes: a short head of names and numbers, and a tail of words. What does not fit is refused.

The head is JSON; bytes in it are hexadecimal. A reader asks for each field by its kind, so that a message
from a stranger is never trusted to have a shape.
"""

import json
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import final

from privet.federated.sum_protocols import MessageRefused

__all__ = ["MessageFields", "Values", "read_message", "write_message"]

_LENGTH = struct.Struct("<I")
_LARGEST_NUMBER = 2**62

Value = int | bytes | Sequence[int] | Mapping[int, bytes]
Values = dict[str, Value]


def write_message(step: str, fields: Values, tail: bytes = b"") -> bytes:
    """The bytes of one message."""
    head = json.dumps({"step": step, **{name: _plain(value) for name, value in fields.items()}}).encode()
    return b"".join((_LENGTH.pack(len(head)), head, tail))


def _plain(value: Value) -> object:
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, Mapping):
        return {str(key): part.hex() for key, part in value.items()}
    return list(value) if isinstance(value, Sequence) else value


@final
@dataclass(frozen=True)
class MessageFields:
    """The head of a message whose step is known, and its tail."""

    step: str
    head: Mapping[str, object]
    tail: bytes

    def whole(self, name: str) -> int:
        """A whole number that is not negative."""
        return _number(self.head.get(name), name)

    def wholes(self, name: str) -> list[int]:
        """Different whole numbers."""
        found = self.head.get(name)
        if not isinstance(found, list):
            raise _make_refusal(name)
        numbers = [_number(part, name) for part in found]
        if len(set(numbers)) < len(numbers):
            raise MessageRefused(f"A message names one client twice in '{name}'. Name every client once.")
        return numbers

    def octets(self, name: str, size: int | None = None) -> bytes:
        """Bytes, of this size if one is given."""
        return _octets(self.head.get(name), name, size)

    def table(self, name: str, size: int | None = None) -> dict[int, bytes]:
        """Bytes for each of some clients."""
        found = self.head.get(name)
        if not isinstance(found, dict):
            raise _make_refusal(name)
        return {_key(key, name): _octets(part, name, size) for key, part in found.items()}


def read_message(message: bytes, step: str | None = None) -> MessageFields:
    """The fields of a message; it must be of this step, if one is given."""
    if not isinstance(message, bytes) or len(message) < _LENGTH.size:
        raise _make_refusal("its length")
    (length,) = _LENGTH.unpack_from(message)
    try:
        head = json.loads(message[_LENGTH.size : _LENGTH.size + length], object_pairs_hook=_unique)
    except (ValueError, RecursionError):
        raise _make_refusal("its head") from None
    if not isinstance(head, dict) or not isinstance(head.get("step"), str):
        raise _make_refusal("'step'")
    if step is not None and head["step"] != step:
        raise MessageRefused(
            f"A message must be of the step '{step}' now, and is of another. Send each step once, in its "
            "order."
        )
    return MessageFields(head["step"], head, message[_LENGTH.size + length :])


def _number(found: object, name: str) -> int:
    if isinstance(found, bool) or not isinstance(found, int) or not 0 <= found < _LARGEST_NUMBER:
        raise _make_refusal(name)
    return found


def _key(found: str, name: str) -> int:
    if not (found.isascii() and found.isdigit() and len(found) <= 18 and str(int(found)) == found):
        raise _make_refusal(name)
    return int(found)


def _octets(found: object, name: str, size: int | None) -> bytes:
    try:
        value = bytes.fromhex(found) if isinstance(found, str) else None
    except ValueError:
        value = None
    if value is None or (size is not None and len(value) != size):
        raise _make_refusal(name)
    return value


def _unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise _make_refusal("a name that occurs twice")
    return found


def _make_refusal(name: str) -> MessageRefused:
    return MessageRefused(
        f"A message does not have the form of this protocol ({name}). Run the same version at both ends."
    )
