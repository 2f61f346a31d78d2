"""The rows of budgets: read, locked in one order, charged, and shown."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

from sqlalchemy import Connection, and_, bindparam, insert, or_, select, update

from privet.adjacency import Adjacency
from privet.curator.service import BudgetState, Scope
from privet.curator.storage import tables
from privet.curator.storage.rules import caps_of, price, reached_epsilon, remaining_epsilon
from privet.curator.storage.tables import AnyRow
from privet.curator.storage.units import NO_COST, WholeCaps, WholeCost
from privet.errors import BudgetExceeded, NotProved, OutOfReach
from privet.events import Event
from privet.filters import Filter, filter_from_plain, filter_to_plain
from privet.lineage import canonical

__all__ = [
    "SCOPES",
    "Cap",
    "add_cap",
    "binding_caps",
    "charge_cap",
    "check_caps",
    "list_caps",
    "rule_from_text",
]

SCOPES = (Scope.DATASET, Scope.GROUP, Scope.ANALYST)  # by rank, which is the order of locks


@final
@dataclass(frozen=True, kw_only=True)
class Cap:
    """One cap as it stands in the database, with the name of whom it is for."""

    id: int
    scope: Scope
    name: str
    rule: Filter
    caps: WholeCaps
    spent: WholeCost
    late: bool

    def price(self, events: Sequence[Event], adjacency: Adjacency) -> WholeCost:
        """What these events cost under this cap's filter; refused where no theorem says."""
        try:
            return price(self.rule, events, adjacency)
        except (NotProved, OutOfReach) as unknown:
            raise BudgetExceeded(
                f"What this question costs under the cap of the {self.scope} {self.name!r} is not proved: "
                f"{unknown} "
                "Nothing was spent."
            ) from unknown

    def state(self, more: WholeCost = NO_COST) -> BudgetState:
        """How far the cap is used, after ``more``."""
        spent = self.spent + more
        return BudgetState(
            scope=self.scope,
            name=self.name,
            epsilon=self.rule.epsilon,
            delta=self.rule.delta,
            reached=reached_epsilon(self.rule, spent),
            remaining=remaining_epsilon(self.rule, spent),
            filter_name=self.rule.name,
        )


def rule_from_text(text: str) -> Filter:
    """The filter of a row."""
    import json

    return filter_from_plain(json.loads(text))


_QUERY = (
    select(
        tables.budgets,
        tables.groups.c.name.label("group_name"),
        tables.accounts.c.name.label("account_name"),
    )
    .select_from(
        tables.budgets.outerjoin(
            tables.groups, and_(tables.budgets.c.rank == 1, tables.budgets.c.subject == tables.groups.c.id)
        ).outerjoin(
            tables.accounts,
            and_(tables.budgets.c.rank == 2, tables.budgets.c.subject == tables.accounts.c.id),
        )
    )
    .order_by(tables.budgets.c.rank, tables.budgets.c.id)
)


_BINDS = _QUERY.where(
    tables.budgets.c.lineage_id == bindparam("lineage"),
    or_(
        tables.budgets.c.rank == 0,
        and_(tables.budgets.c.rank == 1, tables.budgets.c.subject == bindparam("group")),
        and_(tables.budgets.c.rank == 2, tables.budgets.c.subject == bindparam("account")),
    ),
)
_BINDING = (_BINDS, _BINDS.with_for_update(of=tables.budgets))  # without a lock, and with it
_CHARGE = (
    update(tables.budgets)
    .where(tables.budgets.c.id == bindparam("number"))
    .values(
        measure=bindparam("new_measure"), claimed=bindparam("new_claimed"), largest=bindparam("new_largest")
    )
)


def binding_caps(
    connection: Connection, lineage: int, dataset: str, *, account: int, group: int | None, lock: bool = False
) -> tuple[Cap, ...]:
    """The caps that bind an account: dataset, group, analyst, in this order; ``lock`` keeps others out."""
    bound = {"lineage": lineage, "account": account, "group": 0 if group is None else group}
    rows = connection.execute(_BINDING[lock], bound).all()
    return tuple(_cap(row, dataset) for row in rows)


def list_caps(connection: Connection, lineage: int, dataset: str) -> tuple[Cap, ...]:
    """All caps of a lineage."""
    rows = connection.execute(_QUERY.where(tables.budgets.c.lineage_id == lineage)).all()
    return tuple(_cap(row, dataset) for row in rows)


def _cap(row: AnyRow, dataset: str) -> Cap:
    names = (dataset, row.group_name, row.account_name)
    return Cap(
        id=row.id,
        scope=SCOPES[row.rank],
        name=names[row.rank],
        rule=rule_from_text(row.rule),
        caps=WholeCaps(row.measure_cap, row.claimed_cap, row.largest_cap),
        spent=WholeCost(row.measure, row.claimed, row.largest),
        late=row.late,
    )


def check_caps(caps: Sequence[Cap], costs: Sequence[WholeCost]) -> None:
    """Refuse what a cap does not permit; the first one in order is named."""
    for cap, cost in zip(caps, costs, strict=True):
        after = cap.spent + cost
        if cap.caps.permits(after):
            continue
        whose = f"the cap of the {cap.scope} {cap.name!r}"
        if after.claimed > cap.caps.claimed:
            raise BudgetExceeded(
                f"Claims and thresholds for keys would use more δ than {whose} has for them, half of "
                f"δ = {cap.rule.delta:g}; nothing was spent. List the keys, or ask at a smaller δ."
            )
        left = cap.state().remaining
        fix = f"One answer of up to ε = {left:.4g} is left." if left > 0 else "Nothing is left."
        raise BudgetExceeded(
            f"This question would go beyond {whose}, ε = {cap.rule.epsilon:g} at δ = {cap.rule.delta:g} by "
            f"the "
            f"{cap.rule.name} filter; nothing was spent. Ask for less, or at a smaller ε. {fix}"
        )


def charge_cap(connection: Connection, cap: Cap, cost: WholeCost) -> None:
    """Write the new sums; the database checks them against the cap once more."""
    after = cap.spent + cost
    sums = {"new_measure": after.measure, "new_claimed": after.claimed, "new_largest": after.largest}
    connection.execute(_CHARGE, {"number": cap.id, **sums})


def add_cap(
    connection: Connection,
    *,
    lineage: int,
    scope: Scope,
    subject: int,
    rule: Filter,
    spent: WholeCost = NO_COST,
) -> int:
    """A new row; its number."""
    caps = caps_of(rule)
    inserted = connection.execute(
        insert(tables.budgets).values(
            lineage_id=lineage,
            rank=SCOPES.index(scope),
            subject=subject,
            epsilon=rule.epsilon,
            delta=rule.delta,
            rule=canonical(filter_to_plain(rule)),
            late=False,
            measure=spent.measure,
            claimed=spent.claimed,
            largest=spent.largest,
            measure_cap=caps.measure,
            claimed_cap=caps.claimed,
            largest_cap=caps.largest,
        )
    )
    (number,) = inserted.inserted_primary_key or (0,)
    return int(number)
