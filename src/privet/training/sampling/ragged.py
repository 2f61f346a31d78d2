"""Sequences of different lengths in memory. Each is padded to a length that depends on itself only.

Padding to the longest sequence of a lot, or of the data, would let one record change the input of others:
a model that does not mask the padding would then give them other gradients. Here a sequence of length n is
padded to the next of 8, 12, 16, 24, 32, 48, …, and only sequences with the same padded length go through the
model together.
"""

from collections.abc import Iterator, Sequence
from typing import final

import numpy as np
import torch
from torch import Tensor

from privet.arguments import format_value
from privet.errors import InvalidArgument
from privet.training.sampling.examples import Examples

__all__ = ["RaggedColumn", "RaggedExamples", "choose_padded_length"]

_SHORTEST = 8


def choose_padded_length(length: int) -> int:
    """The next of 8, 12, 16, 24, 32, 48, …

    >>> [choose_padded_length(n) for n in (0, 8, 9, 13, 17, 100)]
    [8, 8, 12, 16, 24, 128]
    """
    power = max(_SHORTEST, 1 << max(0, length - 1).bit_length())
    return power * 3 // 4 if power > _SHORTEST and length <= power * 3 // 4 else power


@final
class RaggedColumn:
    """Sequences of different lengths, with the number that fills them."""

    def __init__(self, sequences: Sequence[Tensor], fill: float = 0) -> None:
        if len({(s.dtype, s.shape[1:]) for s in sequences}) > 1 or any(not s.dim() for s in sequences):
            raise InvalidArgument(
                "'data' must have sequences that differ in their length only, got other shapes or types. "
                "Give each sequence as [length, …], all of one type."
            )
        self._sequences, self._fill = list(sequences), fill
        self.lengths = np.array([choose_padded_length(len(s)) for s in sequences], dtype=np.int64)

    def __len__(self) -> int:
        return len(self._sequences)

    def with_fill(self, fill: float) -> "RaggedColumn":
        """The same sequences with another filling."""
        return RaggedColumn(self._sequences, fill)

    def convert(self, dtype: torch.dtype | None) -> "RaggedColumn":
        """The same sequences, of another floating-point type if they have one."""
        first = self._sequences[0]
        if dtype is None or not first.is_floating_point():
            return self
        return RaggedColumn([s.to(dtype) for s in self._sequences], self._fill)

    @property
    def is_floating_point(self) -> bool:
        """Whether these are real numbers."""
        return self._sequences[0].is_floating_point()

    def take(self, indices: Tensor) -> Tensor:
        """These sequences, padded at the end. All of them must have the same padded length."""
        chosen = indices.tolist()
        first = self._sequences[chosen[0] if chosen else 0]
        length = int(self.lengths[chosen[0]]) if chosen else choose_padded_length(len(first))
        rows = first.new_full((len(chosen), length, *first.shape[1:]), self._fill)
        for row, index in zip(rows, chosen, strict=True):
            sequence = self._sequences[index]
            row[: len(sequence)] = sequence
        return rows


@final
class RaggedExamples(Examples):
    """Columns of which some are ragged."""

    def __init__(
        self, columns: Sequence[Tensor | RaggedColumn], input_names: tuple[str, ...] | None = None
    ) -> None:
        if len({len(column) for column in columns}) != 1:
            raise InvalidArgument(
                "'data' must be columns of one length, got lengths "
                f"{format_value([len(c) for c in columns])}. Give one row for each example in every column."
            )
        self._columns, self.input_names = tuple(columns), input_names
        lengths = np.stack([c.lengths for c in columns if isinstance(c, RaggedColumn)], 1)
        self._group = torch.from_numpy(np.unique(lengths, axis=0, return_inverse=True)[1].reshape(-1))

    def __len__(self) -> int:
        return len(self._columns[0])

    def split(self, indices: Tensor) -> Iterator[Tensor]:
        groups = self._group[indices]
        for group in sorted(set(groups.tolist())):
            yield indices[groups == group]

    def take(self, indices: Tensor) -> tuple[Tensor, ...]:
        if len(set(self._group[indices].tolist())) > 1:
            raise InvalidArgument(
                "Examples of different shapes cannot be in one batch. Take the parts that split() gives."
            )
        return tuple(c.take(indices) if isinstance(c, RaggedColumn) else c[indices] for c in self._columns)
