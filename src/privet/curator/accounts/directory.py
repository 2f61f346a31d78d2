"""Looking up an account: the ledger's database has them, and this is all that logging in needs of it."""

from abc import ABC, abstractmethod

from privet.curator.principals import Principal

__all__ = ["AccountDirectory"]


class AccountDirectory(ABC):
    """Accounts by their name or number."""

    @abstractmethod
    def find_account(self, name: str) -> Principal | None:
        """The account of this name."""

    @abstractmethod
    def find_number(self, number: int) -> Principal | None:
        """The account of this number."""
