"""The curator over a database: the five steps of the protocol, in order, and what may be seen of them.

1. *Plan.* From metadata only. Every detailed refusal ends here or in step 2, and nothing is spent.
2. *Reserve.* One transaction (``reservations``). What it commits is spent. The head of the chain is exported.
3. *Answer.* The worker touches the data, once for each reservation.
4. *Store.* One transaction (``settlements``). Then the answer is released.
5. *Never refund, never run again.* Whatever fails after step 2 gives one record that says ``FAILED``.

*Guarantee.* At every moment the sums in the database are at least what the mechanisms that ran have cost; the
proof is in docs/curator-protocol.md. The filters are valid for questions that are chosen in view of answers.
*Leaks*: that a question failed. How long a worker takes is its own matter.
"""

import json
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from secrets import token_bytes, token_hex
from typing import Any, final

from sqlalchemy import Connection, insert, select
from sqlalchemy.exc import IntegrityError

from privet.curator.plans import AnswerWorker, QuestionPlanner
from privet.curator.principals import Principal, Role
from privet.curator.refusals import CuratorUnavailable
from privet.curator.service import (
    AnswerRecord,
    AnswerStatus,
    BudgetState,
    CuratorService,
    DatasetCard,
    QuoteCard,
)
from privet.curator.storage import tables
from privet.curator.storage.accounts import read_account
from privet.curator.storage.caps import Cap, binding_caps, list_caps
from privet.curator.storage.chain import ChainLink, add_link, read_head
from privet.curator.storage.contents import keyed_fingerprint, refresh_content
from privet.curator.storage.database import CommitUnknown, Database, open_engine
from privet.curator.storage.evidence import collect_evidence
from privet.curator.storage.heads import HeadExport
from privet.curator.storage.records import find_record, list_records
from privet.curator.storage.reservations import (
    AskedQuestion,
    Found,
    Reservation,
    find_dataset,
    find_same_question,
    reserve,
)
from privet.curator.storage.schema import upgrade_schema
from privet.curator.storage.settlements import fail_all_reserved, fail_reserved, store_answer
from privet.curator.storage.tables import AnyRow
from privet.errors import BudgetExceeded, InvalidArgument, PrivetError
from privet.lineage import Head, canonical, chain_digests, fresh_identity

__all__ = ["DatabaseCurator", "is_behind", "open_database"]

Plain = Mapping[str, Any]

_LONGEST_KEY = 200  # of idempotency
_LONGEST_ANSWER = 64 * 2**20
_TRIES = 3  # of a reservation that met another one
_WAIT, _PAUSE = 120.0, 0.02  # seconds that a question waits for the same one under way


def open_database(address: str) -> Database:
    """A database with the newest tables and a curator in it."""
    engine = open_engine(address)
    database = Database(engine)
    upgrade_schema(engine)
    with database.write() as connection:
        if connection.execute(select(tables.curator.c.id)).one_or_none() is None:
            identity = fresh_identity()
            (start,) = chain_digests(f"privet-curator {identity}", [])
            row = {"id": 1, "identity": identity, "secret": token_bytes(32), "links": 0, "digest": start}
            connection.execute(insert(tables.curator).values(row))
            add_link(
                connection, Head(identity, 0, start), ChainLink.CURATOR, {"curator": identity, "version": 1}
            )
    return database


def is_behind(connection: Connection, heads: HeadExport) -> bool:
    """Whether the chain does not reach the head that was exported.

    A place that should have a head and has none is ahead of every chain but a new one.
    """
    head, exported = read_head(connection), heads.last()
    if exported is None:
        return heads.remembers and head.links > 1
    query = select(tables.chain.c.digest).where(tables.chain.c.position == exported.links)
    digest = connection.execute(query).scalar_one_or_none()
    return head.identity != exported.identity or digest != exported.digest


@final
class DatabaseCurator(CuratorService):
    """A curator over one database and one worker. Any number of threads may call it.

    One process at a time should run it: a second one that starts declares the questions under way in the
    first as failed, so they are charged and not answered. Nothing worse happens.
    """

    def __init__(
        self, database: Database, *, planner: QuestionPlanner, worker: AnswerWorker, heads: HeadExport
    ) -> None:
        self.database = database
        self.heads = heads
        self._planner = planner
        self._worker = worker
        self._owner = fresh_identity()
        self._under_way: dict[str, threading.Event] = {}
        self._read_only = True

    @classmethod
    def open(
        cls, address: str, *, planner: QuestionPlanner, worker: AnswerWorker, heads: HeadExport
    ) -> "DatabaseCurator":
        """Open the database, compare it with the exported head, and settle what an earlier run left."""
        curator = cls(open_database(address), planner=planner, worker=worker, heads=heads)
        curator.recover()
        return curator

    def recover(self) -> int:
        """Declare reservations of earlier runs as failed and charged; how many there were. Read-only if
        behind.
        """
        with self.database.read() as connection:
            self._read_only = is_behind(connection, self.heads)
        if self._read_only:
            return 0
        try:
            with self.database.write() as connection:
                failed, head = fail_all_reserved(connection)
        except CommitUnknown:
            raise CuratorUnavailable(
                "The database did not confirm the recovery. Start the curator again."
            ) from None
        self.heads.write(head)
        return failed

    def close(self) -> None:
        """Export the last head, and close the connections."""
        self.heads.close()
        self.database.close()

    @property
    def read_only(self) -> bool:
        """Whether the ledger is behind its exported head, so that nothing may be spent."""
        return self._read_only

    def datasets(self, who: Principal) -> tuple[DatasetCard, ...]:
        query = select(tables.datasets.c.name).order_by(tables.datasets.c.name)
        if who.role is Role.ANALYST:
            query = query.join(tables.grants).where(tables.grants.c.account_id == who.account)
        with self.database.read() as connection:
            names = connection.execute(query).scalars().all()
            budgets = [self._budgets(connection, who, name) for name in names]
        cards = []
        for name, states in zip(names, budgets, strict=True):
            try:
                metadata = self._planner.describe(name)
            except InvalidArgument:  # it is no longer in the steward's file, so it cannot be asked
                continue
            description = str(metadata.get("description", ""))
            cards.append(
                DatasetCard(
                    name=name,
                    description=description,
                    metadata=metadata,
                    budgets=states,
                    read_only=self._read_only,
                )
            )
        return tuple(cards)

    def budgets(self, who: Principal, dataset: str) -> tuple[BudgetState, ...]:
        with self.database.read() as connection:
            return self._budgets(connection, who, dataset)

    def _budgets(self, connection: Connection, who: Principal, dataset: str) -> tuple[BudgetState, ...]:
        row = find_dataset(connection, who, dataset)
        if who.role is Role.ANALYST:
            return tuple(cap.state() for cap in self._binding(connection, who, row))
        return tuple(cap.state() for cap in list_caps(connection, row.lineage_id, row.name))

    def quote(self, who: Principal, dataset: str, question: Plain) -> QuoteCard:
        with self.database.read() as connection:
            find_dataset(connection, who, dataset)
        planned = self._planner.plan(dataset, question)
        with self.database.read() as connection:
            row = find_dataset(connection, who, dataset)
            caps = self._binding(connection, who, row)
            same = find_same_question(connection, row.content_id, planned.key)
        stored = same is not None and same.status == AnswerStatus.ANSWERED
        events = [entry.event for entry in planned.entries]
        affordable, states = True, []
        for cap in caps:
            try:
                cost = cap.price(events, planned.adjacency)
            except BudgetExceeded:
                affordable = False
                states.append(cap.state())
                continue
            affordable = affordable and cap.caps.permits(cap.spent + cost)
            states.append(cap.state() if stored else _state_after(cap, cap.state(cost)))
        return QuoteCard(
            dataset=dataset,
            question=planned.canonical,
            epsilon=planned.epsilon,
            delta=planned.delta,
            answers=planned.answers,
            stored=stored,
            affordable=stored or (affordable and not self._read_only),
            budgets=tuple(states),
            caveats=tuple(sorted(caveat.sentence for caveat in planned.caveats)),
        )

    def _binding(self, connection: Connection, who: Principal, dataset: AnyRow) -> tuple[Cap, ...]:
        account = read_account(connection, who.account)
        group = None if account is None else account.group_id
        return binding_caps(connection, dataset.lineage_id, dataset.name, account=who.account, group=group)

    def ask(self, who: Principal, dataset: str, question: Plain, *, idempotency_key: str) -> AnswerRecord:
        _check_key(idempotency_key)
        if who.role is not Role.ANALYST:
            raise InvalidArgument("Only analysts ask questions. Use an account with the role of an analyst.")
        try:
            with self.database.read() as connection:
                find_dataset(connection, who, dataset)
            planned = self._planner.plan(dataset, question)
        except PrivetError:
            raise
        except Exception:
            raise CuratorUnavailable(
                "The question could not be planned. Nothing was spent; try again, or ask it otherwise."
            ) from None
        asked = AskedQuestion(
            record=token_hex(16),
            who=who,
            dataset=dataset,
            idempotency_key=idempotency_key,
            planned=planned,
            owner=self._owner,
        )
        try:
            return self._charge_and_answer(asked)
        except PrivetError:
            raise
        except Exception:  # whether it is charged is not known here, so it counts as charged
            return _failed_record(asked)

    def _charge_and_answer(self, asked: AskedQuestion) -> AnswerRecord:
        """Steps 2 to 4, or the record that is there already."""
        until = time.monotonic() + _WAIT
        while True:
            self._under_way[asked.record] = threading.Event()
            try:
                outcome = self._reserve(asked)
                if isinstance(outcome, Reservation):
                    return self._answer(asked, outcome)
            finally:
                self._under_way.pop(asked.record).set()
            if outcome is None:
                return _failed_record(asked)
            if outcome.head is not None:
                self.heads.write_soon(outcome.head)
            if outcome.status is AnswerStatus.RESERVED:
                self._wait_for(outcome.record, until)
                continue
            with self.database.read() as connection:
                found = find_record(connection, asked.who, outcome.record)
            if outcome.same_request:
                return found
            return replace(found, stored=True, labels=asked.planned.labels)

    def _reserve(self, asked: AskedQuestion) -> Reservation | Found | None:
        """Step 2; None where the commit was not confirmed, so that the charge may stand."""
        for last in range(_TRIES, 0, -1):
            try:
                with self.database.write() as connection:
                    outcome = reserve(connection, asked, read_only=self._read_only)
            except CommitUnknown:
                with suppress(Exception), self.database.write() as connection:
                    fail_reserved(connection, asked.record)
                return None
            except IntegrityError:
                # Another transaction was first with the same key or question; nothing was
                # written by this one.
                if last == 1:
                    raise CuratorUnavailable(
                        "The question met others at the same time. Nothing was spent; try again."
                    ) from None
                continue
            except PrivetError:
                raise
            except Exception:  # nothing was committed
                raise CuratorUnavailable(
                    "The curator could not reserve the budget. Nothing was spent; try again."
                ) from None
            return outcome
        return None

    def _answer(self, asked: AskedQuestion, reservation: Reservation) -> AnswerRecord:
        """Steps 3 and 4. Nothing is raised; what fails is charged."""
        try:
            self.heads.write(reservation.head)
            content = self._check_content(asked.dataset, reservation.fingerprint)
            plain = self._worker.answer(asked.dataset, asked.planned, request=asked.record)
            answer = canonical(plain)
            if len(answer) > _LONGEST_ANSWER:
                raise OverflowError
            with self.database.write() as connection:
                head = store_answer(connection, asked.record, answer, content=content)
            self.heads.write_soon(head)
            return replace(
                _failed_record(asked, reservation), status=AnswerStatus.ANSWERED, answer=json.loads(answer)
            )
        except Exception:  # its text may quote a row
            return self._fail(asked, reservation)
        except BaseException:
            self._fail(asked, reservation)
            raise

    def _fail(self, asked: AskedQuestion, reservation: Reservation) -> AnswerRecord:
        with suppress(Exception):
            with self.database.write() as connection:
                head = fail_reserved(connection, asked.record)
            self.heads.write_soon(head)
        return _failed_record(asked, reservation)

    def _check_content(self, dataset: str, expected: str) -> int | None:
        """The number of the content if it was refreshed as its policy allows; None if it is the same."""
        fingerprint = self._worker.fingerprint(dataset)
        with self.database.read() as connection:
            if keyed_fingerprint(connection, fingerprint) == expected:
                return None
        with self.database.write() as connection:
            content, head = refresh_content(connection, dataset, fingerprint)
        self.heads.write(head)
        return content

    def _wait_for(self, record: str, until: float) -> None:
        """Until another request has settled this record, or it is found that nobody works on it."""
        under_way = self._under_way.get(record)
        if under_way is not None:
            under_way.wait(max(until - time.monotonic(), 0.0))
        else:
            with self.database.read() as connection:
                query = select(tables.records.c.owner, tables.records.c.status)
                row = connection.execute(query.where(tables.records.c.id == record)).one()
            if (
                row.owner == self._owner
                and row.status == AnswerStatus.RESERVED
                and record not in self._under_way
            ):
                # Its request ended without being able to say so in the database.
                with suppress(Exception), self.database.write() as connection:
                    fail_reserved(connection, record)
            time.sleep(_PAUSE)
        if time.monotonic() >= until:
            raise CuratorUnavailable(
                "The same question is being answered, and takes long. Nothing was spent by asking again; "
                "try later."
            )

    def record(self, who: Principal, record_id: str) -> AnswerRecord:
        with self.database.read() as connection:
            return find_record(connection, who, record_id)

    def history(
        self, who: Principal, *, dataset: str | None = None, limit: int = 50, before: str | None = None
    ) -> tuple[AnswerRecord, ...]:
        with self.database.read() as connection:
            return list_records(connection, who, dataset=dataset, limit=limit, before=before)

    def export(self, who: Principal, dataset: str) -> dict[str, Any]:
        if who.role is Role.ANALYST:
            raise InvalidArgument("Only stewards and auditors export the evidence. Ask one of them.")
        with self.database.read() as connection:
            return collect_evidence(connection, find_dataset(connection, who, dataset))


def _check_key(key: str) -> None:
    if not isinstance(key, str) or not 1 <= len(key) <= _LONGEST_KEY or not key.isprintable():
        raise InvalidArgument(
            f"'idempotency_key' must be printable text of at most {_LONGEST_KEY} characters, and is not. "
            "Take a fresh UUID for each question."
        )


def _state_after(cap: Cap, after: BudgetState) -> BudgetState:
    """What would be left; never more than all of it is shown as used."""
    return replace(after, reached=min(after.reached, cap.rule.epsilon))


def _failed_record(asked: AskedQuestion, reservation: Reservation | None = None) -> AnswerRecord:
    """The record of a question that is charged and has no answer; the same whatever the cause."""
    return AnswerRecord(
        id=asked.record,
        dataset=asked.dataset,
        analyst=asked.who.name,
        question=asked.planned.canonical,
        asked_at=datetime.now(UTC) if reservation is None else datetime.fromisoformat(reservation.time),
        status=AnswerStatus.FAILED,
        epsilon=asked.planned.epsilon,
        delta=asked.planned.delta,
        answer=None,
        stored=False,
        chain_position=0 if reservation is None else reservation.position,
        caveats=tuple(caveat.sentence for caveat in sorted(asked.planned.caveats, key=lambda c: c.code)),
        labels=() if reservation is None else reservation.labels,
        filter_name="" if reservation is None else reservation.filter_name,
    )
