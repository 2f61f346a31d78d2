"""Why a curator says no before anything is spent, besides a wrong argument and a budget that is used up."""

from typing import final

from privet.errors import PrivetError

__all__ = ["CuratorReadOnly", "CuratorUnavailable"]


@final
class CuratorReadOnly(PrivetError):
    """The curator may not spend: its ledger is behind the head that was exported. Nothing was spent."""


@final
class CuratorUnavailable(PrivetError):
    """The database, or another answer that is waited for, is not there now. Nothing was spent."""
