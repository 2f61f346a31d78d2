"""What was checked before an attack's figures are believed. Checks are data: they travel to the report."""

from dataclasses import dataclass
from enum import StrEnum
from typing import final

from privet.public_calls import check_public_calls

__all__ = ["Check", "Outcome"]


@final
class Outcome(StrEnum):
    """How a check ended."""

    PASSED = "passed"
    WARNED = "warned"
    SKIPPED = "skipped"


@final
@dataclass(frozen=True, kw_only=True)
class Check:
    """One check: its name, how it ended, what was found, and what to do about it."""

    name: str
    outcome: Outcome
    finding: str
    advice: str = ""


check_public_calls(__name__)
