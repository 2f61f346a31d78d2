"""Answers and quotes as tables for people and as rows of a document."""

import math
from collections.abc import Sequence
from decimal import Decimal

from privet.cli.output import fixed_up, paragraph, rounded_up, table
from privet.cli.release_words import key_text
from privet.documents import to_plain
from privet.releasing import Answer, ErrorKind, Quote
from privet.releasing.budget import PrivacyCost
from privet.releasing.keys import Number, Values

__all__ = ["answer_document", "answer_table", "quote_document", "quote_table"]

_MOST_LINES = 25  # of one statistic on a screen; a document has all of them

_NOTES = {
    ErrorKind.OVER_COUNT: "An error “/ n” is to be divided by the number of rows that count, which is not "
    "known yet.",
    ErrorKind.RANK: "An error in rows says how many rows may lie between the answer and the true quantile.",
}


def answer_document(answer: Answer) -> dict[str, object]:
    """One answer as JSON. An answer with keys is an object by key."""
    return {
        "label": answer.label,
        "value": _plain(answer.value),
        "error": _plain(answer.error),
        "error_kind": str(answer.error_kind),
        "confidence": answer.confidence,
        "cost": _cost(answer.cost if not answer.stored else PrivacyCost(epsilon=0.0, delta=0.0)),
        "stored": answer.stored,
        "threshold": answer.threshold,
        "event": to_plain(answer.event),
    }


def quote_document(quote: Quote) -> dict[str, object]:
    """A quote as JSON: an answer without a value."""
    return {
        "label": quote.label,
        "value": None,
        "error": _finite(quote.error),
        "error_kind": str(quote.error_kind),
        "confidence": quote.confidence,
        "cost": _cost(quote.cost),
        "stored": False,
        "threshold": quote.threshold,
        "event": to_plain(quote.event),
    }


def answer_table(answers: Sequence[Answer]) -> str:
    """A line for each number: value ± error, and the cost beside the first of each statistic."""
    rows: list[tuple[str, str, str, str]] = []
    for answer in answers:
        cost = "stored" if answer.stored else _cost_text(answer.cost)
        if not isinstance(answer.value, tuple):
            rows.append((answer.label, *_pair(answer.value, answer.error, answer.error_kind), cost))
            continue
        rows.append((answer.label, "", "", cost))
        errors = dict(answer.error) if isinstance(answer.error, tuple) else {}
        for key, value in answer.value[:_MOST_LINES]:
            rows.append((f"  {key_text(key)}", *_pair(value, errors[key], answer.error_kind), ""))
        if not answer.value:
            rows.append(("  no key had enough people to be shown", "", "", ""))
        if len(answer.value) > _MOST_LINES:
            rows.append((f"  … and {len(answer.value) - _MOST_LINES:,} more; --json shows all", "", "", ""))
    notes = _notes([answer.error_kind for answer in answers], [(a.label, a.threshold) for a in answers])
    return "\n\n".join([table(("statistic", "value", "± error", "cost"), rows), *notes])


def quote_table(quotes: Sequence[Quote]) -> str:
    """The cost and the expected error of each statistic."""
    rows = [(quote.label, _error(quote.error, quote.error_kind), _cost_text(quote.cost)) for quote in quotes]
    notes = _notes([quote.error_kind for quote in quotes], [(q.label, q.threshold) for q in quotes])
    return "\n\n".join([table(("statistic", "± error", "cost"), rows), *notes])


def _notes(kinds: Sequence[ErrorKind], thresholds: Sequence[tuple[str, int | None]]) -> list[str]:
    sentences = [sentence for kind, sentence in _NOTES.items() if kind in kinds]
    sentences += [
        f"“{label}” has the keys that about {threshold:,} people or more have; the others stay hidden."
        for label, threshold in thresholds
        if threshold is not None
    ]
    return ["\n".join(paragraph(sentence, bullet="  · ") for sentence in sentences)] if sentences else []


def _plain(values: Values) -> object:
    if isinstance(values, tuple):
        return {key_text(key): _finite(number) for key, number in values}
    return _finite(values)


def _finite(number: Number) -> Number | None:
    """JSON has no infinity: an infinite error bar is null."""
    return number if math.isfinite(number) else None


def _cost(cost: PrivacyCost) -> dict[str, float]:
    return {"epsilon": cost.epsilon, "delta": cost.delta}


def _cost_text(cost: PrivacyCost) -> str:
    delta = f", δ {rounded_up(cost.delta, 3)}" if cost.delta else ""
    return f"ε {rounded_up(cost.epsilon, 4)}{delta}"


def _pair(value: Number, error: Values, kind: ErrorKind) -> tuple[str, str]:
    """A value with as many decimal places as its error justifies.

    >>> _pair(49.4812, 0.2761, ErrorKind.CONSERVATIVE), _pair(3997, 9, ErrorKind.NOISE_LAW)
    (('49.48', '0.28'), ('3,997', '9'))
    """
    if isinstance(error, tuple) or not math.isfinite(error) or error <= 0 or kind is ErrorKind.RANK:
        return f"{value:,.6g}", _error(math.inf if isinstance(error, tuple) else error, kind)
    places = 0 if isinstance(value, int) else min(max(1 - math.floor(math.log10(error)), 0), 12)
    return f"{value:,.{places}f}", f"{Decimal(fixed_up(error, places)):,f}"


def _error(error: float, kind: ErrorKind) -> str:
    if not math.isfinite(error):
        return "unbounded"
    unit = {ErrorKind.OVER_COUNT: " / n", ErrorKind.RANK: " rows"}.get(kind, "")
    shown = rounded_up(error, 3)
    return f"{f'{Decimal(shown):,f}' if 1000 <= error < 1e12 else shown}{unit}"
