"""Step 4 of the protocol: one transaction that stores an answer, or says that there will be none.

A record leaves ``reserved`` once. Whoever comes second finds it settled, stores nothing and releases nothing.
"""

import hashlib
from typing import final

from sqlalchemy import Connection, bindparam, select, update

from privet.curator.service import AnswerStatus
from privet.curator.storage import tables
from privet.curator.storage.chain import ChainLink, add_link, read_head, time_now
from privet.lineage import Head

__all__ = ["NotReserved", "fail_all_reserved", "fail_reserved", "store_answer"]


_RESERVED = update(tables.records).where(
    tables.records.c.id == bindparam("record"), tables.records.c.status == AnswerStatus.RESERVED
)


@final
class NotReserved(Exception):
    """The record is settled already."""


def store_answer(connection: Connection, record: str, answer: str, *, content: int | None = None) -> Head:
    """Store the answer of a reservation. ``content`` is given if the data were refreshed."""
    values: dict[str, object] = {"status": AnswerStatus.ANSWERED, "answer": answer}
    if content is not None:
        values["content_id"] = content
    _settle(connection, record, values)
    body = {"record": record, "answer": hashlib.sha256(answer.encode()).hexdigest(), "time": time_now()}
    return add_link(connection, read_head(connection, lock=True), ChainLink.ANSWER, body)


def fail_reserved(connection: Connection, record: str) -> Head:
    """A reservation that will have no answer. Its charge stands."""
    _settle(connection, record, {"status": AnswerStatus.FAILED})
    body = {"record": record, "time": time_now()}
    return add_link(connection, read_head(connection, lock=True), ChainLink.FAILURE, body)


def fail_all_reserved(connection: Connection) -> tuple[int, Head]:
    """Recovery: what was reserved by a run that is no more has failed, and is charged. How many, and the
    head.
    """
    query = select(tables.records.c.id).where(tables.records.c.status == AnswerStatus.RESERVED)
    waiting = connection.execute(query.order_by(tables.records.c.position).with_for_update()).scalars().all()
    for record in waiting:
        fail_reserved(connection, record)
    return len(waiting), read_head(connection)


def _settle(connection: Connection, record: str, values: dict[str, object]) -> None:
    done = connection.execute(_RESERVED.values(values), {"record": record})
    if done.rowcount != 1:
        raise NotReserved
