"""A table that is, or will be, published: what an adversary who reads it has.

>>> table = PublishedTable.of({"zip": ["02139", "02139", None], "age": [34, 51, 34]})
>>> table
PublishedTable(3 rows: zip text, age number)
>>> table["zip"].codes.tolist(), table["age"].values.tolist()
([1, 1, 0], [34.0, 51.0, 34.0])
>>> len(np.unique(table.combine(["zip", "age"])))
3
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from privet.arguments import format_value
from privet.errors import InvalidArgument
from privet.public_calls import check_public_calls
from privet.published_columns import (
    PublishedColumn,
    ValueKind,
    encode_arrow,
    encode_pandas,
    encode_values,
    recognize_column,
    stack_columns,
)

__all__ = ["PublishedColumn", "PublishedTable", "ValueKind"]

_MOST_CODES = 2**62  # combined codes stay below it, so that int64 never overflows


@final
@dataclass(frozen=True, eq=False)
class PublishedTable:
    """Columns of equal length with different names."""

    columns: tuple[PublishedColumn, ...]

    def __post_init__(self) -> None:
        if not self.columns:
            raise InvalidArgument(
                "'columns' must hold at least one column, got none. Give the table that is published."
            )
        if len(set(self.names)) < len(self.names):
            raise InvalidArgument("'columns' must have names that differ, got one twice. Rename a column.")
        if len({len(column) for column in self.columns}) > 1:
            raise InvalidArgument(
                "'columns' must be equally long, got different lengths. Give one value for each row."
            )

    @classmethod
    def of(cls, data: object) -> "PublishedTable":
        """The table of a pandas or Polars frame, an Arrow table, or a dictionary of sequences.

        Numbers and booleans are numbers, dates and times are dates, all else is text. ``recognize`` turns
        text that reads as numbers or dates into them.
        """
        if isinstance(data, PublishedTable):
            return data
        if isinstance(data, Mapping):
            return cls(tuple(encode_values(str(name), values) for name, values in data.items()))
        module = type(data).__module__.partition(".")[0]
        kind = type(data).__name__
        if module == "pandas" and kind == "DataFrame":
            return cls(tuple(encode_pandas(*item) for item in _any(data).items()))
        if module == "polars" and kind in ("DataFrame", "LazyFrame"):
            frame = _any(data).collect() if kind == "LazyFrame" else _any(data)
            return cls(tuple(encode_arrow(s.name, s.to_arrow()) for s in frame.iter_columns()))
        if module == "pyarrow" and kind == "Table":
            arrow = _any(data)
            return cls(
                tuple(encode_arrow(n, c) for n, c in zip(arrow.column_names, arrow.columns, strict=True))
            )
        raise InvalidArgument(
            f"'data' must be a pandas or Polars frame, an Arrow table or a dictionary of sequences, got a "
            f"value of type {type(data).__name__}. Load the table first."
        )

    def __len__(self) -> int:
        return len(self.columns[0])

    def __repr__(self) -> str:
        shown = ", ".join(f"{column.name} {column.kind}" for column in self.columns[:8])
        more = f", … {len(self.columns) - 8} more" if len(self.columns) > 8 else ""
        return f"PublishedTable({len(self):,} rows: {shown}{more})"

    def __contains__(self, name: object) -> bool:
        return name in self._places

    def __getitem__(self, name: str) -> PublishedColumn:
        place = self._places.get(name)
        if place is None:
            raise InvalidArgument(
                f"'name' must be a column of the table, got {format_value(name)}. It has "
                f"{', '.join(map(format_value, self.names[:8]))}{' …' if len(self.names) > 8 else ''}."
            )
        return self.columns[place]

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The names of the columns, in their order."""
        return tuple(column.name for column in self.columns)

    def select(self, names: Sequence[str]) -> "PublishedTable":
        """The table with these columns, in this order."""
        return PublishedTable(tuple(self[name] for name in names))

    def without(self, names: Sequence[str]) -> "PublishedTable":
        """The table without these columns."""
        for name in names:
            self[name]  # refuses a name that is no column
        return PublishedTable(tuple(column for column in self.columns if column.name not in set(names)))

    def take(self, rows: NDArray[Any]) -> "PublishedTable":
        """The table of these rows: positions, or True and False for each row."""
        return PublishedTable(tuple(column.take(rows) for column in self.columns))

    def below(self, other: "PublishedTable") -> "PublishedTable":
        """This table with the rows of another one below it, in the columns that both have.

        Codes of the two agree in the answer: equal values have equal codes. A column that is of two kinds
        becomes text.
        """
        common = [name for name in self.names if name in other]
        if not common:
            raise InvalidArgument(
                "'other' must have a column of this table, got none with the same name. Rename its columns."
            )
        return PublishedTable(tuple(stack_columns(self[name], other[name]) for name in common))

    def combine(self, names: Sequence[str]) -> NDArray[np.int64]:
        """One code for each row: two rows have the same code exactly if they agree in all these columns."""
        combined, size = np.zeros(len(self), dtype=np.int64), 1
        for name in names:
            column = self[name]
            width = len(column.categories) + 1
            if size * width > _MOST_CODES:
                distinct, dense = np.unique(combined, return_inverse=True)
                combined, size = dense.astype(np.int64), len(distinct)
            combined, size = combined * width + column.codes, size * width
        return combined

    def recognize(self) -> "PublishedTable":
        """The table with numbers and dates where a text column holds nothing else.

        A number is written without leading zeros, so zip codes such as 02139 stay text. A date is written
        as year-month-day.

        >>> table = PublishedTable.of({"zip": ["02139"], "age": ["34"], "birth": ["1990-02-28"]})
        >>> table.recognize()
        PublishedTable(1 rows: zip text, age number, birth date)
        """
        return PublishedTable(tuple(recognize_column(column) for column in self.columns))

    @cached_property
    def _places(self) -> dict[str, int]:
        return {name: place for place, name in enumerate(self.names)}


def _any(value: object) -> Any:  # noqa: ANN401 - the object of an optional package
    return value


check_public_calls(__name__)
