"""The ledger as the gateway sees it: accounts to look up, acts of stewards, and the chain that keeps
events.
"""

from collections.abc import Mapping
from contextlib import suppress
from typing import Any, final

from privet.curator.accounts import AccountDirectory
from privet.curator.gateway.parts import StewardActions
from privet.curator.principals import Principal
from privet.curator.storage import Database, HeadExport, Stewardship
from privet.curator.storage.verification import verify_database
from privet.errors import InvalidArgument
from privet.releasing import Budget

__all__ = ["LedgerActions", "LedgerDirectory", "set_analyst_cap"]


@final
class LedgerDirectory(AccountDirectory):
    """The accounts of the ledger's database."""

    def __init__(self, stewardship: Stewardship) -> None:
        self._stewardship = stewardship

    def find_account(self, name: str) -> Principal | None:
        return self._stewardship.find_account(name)

    def find_number(self, number: int) -> Principal | None:
        return self._stewardship.find_account_by_number(number)


@final
class LedgerActions(StewardActions):
    """Acts on the ledger, each under the name of who acts."""

    def __init__(self, database: Database, heads: HeadExport) -> None:
        self._database, self._heads = database, heads

    def grant(
        self, who: Principal, dataset: str, analyst: str, *, epsilon: float, delta: float, reason: str
    ) -> None:
        stewardship = Stewardship(self._database, self._heads, by=who.name)
        set_analyst_cap(stewardship, dataset, analyst, Budget(epsilon=epsilon, delta=delta), reason=reason)

    def verify(self, who: Principal) -> Mapping[str, Any]:
        found = verify_database(self._database, self._heads)
        return {
            "chain_ok": found.is_sound,
            "links": found.links,
            "charges": found.charges,
            "answers": found.answers,
            "head": str(found.head),
            "problems": list(found.problems),
        }

    def note(self, who: Principal | None, kind: str, fields: Mapping[str, str]) -> None:
        name = "nobody" if who is None else who.name
        Stewardship(self._database, self._heads, by=name).append_audit_event(name, kind, fields)


def set_analyst_cap(
    stewardship: Stewardship, dataset: str, analyst: str, cap: Budget, *, reason: str
) -> None:
    """Let an analyst ask within a cap; a cap that is there already becomes this one."""
    try:
        stewardship.grant(analyst, dataset, cap=cap)
    except InvalidArgument:  # a grant or a cap is there: then the cap is what changes
        stewardship.change_cap(dataset, cap=cap, analyst=analyst, reason=reason)
        with suppress(InvalidArgument):  # the cap may be there by another name of the data, without a grant
            stewardship.grant(analyst, dataset)
