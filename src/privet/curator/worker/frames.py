"""Messages between gateway and worker: the length in four bytes, then JSON.

A message that is too long, or no JSON, ends the connection. Nothing else is understood.
"""

import json
import socket
import struct
from typing import Any

from privet.errors import Unreadable

__all__ = ["LONGEST", "receive", "send"]

LONGEST = 1 << 26
"""Bytes of one message: the largest model or table that can be answered."""
_LENGTH = struct.Struct(">I")
_BLOCK = 1 << 16


def send(connection: socket.socket, message: Any) -> None:  # noqa: ANN401 - JSON
    """One message."""
    body = json.dumps(message, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
    if len(body) > LONGEST:
        raise Unreadable(f"A message must have at most {LONGEST} bytes, got {len(body)}. Ask for less.")
    connection.sendall(_LENGTH.pack(len(body)) + body)


def receive(connection: socket.socket) -> Any:  # noqa: ANN401 - JSON
    """The next message, or None where the other side has ended."""
    head = _read(connection, _LENGTH.size)
    if head is None:
        return None
    (length,) = _LENGTH.unpack(head)
    if length > LONGEST:
        raise Unreadable(f"A message must have at most {LONGEST} bytes, got {length}. End the connection.")
    body = _read(connection, length)
    if body is None:
        return None
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        raise Unreadable("A message must be JSON, and is not. End the connection.") from None


def _read(connection: socket.socket, length: int) -> bytes | None:
    blocks, left = [], length
    while left:
        try:
            block = connection.recv(min(left, _BLOCK))
        except ConnectionError:  # the other side has ended in the middle
            return None
        if not block:
            return None
        blocks.append(block)
        left -= len(block)
    return b"".join(blocks)
