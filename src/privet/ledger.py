"""What was spent: an append-only value. Adding to a ledger gives a new one; the old one stays as it was."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, final

from privet.adjacency import Adjacency, Unit, adjacency_from_name
from privet.arguments import format_value
from privet.budget_changes import BudgetChange
from privet.caveats import Caveat
from privet.documents import from_plain, is_whole, only, open_document, to_plain
from privet.errors import InvalidArgument, Unreadable
from privet.events import Compose, Event
from privet.filters import Filter, filter_from_plain, filter_to_plain
from privet.lineage import Head, canonical, chain_digests, checked_identity, seal_digest
from privet.public_calls import check_public_calls
from privet.tallies import Tally

__all__ = ["Entry", "Ledger"]

FORMAT = "privet-ledger"
VERSION = 1
_FIELDS = (
    *("format", "version", "adjacency", "unit", "unit_column", "caveats", "filter", "changes", "entries"),
    *("lineage", "tally"),
)


@final
@dataclass(frozen=True)
class Entry:
    """One labelled event."""

    label: str
    event: Event

    def __post_init__(self) -> None:
        if not isinstance(self.label, str):
            raise InvalidArgument(
                f"'label' must be text, got {format_value(self.label)}. Say what was released."
            )
        if not isinstance(self.event, Event):
            raise InvalidArgument(
                f"'event' must be an event, got {type(self.event).__name__}. Describe what ran as an event."
            )

    @cached_property
    def text(self) -> str:
        """The entry as a link of a chain."""
        return canonical({"label": self.label, "event": to_plain(self.event)})


@final
@dataclass(frozen=True)
class Ledger:
    """Everything that was done to one dataset, under one adjacency.

    >>> from privet.adjacency import AddRemove
    >>> from privet.events import Gaussian
    >>> ledger = Ledger(AddRemove()).spend("a count", Gaussian(10.0)).spend("a sum", Gaussian(5.0))
    >>> [entry.label for entry in ledger]
    ['a count', 'a sum']

    ``filter`` is the rule that its budget is kept by, fixed before the first answer; None where it has no
    budget. ``changes`` tells of budgets that came or changed later. ``unit_column`` is the column that says
    whose row it is, where that is known. ``identity`` is the number of a ledger in a file; with it, the
    ledger has a chain of hashes (see ``lineage``). ``tally`` is what its filter has added up, a cache that
    says nothing of its own (see ``tallies``); two ledgers are equal whatever their tallies are.
    """

    adjacency: Adjacency
    entries: tuple[Entry, ...] = ()
    caveats: frozenset[Caveat] = frozenset()
    filter: Filter | None = None
    unit_column: str | None = None
    changes: tuple[BudgetChange, ...] = ()
    identity: str | None = None
    tally: Tally | None = field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        if not isinstance(self.adjacency, Adjacency):
            raise InvalidArgument(
                f"'adjacency' must be an adjacency, got {format_value(self.adjacency)}. "
                f"Use AddRemove(), ReplaceOne() or ZeroOut()."
            )
        if not isinstance(self.entries, tuple) or not all(isinstance(row, Entry) for row in self.entries):
            raise InvalidArgument(
                f"'entries' must be a tuple of entries, got {format_value(self.entries)}. Add to a ledger "
                "with spend."
            )
        if not isinstance(self.caveats, frozenset) or not all(isinstance(c, Caveat) for c in self.caveats):
            raise InvalidArgument(
                f"'caveats' must be a frozenset of caveats, got {format_value(self.caveats)}. "
                f"Write frozenset({{Caveat.SEEDED_NOISE}})."
            )
        if self.filter is not None and not isinstance(self.filter, Filter):
            raise InvalidArgument(
                f"'filter' must be a filter or None, got {format_value(self.filter)}. Use one of "
                "privet.filters."
            )
        if self.unit_column is not None and (
            not isinstance(self.unit_column, str) or self.adjacency.unit is Unit.RECORD
        ):
            raise InvalidArgument(
                "'unit_column' must name the column of a user or client, got "
                f"{format_value(self.unit_column)} under {self.adjacency}. Leave it out where each row is "
                "protected by itself."
            )
        if not isinstance(self.changes, tuple) or not all(isinstance(c, BudgetChange) for c in self.changes):
            raise InvalidArgument(
                f"'changes' must be a tuple of budget changes, got {format_value(self.changes)}. Leave it "
                "out for none."
            )
        if self.tally is not None and not isinstance(self.tally, Tally):
            raise InvalidArgument(
                f"'tally' must be a tally or None, got {format_value(self.tally)}. Leave it out."
            )
        places = [change.place for change in self.changes]
        if places != sorted(places) or (places and places[-1] > len(self.entries)):
            raise InvalidArgument(
                f"'changes' must stand in order and after entries that are there, got the places {places}. "
                "Leave them as they were."
            )

    def __repr__(self) -> str:
        labels = ", ".join(repr(entry.label) for entry in self.entries[:3])
        more = f" and {len(self) - 3} more" if len(self) > 3 else ""
        return (
            f"Ledger({self.adjacency}, {len(self)} {'entry' if len(self) == 1 else 'entries'}: "
            f"{labels or 'none'}{more})"
        )

    def spend(self, label: str, event: Event, *, caveats: frozenset[Caveat] = frozenset()) -> "Ledger":
        """A ledger with one entry more."""
        return self.extend((Entry(label, event),), caveats=caveats)

    def extend(self, entries: tuple[Entry, ...], *, caveats: frozenset[Caveat] = frozenset()) -> "Ledger":
        """A ledger with these entries more. What this one was checked for is not checked again."""
        added = Ledger(self.adjacency, entries, caveats)
        known: tuple[str, ...] | None = self.__dict__.get("_digests")
        if known is not None:
            known += chain_digests(known[-1], [entry.text for entry in entries], hashed=True)[1:]
        return self._like(known, entries=self.entries + added.entries, caveats=self.caveats | added.caveats)

    def with_tally(self, tally: Tally) -> "Ledger":
        """The same ledger, whose filter has added up this."""
        return self._like(self.__dict__.get("_digests"), filter=tally.rule, tally=tally)

    def _like(self, digests: tuple[str, ...] | None, **changed: object) -> "Ledger":
        """This ledger with other fields that were checked already."""
        after = object.__new__(Ledger)
        after.__dict__.update(self.__dict__, **changed)
        after.__dict__.pop("_digests", None)
        if digests is not None:
            after.__dict__["_digests"] = digests
        return after

    def __add__(self, other: "Ledger") -> "Ledger":
        """Both ledgers' entries; they must speak of the same neighbours. A filter of one says nothing of
        both.

        The sum is a new ledger: it has no number, and the column of the unit only if both name the same.
        """
        if not isinstance(other, Ledger):
            return NotImplemented
        if self.adjacency != other.adjacency:
            raise InvalidArgument(
                f"Ledgers can be added under one adjacency only, got {self.adjacency} and "
                f"{other.adjacency}. Account for both under the same one."
            )
        columns = {self.unit_column, other.unit_column}
        if len(columns - {None}) > 1:
            raise InvalidArgument(
                f"Ledgers can be added for one column of units only, got {self.unit_column!r} and "
                f"{other.unit_column!r}. Account for them apart."
            )
        return Ledger(
            self.adjacency,
            self.entries + other.entries,
            self.caveats | other.caveats,
            unit_column=self.unit_column if len(columns) == 1 else None,
        )

    def __iter__(self) -> Iterator[Entry]:
        return iter(self.entries)

    def __len__(self) -> int:
        return len(self.entries)

    @property
    def event(self) -> Event:
        """All entries as one event."""
        return Compose(tuple(entry.event for entry in self.entries))

    @property
    def head(self) -> Head | None:
        """The state of a ledger that has a number, for ``is_beyond``."""
        return (
            None if self.identity is None else Head(self.identity, len(self._digests) - 1, self._digests[-1])
        )

    def is_beyond(self, head: Head) -> bool:
        """Whether this is that state of that ledger, or a later one."""
        return (
            self.identity == head.identity
            and head.links < len(self._digests)
            and self._digests[head.links] == head.digest
        )

    @cached_property
    def _digests(self) -> tuple[str, ...]:
        """The chain: entries in their order, each change of the budget after the entries that were there."""
        links: list[str] = [entry.text for entry in self.entries]
        for change in reversed(self.changes):
            links.insert(change.place, change.text)
        return chain_digests(f"{FORMAT} {self.identity} {self.adjacency}", links)

    def _fields(self) -> dict[str, Any]:
        """All but the entries and the chain, as JSON can hold it."""
        fields: dict[str, Any] = {
            "format": FORMAT,
            "version": VERSION,
            "adjacency": self.adjacency.relation,
            "unit": str(self.adjacency.unit),
        }
        if self.unit_column is not None:
            fields["unit_column"] = self.unit_column
        fields["caveats"] = sorted(caveat.code for caveat in self.caveats)
        if self.filter is not None:
            fields["filter"] = filter_to_plain(self.filter)
        if self.changes:
            fields["changes"] = [change.to_plain() for change in self.changes]
        return fields

    def _lineage(self) -> dict[str, Any]:
        digest = self._digests[-1]
        return {"id": self.identity, "head": digest, "seal": seal_digest(digest, canonical(self._fields()))}

    def to_json(self) -> str:
        """The ledger as a document that ``from_json`` reads back, with the same ε. An entry is a line."""
        fields = self._fields()
        if self.identity is not None:
            fields["lineage"] = self._lineage()
            if self.tally is not None and self.tally.entries == len(self):
                fields["tally"] = self.tally.to_plain(self._digests[-1])
        lines = [f'  "{name}": {json.dumps(value)},' for name, value in fields.items()]
        rows = ",".join(f"\n    {entry.text}" for entry in self.entries)
        return "\n".join(["{", *lines, f'  "entries": [{rows}{chr(10) + "  " if rows else ""}]', "}"])

    @staticmethod
    def from_json(text: str) -> "Ledger":
        """The ledger of a document."""
        document = open_document(text, FORMAT, VERSION)
        only(document, "A ledger", _FIELDS)
        rows, codes, changes = (document.get(name, []) for name in ("entries", "caveats", "changes"))
        if (
            "entries" not in document
            or not isinstance(rows, list)
            or not isinstance(codes, list)
            or not isinstance(changes, list)
        ):
            raise Unreadable(
                "A ledger must have a list of 'entries' and a list of 'caveats'. Check the file."
            )
        for code in codes:
            if not isinstance(code, str) or code not in Caveat.__members__:
                raise Unreadable(
                    f"'caveats' must hold codes that this version knows, got {format_value(code)}. "
                    f"Read the document with the version of Privet that wrote it."
                )
        lineage = document.get("lineage")
        if lineage is not None and not isinstance(lineage, dict):
            raise Unreadable("'lineage' must be an object with 'id', 'head' and 'seal'. Restore the file.")
        adjacency = adjacency_from_name(str(document.get("adjacency")), str(document.get("unit")))
        entries = tuple(map(_entry, rows))
        try:
            ledger = Ledger(
                adjacency,
                entries,
                frozenset(Caveat[code] for code in codes),
                filter_from_plain(document["filter"]) if "filter" in document else None,
                document.get("unit_column"),
                tuple(BudgetChange.from_plain(change) for change in changes),
                None if lineage is None else checked_identity(lineage.get("id")),
            )
        except InvalidArgument as wrong:
            raise Unreadable(f"A ledger must have fields in their range: {wrong} Check the file.") from wrong
        if lineage is None:
            return ledger
        if lineage != ledger._lineage():
            raise Unreadable(
                "The entries of a ledger must be those that its chain of hashes was made of, and are not: "
                "it was damaged, cut or edited. Restore the file from a backup."
            )
        tally = Tally.from_plain(document.get("tally"), ledger.filter, ledger._digests[-1])
        if tally is not None and tally.entries == len(ledger):
            ledger.__dict__["tally"] = tally
        return ledger


def _entry(row: object) -> Entry:
    if not isinstance(row, dict) or not isinstance(row.get("label"), str):
        raise Unreadable("An entry must be an object with a 'label' and an 'event'. Check the file.")
    only(row, "An entry", ("label", "event"))
    node = row.get("event")
    entry = Entry(row["label"], from_plain(node))
    if is_whole(node):
        entry.__dict__["text"] = canonical(row)  # the same text, without writing the event down again
    return entry


check_public_calls(__name__)
