"""Data as people have it: arrays, data frames, dictionaries of columns, datasets, loaders, ragged lists.

Private training draws the lots itself: each example by its own coin, or a subset of a fixed size. So data
must be readable at any position, and the sampler of a loader is not used.
"""

import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import (
    BatchSampler,
    DataLoader,
    DistributedSampler,
    IterableDataset,
    RandomSampler,
    SequentialSampler,
    TensorDataset,
    default_collate,
)

from privet.arguments import format_value
from privet.callers import level_of_caller
from privet.errors import InvalidArgument
from privet.training.sampling.datasets import DatasetExamples
from privet.training.sampling.examples import Examples, TensorExamples
from privet.training.sampling.ragged import RaggedColumn, RaggedExamples
from privet.training.sampling.records import ColumnRule, name_values

__all__ = ["Collate", "as_examples"]

Collate = Callable[[list[Any]], Any]
"""A function that makes a batch of a list of examples, as that of a DataLoader."""

_IGNORED_LABEL = -100
"""The label that cross entropy ignores by default: the filling of targets that are sequences."""


def as_examples(
    data: object,
    collate: Collate | None = None,
    rule: ColumnRule = ColumnRule(),  # noqa: B008 - frozen
) -> Examples:
    """Read data in any form. ``collate`` is for datasets and loaders.

    >>> len(as_examples((np.zeros((3, 2), dtype=np.float32), [0, 1, 0])))
    3
    """
    if isinstance(data, Examples):
        return data
    if isinstance(data, DataLoader):
        data, collate = _open_loader(data, collate)
    if isinstance(data, IterableDataset) or (hasattr(data, "__iter__") and not hasattr(data, "__len__")):
        raise InvalidArgument(
            f"'data' must be a dataset that can be read at any position, got {type(data).__name__}, because "
            "private training draws each example at random by itself. Store the examples, and give a Dataset "
            "with __len__ and __getitem__."
        )
    if collate is not None:
        if not _is_dataset(data):
            raise InvalidArgument(
                f"'collate' must be left out unless 'data' is a dataset or a loader, got "
                f"{type(data).__name__}. Give a Dataset."
            )
        return _read_dataset(data, collate, rule)
    if isinstance(data, TensorDataset):
        return _read_columns(None, list(data.tensors), rule)
    if isinstance(data, Mapping):
        _require_no_splits(data)
        return _read_columns(*name_values(data), rule)
    if isinstance(data, tuple) and data:
        if len(data) == 2 and isinstance(data[0], tuple) and not _are_inputs(*data):
            data = (list(data[0]), data[1])  # a column that is a tuple of rows
        return _read_columns(*name_values(data), rule)
    if isinstance(data, list) and data and all(hasattr(column, "__array__") for column in data):
        return _read_columns(None, data, rule)
    if _is_dataset(data):
        return _read_dataset(data, None, rule)
    raise InvalidArgument(
        f"'data' must be a dataset or a tuple of arrays, got {type(data).__name__}. "
        f"Give (inputs, targets), a dictionary of columns, or a dataset with a length."
    )


def _is_dataset(data: object) -> bool:
    """Whether it has a length and positions, and is no array, table or text."""
    if isinstance(data, list):
        return bool(data) and isinstance(data[0], Mapping | tuple)
    if isinstance(data, str | bytes | tuple | Mapping) or hasattr(data, "__array__") or hasattr(data, "iloc"):
        return False
    return hasattr(data, "__len__") and hasattr(data, "__getitem__")


def _are_inputs(first: tuple[Any, ...], targets: Any) -> bool:  # noqa: ANN401 - a column of any kind
    """Whether these are several columns of inputs, each as long as the targets."""
    count = len(targets)
    return len(first) != count and all(hasattr(x, "__len__") and len(x) == count for x in first)


def _read_dataset(data: Any, collate: Collate | None, rule: ColumnRule) -> Examples:  # noqa: ANN401
    if not len(data):
        raise InvalidArgument("'data' must have examples, got none. Give at least one lot.")
    examples = DatasetExamples(data, collate, rule)
    _note_dropped(examples.selection.dropped)
    return examples


def _read_columns(names: tuple[str, ...] | None, values: list[Any], rule: ColumnRule) -> Examples:
    selection = rule.select(names, len(values))
    _note_dropped(selection.dropped)
    inputs, targets = selection.pick(values)
    columns: list[Tensor | RaggedColumn] = [
        _read_input(column, rule, None if selection.input_names is None else selection.input_names[i])
        for i, column in enumerate(inputs)
    ]
    if selection.inputs != selection.targets:
        columns.append(_fill_target(rule.convert_targets([_as_array(t) for t in targets], _as_column)))
    if all(isinstance(column, Tensor) for column in columns):
        return TensorExamples(columns, selection.input_names)  # type: ignore[arg-type]
    return RaggedExamples(columns, selection.input_names)


def _read_input(values: Any, rule: ColumnRule, name: str | None) -> Tensor | RaggedColumn:  # noqa: ANN401
    column: Tensor | RaggedColumn = _as_column(_as_array(values))
    if isinstance(column, Tensor):
        return rule.convert(column)
    is_token = name is not None and name.endswith("input_ids")
    return column.convert(rule.float_type).with_fill(rule.padding if is_token else 0)


def _fill_target(column: Tensor | RaggedColumn) -> Tensor | RaggedColumn:
    if isinstance(column, Tensor):
        return column
    if column.is_floating_point:
        raise InvalidArgument(
            "'data' must have targets of one shape if they are real numbers, got sequences of different "
            "lengths, and padding would count as a target. Give one target for each example, or labels."
        )
    return column.with_fill(_IGNORED_LABEL)


def _as_array(values: Any) -> Any:  # noqa: ANN401 - a tensor, an array, or a list of sequences
    """A column as a tensor, as an array, or as a list of sequences of different lengths."""
    if isinstance(values, Tensor):
        return values
    if isinstance(values, list | tuple) and values and all(isinstance(v, Tensor) for v in values):
        return torch.stack(list(values)) if len({v.shape for v in values}) == 1 else list(values)
    try:
        array = np.asarray(values)
    except ValueError:  # lists of different lengths
        return list(values)
    if array.dtype.kind == "O" and array.ndim == 1 and array.size and _is_sequence(array[0]):
        return list(array)
    return array


def _is_sequence(value: object) -> bool:
    return isinstance(value, list | tuple | np.ndarray | Tensor)


def _as_column(values: Any) -> Any:  # noqa: ANN401 - a tensor, or a ragged column
    if isinstance(values, list):
        try:
            sequences = [torch.as_tensor(v if isinstance(v, Tensor) else np.asarray(v)) for v in values]
        except (TypeError, ValueError) as failure:
            raise _refuse_words("lists") from failure
        empty = [len(s) == 0 for s in sequences if s.dim()]
        full = next((s for s in sequences if s.dim() and len(s)), None)
        if any(empty) and full is not None:
            sequences = [full[:0] if s.dim() and not len(s) else s for s in sequences]
        return RaggedColumn(sequences)
    if isinstance(values, np.ndarray):
        if values.dtype.kind not in "biuf":
            raise _refuse_words(f"an array of type {values.dtype}")
        if not (values.flags.writeable and values.flags.c_contiguous):
            values = values.copy()  # torch accepts neither read-only memory nor negative strides
    return torch.as_tensor(values)


def _refuse_words(got: str) -> InvalidArgument:
    return InvalidArgument(
        f"'data' must be arrays of numbers, got {got}. Encode words and categories as numbers."
    )


def _note_dropped(names: Sequence[str]) -> None:
    if names:
        warnings.warn(
            f"The model has no argument for the columns {format_value(list(names))} of 'data', so they are "
            "not used.",
            stacklevel=level_of_caller(),
        )


def _require_no_splits(data: Mapping[Any, Any]) -> None:
    for name, value in data.items():
        if hasattr(value, "column_names"):
            raise InvalidArgument(
                f"'data' must be one dataset, got several splits. Give data[{name!r}], for example."
            )


def _open_loader(loader: DataLoader[Any], collate: Collate | None) -> tuple[Any, Collate | None]:
    """The dataset of a loader, and its collate function. Its own sampling is replaced."""
    dataset = loader.dataset
    if isinstance(dataset, IterableDataset):
        return dataset, None  # the caller refuses it
    samplers = (SequentialSampler, RandomSampler, DistributedSampler)
    is_plain = isinstance(loader.sampler, samplers) and not getattr(loader.sampler, "replacement", False)
    if not is_plain or type(loader.batch_sampler) not in (BatchSampler, type(None)):
        sampler = loader.sampler if not is_plain else loader.batch_sampler
        raise InvalidArgument(
            f"'data' must not have a sampler of its own, got a loader with {type(sampler).__name__}, because "
            "the guarantee is for lots that Privet draws. Give the dataset, or torch.utils.data.Subset of it "
            "for a part of it."
        )
    warnings.warn(
        "Of the loader only the dataset and the collate function are used: private training draws its lots "
        "by itself, with 'lot_size' examples on average, whatever batch_size, shuffle and num_workers are.",
        stacklevel=level_of_caller(),
    )
    if collate is None and loader.collate_fn is not default_collate:
        collate = loader.collate_fn
    if collate is None and isinstance(dataset, TensorDataset):
        return dataset, None
    return dataset, collate
