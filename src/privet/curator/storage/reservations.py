"""Step 2 of the protocol: one transaction that charges a question, or finds that it need not be charged.

In this order: the idempotency key; the row of the dataset, then the caps of dataset, group and analyst, each
locked; the same question, if it was answered; the caps; the reservation; the charges; the link of the chain.
What is committed here is spent, whatever happens later.
"""

import hashlib
import json
from dataclasses import dataclass
from typing import Any, final

from sqlalchemy import Connection, bindparam, insert, literal_column, select

from privet.adjacency import Adjacency, adjacency_from_name
from privet.curator.plans import PlannedQuestion
from privet.curator.principals import Principal, Role
from privet.curator.refusals import CuratorReadOnly
from privet.curator.service import AnswerStatus
from privet.curator.storage import tables
from privet.curator.storage.accounts import read_account
from privet.curator.storage.caps import binding_caps, charge_cap, check_caps
from privet.curator.storage.chain import ChainLink, add_link, read_head, time_now
from privet.curator.storage.tables import AnyRow
from privet.errors import InvalidArgument
from privet.lineage import Head, canonical

__all__ = ["AskedQuestion", "Found", "Reservation", "find_dataset", "find_same_question", "reserve"]

READ_ONLY = (
    "The curator is read-only, because its ledger is behind the head that was exported: a backup may have "
    "been put "
    "back. Nothing was spent; a steward must accept the present state first."
)


# Statements are made once: making one costs more than running it.
_SAME_REQUEST = (
    select(
        tables.records.c.id, tables.records.c.status, tables.records.c.question_key, tables.datasets.c.name
    )
    .join(tables.datasets)
    .where(
        tables.records.c.account_id == bindparam("account"),
        tables.records.c.idempotency_key == bindparam("key"),
    )
)
_SAME_QUESTION = select(tables.records).where(
    tables.records.c.content_id == bindparam("content"),
    tables.records.c.question_key == bindparam("key"),
    tables.records.c.source_id.is_(None),
    tables.records.c.status != literal_column(f"'{AnswerStatus.FAILED}'"),  # so that its index is used
)
_DATASET = (
    select(
        tables.datasets,
        tables.lineages.c.identity.label("lineage"),
        tables.lineages.c.relation,
        tables.lineages.c.unit,
        tables.lineages.c.unit_column,
        tables.lineages.c.refresh,
        tables.contents.c.fingerprint,
    )
    .select_from(
        tables.datasets.join(tables.lineages, tables.datasets.c.lineage_id == tables.lineages.c.id).join(
            tables.contents, tables.datasets.c.content_id == tables.contents.c.id
        )
    )
    .where(tables.datasets.c.name == bindparam("name"))
)
_GRANTED_DATASET = _DATASET.join(
    tables.grants,
    (tables.grants.c.dataset_id == tables.datasets.c.id)
    & (tables.grants.c.account_id == bindparam("account")),
)
_DATASETS = (_DATASET, _DATASET.with_for_update(of=tables.datasets))  # without a lock, and with it
_GRANTED = (_GRANTED_DATASET, _GRANTED_DATASET.with_for_update(of=tables.datasets))
_ADD_RECORD, _ADD_CHARGE = insert(tables.records), insert(tables.charges)


@final
@dataclass(frozen=True, kw_only=True)
class AskedQuestion:
    """A planned question, who asks it, and the number that its record will have."""

    record: str
    who: Principal
    dataset: str
    idempotency_key: str
    planned: PlannedQuestion
    owner: str


@final
@dataclass(frozen=True, kw_only=True)
class Reservation:
    """The question is charged; ``fingerprint`` is that of the content that the charge is for."""

    head: Head
    fingerprint: str
    position: int
    filter_name: str
    time: str
    labels: tuple[str, ...]


@final
@dataclass(frozen=True)
class Found:
    """The question need not be charged: this record has its answer, will have it, or has failed.

    ``head`` is there if the record was written just now. ``same_request`` says that it is the record of this
    very request, by its idempotency key.
    """

    record: str
    status: AnswerStatus
    same_request: bool
    head: Head | None = None


def reserve(connection: Connection, asked: AskedQuestion, *, read_only: bool) -> Reservation | Found:
    """Charge, in the transaction of this connection. Every refusal here leaves nothing written."""
    known = find_request(connection, asked)
    if known is not None:
        return known
    dataset = find_dataset(connection, asked.who, asked.dataset, lock=True)
    account = read_account(connection, asked.who.account)
    if account is None or account.closed:
        raise InvalidArgument("The account is closed. Ask a steward to open it.")
    caps = binding_caps(
        connection, dataset.lineage_id, dataset.name, account=account.id, group=account.group_id, lock=True
    )
    known = find_request(connection, asked)  # again: another request may have had the lock
    if known is not None:
        return known
    same = find_same_question(connection, dataset.content_id, asked.planned.key)
    if same is not None:
        return _give_again(connection, asked, dataset, account, same, read_only=read_only)
    if read_only:
        raise CuratorReadOnly(READ_ONLY)
    adjacency = _check_adjacency(dataset, asked.planned)
    events = [entry.event for entry in asked.planned.entries]
    costs = [cap.price(events, adjacency) for cap in caps]
    check_caps(caps, costs)
    for cap, cost in zip(caps, costs, strict=True):
        charge_cap(connection, cap, cost)
    time, filter_name = time_now(), caps[0].rule.name
    head = read_head(connection, lock=True)
    question = canonical(asked.planned.canonical)
    entries = f"[{','.join(entry.text for entry in asked.planned.entries)}]"
    record = {
        **_fields(asked, dataset, account, time),
        "position": head.links + 1,
        "question": question,
        "entries": entries,
        "caveats": canonical(sorted(caveat.code for caveat in asked.planned.caveats)),
        "filter_name": filter_name,
        "epsilon": asked.planned.epsilon,
        "delta": asked.planned.delta,
        "status": AnswerStatus.RESERVED,
        "answer": None,
        "source_id": None,
    }
    connection.execute(_ADD_RECORD, record)
    connection.execute(
        _ADD_CHARGE,
        [
            {
                "record_id": asked.record,
                "budget_id": cap.id,
                "measure": cost.measure,
                "claimed": cost.claimed,
                "largest": cost.largest,
            }
            for cap, cost in zip(caps, costs, strict=True)
        ],
    )
    body = {
        **_names(asked, dataset, account, time),
        "lineage": dataset.lineage,
        "question": hashlib.sha256(question.encode()).hexdigest(),
        "entries": json.loads(entries),
        "charges": {
            str(cap.id): [cost.measure, cost.claimed, cost.largest]
            for cap, cost in zip(caps, costs, strict=True)
        },
    }
    after = add_link(connection, head, ChainLink.CHARGE, body)
    return Reservation(
        head=after,
        fingerprint=dataset.fingerprint,
        position=after.links,
        filter_name=filter_name,
        time=time,
        labels=tuple(_list_labels(asked.planned)),
    )


def find_request(connection: Connection, asked: AskedQuestion) -> Found | None:
    """The record of this idempotency key, if there is one; another question under it is refused."""
    row = connection.execute(
        _SAME_REQUEST, {"account": asked.who.account, "key": asked.idempotency_key}
    ).one_or_none()
    if row is None:
        return None
    if (row.question_key, row.name) != (asked.planned.key, asked.dataset):
        raise InvalidArgument(
            "The idempotency key belongs to another question. Nothing was spent; take a new key for a new "
            "question."
        )
    return Found(row.id, AnswerStatus(row.status), same_request=True)


def find_same_question(connection: Connection, content: int, key: str) -> AnyRow | None:
    """The record that answers, or will answer, this question about this content."""
    return connection.execute(_SAME_QUESTION, {"content": content, "key": key}).one_or_none()


def find_dataset(connection: Connection, who: Principal, name: str, *, lock: bool = False) -> AnyRow:
    """The dataset of this name with its lineage; one sentence for a name that is not there and one that is
    not granted.
    """
    query = _GRANTED if who.role is Role.ANALYST else _DATASETS
    row = connection.execute(query[lock], {"name": name, "account": who.account}).one_or_none()
    if row is None:
        raise InvalidArgument(
            f"There is no dataset {name!r} that this account may ask. Choose one that is listed, or ask a "
            f"steward."
        )
    return row


def _give_again(
    connection: Connection,
    asked: AskedQuestion,
    dataset: AnyRow,
    account: AnyRow,
    same: AnyRow,
    *,
    read_only: bool,
) -> Found:
    """The answer that is there already, for one more analyst: a record of its own, at no cost."""
    status = AnswerStatus(same.status)
    if status is AnswerStatus.RESERVED or same.account_id == account.id:
        return Found(same.id, status, same_request=False)
    own = connection.execute(
        select(tables.records.c.id).where(
            tables.records.c.account_id == account.id, tables.records.c.source_id == same.id
        )
    ).first()
    if own is not None:
        return Found(own.id, status, same_request=False)
    if read_only:
        raise CuratorReadOnly(READ_ONLY)
    time = time_now()
    head = read_head(connection, lock=True)
    record = {
        **_fields(asked, dataset, account, time),
        "position": head.links + 1,
        "question": same.question,
        "entries": "[]",
        "caveats": same.caveats,
        "filter_name": same.filter_name,
        "epsilon": 0.0,
        "delta": 0.0,
        "status": AnswerStatus.ANSWERED,
        "answer": same.answer,
        "source_id": same.id,
    }
    connection.execute(_ADD_RECORD, record)
    body = {**_names(asked, dataset, account, time), "source": same.id}
    return Found(
        asked.record, status, same_request=True, head=add_link(connection, head, ChainLink.AGAIN, body)
    )


def _fields(asked: AskedQuestion, dataset: AnyRow, account: AnyRow, time: str) -> dict[str, Any]:
    return {
        "id": asked.record,
        "dataset_id": dataset.id,
        "content_id": dataset.content_id,
        "account_id": account.id,
        "group_id": account.group_id,
        "idempotency_key": asked.idempotency_key,
        "question_key": asked.planned.key,
        "labels": canonical(_list_labels(asked.planned)),
        "asked_at": time,
        "owner": asked.owner,
    }


def _list_labels(planned: PlannedQuestion) -> list[str]:
    """How this analyst calls the statistics; others may call those of the same question otherwise."""
    return list(planned.labels) or [str(answer.get("label", "")) for answer in planned.answers]


def _names(asked: AskedQuestion, dataset: AnyRow, account: AnyRow, time: str) -> dict[str, Any]:
    return {
        "record": asked.record,
        "dataset": dataset.name,
        "analyst": account.name,
        "group": account.group_name,
        "key": asked.planned.key,
        "time": time,
    }


def _check_adjacency(dataset: AnyRow, planned: PlannedQuestion) -> Adjacency:
    adjacency = adjacency_from_name(dataset.relation, dataset.unit)
    if planned.adjacency != adjacency:
        raise InvalidArgument(
            f"The budget of {dataset.name!r} protects {adjacency}, and the question is about "
            f"{planned.adjacency}. "
            "Nothing was spent; ask under the adjacency of the dataset."
        )
    return adjacency
