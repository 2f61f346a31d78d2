"""Any dataset with a length and positions, read one example at a time. Slower than tensors, but general.

``collate`` is called for one example at a time, and the results are stacked. So no example's tensors depend
on other examples: a collate function that pads to the longest example of its batch pads each one to its own
length. Examples with different shapes go through the model in different batches.
"""

from collections.abc import Callable, Iterator
from typing import Any, final

import numpy as np
import torch
from torch import Tensor

from privet.errors import InvalidArgument
from privet.training.sampling.examples import Examples
from privet.training.sampling.records import ColumnRule, name_values

__all__ = ["DatasetExamples"]

_AT_ONCE = 512  # examples that are read before they are batched by their shapes

Row = tuple[Tensor, ...]


@final
class DatasetExamples(Examples):
    """A map-style dataset: ``len(dataset)`` and ``dataset[index]``, a tuple or a dictionary."""

    def __init__(
        self,
        dataset: Any,  # noqa: ANN401 - of torch, of Hugging Face, or a list
        collate: Callable[[list[Any]], Any] | None = None,
        rule: ColumnRule = ColumnRule(),  # noqa: B008 - frozen
    ) -> None:
        self._dataset, self._collate, self._rule = dataset, collate, rule
        self._rows: dict[int, Row] = {}
        self._empty: Row | None = None
        if len(dataset):
            names, values = self._open(0)  # which columns there are is public
            self._names, self._count = names, len(values)
            self.selection = rule.select(names, len(values))
            self.input_names = self.selection.input_names

    def __len__(self) -> int:
        return len(self._dataset)

    def split(self, indices: Tensor) -> Iterator[Tensor]:
        everything = indices.tolist()
        for start in range(0, len(everything), _AT_ONCE):
            self._rows = {index: self._read(index) for index in everything[start : start + _AT_ONCE]}
            groups: dict[tuple[torch.Size, ...], list[int]] = {}
            for index, row in self._rows.items():
                groups.setdefault(tuple(column.shape for column in row), []).append(index)
            for group in groups.values():
                yield torch.tensor(group, dtype=torch.int64)
        self._rows = {}

    def take(self, indices: Tensor) -> Row:
        if not indices.numel():
            if self._empty is None:  # the shape of an example is public, so any example can show it
                self._empty = tuple(column[:0] for column in self._read(0))
            return self._empty
        rows = [self._rows.get(index) or self._read(index) for index in indices.tolist()]
        try:
            return tuple(torch.cat(column) for column in zip(*rows, strict=True))
        except RuntimeError as failure:
            raise InvalidArgument(
                "'data' must have examples of one shape where they are batched, got several shapes. Pad them "
                "in the dataset or in 'collate'."
            ) from failure

    def _open(self, index: int) -> tuple[tuple[str, ...] | None, list[Any]]:
        example = self._dataset[index]
        return name_values(example if self._collate is None else self._collate([example]))

    def _read(self, index: int) -> Row:
        names, values = self._open(index)
        if names != self._names or len(values) != self._count:
            raise InvalidArgument(
                "'data' must have the same columns in every example, got an example with others. Give each "
                "example the same names, in the same order."
            )
        inputs, targets = self.selection.pick(values)
        columns = [self._rule.convert(self._as_row(value)) for value in inputs]
        if self.selection.inputs == self.selection.targets:
            return tuple(columns)
        if self._rule.classes is not None or isinstance(targets[0], str):
            one = targets[0] if self._collate is not None else [targets[0]]
            return (*columns, self._rule.convert_targets([one], _as_tensor))
        return (*columns, self._rule.convert_targets(targets, self._as_row))

    def _as_row(self, value: Any) -> Tensor:  # noqa: ANN401 - of any dataset
        """One example's column, with a leading size of 1."""
        tensor = _as_tensor(value)
        if self._collate is None:
            return tensor.unsqueeze(0)
        if not tensor.dim() or len(tensor) != 1:
            raise InvalidArgument(
                f"'collate' must return one row for each example in every column, got shape "
                f"{tuple(tensor.shape)} for one example. Leave out what is not per example."
            )
        return tensor


def _as_tensor(value: Any) -> Tensor:  # noqa: ANN401 - of any dataset
    if isinstance(value, Tensor):
        return value.detach()
    array = np.asarray(value)
    if array.dtype.kind not in "biuf":
        raise InvalidArgument(
            f"'data' must have examples of numbers, got {type(value).__name__}. Encode words and pictures as "
            "tensors in the dataset, or in 'collate'."
        )
    return torch.from_numpy(array.copy() if array.ndim else array.reshape(1).copy()).reshape(array.shape)
