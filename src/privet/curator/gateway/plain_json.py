"""JSON as it comes in and goes out: strict both ways, so that no value can break a database or an encoder."""

import json
import math
from typing import Any

from starlette.responses import Response

__all__ = ["check_plain", "json_response", "to_json"]

_DEEPEST, _MOST, _LONGEST, _LARGEST = 24, 5_000, 20_000, 2**63


def check_plain(value: Any) -> Any:  # noqa: ANN401  # whatever JSON holds
    """The value, if it is small, finite and of text that Unicode can encode. Otherwise ValueError."""
    waiting: list[tuple[Any, int]] = [(value, 1)]
    seen = 0
    while waiting:
        part, depth = waiting.pop()
        seen += 1
        if depth > _DEEPEST or seen > _MOST:
            raise ValueError("too large")
        match part:
            case dict():
                waiting += [(inside, depth + 1) for pair in part.items() for inside in pair]
            case list():
                waiting += [(inside, depth + 1) for inside in part]
            case str():
                _check_text(part)
            case bool() | None:
                pass
            case int() if not -_LARGEST < part < _LARGEST:
                raise ValueError("a whole number must fit into 64 bits")
            case float() if not math.isfinite(part):
                raise ValueError("a number must be finite")
    return value


def to_json(value: object) -> bytes:
    """JSON in ASCII. An infinite number becomes the text "Infinity" or "-Infinity", which JSON has no
    number for.
    """
    return json.dumps(_finite(value), ensure_ascii=True, allow_nan=False, separators=(",", ":")).encode()


def json_response(value: object, status: int = 200) -> Response:
    """An answer in JSON."""
    return Response(to_json(value), status_code=status, media_type="application/json")


def _finite(value: object) -> object:
    match value:
        case dict():
            return {str(key): _finite(part) for key, part in value.items()}
        case list() | tuple():
            return [_finite(part) for part in value]
        case float() if math.isinf(value):
            return "Infinity" if value > 0 else "-Infinity"
    return value


def _check_text(text: str) -> None:
    if len(text) > _LONGEST or "\0" in text:
        raise ValueError("a text must be short and without NUL")
    text.encode()  # a lone surrogate is a UnicodeEncodeError, which is a ValueError
