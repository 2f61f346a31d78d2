"""Strict reading of JSON and TOML objects: each field by its type, and no field that is not known."""

from collections.abc import Mapping
from typing import Any, final

from privet.arguments import finite, format_value, whole
from privet.errors import InvalidArgument

__all__ = ["Fields"]

_LONGEST_TEXT = 10_000


@final
class Fields:
    """The fields of one object. ``place`` is its name in messages; ``close`` refuses what nobody has read."""

    def __init__(self, fields: object, place: str) -> None:
        if not isinstance(fields, Mapping) or not all(isinstance(name, str) for name in fields):
            raise InvalidArgument(
                f"{place} must be an object with named fields, got {format_value(fields)}. Write {{…}}."
            )
        self._fields, self.place = fields, place
        self._read: set[str] = set()

    def __contains__(self, name: str) -> bool:
        return name in self._fields

    @property
    def names(self) -> tuple[str, ...]:
        """The fields that are there."""
        return tuple(self._fields)

    def raw(self, name: str) -> Any:  # noqa: ANN401 - whatever was sent
        """The field as it was sent, or None where it is not there."""
        self._read.add(name)
        return self._fields.get(name)

    def text(self, name: str, default: str | None = None) -> str:
        """A text that is not empty; ``default`` where the field is not there."""
        value = self._require(name, default)
        if not isinstance(value, str) or not value or len(value) > _LONGEST_TEXT:
            raise self._refusal(name, "text", value)
        return value

    def number(self, name: str, default: float | None = None) -> float:
        """A finite number, as a float."""
        value = float(finite(f"{self.place}: {name}", self._require(name, default)))
        return value + 0.0  # 0 for −0

    def whole(self, name: str, default: int | None = None, *, least: int = 1, most: int = 10**9) -> int:
        """A whole number."""
        return whole(f"{self.place}: {name}", self._require(name, default), least, most)

    def truth(self, name: str, default: bool | None = None) -> bool:
        """True or false."""
        value = self._require(name, default)
        if not isinstance(value, bool):
            raise self._refusal(name, "true or false", value)
        return value

    def texts(self, name: str) -> tuple[str, ...]:
        """A list of texts, each once."""
        values = self.read_list(name)
        if not all(isinstance(value, str) and value for value in values) or len(set(values)) < len(values):
            raise self._refusal(name, "a list of different texts", list(values))
        return tuple(values)

    def read_list(self, name: str) -> tuple[Any, ...]:
        """A list with something in it."""
        value = self._require(name, None)
        if not isinstance(value, list) or not value:
            raise self._refusal(name, "a list that is not empty", value)
        return tuple(value)

    def inner(self, name: str) -> "Fields":
        """An object in this one."""
        return Fields(self._require(name, None), f"{self.place}: {name}")

    def close(self) -> None:
        """Refuse fields that nobody has read."""
        unknown = sorted(set(self._fields) - self._read)
        if unknown:
            known = ", ".join(sorted(self._read))
            raise InvalidArgument(
                f"{self.place} may have the fields {known}, got also {format_value(unknown[0])}. Remove it, "
                f"or "
                f"correct its name."
            )

    def _require(self, name: str, default: object) -> Any:  # noqa: ANN401
        value = self.raw(name)
        if value is None:
            value = default
        if value is None:
            raise InvalidArgument(f"{self.place} must have the field '{name}', and has not. Add it.")
        return value

    def _refusal(self, name: str, needed: str, value: object) -> InvalidArgument:
        return InvalidArgument(
            f"{self.place}: '{name}' must be {needed}, got {format_value(value)}. Correct it."
        )
