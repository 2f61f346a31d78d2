"""What a steward or an auditor takes away: the ledger of a dataset's people, its caps, and the head of the
chain.
"""

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from sqlalchemy import Connection, select

from privet.accounting import account
from privet.adjacency import adjacency_from_name
from privet.budget_changes import BudgetChange
from privet.caveats import Caveat
from privet.curator.service import BudgetState
from privet.curator.storage import tables
from privet.curator.storage.caps import Cap, list_caps
from privet.curator.storage.chain import ChainLink, read_head
from privet.curator.storage.registry_entry import write_registry_entry
from privet.curator.storage.rules import proved_epsilon
from privet.curator.storage.tables import AnyRow
from privet.documents import from_plain
from privet.errors import NotProved, OutOfReach
from privet.filters import filter_from_plain
from privet.ledger import Entry, Ledger

__all__ = ["collect_evidence", "read_ledger"]

_VERSION = 1


def collect_evidence(connection: Connection, dataset: AnyRow) -> dict[str, Any]:
    """The evidence about the lineage of a dataset, as JSON can hold it.

    ``certified`` is proved for analysts who choose as they go: the (ε, δ) of the cap's filter, of which
    ``reached`` is used. ``if_fixed_beforehand`` is the smaller ε that an accountant proves for the same
    ledger if no question had depended on an answer; None where it proves none.
    """
    caps = list_caps(connection, dataset.lineage_id, dataset.name)
    ledger = read_ledger(connection, dataset, caps[0])
    state = caps[0].state()
    names = select(tables.datasets.c.name).where(tables.datasets.c.lineage_id == dataset.lineage_id)
    certified = {
        "epsilon": proved_epsilon(caps[0].rule),
        "delta": state.delta,
        "filter": state.filter_name,
        "reached": state.reached,
        "if_fixed_beforehand": _fixed_epsilon(ledger, state.delta),
        "caveats": sorted(caveat.sentence for caveat in ledger.caveats),
    }
    return {
        "format": "privet-curator-evidence",
        "version": _VERSION,
        "dataset": dataset.name,
        "datasets_of_these_people": sorted(connection.execute(names).scalars().all()),
        "lineage": dataset.lineage,
        "head": str(read_head(connection)),
        "certified": certified,
        "caps": [{**_plain_state(cap.state()), "late": cap.late} for cap in caps],
        "questions": len(ledger.entries),
        "ledger": json.loads(ledger.to_json()),
        "registry_entry": write_registry_entry(dataset.name, ledger, state),
    }


def read_ledger(connection: Connection, dataset: AnyRow, cap: Cap) -> Ledger:
    """Everything that was charged to the people of a dataset, in order, as a ledger of Privet."""
    rows: Sequence[AnyRow] = connection.execute(
        select(tables.records.c.position, tables.records.c.entries, tables.records.c.caveats)
        .join(tables.charges, tables.charges.c.record_id == tables.records.c.id)
        .where(tables.charges.c.budget_id == cap.id)
        .order_by(tables.records.c.position)
    ).all()
    entries = [
        (row.position, Entry(entry["label"], from_plain(entry["event"])))
        for row in rows
        for entry in json.loads(row.entries)
    ]
    caveats = {Caveat[code] for row in rows for code in json.loads(row.caveats)}
    changes = _read_changes(connection, cap.id, [position for position, _ in entries])
    return Ledger(
        adjacency_from_name(dataset.relation, dataset.unit),
        tuple(entry for _, entry in entries),
        frozenset(caveats | ({Caveat.LATE_BUDGET} if cap.late else set())),
        cap.rule,
        dataset.unit_column,
        changes,
        dataset.lineage,
    )


def _read_changes(connection: Connection, budget: int, positions: Sequence[int]) -> tuple[BudgetChange, ...]:
    """The changes of a cap after an answer was given, from the chain."""
    query = select(tables.chain.c.position, tables.chain.c.body).where(tables.chain.c.kind == ChainLink.CAP)
    changes = []
    for row in connection.execute(query.order_by(tables.chain.c.position)).all():
        body = json.loads(row.body)
        place = sum(position < row.position for position in positions)
        if body["budget"]["id"] == budget and place > 0:
            changes.append(
                BudgetChange(
                    place=place,
                    before=filter_from_plain(body["before"]),
                    after=filter_from_plain(body["budget"]["rule"]),
                    reason=body["reason"],
                    time=body["time"],
                )
            )
    return tuple(changes)


def _fixed_epsilon(ledger: Ledger, delta: float) -> float | None:
    fixed = replace(ledger, filter=None, changes=())
    try:
        return account(fixed).epsilon(delta=delta) if ledger.entries else 0.0
    except (NotProved, OutOfReach):
        return None


def _plain_state(state: BudgetState) -> dict[str, Any]:
    return {
        "scope": str(state.scope),
        "name": state.name,
        "epsilon": state.epsilon,
        "delta": state.delta,
        "reached": state.reached,
        "remaining": state.remaining,
        "filter": state.filter_name,
    }
