"""An answer as a page shows it: each statistic with its value and error bar, or a row for each key."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, final

from privet.curator.pages.numbers_shown import plain_number, to_error

__all__ = ["AnswerRows", "KeyRow", "read_answers"]


@final
@dataclass(frozen=True, kw_only=True)
class KeyRow:
    """One number of an answer. ``key`` is empty for a statistic without keys."""

    key: str
    value: float
    error: float

    @property
    def shown(self) -> str:
        """The value, to its error."""
        return to_error(self.value, self.error)

    @property
    def shown_error(self) -> str:
        """The error."""
        return to_error(self.error, self.error) if self.error > 0 else plain_number(self.error)


@final
@dataclass(frozen=True, kw_only=True)
class AnswerRows:
    """One statistic with its numbers."""

    label: str
    rows: tuple[KeyRow, ...]
    has_keys: bool
    confidence: float
    error_kind: str
    epsilon: float
    delta: float
    threshold: int | None


def read_answers(answer: Mapping[str, Any] | None, labels: Sequence[str] = ()) -> tuple[AnswerRows, ...]:
    """The statistics of an answer, as the analyst calls them; none where it has another form, as a model
    has.
    """
    if answer is None or not isinstance(answer.get("answers"), list):
        return ()
    found = [one for one in answer["answers"] if isinstance(one, Mapping) and "value" in one]
    names = labels if len(labels) == len(found) else [str(one.get("label", "answer")) for one in found]
    return tuple(_read(one, name) for one, name in zip(found, names, strict=True))


def _read(one: Mapping[str, Any], label: str) -> AnswerRows:
    value, error = one["value"], one["error"]
    has_keys = isinstance(value, Sequence)
    if has_keys:
        errors = {str(key): _number(number) for key, number in error} if isinstance(error, Sequence) else {}
        rows = tuple(
            KeyRow(key=_key(key), value=_number(number), error=errors.get(str(key), math.inf))
            for key, number in value
        )
    else:
        rows = (KeyRow(key="", value=_number(value), error=_number(error)),)
    return AnswerRows(
        label=label,
        rows=rows,
        has_keys=has_keys,
        confidence=float(one.get("confidence", 0.95)),
        error_kind=str(one.get("error_kind", "")),
        epsilon=_number(one.get("cost", {}).get("epsilon", 0.0)),
        delta=_number(one.get("cost", {}).get("delta", 0.0)),
        threshold=one.get("threshold"),
    )


def _key(key: object) -> str:
    return ", ".join(map(str, key)) if isinstance(key, list | tuple) else str(key)


def _number(value: object) -> float:
    if value in ("Infinity", "-Infinity"):
        return math.inf if value == "Infinity" else -math.inf
    return float(value) if isinstance(value, int | float) else math.nan
