"""What was seen, against what the database says: what is given must be charged, kept and unique."""

from collections import Counter, defaultdict
from collections.abc import Sequence, Set
from dataclasses import dataclass, fields
from fractions import Fraction
from pathlib import Path
from typing import Any, final

from sqlalchemy import select

from privet.curator.selftest.toys import SCALES
from privet.curator.service import AnswerStatus
from privet.curator.storage import tables
from privet.curator.storage.database import Database
from privet.curator.storage.heads import HeadFile
from privet.curator.storage.verification import verify_database

__all__ = ["RoundCounts", "SeenAnswer", "judge_round"]


@final
@dataclass(frozen=True, kw_only=True)
class SeenAnswer:
    """An answer that an analyst has in hand."""

    account: int
    key: str
    number: int
    record: str
    value: int


@final
@dataclass
class RoundCounts:
    """Counts of one round, or of all. Everything from ``uncharged_answers`` on must be 0."""

    asked: int = 0
    answers: int = 0
    charged: int = 0
    failed: int = 0
    draws: int = 0
    uncharged_answers: int = 0
    overspends: int = 0
    lost_answers: int = 0
    doubled_answers: int = 0
    broken: int = 0
    chain_problems: int = 0

    def add(self, other: "RoundCounts") -> None:
        """Add the counts of another round."""
        for field in fields(self):
            setattr(self, field.name, getattr(self, field.name) + getattr(other, field.name))

    @property
    def is_sound(self) -> bool:
        """Whether nothing went wrong."""
        wrong = (
            "uncharged_answers",
            "overspends",
            "lost_answers",
            "doubled_answers",
            "broken",
            "chain_problems",
        )
        return not any(getattr(self, name) for name in wrong)


def judge_round(
    database: Database,
    head: Path,
    draws: Path,
    seen: Sequence[SeenAnswer],
    *,
    caps: dict[int, Fraction],
    errors: Set[tuple[int, str]] = frozenset(),
) -> tuple[RoundCounts, tuple[str, ...]]:
    """The counts of a round, and what the verification found.

    ``errors`` are requests (account and key) that ended with an error of another kind than a refusal: none of
    them may be charged. ``caps`` is the ε of each cap by its number, as a fraction. The spending is added
    up once more, from the questions and in fractions, and shares no code with the filters.
    """
    with database.read() as connection:
        records = {row.id: row for row in connection.execute(select(tables.records)).all()}
        charges = connection.execute(select(tables.charges.c.record_id, tables.charges.c.budget_id)).all()
    budgets: dict[str, list[int]] = defaultdict(list)
    for charge in charges:
        budgets[charge.record_id].append(charge.budget_id)
    drawn = Counter(line.split()[0] for line in _lines(draws))
    verification = verify_database(database, HeadFile(head))
    charged = [row for row in records.values() if row.source_id is None]
    return (
        RoundCounts(
            answers=len(seen),
            charged=len(charged),
            failed=sum(row.status == AnswerStatus.FAILED for row in charged),
            draws=sum(drawn.values()),
            uncharged_answers=sum(not budgets[_origin(records, answer.record)] for answer in seen)
            + sum(not budgets[request] for request in drawn),
            overspends=_count_overspends(charged, budgets, caps),
            lost_answers=sum(not _is_kept(records.get(answer.record), answer) for answer in seen),
            doubled_answers=_count_doubles(seen) + sum(times - 1 for times in drawn.values()),
            broken=sum((row.account_id, row.idempotency_key) in errors for row in records.values()),
            chain_problems=len(verification.problems),
        ),
        verification.problems,
    )


def _lines(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []


def _origin(records: dict[str, Any], record: str) -> str:
    """The record that paid for an answer."""
    row = records.get(record)
    return record if row is None or row.source_id is None else str(row.source_id)


def _is_kept(row: Any, answer: SeenAnswer) -> bool:  # noqa: ANN401
    return (
        row is not None
        and row.status == AnswerStatus.ANSWERED
        and row.answer == f'{{"value":{answer.value}}}'
    )


def _count_overspends(
    charged: Sequence[Any], budgets: dict[str, list[int]], caps: dict[int, Fraction]
) -> int:
    """Caps that the answers go beyond, by Σε in fractions; every cap of the harness has δ = 0."""
    spent: dict[int, Fraction] = defaultdict(Fraction)
    for row in charged:
        number = int(row.question.removeprefix('{"number":').removesuffix("}"))
        for budget in budgets[row.id]:
            spent[budget] += Fraction(1, SCALES[number % len(SCALES)])
    return sum(spent[budget] > cap for budget, cap in caps.items())


def _count_doubles(seen: Sequence[SeenAnswer]) -> int:
    """Requests, and questions, that have more than one answer."""
    by_request: dict[tuple[int, str], set[tuple[str, int]]] = defaultdict(set)
    by_number: dict[int, set[int]] = defaultdict(set)
    for answer in seen:
        by_request[answer.account, answer.key].add((answer.record, answer.value))
        by_number[answer.number].add(answer.value)
    requests = sum(len(found) - 1 for found in by_request.values())
    return requests + sum(len(found) - 1 for found in by_number.values())
