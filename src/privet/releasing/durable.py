"""A ledger in a file: what is spent is on the disk before anything is answered.

Beside ``ledger.json`` stand ``ledger.json.lock``, which keeps two processes apart, and
``ledger.json.answers.jsonl``, which holds what was answered, a line for each question. The ledger itself is a
plain Privet ledger, which ``privet account ledger.json`` reads.

*Guarantee*. One process at a time goes through: look for a stored answer, check the budget, write the spend,
ask the data, store the answer. So two processes never overspend together, and the same question is never paid
for twice as long as its answer is kept. A process that is killed anywhere on this way has either spent
nothing and answered nothing, or its spend is in the file. A spend is never taken back, also when what follows
fails.

The answers may be lost: asking again then costs again. The ledger may not: if answers are there that it does
not hold the cost of, it was cut, replaced or removed, and everything is refused until it is back. Each answer
names the state of the ledger that paid for it, by the ledger's chain of hashes; ``lineage`` says what that
notices, and what it cannot.

The lock keeps two processes apart. If somebody removes its file they are not; so a spend replaces the file
only if it is as it was when it was opened (``ChangedMeanwhile`` otherwise, and nothing was spent).

*Leaks*: the file holds questions and noisy answers, which are public, and nothing else of the data.
"""

import json
import os
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Lock
from typing import Any, TypeAlias, final

from privet.adjacency import AddRemove, Adjacency
from privet.arguments import format_value
from privet.callers import level_of_caller
from privet.caveats import Caveat
from privet.documents import from_plain
from privet.durable_files import append_durably, hold_lock, read_whole, replace_durably
from privet.errors import InvalidArgument, PrivetError, Unreadable
from privet.filters import Filter
from privet.ledger import Entry, Ledger
from privet.lineage import Head, fresh_identity
from privet.paths import is_folder
from privet.public_calls import check_public_calls
from privet.releasing.answers import Answer, answer_from_plain, answer_to_plain
from privet.releasing.budget import Budget, change_budget, extend_ledger
from privet.releasing.store import Store, with_unit_column

__all__ = ["AnswersNotKept", "DurableLedger", "HeldLedger", "stored_ledger"]

_FORMAT, _VERSION = "privet-answer", 2
Row: TypeAlias = Mapping[str, Any]  # a line of the answers that was read
_WITH_RECEIPTS = 1  # lines of 0.1.0, which repeat the entries that paid for them


@final
class AnswersNotKept(UserWarning):
    """Answers were paid for and given, and could not be stored: asking again costs again."""


@final
@dataclass(frozen=True, kw_only=True)
class DurableLedger:
    """Where a ledger lives, whom it protects, and how far it may go.

    The first spend within a budget fixes the filter that keeps it, and the file has it from then on. None is
    the filter that the file has, or no limit where it has none.

    >>> import tempfile
    >>> from privet.adjacency import AddRemove
    >>> folder = Path(tempfile.mkdtemp())
    >>> path, budget = folder / "ledger.json", Budget(epsilon=1.5)
    >>> durable = DurableLedger(path=path, adjacency=AddRemove(), budget=budget)
    >>> with durable.open() as store:  # give it to Plan.run as its store
    ...     len(store.ledger)
    0
    """

    path: Path
    adjacency: Adjacency
    budget: Budget | Filter | None

    def __post_init__(self) -> None:
        if not isinstance(self.path, Path):
            raise InvalidArgument(
                f"'path' must be a Path, got {format_value(self.path)}. Write Path(\"ledger.json\")."
            )
        if not isinstance(self.adjacency, Adjacency):
            raise InvalidArgument(
                f"'adjacency' must be an adjacency, got {format_value(self.adjacency)}. Use that of the plan."
            )
        if self.budget is not None and not isinstance(self.budget, (Budget, Filter)):
            raise InvalidArgument(
                f"'budget' must be a Budget, a filter or None, got {format_value(self.budget)}. Write "
                "Budget(epsilon=1.5)."
            )

    @contextmanager
    def open(self) -> Iterator["HeldLedger"]:
        """The ledger, for this process alone, until the block ends. A missing file is an empty ledger."""
        path = _resolve(self.path)  # one lock, however the file is called
        _check_file(path)
        if not is_folder(path.parent):
            raise InvalidArgument(
                f"A ledger must be in a folder that exists, got {str(path)!r}. Make the folder first."
            )
        with hold_lock(path):
            content = read_whole(path)
            ledger = _read(path, content, self.adjacency)
            kept = _last_answers(path, ledger, read_whole(_answers(path)))
            held = HeldLedger(path, ledger, self.budget, kept, content)
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
        kept: dict[str, Answer | Row],
        content: bytes | None,
    ) -> None:
        self._path = path
        self._ledger = ledger
        self._budget = budget
        self._kept = kept
        self._content = content  # of the file, as this store last read or wrote it
        self._unit_column: str | None = None
        self._owner: int | None = os.getpid()
        self._one_at_a_time = Lock()

    def close(self) -> None:
        """Refuse everything from now on: without the lock, this ledger may be older than the file."""
        with self._one_at_a_time:
            self._owner = None

    def _check_held(self) -> None:
        if self._owner != os.getpid():
            raise InvalidArgument(
                "A ledger file may be used inside of its 'held' block and by the process that opened it, "
                "and this is after the block or in another process. Open it again with open()."
            )

    @property
    def ledger(self) -> Ledger:
        return self._ledger

    def recall(self, question: str) -> Answer | None:
        found = self._kept.get(question)
        if found is None or isinstance(found, Answer):
            return found
        try:
            answer = answer_from_plain(found["label"], found["answer"])
        except PrivetError:
            return None  # lost: who asks pays again
        self._kept[question] = answer
        return answer

    def spend(self, entries: tuple[Entry, ...], *, caveats: frozenset[Caveat] = frozenset()) -> Ledger:
        with self._one_at_a_time:
            self._check_held()
            if not entries:
                return self._ledger
            after = extend_ledger(self._present(), entries, caveats, self._budget)
            self._commit(after)
            return after

    def use_unit_column(self, column: str | None) -> None:
        super().use_unit_column(column)
        self._unit_column = column

    def change_budget(self, budget: Budget | Filter, *, reason: str) -> Ledger:
        """Give the ledger another budget, and write down in it when and why. It must have room for what was
        spent.
        """
        with self._one_at_a_time:
            self._check_held()
            after = change_budget(self._present(), budget, reason=reason)
            self._commit(after)
            self._budget = None  # that of the file
            return after

    def _present(self) -> Ledger:
        """The ledger as it is about to be extended: with a number, and with the column that it is spent
        for.
        """
        ledger = with_unit_column(self._ledger, self._unit_column)
        return ledger if ledger.identity is not None else replace(ledger, identity=fresh_identity())

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
                    "paid": str(self._ledger.head),
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
                stacklevel=level_of_caller(),
            )
        self._kept.update(answers)


def _check_file(path: Path) -> None:
    if is_folder(path):
        raise InvalidArgument(f"A ledger must be a file, got the folder {str(path)!r}. Name a file in it.")


def _answers(path: Path) -> Path:
    return path.with_name(path.name + ".answers.jsonl")


def stored_ledger(path: Path, adjacency: Adjacency | None = None) -> Ledger | None:
    """The ledger of a file as it is now, and as its answers say that it is; nothing where there is neither.

    Nobody waits for it, and nothing is held. With ``adjacency``, a ledger under another one is refused.
    """
    path = _resolve(path)
    _check_file(path)
    answers = read_whole(_answers(path))  # first: the ledger, read later, is no older
    content = read_whole(path)
    if content is None and answers is None:
        return None
    ledger = Ledger(adjacency or AddRemove()) if content is None else _parse(path, content)
    if adjacency is not None:
        _check_adjacency(ledger, adjacency)
    _last_answers(path, ledger, answers)
    return None if content is None else ledger


def _resolve(path: Path) -> Path:
    try:
        return path.resolve()
    except (OSError, RuntimeError, ValueError) as failed:
        raise InvalidArgument(
            f"A ledger must be a file with a path that leads somewhere, got {str(path)!r}. Check its links."
        ) from failed


def _read(path: Path, content: bytes | None, adjacency: Adjacency) -> Ledger:
    """The ledger under this adjacency; an empty one where there is no file."""
    if content is None:
        return Ledger(adjacency)
    ledger = _parse(path, content)
    _check_adjacency(ledger, adjacency)
    return ledger


def _parse(path: Path, content: bytes) -> Ledger:
    try:
        return Ledger.from_json(content.decode())
    except (PrivetError, UnicodeDecodeError) as broken:
        why = str(broken) if isinstance(broken, PrivetError) else "It is not text."
        raise Unreadable(
            f"{str(path)!r} must be a Privet ledger, and is not, so what was spent is not known: {why} "
            f"Nothing was spent or written; restore the file from a backup."
        ) from broken


def _check_adjacency(ledger: Ledger, adjacency: Adjacency) -> None:
    if ledger.adjacency != adjacency:
        raise InvalidArgument(
            f"A release and its ledger must protect the same unit, got {adjacency} and {ledger.adjacency}. "
            f"Ask under the adjacency of the ledger, or name another ledger."
        )


def _last_answers(path: Path, ledger: Ledger, content: bytes | None) -> dict[str, Answer | Row]:
    """The last answer to each question, as it stands there. A line that is none was cut by a crash, and is
    passed over.
    """
    found: dict[str, Answer | Row] = {}
    for line in (content or b"").decode(errors="replace").split("\n"):
        row = _row(line)
        if row is None:
            continue
        if not _is_paid(ledger, row):
            raise Unreadable(
                f"{str(path)!r} must hold the cost of every answer in {_answers(path).name!r}, and does "
                "not, so what was spent is not known. Restore the ledger from a backup; if you removed it "
                f"because the data is new, move the answers away too."
            )
        found[row["question"]] = row
    return found


def _row(line: str) -> Row | None:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        return None
    match row:
        case {
            "format": str(form),
            "version": int(version),
            "question": str(),
            "paid": paid,
            "label": str(),
            "answer": _,
        } if form == _FORMAT:
            wanted = {_VERSION: str, _WITH_RECEIPTS: list}.get(version)
            return row if wanted is not None and isinstance(paid, wanted) else None
    return None


def _is_paid(ledger: Ledger, row: Row) -> bool:
    """Whether the ledger holds what the answer cost: it is at the state that paid for it, or beyond."""
    if row["version"] == _WITH_RECEIPTS:
        return all(_is_in(ledger, receipt) for receipt in row["paid"])
    try:
        return ledger.is_beyond(Head.from_text(row["paid"]))
    except InvalidArgument:
        return False


def _is_in(ledger: Ledger, receipt: object) -> bool:
    """Whether the ledger still has this entry where it was."""
    match receipt:
        case {"place": int(place), "label": str(label), "event": dict(event)} if 0 <= place < len(ledger):
            with suppress(
                PrivetError
            ):  # an event that this version does not know is in no ledger that it reads
                return ledger.entries[place] == Entry(label, from_plain(event))
    return False


check_public_calls(__name__)
