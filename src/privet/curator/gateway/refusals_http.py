"""Every refusal has one shape, ``{"error": {"code", "message"}}``, and a status that says whose move it is.

An unexpected failure has one constant sentence. Its traceback is logged without values; no answer has it.
"""

import logging
import traceback
from dataclasses import dataclass
from typing import final

from privet.curator.refusals import CuratorReadOnly, CuratorUnavailable
from privet.errors import BudgetExceeded, InvalidArgument, NotProved, OutOfReach, PrivetError

__all__ = [
    "FORBIDDEN",
    "MALFORMED",
    "NOT_FOUND",
    "NOT_LOGGED_IN",
    "TOO_LARGE",
    "TOO_MANY",
    "TOO_SLOW",
    "HttpRefusal",
    "RefusalAnswer",
    "log_failure",
    "refusal_of",
]

_log = logging.getLogger("privet.curator")


@final
@dataclass(frozen=True)
class RefusalAnswer:
    """What a caller is told: a status, a word for programs, and sentences for people."""

    status: int
    code: str
    message: str

    @property
    def document(self) -> dict[str, dict[str, str]]:
        """The body of the answer."""
        return {"error": {"code": self.code, "message": self.message}}


@final
class HttpRefusal(Exception):  # nothing went wrong
    """Ends a request with a refusal."""

    def __init__(self, answer: RefusalAnswer) -> None:
        super().__init__(answer.code)
        self.answer = answer


NOT_LOGGED_IN = RefusalAnswer(
    401, "not_logged_in", "The request must show who asks, and does not. Send a valid key or log in."
)
FORBIDDEN = RefusalAnswer(403, "forbidden", "Your role may not do this. Ask a steward.")
NOT_FOUND = RefusalAnswer(404, "not_found", "There is nothing here that you may see. Check the address.")
MALFORMED = RefusalAnswer(
    422, "malformed", "The request must have the form that the description of the interface says. Compare it."
)
TOO_LARGE = RefusalAnswer(413, "too_large", "The request is larger than the limit. Send a shorter one.")
TOO_MANY = RefusalAnswer(429, "too_many_requests", "Too many requests came in a short time. Wait a minute.")
TOO_SLOW = RefusalAnswer(
    503,
    "not_ready",
    "The answer is not there yet. Ask again with the same idempotency key: it is charged at most once.",
)
_FAILED = RefusalAnswer(500, "failed", "The curator failed. Tell the steward when it was.")


def refusal_of(error: Exception) -> RefusalAnswer:
    """What is said about an error. Only Privet's own sentences are shown, which come from metadata alone."""
    match error:
        case HttpRefusal():
            return error.answer
        case BudgetExceeded():
            return RefusalAnswer(409, "budget_exceeded", str(error))
        case CuratorReadOnly():
            return RefusalAnswer(409, "read_only", str(error))
        case CuratorUnavailable():
            return RefusalAnswer(503, "unavailable", str(error))
        case InvalidArgument() | NotProved() | OutOfReach():
            return RefusalAnswer(422, "refused", str(error))
        case PrivetError():
            return RefusalAnswer(409, "refused", str(error))
    log_failure(error)
    return _FAILED


def log_failure(error: BaseException) -> None:
    """Write down where it happened, without a value: the text of an exception may quote what it choked on."""
    places = [f"{frame.filename}:{frame.lineno}" for frame in traceback.extract_tb(error.__traceback__)]
    _log.error("failed: %s at %s", type(error).__name__, " < ".join(reversed(places[-6:])))
