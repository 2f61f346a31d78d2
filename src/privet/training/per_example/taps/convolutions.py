"""Convolutions in one, two and three dimensions, with groups, strides, dilations and every padding."""

from collections.abc import Iterator
from typing import final

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

from privet.training.per_example.forms.conv_form import Windows
from privet.training.per_example.forms.products import Direct, Gradient, Product
from privet.training.per_example.taps.tape import Placement, Tap, Tape, Use, plain_parameters

__all__ = ["ConvolutionTap"]


@final
class ConvolutionTap(Tap):
    """A convolution; the padding is put on first, so that every padding mode is one of zero padding."""

    __slots__ = ("channels_last", "padding", "usual_output")

    def __init__(self, module: nn.Module, number: int, indices: dict[str, int], tape: Tape) -> None:
        super().__init__(module, number, indices, tape)
        assert isinstance(module, nn.modules.conv._ConvNd)
        self.channels_last = isinstance(module, nn.Conv2d)
        self.usual_output = False
        self.padding = list(module._reversed_padding_repeated_twice)

    @staticmethod
    def fits(module: nn.Module) -> bool:
        return plain_parameters(module, ("weight", "bias"))

    def relax(self, whole: bool) -> bool:
        if not self.channels_last or (self.usual_output and not whole):
            return False
        self.channels_last = not whole
        self.usual_output = True
        return True

    def forward(self, x: Tensor) -> Tensor:  # type: ignore[override]
        module = self.module
        assert isinstance(module, nn.modules.conv._ConvNd)
        weight, bias = self.cut("weight"), self.cut("bias")
        assert weight is not None
        if self.channels_last:
            # With one channel both layouts have the same memory, and torch takes the strides as they stand.
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
        if y._is_view():
            y = y.clone()
        self.tape.note(self, y, (x.shape[0],), (x,))
        return y.contiguous() if self.usual_output else y

    def saved_rows(self, use: Use, place: Placement, batch: int) -> tuple[Tensor, ...]:
        """The images, those of an example together."""
        if place.outer == 1:
            return use.saved
        return tuple(place.rows(t, 1, batch).flatten(0, 1) for t in use.saved)

    def products(
        self, use: Use, gradient: Gradient, saved: tuple[Tensor, ...]
    ) -> Iterator[tuple[int, Product]]:
        module = self.module
        assert isinstance(module, nn.modules.conv._ConvNd)
        rows = gradient.rows
        if "bias" in self.indices:
            yield self.indices["bias"], Direct(rows.sum((1, *range(3, rows.dim()))))
        if "weight" in self.indices:
            x = saved[0].detach()
            around = module.padding_mode == "zeros" and not isinstance(module.padding, str)
            padding = self.padding if around else [0] * len(self.padding)  # or the input has it already
            yield self.indices["weight"], Windows(x, gradient, module, self.tape.scratch, padding)


_CONVOLUTIONS = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}
