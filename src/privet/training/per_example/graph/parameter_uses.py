"""How an operation uses a tensor that all examples share, where the tensor meets the examples.

Each use reads from the graph what the operation saved, and turns the gradient of the operation's output into
the gradient of the shared tensor, for each example. This is exact for any operation that is linear in the
shared tensor once the gradient's rows are known to belong to examples: the rows of one example, with zeros in
place of all others, go through the operation's own derivative. An operation in no table is unknown, and its
parameter is left to brute force.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, final

import torch
from torch import Tensor
from torch.autograd.graph import Node

from privet.torch_internals import get_output_dtype, read_saved
from privet.training.per_example.forms.embedding_form import EmbeddingForm
from privet.training.per_example.forms.gradient_form import DenseForm, GradientForm, OutputGradient
from privet.training.per_example.forms.grouped_matrix_form import GroupedMatrixForm
from privet.training.per_example.forms.linear_form import LinearForm
from privet.training.per_example.forms.rearranged_form import RearrangedForm
from privet.training.per_example.graph.layer_uses import (
    read_batch_norm,
    read_convolution,
    read_group_norm,
    read_grouped_product,
    read_layer_norm,
)
from privet.training.per_example.graph.shared_steps import Shape, read_signed
from privet.training.per_example.graph.uses import ParameterUse
from privet.training.per_example.taps.tape import BatchAxis, RowOwners

__all__ = ["MatrixUse", "read_use"]


def sum_rows(gradient: Tensor, axis: BatchAxis, batch: int, own: Shape) -> Tensor:
    """[examples, *own]: the gradient, added over all axes along which the shared tensor is broadcast."""
    out = gradient.shape
    broadcast = [1] * (len(out) - len(own)) + list(own)
    del broadcast[axis.dim]
    moved = gradient.movedim(axis.dim, 0)
    if axis.each > 1:
        moved = BatchAxis(0, axis.each, axis.outer).split_rows(moved, 1, batch).sum(1)
    return moved.sum_to_size(batch, *broadcast).reshape(batch, *own)


def _is_broadcast(axis: BatchAxis, out: Shape, own: Shape) -> bool:
    """Whether the shared tensor, aligned with the last sizes of the output, is repeated along the axis."""
    aligned = axis.dim - (len(out) - len(own))
    return len(own) <= len(out) and (aligned < 0 or own[aligned] == 1)


@final
@dataclass(frozen=True, slots=True)
class BroadcastUse(ParameterUse):
    """y = factor∘w + …, with w broadcast along the examples."""

    factor: Tensor | None
    scale: float = 1.0

    def accepts(self, axis: BatchAxis, out: Shape, own: Shape) -> bool:
        return _is_broadcast(axis, out, own)

    def build_form(self, gradient: Tensor, axis: BatchAxis, batch: int, own: Shape) -> GradientForm:
        product = gradient if self.factor is None else gradient * self.factor
        rows = sum_rows(product, axis, batch, own)
        return DenseForm(rows if self.scale == 1.0 else rows * self.scale)


@final
@dataclass(frozen=True, slots=True)
class RepeatUse(ParameterUse):
    """Copies of w, one after another along every axis."""

    def accepts(self, axis: BatchAxis, out: Shape, own: Shape) -> bool:
        padded = (*[1] * (len(out) - len(own)), *own)
        return axis.each % padded[axis.dim] == 0

    def build_form(self, gradient: Tensor, axis: BatchAxis, batch: int, own: Shape) -> GradientForm:
        padded = [1] * (gradient.dim() - len(own)) + list(own)
        height = padded.pop(axis.dim)
        moved = gradient.movedim(axis.dim, 0)
        first = BatchAxis(0, axis.each, axis.outer)
        places = first.split_rows(torch.arange(len(moved), device=moved.device), 1, batch) % height
        rows = first.split_rows(moved, 1, batch)  # [examples, each, …]
        index = places.view(*places.shape, *[1] * (rows.dim() - 2)).expand_as(rows)
        total = gradient.new_zeros(batch, height, *rows.shape[2:]).scatter_add_(1, index, rows)
        for position, size in enumerate(padded, start=2):
            shape = total.shape
            total = total.reshape(*shape[:position], -1, size, *shape[position + 1 :]).sum(position)
        return DenseForm(total.movedim(1, axis.dim + 1).reshape(batch, *own))


@final
@dataclass(frozen=True, slots=True)
class MatrixUse(ParameterUse):
    """y = x W with x [rows, in] and W [in, out]; or y = W x, with x [in, rows] and W [out, in]."""

    x: Tensor
    is_left: bool

    def accepts(self, axis: BatchAxis, out: Shape, own: Shape) -> bool:
        return axis.dim == int(self.is_left) and len(out) == len(own) == 2

    def split(self, gradient: Tensor, axis: BatchAxis, batch: int) -> tuple[Tensor, Tensor]:
        """Two factors [examples, tokens, …]: the gradient of W is firstᵀ·second."""
        pair = (gradient.t(), self.x.t()) if self.is_left else (self.x, gradient)
        order = BatchAxis(0, axis.each, axis.outer)
        return order.split_rows(pair[0], 1, batch), order.split_rows(pair[1], 1, batch)

    def build_form(self, gradient: Tensor, axis: BatchAxis, batch: int, own: Shape) -> GradientForm:
        first, second = self.split(gradient, axis, batch)
        return LinearForm(second, OutputGradient(first, own=False), torch.Size(own))


@final
@dataclass(frozen=True, slots=True)
class BatchedMatrixUse(ParameterUse):
    """The same in each of several groups, which come first in every shape."""

    x: Tensor
    is_left: bool

    def accepts(self, axis: BatchAxis, out: Shape, own: Shape) -> bool:
        return axis.dim == 1 + int(self.is_left) and len(out) == len(own) == 3

    def build_form(self, gradient: Tensor, axis: BatchAxis, batch: int, own: Shape) -> GradientForm:
        pair = (gradient.mT, self.x.mT) if self.is_left else (self.x, gradient)
        order, groups = BatchAxis(0, axis.each, axis.outer), own[0]
        first, second = (order.split_rows(t.transpose(0, 1).flatten(1), 1, batch) for t in pair)
        if groups == 1:
            form = LinearForm(second, OutputGradient(first, own=False), torch.Size(own[1:]))
            return RearrangedForm(form, own[1:], lambda t: t.unsqueeze(1))
        first, second = (t.view(batch, axis.each, groups, -1).transpose(1, 2) for t in (first, second))
        return GroupedMatrixForm(first, second)


@final
@dataclass(frozen=True, slots=True)
class VectorUse(ParameterUse):
    """y = X w with X [rows, in] and w [in]."""

    x: Tensor

    def accepts(self, axis: BatchAxis, out: Shape, own: Shape) -> bool:
        return axis.dim == 0 and len(out) == len(own) == 1

    def build_form(self, gradient: Tensor, axis: BatchAxis, batch: int, own: Shape) -> GradientForm:
        x, g = axis.split_rows(self.x, 1, batch), axis.split_rows(gradient, 1, batch)
        return DenseForm((x * g.unsqueeze(2)).sum(1))


@final
@dataclass(frozen=True, slots=True)
class TableUse(ParameterUse):
    """Rows of a table by their indices. A row has a place along each of the first ``depth`` axes."""

    takes_owners: ClassVar[bool] = True

    ids: Tensor
    skip: int | None
    depth: int = 1

    def accepts(self, axis: BatchAxis, out: Shape, own: Shape) -> bool:
        return axis.dim < self.ids.dim() and out == (*self.ids.shape, *own[self.depth :])

    def build_form(self, gradient: Tensor, axis: BatchAxis, batch: int, own: Shape) -> GradientForm:
        leading = self.ids.dim()
        ids = axis.split_rows(self.ids, leading, batch)
        rows = axis.split_rows(gradient.reshape(*self.ids.shape, -1), leading, batch)
        return self._build_table_form(ids, rows, own)

    def build_owned_form(self, gradient: Tensor, owners: RowOwners, batch: int, own: Shape) -> GradientForm:
        ids = owners.split_rows(self.ids, 1, batch).flatten(1)
        rows = owners.split_rows(gradient.reshape(*self.ids.shape, -1), 1, batch)
        return self._build_table_form(ids, rows.reshape(*ids.shape, -1), own)

    def _build_table_form(self, ids: Tensor, rows: Tensor, own: Shape) -> GradientForm:
        shape = torch.Size((math.prod(own[: self.depth]), rows.shape[2]))
        form = EmbeddingForm(ids, OutputGradient(rows, own=False), shape, self.skip)
        return form if own == shape else RearrangedForm(form, shape, lambda t: t.reshape(len(t), *own))


def _read_sum(node: Node, position: int) -> ParameterUse | None:
    """y = a + alpha·b, or a − alpha·b."""
    if not position:
        return BroadcastUse(None)
    alpha = float(read_saved(node, "alpha", 1))
    return BroadcastUse(None, -alpha if node.name().startswith("Sub") else alpha)


def _read_product(node: Node, position: int) -> ParameterUse | None:
    factor = read_saved(node, "self" if position == 1 else "other")
    return BroadcastUse(factor.detach()) if isinstance(factor, Tensor) else None


def _read_quotient(node: Node, position: int) -> ParameterUse | None:
    other = read_saved(node, "other")
    if not isinstance(other, Tensor):
        return None
    if not position:
        return BroadcastUse(other.detach().reciprocal())
    return BroadcastUse(read_saved(node, "self").detach() / other.detach().square(), -1.0)


def _read_choice(node: Node, position: int) -> ParameterUse | None:
    condition = read_saved(node, "condition").bool()  # torch also takes bytes
    return BroadcastUse(condition if not position else ~condition)


def _read_addcmul(node: Node, position: int) -> ParameterUse | None:
    if not position:
        return BroadcastUse(None)
    factor = read_saved(node, "tensor2" if position == 1 else "tensor1")
    return BroadcastUse(factor.detach(), float(read_saved(node, "value")))


def _read_prelu(node: Node, position: int) -> ParameterUse | None:
    return BroadcastUse(read_saved(node, "self").detach().clamp(max=0.0)) if position == 1 else None


def _read_addmm(node: Node, position: int) -> ParameterUse | None:
    if position == 1 or read_saved(node, "alpha") != 1 or read_saved(node, "beta") != 1:
        return None
    return MatrixUse(read_saved(node, "mat1").detach(), is_left=False) if position else BroadcastUse(None)


def _read_mm(node: Node, position: int) -> ParameterUse | None:
    x = read_saved(node, "self" if position else "mat2").detach()
    kind = MatrixUse if node.name().startswith("Mm") else BatchedMatrixUse
    return kind(x, is_left=not position)


def _read_mv(node: Node, position: int) -> ParameterUse | None:
    return VectorUse(read_saved(node, "self").detach()) if position == 1 else None


def _read_embedding(node: Node, position: int) -> ParameterUse | None:
    if position or read_saved(node, "scale_grad_by_freq"):
        return None
    skip = read_signed(read_saved(node, "padding_idx"))
    return TableUse(read_saved(node, "indices"), None if skip < 0 else skip)


def _read_index(node: Node, position: int) -> ParameterUse | None:
    """w[i], w[i, j] and so on: integers along the first axes only."""
    indices = read_saved(node, "indices")
    given = [index for index in indices if index is not None]
    if position or not given or any(index is None for index in indices[: len(given)]):
        return None
    if any(index.dtype not in (torch.int64, torch.int32) for index in given):
        return None
    sizes = [int(size) for size in read_saved(node, "self_sym_sizes")[: len(given)]]
    rows = given[0] % sizes[0]
    for index, size in zip(given[1:], sizes[1:], strict=True):
        rows = rows * size + index % size
    return TableUse(rows.to(torch.int64), None, len(given))


def _read_index_select(node: Node, position: int) -> ParameterUse | None:
    return None if read_saved(node, "dim") else TableUse(read_saved(node, "index"), None)


_READERS: dict[str, Callable[[Node, int], ParameterUse | None]] = {
    "AddBackward0": _read_sum,
    "SubBackward0": _read_sum,
    "MulBackward0": _read_product,
    "DivBackward0": _read_quotient,
    "WhereBackward0": _read_choice,
    "AddcmulBackward0": _read_addcmul,
    "PreluKernelBackward0": _read_prelu,
    "ExpandBackward0": lambda node, position: BroadcastUse(None),
    "RepeatBackward0": lambda node, position: RepeatUse(),
    "AddmmBackward0": _read_addmm,
    "MmBackward0": _read_mm,
    "BmmBackward0": _read_mm,
    "MvBackward0": _read_mv,
    "EmbeddingBackward0": _read_embedding,
    "IndexBackward0": _read_index,
    "IndexSelectBackward0": _read_index_select,
    "NativeLayerNormBackward0": read_layer_norm,
    "NativeGroupNormBackward0": read_group_norm,
    "NativeBatchNormBackward0": read_batch_norm,
    "ConvolutionBackward0": read_convolution,
    "GroupedMmBackward0": read_grouped_product,
}


def read_use(node: Node, name: str, position: int) -> ParameterUse | None:
    """How the operation uses its input at this position; None if that is not known."""
    reader = _READERS.get(name)
    # The rules are for real numbers: the derivative of a complex product has the conjugate of its factor.
    return None if reader is None or get_output_dtype(node, 0).is_complex else reader(node, position)
