"""Who has an account, and which group it is in."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

from sqlalchemy import Connection, bindparam, select

from privet.curator.principals import Principal, Role
from privet.curator.storage import tables
from privet.curator.storage.tables import AnyRow

__all__ = ["AccountCard", "find_account", "find_account_by_number", "list_accounts", "read_account"]


@final
@dataclass(frozen=True, kw_only=True)
class AccountCard:
    """An account as a steward sees it."""

    principal: Principal
    group: str | None
    closed: bool


_ACCOUNTS = select(
    tables.accounts.c.id,
    tables.accounts.c.name,
    tables.accounts.c.role,
    tables.accounts.c.closed,
    tables.accounts.c.group_id,
    tables.groups.c.name.label("group_name"),
).select_from(tables.accounts.outerjoin(tables.groups))


_BY_NUMBER = _ACCOUNTS.where(tables.accounts.c.id == bindparam("number"))


def find_account(connection: Connection, name: str) -> Principal | None:
    """The account of this name; none where there is none, or it is closed."""
    row = connection.execute(_ACCOUNTS.where(tables.accounts.c.name == name)).one_or_none()
    return None if row is None or row.closed else _principal(row)


def find_account_by_number(connection: Connection, number: int) -> Principal | None:
    """The account of this number; none where there is none, or it is closed."""
    row = read_account(connection, number)
    return None if row is None or row.closed else _principal(row)


def list_accounts(connection: Connection) -> tuple[AccountCard, ...]:
    """All accounts by name, also those that are closed."""
    rows: Sequence[AnyRow] = connection.execute(_ACCOUNTS.order_by(tables.accounts.c.name)).all()
    return tuple(
        AccountCard(principal=_principal(row), group=row.group_name, closed=row.closed) for row in rows
    )


def read_account(connection: Connection, number: int) -> AnyRow | None:
    """The row of an account, with the name of its group."""
    return connection.execute(_BY_NUMBER, {"number": number}).one_or_none()


def _principal(row: AnyRow) -> Principal:
    return Principal(account=row.id, name=row.name, role=Role(row.role))
