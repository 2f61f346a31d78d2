"""Examples by their indices: a lot as tensors, gathered into buffers that are reused."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import final

import torch
from torch import Tensor

from privet.arguments import format_value, whole
from privet.errors import InvalidArgument

__all__ = ["Examples", "TensorExamples", "micro_batch_size", "split_micro_batches"]

_IN_CACHE, _AT_MOST = 1 << 22, 1 << 27  # numbers: 16 MB and 512 MB
_FEWEST = 32


class Examples(ABC):
    """Examples that can be read by their indices. The last column is the target.

    ``input_names`` are the keywords of the model for the other columns; None if they go to it in order.
    """

    input_names: tuple[str, ...] | None = None

    @abstractmethod
    def __len__(self) -> int: ...

    def split(self, indices: Tensor) -> Iterator[Tensor]:
        """Split indices into parts, each of examples with the same shapes, which can be taken together."""
        if indices.numel():
            yield indices

    @abstractmethod
    def take(self, indices: Tensor) -> tuple[Tensor, ...]:
        """Gather these examples, one tensor for each column. The next call may overwrite the tensors."""


@final
class TensorExamples(Examples):
    """Tensors whose first dimension is the example; ``index_select`` gathers a lot in one call."""

    def __init__(self, tensors: Sequence[Tensor], input_names: tuple[str, ...] | None = None) -> None:
        self.input_names = input_names
        if not tensors or len({len(column) for column in tensors}) != 1:
            raise InvalidArgument(
                "'tensors' must be columns of one length, got lengths "
                f"{format_value([len(c) for c in tensors])}. Give one row for each example in every column."
            )
        self._columns = tuple(column.detach() for column in tensors)
        self._buffers: list[Tensor | None] = [None] * len(tensors)

    def __len__(self) -> int:
        return len(self._columns[0])

    @property
    def columns(self) -> tuple[Tensor, ...]:
        """All columns, as they are."""
        return self._columns

    def take(self, indices: Tensor) -> tuple[Tensor, ...]:
        return tuple(self._gather(number, indices) for number in range(len(self._columns)))

    def _gather(self, number: int, indices: Tensor) -> Tensor:
        column, buffer, count = self._columns[number], self._buffers[number], indices.numel()
        if buffer is None or len(buffer) < count:
            # One eighth more: lots differ in size, and the largest lots are rare.
            buffer = column.new_empty((count + count // 8 + 1, *column.shape[1:]))
            self._buffers[number] = buffer
        return torch.index_select(column, 0, indices, out=buffer[:count])


def split_micro_batches(indices: Tensor, size: int) -> Iterator[Tensor]:
    """Split a lot into micro-batches of at most ``size``; an empty lot has none."""
    step = whole("size", size)
    for start in range(0, indices.numel(), step):
        yield indices[start : start + step]


def micro_batch_size(count: int, numbers_per_example: int | None) -> int:
    """How many of ``count`` examples to process at once, by how many numbers each one holds in memory.

    None means that this is not known yet, before the first pass. The micro-batch fills 16 MB, which fits into
    the caches. It has at least 32 examples, because fewer do not keep a processor busy, unless these need 512
    MB. All micro-batches of a lot have about the same size.

    >>> micro_batch_size(1000, 500), micro_batch_size(1000, 10_000), micro_batch_size(100, 10**8)
    (1000, 334, 1)
    """
    each = max(1, numbers_per_example or 1)
    most = (
        _FEWEST if numbers_per_example is None else max(_IN_CACHE // each, min(_FEWEST, _AT_MOST // each), 1)
    )
    return -(-count // -(-count // most))
