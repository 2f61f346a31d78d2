"""Checks that are made before the figures of an attack are trusted.

They are data, and are shown in the report.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import final

from privet.public_calls import check_public_calls

__all__ = ["Check", "Outcome"]


@final
class Outcome(StrEnum):
    """The result of a check."""

    PASSED = "passed"
    WARNED = "warned"
    SKIPPED = "skipped"


@final
@dataclass(frozen=True, kw_only=True)
class Check:
    """One check: its name, its result, what was found, and what to do about it."""

    name: str
    outcome: Outcome
    finding: str
    advice: str = ""


check_public_calls(__name__)
