"""Inputs of records: one array, or several inputs of a model as the fields of one structured array.

A model with two inputs, or with token numbers and an attention mask, gets a record as several arrays. They
are kept together as one array with named fields, one row for each record, so that rows are drawn, joined,
hashed and stored as ever. Fields of a dictionary have its names and reach a model by keyword; fields of a
tuple are called f0, f1, … (as numpy calls them) and reach it in their order.
"""

from collections.abc import Mapping
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from privet.errors import InvalidArgument

__all__ = [
    "TensorLike",
    "are_positional",
    "gather_inputs",
    "has_several_inputs",
    "join_inputs",
    "split_inputs",
    "to_arguments",
]

Table = NDArray[Any]


@runtime_checkable
class TensorLike(Protocol):
    """A tensor, which may be on another device and have a gradient."""

    def detach(self) -> Any: ...  # noqa: ANN401
    def cpu(self) -> Any: ...  # noqa: ANN401


def gather_inputs(inputs: Mapping[str, object] | tuple[object, ...], name: str = "inputs") -> Table:
    """A dictionary or a tuple of arrays as one array with fields.

    >>> rows = gather_inputs({"ids": np.zeros((3, 4), int), "mask": np.ones((3, 4), int)})
    >>> len(rows), rows.dtype.names, rows["ids"].shape
    (3, ('ids', 'mask'), (3, 4))
    """
    if isinstance(inputs, Mapping):
        parts = {str(key): _to_array(name, part) for key, part in inputs.items()}
    else:
        parts = {f"f{place}": _to_array(name, part) for place, part in enumerate(inputs)}
    lengths = {len(part) if part.ndim else -1 for part in parts.values()}
    if not parts or len(lengths) > 1 or -1 in lengths:
        raise InvalidArgument(
            f"'{name}' must hold arrays with one row for each record, got arrays of several lengths, or "
            f"none. Give each input of the model as an array of as many rows."
        )
    return join_inputs(parts)


def join_inputs(parts: Mapping[str, Table]) -> Table:
    """Arrays of one length as the fields of one array."""
    rows = len(next(iter(parts.values())))
    table = np.empty(rows, dtype=[(name, part.dtype, part.shape[1:]) for name, part in parts.items()])
    for name, part in parts.items():
        table[name] = part
    return table


def has_several_inputs(rows: Table) -> bool:
    """Whether the records have several inputs.

    >>> has_several_inputs(np.zeros((3, 2)))
    False
    """
    return rows.dtype.names is not None


def split_inputs(rows: Table) -> dict[str, Table]:
    """The inputs by their names."""
    return {name: np.ascontiguousarray(rows[name]) for name in rows.dtype.names or ()}


def to_arguments(rows: Table) -> Table | dict[str, Table] | tuple[Table, ...]:
    """What a function of records gets: the rows, or a dictionary or tuple of the inputs as they were given.

    >>> [part.shape for part in to_arguments(gather_inputs((np.zeros((3, 4)), np.ones(3))))]
    [(3, 4), (3,)]
    """
    if not has_several_inputs(rows):
        return rows
    inputs = split_inputs(rows)
    return tuple(inputs.values()) if are_positional(tuple(inputs)) else inputs


def are_positional(names: tuple[str, ...]) -> bool:
    """Whether these are the names of a tuple's fields."""
    return names == tuple(f"f{place}" for place in range(len(names)))


def _to_array(name: str, part: object) -> Table:
    try:
        array = np.asarray(part.detach().cpu() if isinstance(part, TensorLike) else part)
    except (TypeError, ValueError, RuntimeError):
        raise InvalidArgument(
            f"'{name}' must hold arrays, got something that numpy cannot read. Pad rows to one length."
        ) from None
    if array.dtype.hasobject or array.dtype.names is not None:
        raise InvalidArgument(
            f"'{name}' must hold arrays of numbers or text where it holds several, got Python objects. "
            f"Give token numbers, not texts of any length, and a data frame as one input."
        )
    return array
