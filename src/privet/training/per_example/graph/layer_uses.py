"""Weights and biases of normalisations and convolutions, as functions of torch use them.

A subclass of a layer, or a model that calls ``F.layer_norm`` itself, leaves the same node in the graph as the
layer. So the node decides, not the name of a class.
"""

from dataclasses import dataclass
from typing import ClassVar, final

import torch
from torch import Tensor
from torch.autograd.graph import Node

from privet.torch_internals import get_output_shape, read_saved
from privet.training.per_example.forms.conv_form import ConvForm, ConvGeometry
from privet.training.per_example.forms.experts_form import ExpertsForm
from privet.training.per_example.forms.gradient_form import DenseForm, GradientForm, OutputGradient
from privet.training.per_example.graph.shared_steps import Shape, read_signed
from privet.training.per_example.graph.uses import ParameterUse
from privet.training.per_example.scratch import Scratch
from privet.training.per_example.taps.group_normalization import group_norm_sums
from privet.training.per_example.taps.layers import layer_norm_sums
from privet.training.per_example.taps.tape import BatchAxis, RowOwners

__all__ = [
    "read_batch_norm",
    "read_convolution",
    "read_group_norm",
    "read_grouped_product",
    "read_layer_norm",
]

WEIGHT = 1
"""The position of the weight among the inputs of these operations. The bias is next."""


@final
@dataclass(frozen=True, slots=True)
class LayerNormUse(ParameterUse):
    """y = w∘x̂ + b with x̂ = (x − mean)·scale, over the last sizes."""

    x: Tensor
    mean: Tensor
    scale: Tensor
    is_weight: bool

    def accepts(self, axis: BatchAxis, out: Shape, own: Shape) -> bool:
        return axis.dim < len(out) - len(own) and out[len(out) - len(own) :] == own

    def build_form(self, gradient: Tensor, axis: BatchAxis, batch: int, own: Shape) -> GradientForm:
        leading = gradient.dim() - len(own)
        rows = axis.split_rows(gradient, leading, batch)
        if not self.is_weight:
            return DenseForm(rows.sum(1))
        x, mean, scale = (axis.split_rows(t, leading, batch) for t in (self.x, self.mean, self.scale))
        flat = [t.flatten(2) for t in (x, mean, scale, rows)]
        sums = layer_norm_sums(*flat)
        if sums is not None:
            return DenseForm(sums[0].view(batch, *own))
        return DenseForm((x - mean).mul_(scale).mul_(rows).sum(1))


@final
@dataclass(frozen=True, slots=True)
class ChannelUse(ParameterUse):
    """y = w∘x̂ + b with one number of w and b for each channel: [images, channels, …].

    x̂ = (x − mean)·scale, with one mean and scale for each group of channels in an image or, where an image
    has none of its own, for each channel. Without x this is the bias, of a convolution too.
    """

    has_images: ClassVar[bool] = True

    x: Tensor | None
    mean: Tensor | None
    scale: Tensor | None

    def accepts(self, axis: BatchAxis, out: Shape, own: Shape) -> bool:
        return axis.dim == 0 and len(out) > 1 and own == (out[1],)

    def build_form(self, gradient: Tensor, axis: BatchAxis, batch: int, own: Shape) -> GradientForm:
        sums = gradient.sum(tuple(range(2, gradient.dim()))) if gradient.dim() > 2 else gradient
        if self.x is not None and self.mean is not None and self.scale is not None:
            sums = _sum_normalized(self.x, self.mean, self.scale, gradient)
        return DenseForm(axis.split_rows(sums, 1, batch).sum(1))


def _sum_normalized(x: Tensor, mean: Tensor, scale: Tensor, gradient: Tensor) -> Tensor:
    """The gradient of the weight for each image, [images, channels]."""
    found = group_norm_sums(x, mean, scale, gradient) if len(mean) == len(x) else None
    if found is not None:
        return found[0]
    by_group = x.reshape(len(x), mean.shape[1], -1)
    normalized = (by_group - mean.unsqueeze(2)).mul_(scale.unsqueeze(2)).view(len(x), x.shape[1], -1)
    return normalized.mul_(gradient.reshape(normalized.shape)).sum(2)


def read_layer_norm(node: Node, position: int) -> ParameterUse | None:
    """``F.layer_norm``."""
    if position < WEIGHT:
        return None
    x, mean, scale = (read_saved(node, name) for name in ("input", "result1", "result2"))
    return LayerNormUse(x.detach(), mean.detach(), scale.detach(), position == WEIGHT)


def read_group_norm(node: Node, position: int) -> ParameterUse | None:
    """``F.group_norm``."""
    if position < WEIGHT:
        return None
    if position > WEIGHT:
        return ChannelUse(None, None, None)
    x, mean, scale = (read_saved(node, name).detach() for name in ("input", "result1", "result2"))
    return ChannelUse(x, mean.view(len(x), -1), scale.view(len(x), -1))


def read_batch_norm(node: Node, position: int) -> ParameterUse | None:
    """``F.batch_norm`` with fixed statistics."""
    if position < WEIGHT or read_saved(node, "training"):
        return None
    if position > WEIGHT:
        return ChannelUse(None, None, None)
    x, mean, variance = (read_saved(node, name).detach() for name in ("input", "running_mean", "running_var"))
    scale = (variance + float(read_saved(node, "eps"))).rsqrt()
    return ChannelUse(x, mean.unsqueeze(0), scale.unsqueeze(0))


@final
@dataclass(frozen=True, slots=True)
class ConvolutionUse(ParameterUse):
    """The weight of a convolution, or of a transposed one.

    A transposed convolution with the weight W [in, out, …] is the derivative of a convolution from ``out`` to
    ``in`` channels. So its weight has the gradient of that convolution's weight, with the output gradient in
    place of the input, and the input in place of the output gradient.
    """

    has_images: ClassVar[bool] = True

    x: Tensor
    weight: Tensor
    stride: tuple[int, ...]
    padding: tuple[int, ...]
    dilation: tuple[int, ...]
    groups: int
    is_transposed: bool

    def accepts(self, axis: BatchAxis, out: Shape, own: Shape) -> bool:
        return axis.dim == 0 and own == tuple(self.weight.shape)

    def build_form(self, gradient: Tensor, axis: BatchAxis, batch: int, own: Shape) -> GradientForm:
        images, outputs = (gradient, self.x) if self.is_transposed else (self.x, gradient)
        if axis.outer > 1:
            images = axis.split_rows(images, 1, batch).flatten(0, 1)
        rows = OutputGradient(axis.split_rows(outputs, 1, batch), own=False)
        geometry = ConvGeometry(self.weight, self.stride, self.dilation, self.groups)
        padding = [n for n in reversed(self.padding) for _ in range(2)]
        return ConvForm(images, rows, geometry, Scratch(), padding)


@final
@dataclass(frozen=True, slots=True)
class ExpertsUse(ParameterUse):
    """The matrices of experts in ``F.grouped_mm``: rows [rows, in], each with the matrix of its expert."""

    takes_owners: ClassVar[bool] = True

    x: Tensor
    experts: Tensor

    def accepts(self, axis: BatchAxis, out: Shape, own: Shape) -> bool:
        return axis.dim == 0 and len(out) == 2 and len(own) == 3

    def build_form(self, gradient: Tensor, axis: BatchAxis, batch: int, own: Shape) -> GradientForm:
        rows = [axis.split_rows(t, 1, batch) for t in (self.x, gradient, self.experts)]
        return ExpertsForm(rows[0], rows[1], rows[2], own)

    def build_owned_form(self, gradient: Tensor, owners: RowOwners, batch: int, own: Shape) -> GradientForm:
        rows = [owners.split_rows(t, 1, batch) for t in (self.x, gradient, self.experts)]
        return ExpertsForm(rows[0], rows[1], rows[2], own)


def read_grouped_product(node: Node, position: int) -> ParameterUse | None:
    """``F.grouped_mm`` of a matrix with one matrix for each group of its rows."""
    x, ends = read_saved(node, "self"), read_saved(node, "offs")
    sizes = read_saved(node, "mat2_sym_sizes")
    if position != 1 or ends is None or x is None or x.dim() != 2 or len(sizes) != 3:
        return None
    rows = torch.arange(len(x), device=x.device)
    if not len(x) or int(ends[-1]) != len(x):
        return None  # the result of rows in no group is not defined
    return ExpertsUse(x.detach(), torch.searchsorted(ends.to(torch.int64), rows, right=True))


def read_convolution(node: Node, position: int) -> ParameterUse | None:
    """``F.conv1d`` to ``F.conv_transpose3d``."""
    if position < WEIGHT:
        return None
    if position > WEIGHT:
        return ChannelUse(None, None, None)
    stride, padding, dilation, ends = (
        tuple(read_signed(n) for n in read_saved(node, name))
        for name in ("stride", "padding", "dilation", "output_padding")
    )
    if len(stride) != len(get_output_shape(node)) - 2:
        return None
    is_transposed = bool(read_saved(node, "transposed"))
    if is_transposed and any(end >= step for end, step in zip(ends, stride, strict=True)):
        return None  # its derivative has more outputs than there are inputs
    x, weight = read_saved(node, "input").detach(), read_saved(node, "weight").detach()
    groups = int(read_saved(node, "groups"))
    return ConvolutionUse(x, weight, stride, padding, dilation, groups, is_transposed)
