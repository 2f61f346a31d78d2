"""New caps and changed ones, as stewards decide, and as the chain has them."""

import json
from typing import Any

from sqlalchemy import Connection, func, select, update

from privet.adjacency import adjacency_from_name
from privet.curator.service import Scope
from privet.curator.storage import tables
from privet.curator.storage.caps import SCOPES, add_cap
from privet.curator.storage.rules import caps_of, fix_filter, price
from privet.curator.storage.tables import AnyRow
from privet.documents import from_plain
from privet.errors import BudgetExceeded
from privet.filters import filter_to_plain
from privet.lineage import canonical
from privet.releasing.budget import Budget

__all__ = ["add_budget", "change_budget_row", "count_charges"]


def add_budget(
    connection: Connection, lineage: int, scope: Scope, subject: int, cap: Budget
) -> dict[str, Any]:
    """A new cap, as the chain has it."""
    rule = fix_filter(cap)
    number = add_cap(connection, lineage=lineage, scope=scope, subject=subject, rule=rule)
    return {"id": number, "scope": str(scope), "rule": filter_to_plain(rule)}


def change_budget_row(connection: Connection, before: AnyRow, dataset: AnyRow, cap: Budget) -> dict[str, Any]:
    """The row under another filter; all that was charged to it is priced anew."""
    rule, adjacency = fix_filter(cap), adjacency_from_name(dataset.relation, dataset.unit)
    query = (
        select(tables.records.c.entries)
        .join(tables.charges, tables.charges.c.record_id == tables.records.c.id)
        .where(tables.charges.c.budget_id == before.id)
    )
    charged = connection.execute(query).scalars().all()
    events = [from_plain(entry["event"]) for entries in charged for entry in json.loads(entries)]
    spent, caps = price(rule, events, adjacency), caps_of(rule)
    if not caps.permits(spent):
        raise BudgetExceeded(
            f"What was spent is above the cap ε = {cap.epsilon:g} at δ = {cap.delta:g}; nothing was changed. "
            "Give a larger cap: what was answered cannot be taken back."
        )
    connection.execute(
        update(tables.budgets)
        .where(tables.budgets.c.id == before.id)
        .values(
            epsilon=cap.epsilon,
            delta=cap.delta,
            rule=canonical(filter_to_plain(rule)),
            late=before.late or bool(charged),
            measure=spent.measure,
            claimed=spent.claimed,
            largest=spent.largest,
            measure_cap=caps.measure,
            claimed_cap=caps.claimed,
            largest_cap=caps.largest,
        )
    )
    return {"id": before.id, "scope": str(SCOPES[before.rank]), "rule": filter_to_plain(rule)}


def count_charges(connection: Connection, budget: int) -> int:
    """How many charges a budget has."""
    query = select(func.count()).select_from(tables.charges).where(tables.charges.c.budget_id == budget)
    return int(connection.execute(query).scalar_one())
