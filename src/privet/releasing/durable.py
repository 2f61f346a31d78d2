"""A ledger in a file: what is spent is on the disk before anything is answered.

Beside ``ledger.json`` stand ``ledger.json.lock``, which keeps two processes apart, and
``ledger.json.answers.jsonl``, which holds what was answered, a line for each question. The ledger itself is a
plain Privet ledger, which ``privet account ledger.json`` reads.

*Guarantee*. One process at a time goes through: look for a stored answer, check the budget, write the spend,
ask the data, store the answer. So two processes never overspend together, and the same question is never paid
for twice as long as its answer is kept. A process that is killed anywhere on this way has either spent nothing
and answered nothing, or its spend is in the file. A spend is never taken back, also when what follows fails.

The answers may be lost: asking again then costs again. The ledger may not: if answers are there that it does
not hold the cost of, it was cut, replaced or removed, and everything is refused until it is back.

*Leaks*: the file holds questions and noisy answers, which are public, and nothing else of the data.
"""

import json
import os
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Any, final

from privet.adjacency import Adjacency
from privet.arguments import shown
from privet.caveats import Caveat
from privet.documents import from_plain, to_plain
from privet.durable_files import append_durably, locked, read_whole, replace_durably
from privet.errors import InvalidArgument, PrivetError, Unreadable
from privet.filters import Filter
from privet.ledger import Entry, Ledger
from privet.paths import is_folder
from privet.releasing.answers import Answer, answer_from_plain, answer_to_plain
from privet.releasing.budget import Budget, extended
from privet.releasing.store import Store

__all__ = ["AnswersNotKept", "DurableLedger", "HeldLedger", "stored_ledger"]

_FORMAT, _VERSION = "privet-answer", 1


@final
class AnswersNotKept(UserWarning):
    """Answers were paid for and given, and could not be stored: asking again costs again."""


@final
@dataclass(frozen=True, kw_only=True)
class DurableLedger:
    """Where a ledger lives, whom it protects, and how far it may go.

    The first spend within a budget fixes the filter that keeps it, and the file has it from then on. None is the filter
    that the file has, or no limit where it has none.

    >>> import tempfile
    >>> from privet.adjacency import AddRemove
    >>> folder = Path(tempfile.mkdtemp())
    >>> durable = DurableLedger(path=folder / "ledger.json", adjacency=AddRemove(), budget=Budget(epsilon=1.5))
    >>> with durable.held() as store:  # give it to Plan.run as its store
    ...     len(store.ledger)
    0
    """

    path: Path
    adjacency: Adjacency
    budget: Budget | Filter | None

    def __post_init__(self) -> None:
        if not isinstance(self.path, Path):
            raise InvalidArgument(
                f"'path' must be a Path, got {shown(self.path)}. Write Path(\"ledger.json\")."
            )
        if not isinstance(self.adjacency, Adjacency):
            raise InvalidArgument(
                f"'adjacency' must be an adjacency, got {shown(self.adjacency)}. Use that of the plan."
            )
        if self.budget is not None and not isinstance(self.budget, (Budget, Filter)):
            raise InvalidArgument(
                f"'budget' must be a Budget, a filter or None, got {shown(self.budget)}. Write Budget(epsilon=1.5)."
            )

    @contextmanager
    def held(self) -> Iterator["HeldLedger"]:
        """The ledger, for this process alone, until the block ends. A missing file is an empty ledger."""
        path = _resolved(self.path)  # one lock, however the file is called
        if is_folder(path):
            raise InvalidArgument(
                f"A ledger must be a file, got the folder {str(path)!r}. Name a file in it."
            )
        if not is_folder(path.parent):
            raise InvalidArgument(
                f"A ledger must be in a folder that exists, got {str(path)!r}. Make the folder first."
            )
        with locked(path):
            content = read_whole(path)
            ledger = _read(path, content, self.adjacency)
            held = HeldLedger(path, ledger, self.budget, _kept(path, ledger), content)
            try:
                yield held
            finally:
                held.close()


@final
class HeldLedger(Store):
    """A ledger file while its lock is held: the store that a plan spends from."""

    def __init__(
        self,
        path: Path,
        ledger: Ledger,
        budget: Budget | Filter | None,
        kept: dict[str, Answer],
        content: bytes | None,
    ) -> None:
        self._path = path
        self._ledger = ledger
        self._budget = budget
        self._kept = kept
        self._content = content  # of the file, as this store last read or wrote it
        self._before = len(ledger)
        self._owner: int | None = os.getpid()
        self._one_at_a_time = Lock()

    def close(self) -> None:
        """Refuse everything from now on: without the lock, this ledger may be older than the file."""
        with self._one_at_a_time:
            self._owner = None

    def _check_held(self) -> None:
        if self._owner != os.getpid():
            raise InvalidArgument(
                "A ledger file may be used inside of its 'held' block and by the process that opened it, and this is "
                "after the block or in another process. Open it again with held()."
            )

    @property
    def ledger(self) -> Ledger:
        return self._ledger

    def recall(self, question: str) -> Answer | None:
        return self._kept.get(question)

    def spend(self, entries: tuple[Entry, ...], *, caveats: frozenset[Caveat] = frozenset()) -> Ledger:
        with self._one_at_a_time:
            self._check_held()
            if not entries:
                return self._ledger
            after = extended(self._ledger, entries, caveats, self._budget)
            self._commit(after)
            return after

    def _commit(self, after: Ledger) -> None:
        content = after.to_json().encode()
        try:
            replace_durably(self._path, content, expected=self._content)
        except BaseException:
            # It may be in the file although its flush failed; then it counts.
            with suppress(PrivetError):
                if read_whole(self._path) == content:
                    self._ledger, self._content = after, content
            raise
        self._ledger, self._content = after, content

    def keep(self, answers: Mapping[str, Answer]) -> None:
        with self._one_at_a_time:
            self._check_held()
            self._write(answers)

    def _write(self, answers: Mapping[str, Answer]) -> None:
        lines = [
            json.dumps(
                {
                    "format": _FORMAT,
                    "version": _VERSION,
                    "question": question,
                    "paid": self._receipts(answer),
                    "label": answer.label,
                    "answer": answer_to_plain(answer),
                }
            )
            for question, answer in answers.items()
        ]
        try:
            if lines:
                append_durably(_answers(self._path), "\n".join(lines))
        except PrivetError:
            # The answers are paid for, so they are given; an error here would take them away.
            warnings.warn(
                f"The answers could not be kept in {_answers(self._path).name!r}: asking again costs again. "
                f"Note them down.",
                AnswersNotKept,
                stacklevel=2,
            )
        self._kept.update(answers)

    def _receipts(self, answer: Answer) -> list[dict[str, Any]]:
        """Where in the ledger the answer's cost stands: at its own entry, or else at all that was just spent."""
        just = list(enumerate(self._ledger.entries))[self._before :]
        own = [(place, entry) for place, entry in just if entry == Entry(answer.label, answer.event)]
        return [
            {"place": place, "label": entry.label, "event": to_plain(entry.event)}
            for place, entry in own or just
        ]


def _answers(path: Path) -> Path:
    return path.with_name(path.name + ".answers.jsonl")


def stored_ledger(path: Path, adjacency: Adjacency) -> Ledger:
    """The ledger of a file as it is now; a missing file is an empty ledger."""
    path = _resolved(path)
    return _read(path, read_whole(path), adjacency)


def _resolved(path: Path) -> Path:
    try:
        return path.resolve()
    except (OSError, RuntimeError, ValueError) as failed:
        raise InvalidArgument(
            f"A ledger must be a file with a path that leads somewhere, got {str(path)!r}. Check its links."
        ) from failed


def _read(path: Path, content: bytes | None, adjacency: Adjacency) -> Ledger:
    if content is None:
        return Ledger(adjacency)
    try:
        ledger = Ledger.from_json(content.decode())
    except (PrivetError, UnicodeDecodeError) as broken:
        why = str(broken) if isinstance(broken, PrivetError) else "It is not text."
        raise Unreadable(
            f"{str(path)!r} must be a Privet ledger, and is not, so what was spent is not known: {why} "
            f"Nothing was spent or written; restore the file from a backup."
        ) from broken
    if ledger.adjacency != adjacency:
        raise InvalidArgument(
            f"A release and its ledger must protect the same unit, got {adjacency} and {ledger.adjacency}. "
            f"Ask under the adjacency of the ledger, or name another ledger."
        )
    return ledger


def _kept(path: Path, ledger: Ledger) -> dict[str, Answer]:
    """The last answer to each question. A line that is none was cut by a crash, and is passed over."""
    file = _answers(path)
    found: dict[str, Answer] = {}
    for line in (read_whole(file) or b"").decode(errors="replace").split("\n"):
        row = _row(line)
        if row is None:
            continue
        if not all(_is_in(ledger, receipt) for receipt in row["paid"]):
            raise Unreadable(
                f"{str(path)!r} must hold the cost of every answer in {file.name!r}, and does not, so what was "
                f"spent is not known. Restore the ledger from a backup; if you removed it because the data is "
                f"new, move the answers away too."
            )
        try:
            found[row["question"]] = answer_from_plain(row["label"], row["answer"])
        except PrivetError:
            found.pop(row["question"], None)  # lost: the next who asks pays again
    return found


def _row(line: str) -> Mapping[str, Any] | None:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        return None
    match row:
        case {
            "format": str(form),
            "version": int(version),
            "question": str(),
            "paid": list(),
            "label": str(),
            "answer": _,
        }:
            return row if (form, version) == (_FORMAT, _VERSION) else None
    return None


def _is_in(ledger: Ledger, receipt: object) -> bool:
    """Whether the ledger still has this entry where it was."""
    match receipt:
        case {"place": int(place), "label": str(label), "event": dict(event)} if 0 <= place < len(ledger):
            with suppress(
                PrivetError
            ):  # an event that this version does not know is in no ledger that it reads
                return ledger.entries[place] == Entry(label, from_plain(event))
    return False
