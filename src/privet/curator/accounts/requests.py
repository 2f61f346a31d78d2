"""Requests for more budget: an analyst asks with a reason, a steward decides. Granting itself is the
ledger's.
"""

import math
import secrets
import time
from dataclasses import dataclass
from typing import final

from sqlalchemy import Engine, func, select, update

from privet.curator.accounts.tables import budget_requests
from privet.curator.principals import Principal
from privet.errors import InvalidArgument

__all__ = ["BudgetRequest", "BudgetRequests"]

_LONGEST, _MOST_OPEN = 1000, 5


@final
@dataclass(frozen=True, kw_only=True)
class BudgetRequest:
    """What was asked for, and what was decided. ``epsilon`` is the analyst's cap that is asked for."""

    id: str
    account: int
    analyst: str
    dataset: str
    epsilon: float
    reason: str
    asked_at: int
    decided_at: int | None
    decided_by: str | None
    granted: bool | None


@final
class BudgetRequests:
    """The requests of all analysts."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def add(self, who: Principal, dataset: str, *, epsilon: float, reason: str) -> BudgetRequest:
        """Write down a request."""
        if not (math.isfinite(epsilon) and 0 < epsilon <= 1000):
            raise InvalidArgument(f"'epsilon' must be above 0 and at most 1000, got {epsilon}. Write 2, say.")
        words = " ".join(reason.split())
        if not 1 <= len(words) <= _LONGEST:
            raise InvalidArgument(
                f"'reason' must have 1 to {_LONGEST} characters, got {len(words)}. Say what it is for."
            )
        with self._engine.begin() as connection:
            waiting = connection.execute(
                select(func.count())
                .select_from(budget_requests)
                .where(budget_requests.c.account == who.account, budget_requests.c.decided_at.is_(None))
            ).scalar_one()
            if waiting >= _MOST_OPEN:
                raise InvalidArgument(
                    f"At most {_MOST_OPEN} requests may wait for a decision, and {waiting} do. Wait for one."
                )
            request = BudgetRequest(
                id=secrets.token_hex(8),
                account=who.account,
                analyst=who.name,
                dataset=dataset,
                epsilon=epsilon,
                reason=words,
                asked_at=int(time.time()),
                decided_at=None,
                decided_by=None,
                granted=None,
            )
            connection.execute(budget_requests.insert().values(**_fields(request)))
        return request

    def list_requests(
        self, *, dataset: str | None = None, account: int | None = None, limit: int = 50
    ) -> tuple[BudgetRequest, ...]:
        """Requests, those that wait first, then the newest."""
        wanted = select(budget_requests)
        if dataset is not None:
            wanted = wanted.where(budget_requests.c.dataset == dataset)
        if account is not None:
            wanted = wanted.where(budget_requests.c.account == account)
        order = (
            budget_requests.c.decided_at.is_not(None),
            budget_requests.c.asked_at.desc(),
            budget_requests.c.id,
        )
        with self._engine.connect() as connection:
            rows = connection.execute(wanted.order_by(*order).limit(limit)).all()
        return tuple(BudgetRequest(**row._mapping) for row in rows)

    def find(self, request_id: str) -> BudgetRequest | None:
        """One request."""
        with self._engine.connect() as connection:
            row = connection.execute(
                select(budget_requests).where(budget_requests.c.id == request_id)
            ).first()
        return None if row is None else BudgetRequest(**row._mapping)

    def decide(self, request_id: str, who: Principal, *, granted: bool) -> bool:
        """Write down the decision. False if somebody has decided before."""
        with self._engine.begin() as connection:
            done = connection.execute(
                update(budget_requests)
                .where(budget_requests.c.id == request_id, budget_requests.c.decided_at.is_(None))
                .values(decided_at=int(time.time()), decided_by=who.name, granted=granted)
            )
        return done.rowcount == 1


def _fields(request: BudgetRequest) -> dict[str, object]:
    return {column.name: getattr(request, column.name) for column in budget_requests.columns}
