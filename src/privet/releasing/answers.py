"""What comes out: a value, how far it may be off, what it cost. All of it may be published."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, final

from privet.arguments import open_fraction, whole
from privet.documents import from_plain, only, to_plain
from privet.errors import Unreadable
from privet.events import Event
from privet.ledger import Ledger
from privet.releasing.budget import PrivacyCost
from privet.releasing.keys import Number, Values

__all__ = [
    "Answer",
    "ErrorKind",
    "Quote",
    "Released",
    "answer_from_plain",
    "answer_to_plain",
]

_FIELDS = ("value", "error", "error_kind", "confidence", "event", "cost", "accuracy", "threshold")


@final
class ErrorKind(StrEnum):
    """What an error bar is made of. None of them covers what clamping and bounding leave out."""

    NOISE_LAW = "noise law"
    """The quantile of the noise's own distribution: exact, up to the step of the grid."""
    CONSERVATIVE = "conservative"
    """From the noise of numerator and denominator, by a union bound: at least the stated confidence."""
    OVER_COUNT = "noise law over count"
    """Before a release only: the half-width of the numerator, to be divided by the number of rows."""
    RANK = "rank"
    """In rows, not in the column's unit: how many rows may lie between the answer and the true quantile."""


@final
@dataclass(frozen=True, kw_only=True)
class Answer:
    """One statistic, released.

    ``value`` is a number, or pairs (key, number) for a statistic with keys; ``error`` has the same form: with
    probability ``confidence`` the noise moved the value by at most this much, for each key by itself.
    ``accuracy`` is the error that was quoted before any row was read. ``threshold`` is about how many units a
    key needed to be shown. ``stored`` says that this answer was given before and costs nothing now.
    """

    label: str
    value: Values
    error: Values
    error_kind: ErrorKind
    confidence: float
    event: Event
    cost: PrivacyCost
    accuracy: float
    threshold: int | None = None
    stored: bool = False

    def relabel(self, label: str) -> "Answer":
        """The same answer to the same question, asked again under another label."""
        return replace(self, label=label, stored=True)


@final
@dataclass(frozen=True, kw_only=True)
class Quote:
    """What one statistic would cost, and how far its answer may be off. No row is read for it."""

    label: str
    event: Event
    cost: PrivacyCost
    error: float
    error_kind: ErrorKind
    confidence: float
    threshold: int | None = None


@final
@dataclass(frozen=True)
class Released:
    """All the answers of a plan, and the ledger with what they cost."""

    answers: tuple[Answer, ...]
    ledger: Ledger

    def __getitem__(self, label: str) -> Answer:
        for answer in self.answers:
            if answer.label == label:
                return answer
        raise KeyError(label)


def answer_to_plain(answer: Answer) -> dict[str, Any]:
    """The answer without its label, as JSON can hold it."""
    return {
        "value": _values_to_plain(answer.value),
        "error": _values_to_plain(answer.error),
        "error_kind": str(answer.error_kind),
        "confidence": answer.confidence,
        "event": to_plain(answer.event),
        "cost": {"epsilon": answer.cost.epsilon, "delta": answer.cost.delta},
        "accuracy": answer.accuracy,
        "threshold": answer.threshold,
    }


def answer_from_plain(label: str, fields: object) -> Answer:
    """The answer that ``answer_to_plain`` wrote."""
    if not isinstance(fields, Mapping):
        raise Unreadable(f"An answer must be an object, got {type(fields).__name__}. Check the file.")
    only(fields, "An answer", _FIELDS)
    try:
        return Answer(
            label=label,
            value=_values_from_plain(fields["value"]),
            error=_values_from_plain(fields["error"]),
            error_kind=ErrorKind(fields["error_kind"]),
            confidence=open_fraction("confidence", fields["confidence"]),
            event=from_plain(fields["event"]),
            cost=PrivacyCost(
                epsilon=float(_number(fields["cost"]["epsilon"])),
                delta=float(_number(fields["cost"]["delta"])),
            ),
            accuracy=float(_number(fields["accuracy"])),
            threshold=None if fields["threshold"] is None else whole("threshold", fields["threshold"], 0),
        )
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise Unreadable(
            f"An answer must have the fields {', '.join(_FIELDS)}, each of its type. Check the file."
        ) from error


def _values_to_plain(values: Values) -> object:
    if not isinstance(values, tuple):
        return values
    return [[list(key) if isinstance(key, tuple) else key, number] for key, number in values]


def _values_from_plain(values: object) -> Values:
    """Numbers, and keys that are values or tuples of values: anything else in a file is damage."""
    if not isinstance(values, list):
        return _number(values)
    pairs = [(tuple(key) if isinstance(key, list) else key, _number(number)) for key, number in values]
    for key, _ in pairs:
        if not all(
            isinstance(part, (str, int, float)) for part in (key if isinstance(key, tuple) else (key,))
        ):
            raise TypeError
    if len({repr(key) for key, _ in pairs}) != len(pairs):
        raise ValueError
    return tuple(pairs)


def _number(value: object) -> Number:
    """A number within float64; an error bar may be infinite."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or math.isnan(value):
        raise TypeError
    return value
