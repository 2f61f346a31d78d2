"""The schema of ``report.json``, and a check that plain data follows it.

The schema is a JSON Schema (draft 2020-12) that ships with the package, for any tool. Only its own keywords
are understood here: ``$ref`` into its own ``$defs``, ``type``, ``const``, ``enum``, ``required``,
``properties``, ``items``, ``maxItems``, ``minItems``, ``minimum`` and ``maximum``. A schema with another
keyword is refused, so that no keyword is ignored.
"""

import json
import math
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import Any

from privet.arguments import format_value
from privet.errors import Unreadable

__all__ = ["conform", "report_schema"]

_KEYWORDS = frozenset(
    [
        "$schema",
        "$id",
        "$defs",
        "$ref",
        "title",
        "description",
        "type",
        "const",
        "enum",
        "required",
        "properties",
        "items",
        "maxItems",
        "minItems",
        "minimum",
        "maximum",
    ]
)
_TYPES: Mapping[str, tuple[type, ...]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "boolean": (bool,),
    "null": (type(None),),
    "number": (int, float),
    "integer": (int,),
}


@cache
def report_schema() -> dict[str, Any]:
    """The schema that documents of this version follow."""
    text = (files("privet.reporting") / "assets" / "report.schema.json").read_text(encoding="utf-8")
    schema: dict[str, Any] = json.loads(text)
    return schema


def conform(value: object, schema: Mapping[str, Any]) -> None:
    """Refuse data that does not follow the schema; other fields are allowed."""
    _check(value, schema, schema.get("$defs", {}), "The document")


def _check(value: object, schema: Mapping[str, Any], known: Mapping[str, Any], where: str) -> None:
    unknown = sorted(set(schema) - _KEYWORDS)
    if unknown:
        raise Unreadable(
            f"A schema must use the keywords that are understood here, got {unknown[0]!r}. "
            f"Add that keyword to privet.reporting.documents.schema."
        )
    if "$ref" in schema:
        _check(value, known[schema["$ref"].removeprefix("#/$defs/")], known, where)
    if "const" in schema and value != schema["const"]:
        raise _wrong(where, format_value(schema["const"]), value)
    if "enum" in schema and value not in schema["enum"]:
        raise _wrong(where, "one of " + ", ".join(map(str, schema["enum"])), value)
    if "type" in schema:
        _check_type(value, schema["type"], where)
    if isinstance(value, int | float) and not isinstance(value, bool):
        _check_number(value, schema, where)
    if isinstance(value, dict):
        _check_fields(value, schema, known, where)
    if isinstance(value, list):
        if not schema.get("minItems", 0) <= len(value) <= schema.get("maxItems", math.inf):
            raise _wrong(where, "a list of another length", len(value))
        for index, part in enumerate(value):
            _check(part, schema.get("items", {}), known, f"{where}[{index}]")


def _check_type(value: object, wanted: str | Sequence[str], where: str) -> None:
    names = [wanted] if isinstance(wanted, str) else list(wanted)
    for name in names:
        if isinstance(value, _TYPES[name]) and (name == "boolean" or not isinstance(value, bool)):
            return
    raise _wrong(where, " or ".join(names), value)


def _check_number(value: float, schema: Mapping[str, Any], where: str) -> None:
    if not math.isfinite(value):
        raise _wrong(where, "finite", value)
    if value < schema.get("minimum", -math.inf):
        raise _wrong(where, f"at least {schema['minimum']}", value)
    if value > schema.get("maximum", math.inf):
        raise _wrong(where, f"at most {schema['maximum']}", value)


def _check_fields(
    value: Mapping[str, object], schema: Mapping[str, Any], known: Mapping[str, Any], where: str
) -> None:
    for name in schema.get("required", ()):
        if name not in value:
            raise Unreadable(f"{where} must have a field '{name}', and has none. Check the file.")
    for name, inside in schema.get("properties", {}).items():
        if name in value:
            _check(value[name], inside, known, f"{where}.{name}")


def _wrong(where: str, needed: str, value: object) -> Unreadable:
    return Unreadable(
        f"{where} must be {needed}, got {format_value(value)}. Check that the file was not changed."
    )
