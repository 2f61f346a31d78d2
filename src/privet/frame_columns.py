"""The columns of a data frame: their names and types, so that rows of an array become the frame again.

Records are arrays. A pipeline that picks its columns by name, or by their types, needs the frame: each row
goes back into it, and every column gets its own type again, whichever rows are drawn.
"""

import sys
from dataclasses import dataclass
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

__all__ = ["FrameColumns"]


@final
@dataclass(frozen=True)
class FrameColumns:
    """Names and pandas types of the columns, in their order."""

    names: tuple[Any, ...]
    types: tuple[Any, ...]

    @classmethod
    def of(cls, frame: object) -> "FrameColumns | None":
        """The columns of a pandas data frame; None for anything else. pandas is not loaded for it."""
        pandas: Any = sys.modules.get("pandas")
        if pandas is None or not isinstance(frame, pandas.DataFrame):
            return None
        return cls(tuple(frame.columns), tuple(frame.dtypes))

    def joined_with(self, other: "FrameColumns | None") -> "FrameColumns | None":
        """The columns of both frames, one below the other; None where their names differ.

        Categories are those of both: a category that only one side has is no missing value.
        """
        if other is None or other.names != self.names:
            return None
        pairs = zip(self.types, other.types, strict=True)
        return FrameColumns(self.names, tuple(_common_type(first, second) for first, second in pairs))

    def description(self) -> str:
        """Text that changes whenever a name or a type changes."""
        return repr(
            [(name, str(kind), _categories(kind)) for name, kind in zip(self.names, self.types, strict=True)]
        )

    def to_frame(self, rows: NDArray[Any]) -> Any:  # noqa: ANN401 - a pandas.DataFrame
        """These rows as a data frame, each column with its type."""
        import pandas

        if rows.ndim != 2 or rows.shape[1] != len(self.names):
            return rows  # the model itself reports the error best
        columns = [_column(pandas, rows[:, place], kind) for place, kind in enumerate(self.types)]
        frame = pandas.concat(columns, axis=1) if columns else pandas.DataFrame(index=range(len(rows)))
        frame.columns = pandas.Index(self.names)
        return frame


def _column(pandas: Any, values: NDArray[Any], kind: Any) -> Any:  # noqa: ANN401
    column = pandas.Series(values)
    if isinstance(kind, np.dtype) and kind.kind == "O":
        return column
    try:
        return column.astype(kind)
    except (TypeError, ValueError):  # a value that the type does not hold, such as a missing whole number
        return column.infer_objects()


def _categories(kind: Any) -> list[object]:  # noqa: ANN401
    categories = getattr(kind, "categories", None)
    return [] if categories is None else [*categories, bool(kind.ordered)]


def _common_type(first: Any, second: Any) -> Any:  # noqa: ANN401 - types of numpy or of pandas
    import pandas

    if isinstance(first, pandas.CategoricalDtype) and isinstance(second, pandas.CategoricalDtype):
        if first == second:
            return first
        more = second.categories.difference(first.categories, sort=False)
        try:
            return pandas.CategoricalDtype(first.categories.append(more), first.ordered and second.ordered)
        except (TypeError, ValueError):  # categories of several types
            return np.dtype(object)
    if first == second:
        return first
    if (
        isinstance(first, np.dtype)
        and isinstance(second, np.dtype)
        and {first.kind, second.kind} <= set("iuf")
    ):
        return np.result_type(first, second)
    return np.dtype(object)
