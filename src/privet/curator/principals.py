"""Who asks: an account after it has shown who it is."""

from dataclasses import dataclass
from enum import StrEnum
from typing import final

__all__ = ["Principal", "Role"]


@final
class Role(StrEnum):
    """What an account may do: analysts ask, stewards decide, auditors see all and change nothing."""

    ANALYST = "analyst"
    STEWARD = "steward"
    AUDITOR = "auditor"


@final
@dataclass(frozen=True, kw_only=True)
class Principal:
    """One account: its number in the database, its name and its role."""

    account: int
    name: str
    role: Role
