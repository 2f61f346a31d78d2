"""Convolutions in one, two and three dimensions, with groups, strides, dilations and every padding.

Two-dimensional convolutions run with channels last. A convolution of single pixels (1×1) is then a matrix
product over the pixels. It runs as one, because this is two to three times as fast for small images, in the
forward pass as well as for the norms and sums.
"""

import math
from collections.abc import Iterator
from typing import final

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

from privet.torch_internals import ConvBase, get_padding, is_view
from privet.training.per_example.forms.conv_form import ConvForm
from privet.training.per_example.forms.gradient_form import DenseForm, GradientForm, OutputGradient
from privet.training.per_example.taps.layers import build_linear_forms
from privet.training.per_example.taps.tape import (
    BatchAxis,
    LayerCall,
    RowOwners,
    Tap,
    Tape,
    has_plain_parameters,
)

__all__ = ["ConvolutionTap"]


SMALL_IMAGE = 1 / 256
"""With an image below this share of the weight, to copy the weight with channels last takes too long."""


@final
class ConvolutionTap(Tap):
    """A convolution. Padding other than zeros is applied to the input first."""

    __slots__ = ("channels_last", "default_output", "is_pointwise", "padding")

    def __init__(self, module: nn.Module, number: int, indices: dict[str, int], tape: Tape) -> None:
        super().__init__(module, number, indices, tape)
        assert isinstance(module, ConvBase)
        self.channels_last = isinstance(module, nn.Conv2d)
        self.default_output = False
        self.padding = get_padding(module)
        self.is_pointwise = self.channels_last and _is_pointwise(module, self.padding)

    @staticmethod
    def supports(module: nn.Module) -> bool:
        return has_plain_parameters(module, ("weight", "bias"))

    def relax_memory_format(self, whole: bool) -> bool:
        if not self.channels_last or (self.default_output and not whole):
            return False
        self.channels_last = not whole
        self.is_pointwise = self.is_pointwise and not whole
        self.default_output = True
        return True

    def forward(self, x: Tensor) -> Tensor:  # type: ignore[override]
        module = self.module
        assert isinstance(module, ConvBase)
        weight, bias = self.detach_parameter("weight"), self.detach_parameter("bias")
        assert weight is not None
        if self.is_pointwise:
            return self._multiply_pixels(x, weight, bias)
        if self.channels_last and math.prod(x.shape[1:]) < SMALL_IMAGE * weight.numel():
            x = x.contiguous().flatten(1).view(x.shape)  # a single pixel would keep its strides
        elif self.channels_last:
            # With one channel both memory formats are the same memory, and torch uses the strides as given.
            if x.shape[1] == 1 and x.is_contiguous():
                x = x.as_strided(x.shape, (x.stride(0), 1, x.stride(2), 1))
            else:
                x = x.contiguous(memory_format=torch.channels_last)
            weight = weight.contiguous(memory_format=torch.channels_last)
        padding: tuple[int, ...] | str = module.padding
        if isinstance(padding, str) or module.padding_mode != "zeros":
            if any(self.padding):
                mode = "constant" if module.padding_mode == "zeros" else module.padding_mode
                x = F.pad(x, self.padding, mode=mode)
            padding = (0,) * len(module.stride)
        y = _CONVOLUTIONS[len(module.stride)](
            x, weight, bias, module.stride, padding, module.dilation, module.groups
        )
        if is_view(y):
            y = y.clone()
        self.tape.record(self, y, (x.shape[0],), (x,))
        return y.contiguous() if self.default_output else y

    def _multiply_pixels(self, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        """A 1×1 convolution: the matrix product over the channels of each pixel."""
        pixels = x.contiguous(memory_format=torch.channels_last).permute(0, 2, 3, 1)
        # The edge is that of the flat product: an in-place operation could replace the node of a view.
        flat = F.linear(pixels.reshape(-1, x.shape[1]), weight.flatten(1), bias)
        self.tape.record(self, flat, tuple(pixels.shape[:3]), (pixels,))
        y = flat.view(*pixels.shape[:3], -1).permute(0, 3, 1, 2)
        return y.contiguous() if self.default_output else y

    def saved_rows(self, call: LayerCall, axis: BatchAxis | RowOwners, batch: int) -> tuple[Tensor, ...]:
        """The images, with those of an example adjacent."""
        if self.is_pointwise:
            return super().saved_rows(call, axis, batch)
        if axis.outer == 1:
            return call.saved
        return tuple(axis.split_rows(t, 1, batch).flatten(0, 1) for t in call.saved)

    def build_forms(
        self, call: LayerCall, gradient: OutputGradient, saved: tuple[Tensor, ...]
    ) -> Iterator[tuple[int, GradientForm]]:
        module = self.module
        assert isinstance(module, ConvBase)
        rows = gradient.rows
        if self.is_pointwise:
            yield from build_linear_forms(
                saved[0].detach(),
                gradient,
                self.indices.get("weight"),
                self.indices.get("bias"),
                (module.weight.shape, torch.Size((module.out_channels,))),
                self.tape.scratch,
            )
            return
        if "bias" in self.indices:
            yield self.indices["bias"], DenseForm(rows.sum((1, *range(3, rows.dim()))))
        if "weight" in self.indices:
            x = saved[0].detach()
            is_unpadded = module.padding_mode == "zeros" and not isinstance(module.padding, str)
            padding = self.padding if is_unpadded else [0] * len(self.padding)
            yield self.indices["weight"], ConvForm(x, gradient, module, self.tape.scratch, padding)


def _is_pointwise(module: ConvBase, padding: list[int]) -> bool:
    return set(module.kernel_size) == set(module.stride) == {1} and module.groups == 1 and not any(padding)


_CONVOLUTIONS = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}
