"""Rows by the names that stewards use; one sentence where there is none."""

from sqlalchemy import Connection, select

from privet.adjacency import Adjacency, adjacency_from_name
from privet.curator.principals import Principal
from privet.curator.refresh import RefreshPolicy
from privet.curator.service import Scope
from privet.curator.storage import tables
from privet.curator.storage.accounts import find_account
from privet.curator.storage.caps import SCOPES
from privet.curator.storage.tables import AnyRow
from privet.errors import InvalidArgument
from privet.releasing.budget import Budget

__all__ = [
    "find_budget_row",
    "find_dataset_row",
    "require_account",
    "require_dataset",
    "require_declared",
    "require_group",
]

_DATASETS = (
    select(
        tables.datasets,
        tables.lineages.c.identity.label("lineage"),
        tables.lineages.c.relation,
        tables.lineages.c.unit,
        tables.lineages.c.unit_column,
        tables.lineages.c.refresh,
    )
).select_from(tables.datasets.join(tables.lineages, tables.datasets.c.lineage_id == tables.lineages.c.id))


def find_dataset_row(connection: Connection, name: str, *, lock: bool = False) -> AnyRow | None:
    """A dataset with its lineage, if it is there."""
    query = _DATASETS.where(tables.datasets.c.name == name)
    return connection.execute(query.with_for_update(of=tables.datasets) if lock else query).one_or_none()


def require_dataset(connection: Connection, name: str, *, lock: bool = False) -> AnyRow:
    """A dataset with its lineage."""
    row = find_dataset_row(connection, name, lock=lock)
    if row is None:
        raise InvalidArgument(f"There is no dataset {name!r}. Add it first.")
    return row


def require_group(connection: Connection, name: str) -> int:
    """The number of a group."""
    number = connection.execute(select(tables.groups.c.id).where(tables.groups.c.name == name)).scalar()
    if number is None:
        raise InvalidArgument(f"There is no group {name!r}. Add it first.")
    return int(number)


def require_account(connection: Connection, name: str) -> Principal:
    """An open account."""
    found = find_account(connection, name)
    if found is None:
        raise InvalidArgument(f"There is no open account {name!r}. Add it first.")
    return found


def find_budget_row(
    connection: Connection, lineage: int, scope: Scope, subject: int, *, lock: bool = False
) -> AnyRow | None:
    """The row of a cap, if there is one."""
    query = select(tables.budgets).where(
        tables.budgets.c.lineage_id == lineage,
        tables.budgets.c.rank == SCOPES.index(scope),
        tables.budgets.c.subject == subject,
    )
    return connection.execute(query.with_for_update() if lock else query).one_or_none()


def require_declared(
    connection: Connection,
    row: AnyRow,
    adjacency: Adjacency,
    unit_column: str | None,
    refresh: RefreshPolicy,
    cap: Budget,
    *,
    name: str | None = None,
) -> None:
    """Refuse a dataset, or content, whose budget is another one than is declared."""
    there = (adjacency_from_name(row.relation, row.unit), row.unit_column, RefreshPolicy(row.refresh))
    whose = repr(row.name if name is None else name)
    if there != (adjacency, unit_column, refresh):
        raise InvalidArgument(
            f"The data of {whose} have a budget for {there[0]}, unit column {there[1]!r}, refresh "
            f"'{there[2]}', and "
            "something else is declared. Declare the same: a budget goes with its data."
        )
    budget = find_budget_row(connection, row.lineage_id, Scope.DATASET, 0)
    assert budget is not None
    if (budget.epsilon, budget.delta) != (cap.epsilon, cap.delta):
        raise InvalidArgument(
            f"The data of {whose} have the cap ε = {budget.epsilon:g} at δ = {budget.delta:g}, and ε = "
            f"{cap.epsilon:g} at δ = {cap.delta:g} is declared. Declare the same, or change the cap with a "
            f"reason."
        )
