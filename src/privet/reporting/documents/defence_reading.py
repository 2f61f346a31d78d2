"""A comparison of defences read again from its JSON, with every field checked."""

import math
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from privet.arguments import format_value
from privet.auditing import Rate
from privet.documents import open_document
from privet.errors import InvalidArgument, Unreadable
from privet.reporting.defence_facts import ComparedDefence
from privet.reporting.documents.defence_data import FORMAT, VERSION
from privet.reporting.facts import Origin

__all__ = ["read_comparison"]


def read_comparison(text: str) -> dict[str, Any]:
    """The arguments of the comparison that this JSON text holds. Unknown fields are ignored."""
    plain = open_document(text, FORMAT, VERSION)
    origin = _field(plain, "origin", dict)
    seed = origin.get("seed")
    try:
        return {
            "defences": [_read_defence(each) for each in _field(plain, "defences", list)],
            "fpr": _number(plain, "fpr", most=1.0),
            "confidence": _number(plain, "confidence", most=1.0),
            "accuracy_loss": _number(plain, "accuracy_loss"),
            "records": _field(plain, "records", int),
            "exposed": _field(plain, "exposed", int),
            "references": _field(plain, "references", int),
            "title": _field(plain, "title", str),
            "origin": Origin(
                command=_field(origin, "command", str),
                version=_field(origin, "version", str),
                seed=seed if isinstance(seed, int) else None,
                created=datetime.fromisoformat(_field(origin, "created", str)),
            ),
        }
    except (InvalidArgument, ValueError) as wrong:
        if isinstance(wrong, Unreadable):
            raise
        raise Unreadable(
            f"The comparison must be as Privet wrote it, and is not ({wrong}). Compare the defences again."
        ) from wrong


def _read_defence(plain: object) -> ComparedDefence:
    if not isinstance(plain, dict):
        raise _unreadable("defences", plain)
    ends = _field(plain, "intervals", dict)
    proved, delta = (
        None if plain.get(name) is None else _number(plain, name) for name in ("epsilon_proved", "delta")
    )
    return ComparedDefence(
        name=_field(plain, "name", str),
        test_accuracy=_rate(plain, ends, "test_accuracy"),
        tpr_population=_rate(plain, ends, "tpr_population"),
        tpr_exposed=_rate(plain, ends, "tpr_exposed"),
        epsilon_proved=proved,
        delta=delta,
        seconds=_number(plain, "seconds"),
        attack_population=_field(plain, "attack_population", str),
        attack_exposed=_field(plain, "attack_exposed", str),
    )


def _rate(plain: Mapping[str, Any], intervals: Mapping[str, Any], name: str) -> Rate:
    value, ends = _number(plain, name, most=1.0), _field(intervals, name, list)
    if len(ends) != 2:
        raise _unreadable(name, ends)
    lower, upper = (_number({name: end}, name, most=1.0) for end in ends)
    if not lower <= value <= upper:
        raise _unreadable(name, ends)
    return Rate(value, lower, upper)


def _number(plain: Mapping[str, Any], name: str, most: float = math.inf) -> float:
    found = plain.get(name)
    if isinstance(found, bool) or not isinstance(found, int | float) or not 0 <= found <= most:
        raise _unreadable(name, found)
    return float(min(found, 1e308))


def _field(plain: Mapping[str, Any], name: str, kind: type) -> Any:  # noqa: ANN401 - of the kind asked for
    found = plain.get(name)
    if not isinstance(found, kind) or isinstance(found, bool):
        raise _unreadable(name, found)
    return found


def _unreadable(name: str, found: object) -> Unreadable:
    return Unreadable(
        f"{name!r} of a comparison must be as Privet wrote it, got {format_value(found)}. Compare the "
        "defences again."
    )
