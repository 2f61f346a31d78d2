"""The chain of hashes: every charge, answer, failure, cap and act of a person, each bound to all before it.

A link is (kind, body), where the body is canonical JSON; its digest hashes the digest before it and its
text, as in ``lineage``. The row of the curator has the head, and is locked by every transaction that adds a
link, after all other rows. So links have one order, and positions have no gap.

*What the chain shows* is in ``lineage``: it has no secret. Whoever may write the database and the exported
head may write another history.
"""

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, final

from sqlalchemy import Connection, bindparam, insert, select, update

from privet.curator.storage import tables
from privet.errors import Unreadable
from privet.lineage import Head, canonical, chain_digests

__all__ = ["ChainLink", "add_link", "digest_link", "link_text", "read_body", "read_head", "time_now"]

Plain = Mapping[str, Any]


@final
class ChainLink(StrEnum):
    """The kinds of links, by name."""

    CURATOR = "curator"
    ACCOUNT = "account"
    GROUP = "group"
    DATASET = "dataset"
    REFRESH = "refresh"
    GRANT = "grant"
    BUDGET = "budget"
    CAP = "cap"
    CHARGE = "charge"
    ANSWER = "answer"
    FAILURE = "failure"
    AGAIN = "again"
    RESUME = "resume"
    AUDIT = "audit"


_READ_HEAD = select(tables.curator.c.identity, tables.curator.c.links, tables.curator.c.digest)
_HEAD = (_READ_HEAD, _READ_HEAD.with_for_update())  # without a lock, and with it
_ADD_LINK = insert(tables.chain)
_MOVE_HEAD = update(tables.curator).values(links=bindparam("new_links"), digest=bindparam("new_digest"))


def time_now() -> str:
    """The time in UTC, as every link has it."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def link_text(position: int, kind: str, body: str) -> str:
    """A link as it is hashed."""
    return f"{position} {kind} {body}"


def digest_link(before: str, position: int, kind: str, body: str) -> str:
    """The digest of a link, from that of the link before it."""
    return chain_digests(before, [link_text(position, kind, body)], hashed=True)[1]


def read_head(connection: Connection, *, lock: bool = False) -> Head:
    """The state of the ledger; ``lock`` keeps others from adding a link until the transaction ends."""
    row = connection.execute(_HEAD[lock]).one_or_none()
    if row is None:
        raise Unreadable(
            "The database must hold a curator, and holds none. Make one with DatabaseCurator.open, or give "
            "the right address."
        )
    return Head(row.identity, row.links, row.digest)


def add_link(connection: Connection, head: Head, kind: str, body: Plain) -> Head:
    """The chain with one link more; ``head`` was read under its lock in this transaction."""
    text = canonical(body)
    position = head.links + 1
    digest = digest_link(head.digest, position, kind, text)
    connection.execute(_ADD_LINK, {"position": position, "kind": kind, "body": text, "digest": digest})
    connection.execute(_MOVE_HEAD, {"new_links": position, "new_digest": digest})
    return Head(head.identity, position, digest)


def read_body(text: str) -> dict[str, Any]:
    """The body of a link."""
    body: dict[str, Any] = json.loads(text)
    return body
