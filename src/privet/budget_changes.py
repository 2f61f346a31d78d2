"""A record in the ledger that its budget was set or changed after answers had been given.

A budget is given once, with the first answer. A person who raises it later has seen answers, and no filter is
valid for that. So a change is a command of its own, with its reason, and the ledger carries the caveat
``LATE_BUDGET`` from then on.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, final

from privet.arguments import format_value, whole
from privet.errors import InvalidArgument, Unreadable
from privet.filters import Filter, filter_from_plain, filter_to_plain
from privet.lineage import canonical

__all__ = ["BudgetChange"]


@final
@dataclass(frozen=True, kw_only=True)
class BudgetChange:
    """A change of a ledger's budget after answers had been given: when, and why.

    ``place`` is how many entries there were. ``before`` is None where there was no budget. ``time`` is in
    UTC, as ISO 8601.
    """

    place: int
    before: Filter | None
    after: Filter
    reason: str
    time: str

    def __post_init__(self) -> None:
        whole("place", self.place, least=0)
        for name, rule in (("before", self.before), ("after", self.after)):
            if not isinstance(rule, Filter) and (name == "after" or rule is not None):
                raise InvalidArgument(
                    f"'{name}' must be a filter, got {format_value(rule)}. Use one of privet.filters."
                )
        for name, text in (("reason", self.reason), ("time", self.time)):
            if not isinstance(text, str) or not text.strip():
                raise InvalidArgument(
                    f"'{name}' must be text, got {format_value(text)}. Say why and when the budget was "
                    "changed."
                )

    @cached_property
    def text(self) -> str:
        """The change as a link of a chain."""
        return canonical(self.to_plain())

    def to_plain(self) -> dict[str, Any]:
        """The change as JSON can hold it."""
        return {
            "place": self.place,
            "before": None if self.before is None else filter_to_plain(self.before),
            "after": filter_to_plain(self.after),
            "reason": self.reason,
            "time": self.time,
        }

    @staticmethod
    def from_plain(node: object) -> "BudgetChange":
        """The change that ``to_plain`` wrote."""
        names = ("place", "before", "after", "reason", "time")
        if not isinstance(node, dict) or set(node) != set(names):
            raise Unreadable(
                f"A change of a budget must be an object with {', '.join(names)}. Restore the file."
            )
        before = node["before"]
        try:
            return BudgetChange(
                place=node["place"],
                before=None if before is None else filter_from_plain(before),
                after=filter_from_plain(node["after"]),
                reason=node["reason"],
                time=node["time"],
            )
        except InvalidArgument as wrong:
            raise Unreadable(f"A change of a budget is not one: {wrong} Restore the file.") from wrong
