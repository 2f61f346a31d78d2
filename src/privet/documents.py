"""Events to JSON and back: versioned, strict, exact.

A document is ``{"format": "privet-event", "version": 1, "event": {"kind": "gaussian", …}}``. Numbers are
written so that they read back as the same float64; an unknown kind, field or version is refused.
"""

import dataclasses
import json
from collections.abc import Mapping
from typing import Any

from privet import events
from privet.errors import Unreadable
from privet.events import Event

__all__ = ["event_from_json", "event_to_json", "from_plain", "to_plain"]

FORMAT = "privet-event"
VERSION = 1

_KINDS: dict[str, type[Event]] = {
    "gaussian": events.Gaussian,
    "laplace": events.Laplace,
    "discrete-gaussian": events.DiscreteGaussian,
    "discrete-laplace": events.DiscreteLaplace,
    "randomized-response": events.RandomizedResponse,
    "exponential-mechanism": events.ExponentialMechanism,
    "report-noisy-max": events.ReportNoisyMax,
    "sparse-vector": events.SparseVector,
    "opaque": events.Opaque,
    "tree-noise": events.TreeNoise,
    "banded-noise": events.BandedNoise,
    "poisson": events.Poisson,
    "fixed-size": events.FixedSize,
    "repeat": events.Repeat,
    "compose": events.Compose,
    "parallel": events.Parallel,
}
_NAMES = {kind: name for name, kind in _KINDS.items()}


def to_plain(event: Event) -> dict[str, Any]:
    """The event as nested dictionaries, lists and numbers."""
    fields = {
        field.name: _plain(getattr(event, field.name))
        for field in dataclasses.fields(event)  # type: ignore[arg-type]
    }
    return {"kind": _NAMES[type(event)], **fields}


def from_plain(node: object) -> Event:
    """The event that ``to_plain`` wrote."""
    if not isinstance(node, Mapping) or not isinstance(node.get("kind"), str):
        raise Unreadable(
            f"An event must be an object with a 'kind', got {type(node).__name__}. "
            f"Write it with privet's own event_to_json."
        )
    kind = _KINDS.get(node["kind"])
    if kind is None:
        raise Unreadable(
            f"'kind' must be one of {', '.join(_KINDS)}, got {node['kind']!r}. "
            f"Read the document with the version of Privet that wrote it."
        )
    known = {field.name for field in dataclasses.fields(kind)}  # type: ignore[arg-type]
    given = {name: _read(value) for name, value in node.items() if name != "kind"}
    if set(given) - known:
        raise Unreadable(
            f"'{node['kind']}' has the fields {', '.join(sorted(known))}, got also "
            f"{', '.join(sorted(map(str, set(given) - known)))}. Remove what does not belong."
        )
    try:
        return kind(**given)
    except TypeError as missing:
        raise Unreadable(
            f"'{node['kind']}' needs the fields {', '.join(sorted(known))}, got "
            f"{', '.join(sorted(given)) or 'none'}. Add what is missing."
        ) from missing


def event_to_json(event: Event) -> str:
    """One line of JSON.

    >>> event_to_json(events.Gaussian(1.5))
    '{"format": "privet-event", "version": 1, "event": {"kind": "gaussian", "noise_multiplier": 1.5}}'
    """
    return json.dumps({"format": FORMAT, "version": VERSION, "event": to_plain(event)})


def event_from_json(text: str) -> Event:
    """The event of a document, with the same ε to the last bit."""
    return from_plain(opened(text, FORMAT, VERSION).get("event"))


def opened(text: str, form: str, version: int) -> dict[str, Any]:
    """The document's fields, after its format and version were found right."""
    try:
        document = json.loads(text, parse_constant=_refuse_constant)
    except (json.JSONDecodeError, RecursionError) as broken:
        raise Unreadable(f"The text must be JSON, and is not ({broken}). Check the file.") from broken
    if not isinstance(document, dict) or document.get("format") != form:
        raise Unreadable(f"The document must have the format '{form}'. Check that it is the right file.")
    if document.get("version") != version:
        raise Unreadable(
            f"'version' must be {version}, got {document.get('version')!r}. "
            f"Read the document with the version of Privet that wrote it."
        )
    return document


def _plain(value: object) -> object:
    if isinstance(value, Event):
        return to_plain(value)
    if isinstance(value, tuple):
        return [_plain(part) for part in value]
    return value


def _read(value: object) -> object:
    if isinstance(value, Mapping):
        return from_plain(value)
    if isinstance(value, list):
        return tuple(_read(part) for part in value)
    return value


def _refuse_constant(name: str) -> float:
    raise Unreadable(f"A number must be finite, got {name}. Give an ordinary number.")


