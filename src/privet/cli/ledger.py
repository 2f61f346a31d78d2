"""``privet ledger``: show a ledger file and the state of its budget, and change that budget."""

import argparse
import math
from pathlib import Path

from privet.budget_changes import BudgetChange
from privet.cli.exit_codes import ExitCode
from privet.cli.output import CliAnswer, caveat_rows, caveat_text, facts, rounded_down, rounded_up, table
from privet.cli.release_budget import filter_document
from privet.cli.release_words import budget_from
from privet.errors import InvalidArgument, Unreadable
from privet.filters import Filter
from privet.ledger import Ledger
from privet.lineage import Head
from privet.releasing import filter_state
from privet.releasing.durable import DurableLedger, stored_ledger

__all__ = ["run"]


def run(arguments: argparse.Namespace) -> CliAnswer:
    """Show the ledger of a file. If asked, change its budget first."""
    path = Path(arguments.ledger)
    head = None if arguments.beyond is None else Head.from_text(arguments.beyond)
    ledger = _present(path)
    if arguments.change_budget is not None:
        if head is not None:
            raise InvalidArgument(
                "--beyond and --change-budget must be given apart, got both. Compare first, then change "
                "the budget."
            )
        ledger = _change_budget(path, ledger, arguments.change_budget, arguments.reason)
    elif arguments.reason is not None:
        raise InvalidArgument("--reason must be given with --change-budget, got it alone. Leave it out.")
    is_behind = head is not None and not ledger.is_beyond(head)
    return CliAnswer(
        _blocks(arguments.ledger, ledger, head, is_behind=is_behind),
        _document(arguments.ledger, ledger, head, is_behind=is_behind),
        ExitCode.BROKEN if is_behind else ExitCode.HELD,
    )


def _present(path: Path) -> Ledger:
    ledger = stored_ledger(path)
    if ledger is None:
        raise Unreadable(f"{str(path)!r} must be a ledger file, and there is none. Check the path.")
    return ledger


def _change_budget(path: Path, ledger: Ledger, words: str, reason: str | None) -> Ledger:
    if reason is None:
        raise InvalidArgument(
            "--reason must be given with --change-budget, because the ledger keeps it. Write --reason "
            "'second wave of the survey'."
        )
    budget = budget_from("--change-budget", words, 0.0 if ledger.filter is None else ledger.filter.delta)
    with DurableLedger(path=path, adjacency=ledger.adjacency, budget=None).open() as held:
        return held.change_budget(budget, reason=reason)


def _document(name: str, ledger: Ledger, head: Head | None, *, is_behind: bool) -> dict[str, object]:
    state = filter_state(ledger)
    return {
        "path": name,
        "id": ledger.identity,
        "head": None if ledger.head is None else str(ledger.head),
        "entries": len(ledger),
        "adjacency": ledger.adjacency.relation,
        "unit": str(ledger.adjacency.unit),
        "unit_column": ledger.unit_column,
        "filter": None if state is None else filter_document(state),
        "changes": [change.to_plain() for change in ledger.changes],
        "beyond": None if head is None else not is_behind,
        "caveats": caveat_rows(ledger.caveats),
    }


def _blocks(name: str, ledger: Ledger, head: Head | None, *, is_behind: bool) -> list[str]:
    state = filter_state(ledger)
    rows = [("entries", f"{len(ledger):,}"), ("adjacency", str(ledger.adjacency))]
    if ledger.unit_column is not None:
        rows.append(("privacy unit", f"whom the column {ledger.unit_column!r} names"))
    if state is None:
        rows.append(("budget", "none"))
    else:
        reached = rounded_up(state.reached) if math.isfinite(state.reached) else "∞"
        rows += [
            ("budget", f"{_limit(state.filter)}, kept by a filter ({state.filter.name})"),
            ("reached", f"ε = {reached}; one answer of up to ε = {rounded_down(state.remaining)} is left"),
        ]
    if ledger.head is None:
        rows.append(("head", "none: an earlier version wrote it; the next spend gives it one"))
    else:
        rows.append(("head", str(ledger.head)))
    blocks = [
        f"{name} is a ledger of {len(ledger):,} {'entry' if len(ledger) == 1 else 'entries'}.",
        facts(rows),
    ]
    if ledger.changes:
        blocks.append(
            table(
                ("after entry", "budget before", "budget after", "when", "why"),
                [_row(change) for change in ledger.changes],
            )
        )
    if is_behind:
        blocks.insert(
            0,
            "It is BEHIND the head that was given, or is another ledger: what was spent is not known. "
            "Restore the newest file before anything more is answered.",
        )
    elif head is not None:
        blocks.insert(0, "It is at the head that was given, or beyond.")
    return [*blocks, *caveat_text(ledger.caveats)]


def _row(change: BudgetChange) -> tuple[str, ...]:
    before = "none" if change.before is None else _limit(change.before)
    return str(change.place), before, _limit(change.after), change.time, change.reason


def _limit(rule: Filter) -> str:
    return f"ε = {rule.epsilon:g} at δ = {rule.delta:g}"
