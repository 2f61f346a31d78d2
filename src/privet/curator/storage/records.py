"""Rows of records as what callers see."""

import json
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Select, bindparam, select

from privet.caveats import Caveat
from privet.curator.principals import Principal, Role
from privet.curator.service import AnswerRecord, AnswerStatus
from privet.curator.storage import tables
from privet.curator.storage.tables import AnyRow
from privet.errors import InvalidArgument

__all__ = ["find_record", "list_records"]

_QUERY = select(
    tables.records,
    tables.datasets.c.name.label("dataset_name"),
    tables.accounts.c.name.label("account_name"),
).select_from(
    tables.records.join(tables.datasets, tables.records.c.dataset_id == tables.datasets.c.id).join(
        tables.accounts, tables.records.c.account_id == tables.accounts.c.id
    )
)


_ANY = _QUERY.where(tables.records.c.id == bindparam("record"))
_OWN = _ANY.where(tables.records.c.account_id == bindparam("account"))


def find_record(connection: Connection, who: Principal, record: str) -> AnswerRecord:
    """One record that ``who`` may see."""
    row = connection.execute(
        _OWN if who.role is Role.ANALYST else _ANY, {"record": record, "account": who.account}
    ).one_or_none()
    if row is None:
        raise InvalidArgument(
            "There is no record of this number that this account may see. Choose one from the history."
        )
    return _record(row)


def list_records(
    connection: Connection, who: Principal, *, dataset: str | None, limit: int, before: str | None
) -> tuple[AnswerRecord, ...]:
    """Records that ``who`` may see, newest first."""
    if not 1 <= limit <= 1000:
        raise InvalidArgument(f"'limit' must be between 1 and 1000, got {limit!r}. Page on with 'before'.")
    query = _visible(_QUERY, who)
    if dataset is not None:
        query = query.where(tables.datasets.c.name == dataset)
    if before is not None:
        query = query.where(tables.records.c.position < find_record(connection, who, before).chain_position)
    rows: Sequence[AnyRow] = connection.execute(
        query.order_by(tables.records.c.position.desc()).limit(limit)
    ).all()
    return tuple(map(_record, rows))


def _visible(query: Select[Any], who: Principal) -> Select[Any]:
    return query.where(tables.records.c.account_id == who.account) if who.role is Role.ANALYST else query


def _record(row: AnyRow) -> AnswerRecord:
    return AnswerRecord(
        id=row.id,
        dataset=row.dataset_name,
        analyst=row.account_name,
        question=json.loads(row.question),
        asked_at=datetime.fromisoformat(row.asked_at),
        status=AnswerStatus(row.status),
        epsilon=row.epsilon,
        delta=row.delta,
        answer=None if row.answer is None else json.loads(row.answer),
        stored=row.source_id is not None,
        chain_position=row.position,
        caveats=tuple(Caveat[code].sentence for code in json.loads(row.caveats)),
        labels=tuple(json.loads(row.labels)),
        filter_name=row.filter_name,
    )
