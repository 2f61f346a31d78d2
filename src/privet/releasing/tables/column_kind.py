"""What the schema of a table, which is public, says of a column."""

from enum import StrEnum
from typing import final

__all__ = ["ColumnKind"]


@final
class ColumnKind(StrEnum):
    """As what the values of a column can be used."""

    NUMBER = "number"
    BOOLEAN = "boolean"
    TEXT = "text"
    OTHER = "other"
    """Dates and times: keys and units, written as text, and no numbers."""
    NESTED = "nested"
    """Lists, records, bytes: refused."""
