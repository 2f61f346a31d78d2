"""Examples by their numbers: a lot as tensors, gathered into buffers that are used again."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import Any, final

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import Dataset, IterableDataset, TensorDataset, default_collate

from privet.arguments import shown, whole
from privet.errors import InvalidArgument

__all__ = ["DatasetRows", "Rows", "TensorRows", "micro_batches", "piece", "rows_of"]

_NEAR, _FAR = 1 << 22, 1 << 27  # numbers: 16 MB and 512 MB
_FEW = 32


class Rows(ABC):
    """Examples that can be had by their numbers."""

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def take(self, indices: Tensor) -> tuple[Tensor, ...]:
        """These examples, one tensor for each column. They may be overwritten by the next call."""


@final
class TensorRows(Rows):
    """Tensors whose first dimension numbers the examples: gathered by ``index_select``, without a copy for each."""

    def __init__(self, tensors: Sequence[Tensor]) -> None:
        if not tensors or len({len(column) for column in tensors}) != 1:
            raise InvalidArgument(
                f"'tensors' must be columns of one length, got lengths {shown([len(c) for c in tensors])}. "
                f"Give one row to each example in every column."
            )
        self._columns = tuple(column.detach() for column in tensors)
        self._buffers: list[Tensor | None] = [None] * len(tensors)

    def __len__(self) -> int:
        return len(self._columns[0])

    def take(self, indices: Tensor) -> tuple[Tensor, ...]:
        return tuple(self._taken(place, indices) for place in range(len(self._columns)))

    def _taken(self, place: int, indices: Tensor) -> Tensor:
        column, buffer, count = self._columns[place], self._buffers[place], indices.numel()
        if buffer is None or len(buffer) < count:
            # An eighth more: lots differ in size, and the largest are rare.
            buffer = column.new_empty((count + count // 8 + 1, *column.shape[1:]))
            self._buffers[place] = buffer
        return torch.index_select(column, 0, indices, out=buffer[:count])


@final
class DatasetRows(Rows):
    """Any map-style dataset, one example at a time, put together by ``collate``; slower, and general."""

    def __init__(self, dataset: Dataset[Any], collate: Callable[[list[Any]], Any] = default_collate) -> None:
        self._dataset, self._collate = dataset, collate
        self._empty: tuple[Tensor, ...] | None = None

    def __len__(self) -> int:
        return len(self._dataset)  # type: ignore[arg-type]

    def take(self, indices: Tensor) -> tuple[Tensor, ...]:
        if indices.numel():
            return _columns(self._collate([self._dataset[index] for index in indices.tolist()]))
        if self._empty is None:  # what an example looks like is public; which one shows it does not matter
            self._empty = tuple(column[:0] for column in _columns(self._collate([self._dataset[0]])))
        return self._empty


def rows_of(data: object) -> Rows:
    """Rows of a TensorDataset, of a tuple of arrays or tensors, or of any map-style dataset.

    >>> len(rows_of((np.zeros((3, 2), dtype=np.float32), np.zeros(3, dtype=np.int64))))
    3
    """
    if isinstance(data, Rows):
        return data
    if isinstance(data, TensorDataset):
        return TensorRows(data.tensors)
    if isinstance(data, tuple | list) and all(isinstance(column, Tensor | np.ndarray) for column in data):
        return TensorRows([torch.as_tensor(column) for column in data])
    if isinstance(data, Dataset) and not isinstance(data, IterableDataset):
        return DatasetRows(data)
    raise InvalidArgument(
        f"'data' must be a dataset or a tuple of arrays, got {type(data).__name__}. "
        f"Give (inputs, targets), a TensorDataset, or a dataset with a length."
    )


def micro_batches(indices: Tensor, size: int) -> Iterator[Tensor]:
    """A lot in pieces of at most ``size``; an empty lot has none."""
    step = whole("size", size)
    for start in range(0, indices.numel(), step):
        yield indices[start : start + step]


def piece(count: int, held: int | None) -> int:
    """How many of so many examples to take at once, if ``held`` numbers are held for each; None for a first look.

    As many as need 16 MB, which the caches hold, but 32 at least, since a few examples do not keep a processor busy, unless these
    needed 512 MB. Then the pieces are made equal.

    >>> piece(1000, 500), piece(1000, 10_000), piece(100, 10**6), piece(100, 10**8)
    (1000, 334, 25, 1)
    """
    each = max(1, held or 1)
    most = _FEW if held is None else max(_NEAR // each, min(_FEW, _FAR // each), 1)
    return -(-count // -(-count // most))


def _columns(found: Any) -> tuple[Tensor, ...]:  # noqa: ANN401 - what collate gives is the dataset's own affair
    if isinstance(found, Tensor):
        return (found,)
    if isinstance(found, tuple | list) and all(isinstance(column, Tensor) for column in found):
        return tuple(found)
    raise InvalidArgument(
        f"'collate' must give a tensor or a tuple of tensors, got {type(found).__name__}. "
        f"Let every example of the dataset be a tuple of tensors."
    )
