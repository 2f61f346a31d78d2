"""Does the chain hold, and does everything else in the database follow from it?

The chain is read once, from its first link to its last. Every digest is computed anew. The sums of every
cap are added up anew from the charges in the chain, and each charge is priced anew from its events. Then
the tables are compared with what the chain says: caps, records and their answers, charges. The exported
head must be on the chain.

*Adversary*: somebody who changed rows of the database, or put an old one back. *Limits*: who can compute
the chain anew, and replace the exported head too, is not noticed (``lineage``).
"""

import hashlib
import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, final

from sqlalchemy import Connection, select

from privet.adjacency import Adjacency, adjacency_from_name
from privet.curator.service import AnswerStatus
from privet.curator.storage import tables
from privet.curator.storage.chain import ChainLink, digest_link, read_head
from privet.curator.storage.database import Database
from privet.curator.storage.heads import HeadExport
from privet.curator.storage.rules import caps_of, price_event
from privet.curator.storage.tables import AnyRow
from privet.curator.storage.units import NO_COST, WholeCaps, WholeCost
from privet.documents import from_plain
from privet.errors import PrivetError
from privet.filters import Filter, filter_from_plain
from privet.lineage import Head, canonical, chain_digests

__all__ = ["Verification", "verify_database"]

_MOST_PROBLEMS = 20
_PAGE = 2_000
_CLOSE = 10**9  # a charge may be below its price of today by one part in this: prices get more exact


@final
@dataclass(frozen=True, kw_only=True)
class Verification:
    """What was found. ``problems`` are sentences, at most twenty."""

    links: int
    charges: int
    answers: int
    head: Head
    problems: tuple[str, ...]

    @property
    def is_sound(self) -> bool:
        """Whether nothing is wrong."""
        return not self.problems


def verify_database(database: Database, heads: HeadExport | None = None) -> Verification:
    """Compute the chain and all sums anew, and compare them with the database."""
    with database.read() as connection:
        return _Replay(connection).run(None if heads is None else heads.last())


@dataclass
class _Budget:
    """One cap as the chain tells it."""

    rule: Filter
    adjacency: Adjacency
    caps: WholeCaps
    spent: WholeCost = NO_COST
    late: bool = False
    charges: int = 0
    events: Counter[str] = field(default_factory=Counter)
    prices: dict[str, WholeCost] = field(default_factory=dict)  # of events, under this rule


@dataclass
class _Settled:
    """One record as the chain tells it."""

    status: AnswerStatus
    position: int
    question: str | None = None
    entries: str | None = None
    answer: str | None = None
    source: str | None = None


@final
class _Replay:
    """The state that follows from the links, link by link."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._problems: list[str] = []
        self._lineages: dict[str, Adjacency] = {}
        self._budgets: dict[int, _Budget] = {}
        self._records: dict[str, _Settled] = {}
        self._charges: dict[tuple[str, int], tuple[int, ...]] = {}

    def run(self, exported: Head | None) -> Verification:
        head = read_head(self._connection)
        (digest,) = chain_digests(f"privet-curator {head.identity}", [])
        position = 0
        for row in self._rows():
            position += 1
            digest = digest_link(digest, row.position, row.kind, row.body)
            if row.position != position or row.digest != digest:
                self._tell(f"The chain is broken at link {row.position}: its digest is not that of its text.")
                digest, position = row.digest, row.position
            if exported is not None and row.position == exported.links and row.digest != exported.digest:
                self._tell(f"The exported head is not on the chain: link {row.position} has another digest.")
            self._follow(row)
        if (head.links, head.digest) != (position, digest):
            self._tell(
                f"The head names {head.links} links, and the chain has {position} that lead elsewhere."
            )
        if exported is not None and (exported.identity != head.identity or exported.links > position):
            self._tell(
                "The chain is behind its exported head: a backup was put back, or it is another chain."
            )
        self._compare_budgets()
        answers = self._compare_records()
        self._compare_charges()
        return Verification(
            links=position,
            charges=sum(settled.source is None for settled in self._records.values()),
            answers=answers,
            head=head,
            problems=tuple(self._problems),
        )

    def _rows(self) -> Iterator[AnyRow]:
        """The links in order, a page at a time."""
        last = 0
        while True:
            query = (
                select(tables.chain).where(tables.chain.c.position > last).order_by(tables.chain.c.position)
            )
            page = self._connection.execute(query.limit(_PAGE)).all()
            if not page:
                return
            yield from page
            last = page[-1].position

    def _tell(self, problem: str) -> None:
        if len(self._problems) < _MOST_PROBLEMS:
            self._problems.append(problem)

    def _follow(self, row: AnyRow) -> None:
        try:
            body = json.loads(row.body)
            match row.kind:
                case ChainLink.CHARGE:
                    self._charge(row.position, body)
                case ChainLink.ANSWER:
                    self._settle(body, AnswerStatus.ANSWERED)
                case ChainLink.FAILURE:
                    self._settle(body, AnswerStatus.FAILED)
                case ChainLink.AGAIN:
                    source = self._records[body["source"]]
                    self._records[body["record"]] = _Settled(
                        AnswerStatus.ANSWERED, row.position, answer=source.answer, source=body["source"]
                    )
                case ChainLink.DATASET | ChainLink.REFRESH if "relation" in body:
                    self._lineages[body["lineage"]] = adjacency_from_name(body["relation"], body["unit"])
                    self._add_budgets(body["budgets"], body["lineage"])
                case ChainLink.GRANT | ChainLink.BUDGET:
                    self._add_budgets(body["budgets"], body["lineage"])
                case ChainLink.CAP:
                    self._change(body["budget"])
        except (KeyError, TypeError, ValueError, PrivetError) as broken:
            self._tell(f"Link {row.position} ({row.kind}) cannot be followed: {type(broken).__name__}.")

    def _add_budgets(self, written: list[dict[str, Any]], lineage: str) -> None:
        for one in written:
            rule = filter_from_plain(one["rule"])
            self._budgets[one["id"]] = _Budget(rule, self._lineages[lineage], caps_of(rule))

    def _change(self, written: dict[str, Any]) -> None:
        budget = self._budgets[written["id"]]
        budget.rule = filter_from_plain(written["rule"])
        budget.caps, budget.prices = caps_of(budget.rule), {}
        budget.late = budget.late or budget.charges > 0
        budget.spent = NO_COST
        for text, times in budget.events.items():
            cost = self._price(budget, text)
            budget.spent += WholeCost(cost.measure * times, cost.claimed * times, cost.largest * times)

    def _charge(self, position: int, body: dict[str, Any]) -> None:
        entries = body["entries"]
        texts = [canonical(entry["event"]) for entry in entries]
        record = body["record"]
        for number, written in body["charges"].items():
            budget, charged = self._budgets[int(number)], WholeCost(*written)
            cost = NO_COST
            for text in texts:
                cost += self._price(budget, text)
            if not _covers(charged, cost):
                self._tell(f"Link {position} charges the cap {number} less than its events cost.")
            budget.spent += charged
            if not budget.caps.permits(budget.spent):
                self._tell(f"Link {position} goes beyond the cap {number}.")
            budget.events.update(texts)
            budget.charges += 1
            self._charges[record, int(number)] = tuple(written)
        if not body["charges"]:
            self._tell(f"Link {position} charges nothing.")
        self._records[record] = _Settled(
            AnswerStatus.RESERVED, position, question=body["question"], entries=_digest(canonical(entries))
        )

    def _settle(self, body: dict[str, Any], status: AnswerStatus) -> None:
        settled = self._records[body["record"]]
        if settled.status is not AnswerStatus.RESERVED:
            self._tell(f"The record {body['record']} is settled twice.")
        settled.status, settled.answer = status, body.get("answer")

    def _price(self, budget: _Budget, text: str) -> WholeCost:
        if text not in budget.prices:
            event = from_plain(json.loads(text))
            budget.prices[text] = price_event(budget.rule, event, budget.adjacency)
        return budget.prices[text]

    def _compare_budgets(self) -> None:
        found = set()
        for row in self._connection.execute(select(tables.budgets)).all():
            found.add(row.id)
            budget = self._budgets.get(row.id)
            if budget is None:
                self._tell(f"The cap {row.id} is not in the chain.")
                continue
            caps = budget.caps
            if filter_from_plain(json.loads(row.rule)) != budget.rule or (
                (row.measure_cap, row.claimed_cap, row.largest_cap)
                != (caps.measure, caps.claimed, caps.largest)
            ):
                self._tell(f"The cap {row.id} is not the one of the chain.")
            if WholeCost(row.measure, row.claimed, row.largest) != budget.spent:
                self._tell(f"The sums of the cap {row.id} are not those of the chain.")
            if row.late != budget.late:
                self._tell(f"The cap {row.id} does not say rightly whether it changed after an answer.")
        for missing in self._budgets.keys() - found:
            self._tell(f"The cap {missing} of the chain is not in the database.")

    def _compare_records(self) -> int:
        last, answers, seen = 0, 0, 0
        while True:
            query = select(tables.records).where(tables.records.c.position > last)
            page = self._connection.execute(query.order_by(tables.records.c.position).limit(_PAGE)).all()
            if not page:
                break
            for row in page:
                seen += 1
                answers += row.status == AnswerStatus.ANSWERED
                self._compare_record(row)
            last = page[-1].position
        if seen < len(self._records):
            self._tell(f"{len(self._records) - seen} records of the chain are not in the database.")
        return answers

    def _compare_record(self, row: AnyRow) -> None:
        settled = self._records.get(row.id)
        if settled is None:
            self._tell(f"The record {row.id} is not in the chain.")
            return
        there = (row.status, row.position, row.source_id, None if row.answer is None else _digest(row.answer))
        if there != (settled.status, settled.position, settled.source, settled.answer):
            self._tell(f"The record {row.id} is not as the chain tells it.")
        if settled.source is None and (settled.question, settled.entries) != (
            _digest(row.question),
            _digest(row.entries),
        ):
            self._tell(f"The question of the record {row.id} is not the one that was charged.")

    def _compare_charges(self) -> None:
        found = {
            (row.record_id, row.budget_id): (row.measure, row.claimed, row.largest)
            for row in self._connection.execute(select(tables.charges))
        }
        if found != self._charges:
            self._tell("The charges in the database are not those of the chain.")


def _covers(charged: WholeCost, cost: WholeCost) -> bool:
    if charged == cost:
        return True
    pairs = zip(
        (charged.measure, charged.claimed, charged.largest),
        (cost.measure, cost.claimed, cost.largest),
        strict=True,
    )
    return all(paid + paid // _CLOSE >= due for paid, due in pairs)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
