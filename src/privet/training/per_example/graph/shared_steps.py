"""Steps from a parameter to where it meets the examples, and the way back for written-out gradients.

Before a parameter meets the examples, the model may give it another shape, take a part of it, look rows up in
it, or multiply it by something that all examples share. All of these are linear, so a gradient
[examples, *after] goes back to [examples, *before] by the transposed operation. Any other step is left to
autograd (``shared_parts``).
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.autograd.graph import Node

from privet.torch_internals import get_output_dtype, read_saved

__all__ = [
    "BackwardStep",
    "Shape",
    "is_isometry",
    "is_known_step",
    "is_split",
    "read_extent",
    "read_signed",
    "read_step",
]

Shape = tuple[int, ...]
BackwardStep = Callable[[Tensor], Tensor]
"""From [examples, *after] to [examples, *before]."""

_SAME_NUMBERS = frozenset(
    {
        *("ViewBackward0", "UnsafeViewBackward0", "ReshapeAliasBackward0", "UnsqueezeBackward0"),
        *("SqueezeBackward0", "SqueezeBackward1", "SqueezeBackward2", "AliasBackward0", "CloneBackward0"),
        "ToCopyBackward0",  # of autocast; the way back keeps full precision
    }
)
_SPLITS = frozenset({"SplitBackward0", "SplitWithSizesBackward0"})
_PARTS = _SPLITS | {"SliceBackward0"}
_ORDERS = frozenset({"TBackward0", "TransposeBackward0", "PermuteBackward0"})
_ISOMETRIES = _SAME_NUMBERS | _PARTS | _ORDERS | {"SelectBackward0", "NegBackward0"}
_SUMS = frozenset({"AddBackward0", "SubBackward0", "ExpandBackward0"})
_ROWS = frozenset({"IndexBackward0", "IndexSelectBackward0"})


def is_isometry(name: str) -> bool:
    """Whether the way back keeps the norm: the same numbers elsewhere, with zeros around them."""
    return name in _ISOMETRIES


def is_split(name: str) -> bool:
    """Whether the operation has one output for each part."""
    return name in _SPLITS


def is_known_step(node: Node, name: str, position: int, before: Shape) -> bool:
    """Whether ``read_step`` knows the way back through this operation."""
    if get_output_dtype(node, 0).is_complex:
        return False  # the way back would need conjugates
    if name in _ISOMETRIES or name == "ExpandBackward0":
        return True
    if name in ("AddBackward0", "SubBackward0"):
        return bool(read_saved(node, "alpha") == 1)
    if name == "MulBackward0":
        return isinstance(_read_factor(node, position), Tensor)
    return name in _ROWS and _read_rows(node, name, before) is not None


def read_step(node: Node, name: str, position: int, before: Shape, output: int) -> BackwardStep:
    """The way back through an operation that ``is_known_step`` accepts, with all that it needs."""
    if name in _PARTS:
        dim, start, stop, step = read_extent(node, name, before, output)
        return lambda value: _put_back(value, before, dim, slice(start, stop, step))
    if name == "SelectBackward0":
        dim, index = _axis(read_saved(node, "dim"), before), read_signed(read_saved(node, "index"))
        index %= before[dim]
        return lambda value: _put_back(value.unsqueeze(dim + 1), before, dim, slice(index, index + 1))
    if name in _ORDERS:
        order = _read_order(node, name, len(before))
        inverse = [0, *[1 + order.index(axis) for axis in range(len(order))]]
        return lambda value: value.permute(inverse)
    if name in _SUMS or name == "MulBackward0":
        factor = _read_factor(node, position).detach() if name == "MulBackward0" else None
        is_negative = name == "SubBackward0" and position == 1
        return lambda value: _sum_back(value, before, factor, is_negative)
    if name == "NegBackward0":
        return torch.neg
    if name in _ROWS:
        rows = _read_rows(node, name, before)
        assert rows is not None
        return lambda value: _add_rows(value, before, rows)
    return lambda value: value.reshape(value.shape[0], *before)


def read_signed(number: Any) -> int:  # noqa: ANN401 - as torch saves it
    """A saved integer. Torch gives some negative numbers as unsigned ones."""
    value = int(number)
    return value - (1 << 64) if value >= 1 << 63 else value


def _axis(number: Any, shape: Shape) -> int:  # noqa: ANN401
    return read_signed(number) % max(1, len(shape))


def _put_back(value: Tensor, before: Shape, dim: int, extent: slice) -> Tensor:
    whole = value.new_zeros(value.shape[0], *before)
    whole[(*[slice(None)] * (1 + dim), extent)] = value
    return whole


def _read_order(node: Node, name: str, dims: int) -> list[int]:
    """Which axis of the input each axis of the output is."""
    if name == "PermuteBackward0":
        return [read_signed(axis) % dims for axis in read_saved(node, "dims")]
    order = list(range(dims))
    if name == "TBackward0":
        return order[::-1]
    first, second = (read_signed(read_saved(node, name)) % dims for name in ("dim0", "dim1"))
    order[first], order[second] = order[second], order[first]
    return order


def _read_factor(node: Node, position: int) -> Any:  # noqa: ANN401 - a tensor, or None
    return read_saved(node, "self" if position == 1 else "other")


def _sum_back(value: Tensor, before: Shape, factor: Tensor | None, is_negative: bool) -> Tensor:
    batch = value.shape[0]
    if factor is not None:
        value = value * factor
    padded = [1] * (value.dim() - 1 - len(before)) + list(before)
    value = value.sum_to_size(batch, *padded).reshape(batch, *before)
    return value.neg() if is_negative else value


def _read_rows(node: Node, name: str, before: Shape) -> Tensor | None:
    """The rows that an index takes along the first axis; None if it selects in another way."""
    if not before:
        return None
    if name == "IndexSelectBackward0":
        rows, others = read_saved(node, "index"), [None]
        if _axis(read_saved(node, "dim"), before):
            return None
    else:
        rows, *others = read_saved(node, "indices")
    if not isinstance(rows, Tensor) or any(index is not None for index in others):
        return None
    return (rows % before[0]).reshape(-1) if rows.dtype in (torch.int64, torch.int32) else None


def _add_rows(value: Tensor, before: Shape, rows: Tensor) -> Tensor:
    table = value.new_zeros(value.shape[0], *before)
    return table.index_add_(1, rows, value.reshape(value.shape[0], len(rows), *before[1:]))


def read_extent(node: Node, name: str, before: Shape, output: int) -> tuple[int, int, int, int]:
    """The part of a tensor that a slice or a split takes: dimension, start, stop, step."""
    dim = _axis(read_saved(node, "dim"), before)
    if name == "SplitBackward0":
        width = int(read_saved(node, "split_size"))
        return dim, output * width, min((output + 1) * width, before[dim]), 1
    if name == "SplitWithSizesBackward0":
        widths = [int(n) for n in read_saved(node, "split_sizes")]
        return dim, sum(widths[:output]), sum(widths[: output + 1]), 1
    ends = (read_saved(node, name) for name in ("start", "end", "step"))
    extent = slice(*(None if end is None else read_signed(end) for end in ends))
    start, stop, step = extent.indices(before[dim])
    return dim, start, stop, step
