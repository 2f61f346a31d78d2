"""Events to JSON and back: versioned, strict, exact.

A document is ``{"format": "privet-event", "version": 1, "event": {"kind": "gaussian", …}}``. Numbers are
written so that they read back as the same float64; an unknown kind, field or version, a field that occurs
twice, and a tree that is more than a hundred events deep are refused.
"""

import dataclasses
import json
from collections.abc import Mapping
from typing import Any

from privet import events
from privet.arguments import format_value
from privet.errors import InvalidArgument, Unreadable
from privet.events import Event

__all__ = ["event_from_json", "event_to_json", "from_plain", "is_whole", "only", "open_document", "to_plain"]

FORMAT = "privet-event"
VERSION = 1

_DEEPEST = 100  # events inside of each other

_KINDS: dict[str, type[Event]] = {
    "gaussian": events.Gaussian,
    "laplace": events.Laplace,
    "discrete-gaussian": events.DiscreteGaussian,
    "discrete-gaussian-shares": events.DiscreteGaussianShares,
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
    "best-of-poisson": events.BestOfPoisson,
    "best-of-negative-binomial": events.BestOfNegativeBinomial,
}
_NAMES = {kind: name for name, kind in _KINDS.items()}
_FIELDS = {kind: tuple(field.name for field in dataclasses.fields(kind)) for kind in _NAMES}  # type: ignore[arg-type]


def to_plain(event: Event) -> dict[str, Any]:
    """The event as nested dictionaries, lists and numbers."""
    return _write_event(event, 0)


def from_plain(node: object) -> Event:
    """The event that ``to_plain`` wrote."""
    return _event(node, 0)


def is_whole(node: object) -> bool:
    """Whether a plain event that was read has all of its fields, so that ``to_plain`` would write it as it
    stands.
    """
    if isinstance(node, Mapping):
        return len(node) == len(_FIELDS[_KINDS[node["kind"]]]) + 1 and all(map(is_whole, node.values()))
    return not isinstance(node, list) or all(map(is_whole, node))


def event_to_json(event: Event) -> str:
    """One line of JSON.

    >>> event_to_json(events.Gaussian(1.5))
    '{"format": "privet-event", "version": 1, "event": {"kind": "gaussian", "noise_multiplier": 1.5}}'
    """
    return json.dumps({"format": FORMAT, "version": VERSION, "event": to_plain(event)})


def event_from_json(text: str) -> Event:
    """The event of a document, with the same ε to the last bit."""
    document = open_document(text, FORMAT, VERSION)
    only(document, "An event document", ("format", "version", "event"))
    return from_plain(document.get("event"))


def open_document(text: str, form: str, *versions: int) -> dict[str, Any]:
    """The document's fields, after its format and version were found right; ``versions`` are those that can
    be read.
    """
    try:
        document = json.loads(text, parse_constant=_refuse_constant, object_pairs_hook=_unique)
    except Unreadable:
        raise
    except RecursionError:
        raise _too_deep() from None
    except (ValueError, TypeError) as broken:  # not JSON, or a whole number of thousands of digits
        raise Unreadable(f"The text must be JSON, and is not ({broken}). Check the file.") from broken
    if not isinstance(document, dict) or document.get("format") != form:
        raise Unreadable(f"The document must have the format '{form}'. Check that it is the right file.")
    found = document.get("version")
    if isinstance(found, bool) or found not in versions:
        raise Unreadable(
            f"'version' must be {' or '.join(map(str, versions))}, got {format_value(found)}. "
            f"Read the document with the version of Privet that wrote it."
        )
    return document


def only(fields: Mapping[str, object], what: str, known: tuple[str, ...]) -> None:
    """Refuse fields that this version does not know: they may change what the others mean."""
    unknown = [name for name in fields if name not in known]
    if unknown:
        raise Unreadable(
            f"{what} has the fields {', '.join(known)}, got also {', '.join(sorted(map(str, unknown)))}. "
            f"Remove what does not belong, or read it with the version of Privet that wrote it."
        )


def _write_event(event: Event, depth: int) -> dict[str, Any]:
    if type(event) not in _NAMES:
        raise InvalidArgument(
            f"'event' must be an event, got {type(event).__name__}. Describe what ran with privet.events."
        )
    if depth > _DEEPEST:
        raise InvalidArgument(
            f"'event' must be at most {_DEEPEST} events deep, and is deeper. Join the parts in one Compose."
        )
    fields = {name: _plain(getattr(event, name), depth) for name in _FIELDS[type(event)]}
    return {"kind": _NAMES[type(event)], **fields}


def _plain(value: object, depth: int) -> object:
    if isinstance(value, Event):
        return _write_event(value, depth + 1)
    if isinstance(value, tuple):
        return [_plain(part, depth) for part in value]
    return value


def _event(node: object, depth: int) -> Event:
    if depth > _DEEPEST:
        raise _too_deep()
    if not isinstance(node, Mapping) or not isinstance(node.get("kind"), str):
        raise Unreadable(
            f"An event must be an object with a 'kind', got {type(node).__name__}. "
            f"Write it with privet's own event_to_json."
        )
    kind = _KINDS.get(node["kind"])
    if kind is None:
        raise Unreadable(
            f"'kind' must be one of {', '.join(_KINDS)}, got {format_value(node['kind'])}. "
            f"Read the document with the version of Privet that wrote it."
        )
    known = _FIELDS[kind]
    if len(node) != len(known) + 1 or not all(name in node for name in known):
        only({name: None for name in node if name != "kind"}, f"'{node['kind']}'", known)
    given = {name: _read(value, depth) for name, value in node.items() if name != "kind"}
    try:
        return kind(**given)
    except TypeError as missing:
        raise Unreadable(
            f"'{node['kind']}' needs the fields {', '.join(known)}, got "
            f"{', '.join(sorted(given)) or 'none'}. Add what is missing."
        ) from missing


def _read(value: object, depth: int) -> object:
    if isinstance(value, Mapping):
        return _event(value, depth + 1)
    if isinstance(value, list):
        # Only parts, candidates and coefficients are lists, and neither holds lists.
        return tuple(part if isinstance(part, list) else _read(part, depth) for part in value)
    return value


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields = dict(pairs)
    if len(fields) < len(pairs):
        raise Unreadable("A field must occur once in an object, and one occurs twice. Remove one of the two.")
    return fields


def _too_deep() -> Unreadable:
    return Unreadable(
        f"A document must be at most {_DEEPEST} events deep, and is deeper. Join the parts in one 'compose'."
    )


def _refuse_constant(name: str) -> float:
    raise Unreadable(f"A number must be finite, got {name}. Give an ordinary number.")
