"""What stewards do: datasets, accounts, grants and caps. Each act is one transaction and one link of the
chain.

A cap is fixed before the first answer. One that comes or changes later is proved for questions that were
fixed beforehand only; the evidence says so (``LATE_BUDGET``).
"""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, final

from sqlalchemy import Connection, insert, select, update
from sqlalchemy.exc import IntegrityError

from privet.adjacency import Adjacency, adjacency_from_name
from privet.curator.principals import Principal, Role
from privet.curator.refresh import RefreshPolicy
from privet.curator.refusals import CuratorUnavailable
from privet.curator.service import Scope
from privet.curator.storage import tables
from privet.curator.storage.accounts import AccountCard, find_account, find_account_by_number, list_accounts
from privet.curator.storage.cap_changes import add_budget, change_budget_row, count_charges
from privet.curator.storage.caps import SCOPES
from privet.curator.storage.chain import ChainLink, add_link, read_head, time_now
from privet.curator.storage.contents import add_content, add_lineage, find_content, refresh_content
from privet.curator.storage.database import CommitUnknown, Database
from privet.curator.storage.heads import HeadExport
from privet.curator.storage.lookups import (
    find_budget_row,
    find_dataset_row,
    require_account,
    require_dataset,
    require_declared,
    require_group,
)
from privet.errors import InvalidArgument
from privet.lineage import Head, canonical
from privet.releasing.budget import Budget

__all__ = ["Stewardship"]

_LONGEST_NAME = 200
_LONGEST_EVENT = 4096


@final
class Stewardship:
    """Acts on the database of a curator, while it runs or not. ``by`` is the name of who acts."""

    def __init__(self, database: Database, heads: HeadExport, *, by: str = "command line") -> None:
        self._database = database
        self._heads = heads
        self._by = by

    def add_dataset(
        self,
        name: str,
        *,
        fingerprint: str,
        adjacency: Adjacency,
        cap: Budget,
        unit_column: str | None = None,
        refresh: RefreshPolicy = RefreshPolicy.FROZEN,
    ) -> None:
        """A dataset with its cap, the true one. Content that is known keeps the budget that it has."""
        _check_name(name)
        with self._act(ChainLink.DATASET) as (connection, body):
            if find_dataset_row(connection, name) is not None:
                raise InvalidArgument(f"There is a dataset {name!r} already. Choose another name.")
            known = find_content(connection, fingerprint)
            if known is None:
                lineage, identity = add_lineage(
                    connection, adjacency=adjacency, unit_column=unit_column, refresh=refresh
                )
                content = add_content(connection, lineage, fingerprint)
                budgets = [add_budget(connection, lineage, Scope.DATASET, 0, cap)]
            else:
                lineage, identity, content = known.lineage_id, known.identity, known.content_id
                require_declared(connection, known, adjacency, unit_column, refresh, cap, name=name)
                budgets = []
            connection.execute(
                insert(tables.datasets).values(name=name, lineage_id=lineage, content_id=content)
            )
            body |= {
                "dataset": name,
                "lineage": identity,
                "content": content,
                "relation": adjacency.relation,
                "unit": str(adjacency.unit),
                "unit_column": unit_column,
                "refresh": str(refresh),
                "budgets": budgets,
            }

    def declare_dataset(
        self,
        name: str,
        *,
        fingerprint: str,
        adjacency: Adjacency,
        cap: Budget,
        unit_column: str | None = None,
        refresh: RefreshPolicy = RefreshPolicy.FROZEN,
    ) -> None:
        """Add the dataset if it is not there; else require that it is as declared, and refresh it."""
        with self._database.read() as connection:
            row = find_dataset_row(connection, name)
            if row is not None:
                require_declared(connection, row, adjacency, unit_column, refresh, cap)
        if row is not None:
            self.refresh_dataset(name, fingerprint=fingerprint)
            return
        self.add_dataset(
            name,
            fingerprint=fingerprint,
            adjacency=adjacency,
            cap=cap,
            unit_column=unit_column,
            refresh=refresh,
        )

    def refresh_dataset(self, name: str, *, fingerprint: str) -> None:
        """Tell what the data of a dataset are now; refused where its policy does not allow other content."""
        head = None
        with self._confirm_write() as connection:
            _, head = refresh_content(connection, name, fingerprint)
        self._heads.write(head)

    def renew_dataset(self, name: str, *, fingerprint: str, cap: Budget, reason: str) -> None:
        """Other people under an old name: a new lineage with a fresh budget. Nobody may be in both.

        The caps of groups and analysts are carried over, with nothing spent. Records and charges of the
        earlier lineage stay.
        """
        _check_reason(reason)
        with self._act(ChainLink.REFRESH) as (connection, body):
            row = require_dataset(connection, name, lock=True)
            if find_content(connection, fingerprint) is not None:
                raise InvalidArgument(
                    f"The content given for {name!r} has a budget already, which goes with it. Give the new "
                    f"data."
                )
            lineage, identity = add_lineage(
                connection,
                adjacency=adjacency_from_name(row.relation, row.unit),
                unit_column=row.unit_column,
                refresh=RefreshPolicy(row.refresh),
            )
            content = add_content(connection, lineage, fingerprint)
            budgets = [add_budget(connection, lineage, Scope.DATASET, 0, cap)]
            old = select(tables.budgets).where(
                tables.budgets.c.lineage_id == row.lineage_id, tables.budgets.c.rank > 0
            )
            for kept in connection.execute(old).all():
                same = Budget(epsilon=kept.epsilon, delta=kept.delta)
                budgets.append(add_budget(connection, lineage, SCOPES[kept.rank], kept.subject, same))
            connection.execute(
                update(tables.datasets)
                .where(tables.datasets.c.id == row.id)
                .values(lineage_id=lineage, content_id=content)
            )
            body |= {
                "dataset": name,
                "lineage": identity,
                "relation": row.relation,
                "unit": row.unit,
                "content": content,
                "reason": reason,
                "budgets": budgets,
            }

    def add_group(self, name: str) -> None:
        """A group of analysts who are assumed to share what they learn."""
        _check_name(name)
        with self._act(ChainLink.GROUP) as (connection, body):
            connection.execute(insert(tables.groups).values(name=name))
            body["group"] = name

    def add_account(self, name: str, role: Role, *, group: str | None = None) -> Principal:
        """A new account."""
        _check_name(name)
        with self._act(ChainLink.ACCOUNT) as (connection, body):
            number = None if group is None else require_group(connection, group)
            inserted = connection.execute(
                insert(tables.accounts).values(name=name, role=str(role), group_id=number)
            )
            (account,) = inserted.inserted_primary_key or (0,)
            body |= {"account": name, "role": str(role), "group": group}
        return Principal(account=int(account), name=name, role=role)

    def add_analyst(self, name: str, *, group: str | None = None) -> Principal:
        """A new account of an analyst."""
        return self.add_account(name, Role.ANALYST, group=group)

    def close_account(self, name: str) -> None:
        """Nobody may use this account any more; its records stay."""
        with self._act(ChainLink.ACCOUNT) as (connection, body):
            number = require_account(connection, name).account
            connection.execute(
                update(tables.accounts).where(tables.accounts.c.id == number).values(closed=True)
            )
            body |= {"account": name, "closed": True}

    def grant(self, analyst: str, dataset: str, *, cap: Budget | None = None) -> None:
        """Let an analyst ask a dataset, within a cap of their own or those of the dataset and group alone."""
        with self._act(ChainLink.GRANT) as (connection, body):
            row = require_dataset(connection, dataset, lock=True)
            account = require_account(connection, analyst).account
            connection.execute(insert(tables.grants).values(dataset_id=row.id, account_id=account))
            budgets = []
            there = find_budget_row(connection, row.lineage_id, Scope.ANALYST, account)
            if (
                cap is not None
                and there is not None
                and (there.epsilon, there.delta) != (cap.epsilon, cap.delta)
            ):
                raise InvalidArgument(
                    f"{analyst!r} has the cap ε = {there.epsilon:g} at δ = {there.delta:g} for these data, "
                    f"by this name or another, and not the one that is given. Change that cap, with a reason."
                )
            if cap is not None and there is None:
                budgets.append(add_budget(connection, row.lineage_id, Scope.ANALYST, account, cap))
            body |= {"analyst": analyst, "dataset": dataset, "lineage": row.lineage, "budgets": budgets}

    def cap_group(self, group: str, dataset: str, *, cap: Budget) -> None:
        """A cap for all analysts of a group together."""
        with self._act(ChainLink.BUDGET) as (connection, body):
            row = require_dataset(connection, dataset, lock=True)
            budget = add_budget(
                connection, row.lineage_id, Scope.GROUP, require_group(connection, group), cap
            )
            body |= {"group": group, "dataset": dataset, "lineage": row.lineage, "budgets": [budget]}

    def change_cap(
        self, dataset: str, *, cap: Budget, reason: str, group: str | None = None, analyst: str | None = None
    ) -> None:
        """Another cap for the dataset, or for a group or an analyst in it. What was spent must fit."""
        _check_reason(reason)
        if group is not None and analyst is not None:
            raise InvalidArgument(
                "Either 'group' or 'analyst' may be given, got both. Change one cap at a time."
            )
        with self._act(ChainLink.CAP) as (connection, body):
            row = require_dataset(connection, dataset, lock=True)
            scope, subject = Scope.DATASET, 0
            if group is not None:
                scope, subject = Scope.GROUP, require_group(connection, group)
            if analyst is not None:
                scope, subject = Scope.ANALYST, require_account(connection, analyst).account
            before = find_budget_row(connection, row.lineage_id, scope, subject, lock=True)
            if before is None:
                raise InvalidArgument(
                    f"There is no such cap of {dataset!r} to change. Give one with grant or cap_group."
                )
            body |= {
                "dataset": dataset,
                "budget": change_budget_row(connection, before, row, cap),
                "before": json.loads(before.rule),
                "place": count_charges(connection, before.id),
                "reason": reason,
            }

    def accept_head(self, *, reason: str) -> None:
        """Say that the present state counts, although its exported head is behind or elsewhere.

        What a lost history had spent is forgotten here, and remembered by people. Lower the caps by it first.
        """
        _check_reason(reason)
        lost = self._heads.last()
        with self._act(ChainLink.RESUME, force=True) as (_, body):
            body |= {"exported": None if lost is None else str(lost), "reason": reason}

    def append_audit_event(self, who: str, kind: str, fields: Mapping[str, Any]) -> None:
        """Bind an event of the gateway (a login that was refused, a key that was made) to the chain.

        No secret and nothing private may be in it: the chain is evidence.
        """
        if len(canonical(dict(fields))) > _LONGEST_EVENT:
            raise InvalidArgument(
                f"An event must have at most {_LONGEST_EVENT} characters. Leave out what is long."
            )
        with self._act(ChainLink.AUDIT) as (_, body):
            body |= {"who": who, "event": kind, "fields": dict(fields)}

    def find_account(self, name: str) -> Principal | None:
        """The open account of this name."""
        with self._database.read() as connection:
            return find_account(connection, name)

    def find_account_by_number(self, number: int) -> Principal | None:
        """The open account of this number."""
        with self._database.read() as connection:
            return find_account_by_number(connection, number)

    def list_accounts(self) -> tuple[AccountCard, ...]:
        """All accounts by name."""
        with self._database.read() as connection:
            return list_accounts(connection)

    @contextmanager
    def _confirm_write(self) -> Iterator[Connection]:
        try:
            with self._database.write() as connection:
                yield connection
        except CommitUnknown:
            raise CuratorUnavailable(
                "The database did not confirm the change, which may be there. Look, and try again if it is "
                "not."
            ) from None
        except IntegrityError:
            raise InvalidArgument(
                "That is there already. Choose another name, or change what is there."
            ) from None

    @contextmanager
    def _act(self, kind: ChainLink, *, force: bool = False) -> Iterator[tuple[Connection, dict[str, Any]]]:
        """One transaction that ends with one link."""
        body: dict[str, Any] = {"by": self._by}
        head: Head | None = None
        with self._confirm_write() as connection:
            yield connection, body
            body["time"] = time_now()
            head = add_link(connection, read_head(connection, lock=True), kind, body)
        assert head is not None
        if force:
            self._heads.replace(head)
        else:
            self._heads.write(head)


def _check_name(name: str) -> None:
    if not isinstance(name, str) or not 1 <= len(name.strip()) <= _LONGEST_NAME or not name.isprintable():
        raise InvalidArgument(
            f"'name' must be printable text of at most {_LONGEST_NAME} characters, and is not. Choose a "
            f"short name."
        )


def _check_reason(reason: str) -> None:
    if not isinstance(reason, str) or not reason.strip():
        raise InvalidArgument("'reason' must be text, and is not. Say why: it stands in the chain.")
