"""Examples by their indices: a lot as tensors, gathered into buffers that are reused."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import Any, final

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import Dataset, IterableDataset, TensorDataset, default_collate

from privet.arguments import format_value, whole
from privet.errors import InvalidArgument

__all__ = [
    "DatasetExamples",
    "Examples",
    "TensorExamples",
    "as_examples",
    "micro_batch_size",
    "split_micro_batches",
]

_IN_CACHE, _AT_MOST = 1 << 22, 1 << 27  # numbers: 16 MB and 512 MB
_FEWEST = 32


class Examples(ABC):
    """Examples that can be read by their indices."""

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def take(self, indices: Tensor) -> tuple[Tensor, ...]:
        """Gather these examples, one tensor for each column. The next call may overwrite the tensors."""


@final
class TensorExamples(Examples):
    """Tensors whose first dimension is the example; ``index_select`` gathers a lot in one call."""

    def __init__(self, tensors: Sequence[Tensor]) -> None:
        if not tensors or len({len(column) for column in tensors}) != 1:
            raise InvalidArgument(
                "'tensors' must be columns of one length, got lengths "
                f"{format_value([len(c) for c in tensors])}. Give one row for each example in every column."
            )
        self._columns = tuple(column.detach() for column in tensors)
        self._buffers: list[Tensor | None] = [None] * len(tensors)

    def __len__(self) -> int:
        return len(self._columns[0])

    def take(self, indices: Tensor) -> tuple[Tensor, ...]:
        return tuple(self._gather(number, indices) for number in range(len(self._columns)))

    def _gather(self, number: int, indices: Tensor) -> Tensor:
        column, buffer, count = self._columns[number], self._buffers[number], indices.numel()
        if buffer is None or len(buffer) < count:
            # One eighth more: lots differ in size, and the largest lots are rare.
            buffer = column.new_empty((count + count // 8 + 1, *column.shape[1:]))
            self._buffers[number] = buffer
        return torch.index_select(column, 0, indices, out=buffer[:count])


@final
class DatasetExamples(Examples):
    """Any map-style dataset, read one example at a time and batched by ``collate``. Slower, but general."""

    def __init__(self, dataset: Dataset[Any], collate: Callable[[list[Any]], Any] = default_collate) -> None:
        self._dataset, self._collate = dataset, collate
        self._empty: tuple[Tensor, ...] | None = None

    def __len__(self) -> int:
        return len(self._dataset)  # type: ignore[arg-type]

    def take(self, indices: Tensor) -> tuple[Tensor, ...]:
        if indices.numel():
            return _as_columns(self._collate([self._dataset[index] for index in indices.tolist()]))
        if self._empty is None:  # the shape of an example is public, so any example can show it
            self._empty = tuple(column[:0] for column in _as_columns(self._collate([self._dataset[0]])))
        return self._empty


def as_examples(data: object) -> Examples:
    """Read a TensorDataset, a tuple or list of arrays or tensors, or any map-style dataset.

    >>> len(as_examples((np.zeros((3, 2), dtype=np.float32), np.zeros(3, dtype=np.int64))))
    3
    """
    if isinstance(data, Examples):
        return data
    if isinstance(data, TensorDataset):
        return TensorExamples(data.tensors)
    if isinstance(data, tuple | list) and all(isinstance(column, Tensor | np.ndarray) for column in data):
        return TensorExamples([torch.as_tensor(column) for column in data])
    if isinstance(data, Dataset) and not isinstance(data, IterableDataset):
        return DatasetExamples(data)
    raise InvalidArgument(
        f"'data' must be a dataset or a tuple of arrays, got {type(data).__name__}. "
        f"Give (inputs, targets), a TensorDataset, or a dataset with a length."
    )


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


def _as_columns(batch: Any) -> tuple[Tensor, ...]:  # noqa: ANN401 - collate may return anything
    if isinstance(batch, Tensor):
        return (batch,)
    if isinstance(batch, tuple | list) and all(isinstance(column, Tensor) for column in batch):
        return tuple(batch)
    raise InvalidArgument(
        f"'collate' must return a tensor or a tuple of tensors, got {type(batch).__name__}. "
        f"Make every example of the dataset a tuple of tensors."
    )
