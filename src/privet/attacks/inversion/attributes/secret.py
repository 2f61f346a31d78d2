"""The secret of an attribute attack: some columns of a model's input, and every value that they can take."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from privet.arguments import whole
from privet.errors import InvalidArgument
from privet.scores import Bits
from privet.views import Labels, Rows

__all__ = ["SecretAttribute"]

_MOST_VALUES = 1000  # each is tried for each target
_BINS = 16


@final
@dataclass(frozen=True, eq=False)
class SecretAttribute:
    """Columns of the model's input that the adversary wants to know, and the values that they can take.

    ``values`` has one row for each value. A secret that is one-hot encoded has several columns. A value is
    known by its number, the row in ``values``. ``is_numeric`` says that the values are the middles of bins: a
    number belongs to the nearest of them. All of this is public.

    >>> secret = SecretAttribute.read(np.array([[5.0, 0.0], [7.0, 1.0], [9.0, 0.0]]), column=1, name="smokes")
    >>> secret.count, secret.number(np.array([[1.0, 1.0], [2.0, 0.0]])).tolist()
    (2, [1, 0])
    """

    columns: Sequence[int]
    values: Rows
    name: str = "the secret"
    is_numeric: bool = False
    _codes: dict[Any, int] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        columns = tuple(whole("columns", int(column), least=0) for column in self.columns)
        values = np.asarray(self.values)
        values = values[:, None] if values.ndim == 1 else values
        if (
            not columns
            or len(set(columns)) < len(columns)
            or values.ndim != 2
            or values.shape[1] != len(columns)
        ):
            raise InvalidArgument(
                f"'values' must be values × columns for the {len(columns)} columns of the secret, each "
                f"named once, got an array of shape {values.shape}. Give one row for each value that the "
                f"secret can take."
            )
        codes = {tuple(row): number for number, row in enumerate(values.tolist())}
        if len(codes) < 2:
            raise InvalidArgument(
                "'values' must hold at least two different values, got fewer. A secret that is the same for "
                "everybody cannot be recovered: take another column."
            )
        if len(codes) < len(values) or len(values) > _MOST_VALUES:
            raise InvalidArgument(
                f"'values' must be at most {_MOST_VALUES} different values, got more, or one twice. Give "
                f"each value once; read a number in bins: SecretAttribute.read(…, bins=16)."
            )
        if self.is_numeric and (len(columns) != 1 or values.dtype.kind not in "iuf"):
            raise InvalidArgument(
                "'values' of a numeric secret must be numbers in one column, got something else. Give the "
                "middles of its bins, or is_numeric=False."
            )
        object.__setattr__(self, "columns", columns)
        object.__setattr__(self, "values", values)
        object.__setattr__(self, "_codes", codes)

    @classmethod
    def read(
        cls,
        public: Rows,
        column: int | Sequence[int],
        *,
        name: str = "the secret",
        bins: int | None = None,
    ) -> "SecretAttribute":
        """The values that occur among public records.

        ``bins`` reads a number in so many bins, which hold equally many public records each. Without it, a
        column of fractions with more than 16 values is read in 16 bins.
        """
        columns = [column] if isinstance(column, int | np.integer) else list(column)
        table = np.asarray(public)
        if table.ndim != 2 or not columns or max(columns) >= table.shape[1] or min(columns) < 0:
            raise InvalidArgument(
                f"'column' must be among the columns of the public records, which have shape {table.shape}. "
                f"Give rows × columns, and the position of the secret."
            )
        part = table[:, columns]
        if bins is None and len(columns) == 1 and part.dtype.kind == "f" and len(np.unique(part)) > _BINS:
            bins = None if np.array_equal(part, np.floor(part)) else _BINS
        if bins is None:
            distinct = (
                sorted({tuple(row) for row in part.tolist()}, key=repr) if part.dtype == object else None
            )
            values = np.unique(part, axis=0) if distinct is None else np.array(distinct, dtype=object)
            return cls(columns, values, name)
        numbers = _to_numbers(part)
        middles = np.quantile(numbers, (np.arange(whole("bins", bins, least=2)) + 0.5) / bins)
        return cls(columns, np.unique(middles)[:, None], name, is_numeric=True)

    @property
    def count(self) -> int:
        """How many values there are."""
        return len(self.values)

    def number(self, inputs: Rows) -> Labels:
        """The number of each record's true value."""
        part = np.asarray(inputs)[:, list(self.columns)]
        if self.is_numeric:
            distances = np.abs(_to_numbers(part)[:, None] - self.values[:, 0].astype(np.float64))
            nearest: Labels = np.argmin(distances, axis=1).astype(np.int64)
            return nearest
        numbers = np.array([self._codes.get(tuple(row), -1) for row in part.tolist()], dtype=np.int64)
        if (numbers < 0).any():
            raise InvalidArgument(
                f"'inputs' must have one of the {self.count} values of the secret in each record, got "
                f"others. Add them to 'values', or leave these records out."
            )
        return numbers

    def hide(self, inputs: Rows) -> Rows:
        """The records without the secret: every one has the first value."""
        return self.fill(inputs, np.zeros(len(inputs), dtype=np.int64))

    def fill(self, inputs: Rows, numbers: Labels) -> Rows:
        """The records with these values of the secret."""
        filled = np.array(inputs, copy=True)
        filled[:, list(self.columns)] = self.values[numbers]
        return filled

    def other_columns(self, inputs: Rows) -> Rows:
        """The columns that are not part of the secret."""
        keep: Bits = np.ones(inputs.shape[1], dtype=np.bool_)
        keep[list(self.columns)] = False
        return inputs[:, keep]


def _to_numbers(part: Rows) -> NDArray[np.float64]:
    try:
        numbers = part[:, 0].astype(np.float64)
    except (TypeError, ValueError):
        numbers = np.full(len(part), np.nan)
    if not np.isfinite(numbers).all():
        raise InvalidArgument(
            "'column' must hold finite numbers to be read in bins, got something else. Leave out 'bins', or "
            "fill in what is missing."
        )
    return numbers
