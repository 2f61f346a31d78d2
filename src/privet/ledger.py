"""What was spent: an append-only value. Adding to a ledger gives a new one; the old one stays as it was."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, final

from privet.adjacency import Adjacency, adjacency_from_name
from privet.arguments import shown
from privet.caveats import Caveat
from privet.documents import from_plain, only, opened, to_plain
from privet.errors import InvalidArgument, Unreadable
from privet.events import Compose, Event
from privet.filters import Filter, filter_from_plain, filter_to_plain

__all__ = ["Entry", "Ledger"]

FORMAT = "privet-ledger"
VERSION = 1


@final
@dataclass(frozen=True)
class Entry:
    """One labelled event."""

    label: str
    event: Event

    def __post_init__(self) -> None:
        if not isinstance(self.label, str):
            raise InvalidArgument(f"'label' must be text, got {shown(self.label)}. Say what was released.")
        if not isinstance(self.event, Event):
            raise InvalidArgument(
                f"'event' must be an event, got {type(self.event).__name__}. Describe what ran as an event."
            )


@final
@dataclass(frozen=True)
class Ledger:
    """Everything that was done to one dataset, under one adjacency.

    >>> from privet.adjacency import AddRemove
    >>> from privet.events import Gaussian
    >>> ledger = Ledger(AddRemove()).spend("a count", Gaussian(10.0)).spend("a sum", Gaussian(5.0))
    >>> [entry.label for entry in ledger]
    ['a count', 'a sum']

    ``filter`` is the rule that its budget is kept by, fixed before the first answer; None where it has no budget.
    """

    adjacency: Adjacency
    entries: tuple[Entry, ...] = ()
    caveats: frozenset[Caveat] = frozenset()
    filter: Filter | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.adjacency, Adjacency):
            raise InvalidArgument(
                f"'adjacency' must be an adjacency, got {shown(self.adjacency)}. "
                f"Use AddRemove(), ReplaceOne() or ZeroOut()."
            )
        if not isinstance(self.entries, tuple) or not all(isinstance(row, Entry) for row in self.entries):
            raise InvalidArgument(
                f"'entries' must be a tuple of entries, got {shown(self.entries)}. Add to a ledger with spend."
            )
        if not isinstance(self.caveats, frozenset) or not all(isinstance(c, Caveat) for c in self.caveats):
            raise InvalidArgument(
                f"'caveats' must be a frozenset of caveats, got {shown(self.caveats)}. "
                f"Write frozenset({{Caveat.SEEDED_NOISE}})."
            )
        if self.filter is not None and not isinstance(self.filter, Filter):
            raise InvalidArgument(
                f"'filter' must be a filter or None, got {shown(self.filter)}. Use one of privet.filters."
            )

    def spend(self, label: str, event: Event, *, caveats: frozenset[Caveat] = frozenset()) -> "Ledger":
        """A ledger with one entry more."""
        return replace(self, entries=(*self.entries, Entry(label, event)), caveats=self.caveats | caveats)

    def __add__(self, other: "Ledger") -> "Ledger":
        """Both ledgers' entries; they must speak of the same neighbours. A filter of one says nothing of both."""
        if not isinstance(other, Ledger):
            return NotImplemented
        if self.adjacency != other.adjacency:
            raise InvalidArgument(
                f"Ledgers can be added under one adjacency only, got {self.adjacency} and "
                f"{other.adjacency}. Account for both under the same one."
            )
        return Ledger(self.adjacency, self.entries + other.entries, self.caveats | other.caveats)

    def __iter__(self) -> Iterator[Entry]:
        return iter(self.entries)

    def __len__(self) -> int:
        return len(self.entries)

    @property
    def event(self) -> Event:
        """All entries as one event."""
        return Compose(tuple(entry.event for entry in self.entries))

    def to_json(self) -> str:
        """The ledger as a document that ``from_json`` reads back, with the same ε."""
        document: dict[str, Any] = {
            "format": FORMAT,
            "version": VERSION,
            "adjacency": self.adjacency.relation,
            "unit": str(self.adjacency.unit),
            "caveats": sorted(caveat.code for caveat in self.caveats),
            "entries": [{"label": entry.label, "event": to_plain(entry.event)} for entry in self.entries],
        }
        if self.filter is not None:
            document["filter"] = filter_to_plain(self.filter)
        return json.dumps(document, indent=2)

    @staticmethod
    def from_json(text: str) -> "Ledger":
        """The ledger of a document."""
        document = opened(text, FORMAT, VERSION)
        only(document, "A ledger", ("format", "version", "adjacency", "unit", "caveats", "entries", "filter"))
        rows, codes = document.get("entries"), document.get("caveats", [])
        if not isinstance(rows, list) or not isinstance(codes, list):
            raise Unreadable(
                "A ledger must have a list of 'entries' and a list of 'caveats'. Check the file."
            )
        for code in codes:
            if not isinstance(code, str) or code not in Caveat.__members__:
                raise Unreadable(
                    f"'caveats' must hold codes that this version knows, got {shown(code)}. "
                    f"Read the document with the version of Privet that wrote it."
                )
        return Ledger(
            adjacency_from_name(str(document.get("adjacency")), str(document.get("unit"))),
            tuple(_entry(row) for row in rows),
            frozenset(Caveat[code] for code in codes),
            filter_from_plain(document["filter"]) if "filter" in document else None,
        )


def _entry(row: object) -> Entry:
    if not isinstance(row, dict) or not isinstance(row.get("label"), str):
        raise Unreadable("An entry must be an object with a 'label' and an 'event'. Check the file.")
    only(row, "An entry", ("label", "event"))
    return Entry(row["label"], from_plain(row.get("event")))
