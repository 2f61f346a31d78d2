"""Which ledger this is, and how far it has come: a random number and a chain of hashes.

Each link of the chain hashes the link before it together with the canonical text of one entry, or of one
change of the budget. So two states of one ledger can be compared: a state is *at or beyond* another if its
chain has the other's digest at the other's length. What was answered, or what was written down elsewhere,
names the state that paid for it; a ledger that was cut, exchanged or put back from a backup is behind that
state, and is refused.

*What this notices*: a ledger that is older than an answer that is kept beside it; older than a head that was
noted elsewhere (``privet ledger FILE --beyond HEAD``); another ledger in its place; a file that was damaged,
or edited by hand. *What it cannot notice*: a whole folder that was put back from a backup, answers and all,
if its head was noted nowhere else; a copy of the folder that is spent from elsewhere; somebody who edits the
file and computes the chain anew. The chain has no secret. Whoever may write the folder may lie; the budget
binds people who cannot.
"""

import hashlib
import json
import re
import secrets
from collections.abc import Iterable
from dataclasses import dataclass
from typing import final

from privet.arguments import format_value
from privet.errors import InvalidArgument, Unreadable

__all__ = ["Head", "canonical", "chain_digests", "checked_identity", "fresh_identity", "seal_digest"]

_DIGEST = 64  # hexadecimal digits
_IDENTITY = 32


@final
@dataclass(frozen=True)
class Head:
    """A state of one ledger: its number, how many links its chain has, and the digest of the last.

    >>> head = Head("0" * 32, 2, "f" * 64)
    >>> Head.from_text(str(head)) == head
    True
    """

    identity: str
    links: int
    digest: str

    def __str__(self) -> str:
        return f"{self.identity}:{self.links}:{self.digest}"

    @staticmethod
    def from_text(text: str) -> "Head":
        """The head that ``str`` wrote."""
        parts = text.strip().split(":")
        if (
            len(parts) != 3
            or not _is_hexadecimal(parts[0], _IDENTITY)
            or not _is_hexadecimal(parts[2], _DIGEST)
            or not (parts[1].isascii() and parts[1].isdigit() and len(parts[1]) < 16)
        ):
            raise InvalidArgument(
                f"A head must be written as NUMBER:LINKS:DIGEST, got {format_value(text)}. "
                f"Copy what 'privet ledger FILE' shows."
            )
        return Head(parts[0], int(parts[1]), parts[2])


def fresh_identity() -> str:
    """A random number for a new ledger."""
    return secrets.token_hex(_IDENTITY // 2)


_CANONICAL = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)


def canonical(value: object) -> str:
    """The one JSON text of a plain value."""
    return _CANONICAL.encode(value)


def chain_digests(start: str, links: Iterable[str], *, hashed: bool = False) -> tuple[str, ...]:
    """The digest at the start, and after each link; where ``hashed``, the start is the digest of an earlier
    link.
    """
    digest = start if hashed else hashlib.sha256(start.encode()).hexdigest()
    found = [digest]
    for link in links:
        digest = hashlib.sha256(f"{digest}\n{link}".encode()).hexdigest()
        found.append(digest)
    return tuple(found)


def seal_digest(head: str, rest: str) -> str:
    """A digest over the chain and all that is no part of it."""
    return hashlib.sha256(f"{head}\n{rest}".encode()).hexdigest()


def checked_identity(found: object) -> str:
    """A ledger's number as it is read."""
    if not isinstance(found, str) or not _is_hexadecimal(found, _IDENTITY):
        raise Unreadable(
            f"The number of a ledger must be {_IDENTITY} hexadecimal digits, got {format_value(found)}. "
            "Restore the file."
        )
    return found


_HEXADECIMAL = re.compile("[0-9a-f]*")


def _is_hexadecimal(text: str, digits: int) -> bool:
    return len(text) == digits and _HEXADECIMAL.fullmatch(text) is not None
