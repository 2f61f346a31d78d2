"""How a command ends, for pipelines."""

from enum import IntEnum
from typing import final

from privet.durable_files import ChangedMeanwhile
from privet.errors import (
    BudgetExceeded,
    InvalidArgument,
    MissingPackage,
    NotProved,
    OutOfReach,
    PrivetError,
    Unreadable,
)

__all__ = ["EXIT_CODES", "ExitCode", "code_of"]

EXIT_CODES = """\
exit codes:
  0  the answer was given, and every limit held
  1  the answer was given, and a limit of --fail-above is broken, or what verify or ledger compared differs
  2  refused: wrong use, or a question that has no answer; nothing was run or spent
  3  failed: an error, also in the audited file or model; or the report could not be written
  130 interrupted, 141 the reader of the output went away
"""
_REFUSALS = (
    InvalidArgument,
    NotProved,
    OutOfReach,
    BudgetExceeded,
    Unreadable,
    MissingPackage,
    ChangedMeanwhile,
)


@final
class ExitCode(IntEnum):
    """Only ``HELD`` says that an answer was given and that nothing speaks against it."""

    HELD = 0
    BROKEN = 1
    REFUSED = 2
    FAILED = 3
    INTERRUPTED = 130
    PIPE_CLOSED = 141  # what a shell reports of a program that a closed pipe ended


def code_of(error: PrivetError) -> ExitCode:
    """Refused where the question was at fault, failed where something broke while it was answered."""
    return ExitCode.REFUSED if isinstance(error, _REFUSALS) else ExitCode.FAILED
