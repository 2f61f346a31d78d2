"""The weight of a convolution in one, two or three dimensions, with all its options.

A convolution is a matrix product with the windows of its input, one row for each output pixel. There are two
ways to the norms, as for any matrix product (see ``linear_form``). With P pixels, windows of K numbers and O
outputs, the written-out gradient takes P·K·O products and O·K numbers of memory per example; the Gram form
takes P²·(K+O) products. The written-out form also gives the clipped sum. After the Gram form the sum is one
ordinary weight gradient of the scaled output gradients, which takes P·K·O products again. So the choice is
between the memory of the first way and the P²·(K+O) products of the second.

Windows are copied for a few examples at a time, so that they stay in the cache, and with channels last, so
that a window is a few long runs (2 to 4 times as fast as ``F.unfold`` on the layers of common networks).
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor

from privet.torch_internals import ConvBase
from privet.training.double_precision import zeros_float64
from privet.training.per_example.forms.gradient_form import (
    GradientForm,
    OutputGradient,
    load_kernels,
    squared_row_norms,
)
from privet.training.per_example.rounding import sum_gram
from privet.training.per_example.scratch import Scratch
from privet.training.threads import choose_threads

__all__ = ["ConvForm", "ConvGeometry"]

WINDOW_NUMBERS = 1 << 19
"""Numbers of windows that are copied at a time: 2 MB, about the second-level cache."""

GRAM_PRICE = 1.3
"""The cost of a product of the Gram form, in products of the written-out form."""

SHORT_RUN = 32
"""Rows of a window with at most this many numbers are copied slowly by torch."""

CACHED_PRICE, UNCACHED_PRICE = 12.0, 48.0
"""The cost of a number of a written-out gradient, in products: one write and two reads."""

SHIFT_GAIN = 0.5
"""Products of pixels that may replace one product of windows. The sums over the shifts take time too."""

FEW_WINDOWS = 0.25
"""Windows for each output, over all examples, up to which the sum is one product of copied windows."""

CACHED = 1 << 22
"""Numbers that stay in cache: 16 MB, as for temporaries elsewhere."""


@final
@dataclass(frozen=True, slots=True)
class ConvGeometry:
    """What a convolution's weight gradient depends on, for convolutions that are no modules."""

    weight: Tensor  # [out, in/groups, …]
    stride: tuple[int, ...]
    dilation: tuple[int, ...]
    groups: int

    @property
    def kernel_size(self) -> tuple[int, ...]:
        """The sizes of a window."""
        return tuple(self.weight.shape[2:])

    @property
    def in_channels(self) -> int:
        """The channels of all groups of the input."""
        return self.weight.shape[1] * self.groups

    @property
    def out_channels(self) -> int:
        """The channels of all groups of the output."""
        return self.weight.shape[0]


@final
class ConvForm(GradientForm):
    """The weight of a convolution: gradients from x [images, C, …] and g [images, O, …].

    ``padding`` is the number of zeros before and after each size of x, from the last to the first, as for
    ``F.pad``.
    """

    __slots__ = (
        "_dense",
        "_input",
        "_outputs_last",
        "_padded",
        "_padding",
        "_scratch",
        "batch",
        "gradient",
        "module",
    )

    description = "convolution: norms from windows and output gradients"

    def __init__(
        self,
        x: Tensor,
        gradient: OutputGradient,
        module: "ConvBase | ConvGeometry",
        scratch: Scratch,
        padding: list[int],
    ) -> None:
        self._input = x
        self._padding, self._padded = padding, None if any(padding) else x
        self.gradient = gradient  # [examples, images each, O, …]
        self.module = module
        self.batch = gradient.rows.shape[0]
        self._scratch = scratch
        self._dense: Tensor | None = None
        self._outputs_last = False  # in the written-out gradients

    @property
    def x(self) -> Tensor:
        """The input with its padding. If there is any, the channels are last."""
        if self._padded is None:
            x, ends = self._input, self._padding[::-1]  # (after, before), from the first size of an image
            sizes = [n + ends[2 * i] + ends[2 * i + 1] for i, n in enumerate(x.shape[2:])]
            padded = self._scratch.borrow(x, x.shape[0], *sizes, x.shape[1]).zero_().movedim(-1, 1)
            inside = tuple(slice(ends[2 * i + 1], ends[2 * i + 1] + n) for i, n in enumerate(x.shape[2:]))
            padded[:, :, *inside] = x
            self._padded = padded
        return self._padded

    def squared_norms(self) -> Tensor:
        module = self.module
        images = self._input.shape[0] // self.batch
        pixels = self.gradient.rows[0, 0, 0].numel() * images
        inner, outer = module.weight[0].numel(), module.out_channels // module.groups
        numbers = inner * outer  # of a gradient, in each group
        is_cached = self.batch * numbers * module.groups <= CACHED
        price = (CACHED_PRICE if is_cached else UNCACHED_PRICE) * numbers  # this includes the sum
        if price <= GRAM_PRICE * pixels * pixels * (inner + outer):
            return squared_row_norms(self._write_out())
        return self._gram_squared_norms()

    def add_sum(self, factors: Tensor, out: Tensor) -> None:
        if not self._multiply_windows(factors, out, 1.0):
            out += self._sum(factors)

    def set_sum(self, factors: Tensor, out: Tensor) -> None:
        if not self._multiply_windows(factors, out, 0.0):
            out.copy_(self._sum(factors))

    def _multiply_windows(self, factors: Tensor, out: Tensor, beta: float) -> bool:
        """Write the sum as one product of windows in the order of the weight, if there are few of them.

        torch makes such a weight gradient in another order first, which takes longer than the product.
        """
        module, g = self.module, self.gradient.rows
        rows = g[0, 0, 0].numel() * g.shape[0] * g.shape[1]
        few = module.groups == 1 and rows <= FEW_WINDOWS * module.out_channels
        if self._dense is not None or not few or not out.is_contiguous():
            return False
        x, sizes = self.x, g.shape[3:]
        strides = x.stride()
        moves = [s * m for s, m in zip(strides[2:], module.stride, strict=True)]
        taps = [s * d for s, d in zip(strides[2:], module.dilation, strict=True)]
        shape, steps = (
            (len(x), *sizes, x.shape[1], *module.kernel_size),
            (strides[0], *moves, strides[1], *taps),
        )
        windows = x.as_strided(shape, steps, x.storage_offset()).reshape(rows, -1)
        scaled = self.gradient.scale(factors).flatten(0, 1).movedim(1, -1).reshape(rows, -1)
        out.view(len(out), -1).addmm_(scaled.t(), windows, beta=beta)
        return True

    def _sum(self, factors: Tensor) -> Tensor:
        module = self.module
        if self._dense is not None:
            total = torch.mv(self._dense.view(self.batch, -1).t(), factors)
            return self._as_weight(total.unsqueeze(0))[0]
        scaled = self.gradient.scale(factors).flatten(0, 1)
        weight: Tensor
        _, weight, _ = torch.ops.aten.convolution_backward(
            scaled,
            self._input,
            module.weight.detach(),
            None,
            list(module.stride),
            self._padding[::-2],
            list(module.dilation),
            False,
            [0] * len(module.stride),
            module.groups,
            [False, True, False],
        )
        return weight

    def narrow(self, examples: slice) -> "ConvForm":
        each = self._input.shape[0] // self.batch
        chosen = range(self.batch)[examples]
        images = self._input[chosen.start * each : chosen.stop * each]
        return ConvForm(images, self.gradient.narrow(examples), self.module, self._scratch, self._padding)

    def to_dense(self) -> Tensor:
        return self._as_weight(self._write_out())

    def _as_weight(self, rows: Tensor) -> Tensor:
        """[…, G, O/G, k…, C/G] as [examples, O, C/G, k…]."""
        module = self.module
        inner = module.in_channels // module.groups
        if self._outputs_last:
            return rows.view(-1, *module.kernel_size, inner, module.out_channels).movedim((-1, -2), (1, 2))
        return rows.view(-1, module.out_channels, *module.kernel_size, inner).movedim(-1, 2)

    def _write_out(self) -> Tensor:
        """The gradient of each example, in the order of its loop."""
        if self._dense is None:
            module = self.module
            shape = (module.groups, module.out_channels // module.groups, module.weight[0].numel())
            images = self.x.shape[0]
            rows = self._scratch.borrow(self.x, images, *shape)
            if not self._run_kernel(rows):
                for chunk, windows, gradient in self._window_chunks():
                    torch.matmul(gradient.transpose(2, 3), windows, out=rows[chunk])
            each = images // self.batch
            self._dense = rows if each == 1 else rows.view(self.batch, each, *shape).sum(1)
        return self._dense

    def _run_kernel(self, rows: Tensor) -> bool:
        """Write the gradients with a compiled loop. Returns False if there is none for this layer."""
        module, x = self.module, self._input
        if module.groups > 1:
            return self._run_depthwise_kernel(rows)
        kernels = load_kernels("conv_loops")
        is_plain = len(module.stride) == 2 and module.groups == 1 and set(module.dilation) == {1}
        if (
            kernels is None
            or not is_plain
            or not kernels.has_wide_registers()
            or x.dtype is not torch.float32
        ):
            return False
        outputs, channels, (height, width) = module.out_channels, module.in_channels, module.kernel_size
        fills_registers = channels % kernels.LANES == 0
        if not (fills_registers or outputs % kernels.LANES == 0) or not x.is_cpu:
            return False
        images = (x if fills_registers else self.x).permute(0, 2, 3, 1)
        g = self.gradient.rows.flatten(0, 1).permute(0, 2, 3, 1)
        if not images.is_contiguous():
            return False
        if not g.is_contiguous():
            g = self._scratch.borrow(x, *g.shape).copy_(g)
        threads, (down, across) = choose_threads(rows.numel()), module.stride
        if fills_registers:
            out = rows.view(-1, outputs, height, width, channels)
            moves = down, across, self._padding[2], self._padding[0]
            kernels.window_gradients(threads, images.numpy(), g.numpy(), *moves, out.numpy())
        else:
            out = rows.view(-1, height, width * channels, outputs)
            pixels = images.flatten(2).numpy()
            kernels.short_window_gradients(threads, pixels, g.numpy(), down, across * channels, out.numpy())
            self._outputs_last = True
        return True

    def _run_depthwise_kernel(self, rows: Tensor) -> bool:
        """The same where every channel has its own kernel."""
        module, images = self.module, self._input.movedim(1, -1)
        is_depthwise = len(module.stride) == 2 and module.groups == module.in_channels == module.out_channels
        if not is_depthwise or set(module.dilation) != {1} or images.dtype is not torch.float32:
            return False
        kernels = load_kernels("depthwise_loops") if images.is_cpu and images.is_contiguous() else None
        if kernels is None:
            return False
        g = self.gradient.rows.flatten(0, 1).movedim(1, -1).contiguous()
        out = rows.view(-1, *module.kernel_size, module.out_channels)
        moves = *module.stride, self._padding[2], self._padding[0]
        kernels.depthwise_gradients(
            choose_threads(images.numel()), images.numpy(), g.numpy(), *moves, out.numpy()
        )
        self._outputs_last = True
        return True

    def _prefers_shifts(self) -> bool:
        """Whether there are fewer products of pixels than products of windows, which are sums of them."""
        module, x = self.module, self.x
        pixels = self.gradient.rows[0, 0, 0].numel()
        is_plain = x.shape[0] == self.batch and module.groups == 1 and len(module.stride) == 2
        return (
            is_plain and x[0, 0].numel() ** 2 * x.shape[1] < SHIFT_GAIN * pixels**2 * module.weight[0].numel()
        )

    def _shift_squared_norms(self) -> Tensor:
        """The Gram form by pixels: windows at p and q have the product Σ_s x[p+s]·x[q+s] over shifts s."""
        module, x = self.module, self.x
        down, across = self.gradient.rows.shape[3:]
        height, width = x.shape[2:]
        norms, inner = zeros_float64(self.batch, x.device), (module.weight[0].numel(), module.out_channels)
        step = max(2, WINDOW_NUMBERS // (height * width) ** 2)
        slices = [
            [slice(o * d, o * d + (n - 1) * s + 1, s) for o in range(k)]
            for n, k, s, d in zip(
                (down, across), module.kernel_size, module.stride, module.dilation, strict=True
            )
        ]
        for start in range(0, self.batch, step):
            pixels = x[start : start + step].permute(0, 2, 3, 1).flatten(1, 2)
            between = torch.bmm(pixels, pixels.transpose(1, 2)).view(-1, height, width, height, width)
            shifts = [between[:, r, c, r, c] for r in slices[0] for c in slices[1]]
            total = shifts[0].contiguous() if len(shifts) == 1 else shifts[0] + shifts[1]
            for shift in shifts[2:]:
                total += shift
            g = self.gradient.rows[start : start + step, 0].flatten(2).transpose(1, 2)
            products = total.view(-1, down * across, down * across)
            norms[start : start + step] = sum_gram((products, torch.bmm(g, g.transpose(1, 2))), inner)
        return norms

    def _gram_squared_norms(self) -> Tensor:
        if self._prefers_shifts():
            return self._shift_squared_norms()
        each = self.x.shape[0] // self.batch
        norms = zeros_float64(self.batch, self.x.device)
        inner = self.module.weight[0].numel(), self.module.out_channels
        for chunk, windows, gradient in self._window_chunks(each):
            examples = slice(chunk.start // each, chunk.stop // each)
            joined = [
                t.view(-1, each, *t.shape[1:]).transpose(1, 2).flatten(2, 3) for t in (windows, gradient)
            ]
            products, others = (rows @ rows.transpose(2, 3) for rows in joined)
            norms[examples] = sum_gram((products, others), inner).sum(1)
        return norms

    def _window_chunks(self, multiple: int = 1) -> Iterator[tuple[slice, Tensor, Tensor]]:
        """For a few images at a time, windows [images, G, P, K] and gradients [images, G, P, O/G]."""
        module, x = self.module, self.x
        g = self.gradient.rows.flatten(0, 1)
        out = g.shape[2:]
        pixels, inner = out.numel(), module.weight[0].numel()
        step = max(2, WINDOW_NUMBERS // (pixels * inner * module.groups))
        step = -(-step // multiple) * multiple
        strides = x.stride()
        moves = tuple(s * m for s, m in zip(strides[2:], module.stride, strict=True))
        taps = tuple(s * d for s, d in zip(strides[2:], module.dilation, strict=True))
        channels = module.in_channels // module.groups
        sizes = (module.groups, *out, *module.kernel_size, channels)
        steps = (strides[1] * channels, *moves, *taps, strides[1])
        borrowed = self._scratch.borrow(x, min(step, x.shape[0]), *sizes)
        for start in range(0, x.shape[0], step):
            stop = min(start + step, x.shape[0])
            part = x[start:stop]
            view = part.as_strided((stop - start, *sizes), (strides[0], *steps), part.storage_offset())
            windows = self._copy_windows(part, view, borrowed[: stop - start])
            windows = windows.view(stop - start, module.groups, pixels, inner)
            grads = g[start:stop].reshape(stop - start, module.groups, -1, pixels).transpose(2, 3)
            yield slice(start, stop), windows, grads
        self._scratch.release(borrowed)

    def _copy_windows(self, part: Tensor, view: Tensor, target: Tensor) -> Tensor:
        """Copy the windows to ``target``. A compiled loop copies short runs, because it is twice as fast."""
        module, out = self.module, self.gradient.rows.shape[3:]
        run = module.kernel_size[-1] * module.in_channels
        is_plain = len(out) == 2 and module.groups == 1 and module.dilation[1] == module.dilation[0] == 1
        rows = part.permute(0, *range(2, part.dim()), 1)
        kernels = load_kernels() if is_plain and run <= SHORT_RUN else None
        if kernels is None or part.dtype != torch.float32 or not part.is_cpu or not rows.is_contiguous():
            return target.copy_(view)
        runs = target.view(part.shape[0], *out, module.kernel_size[0], run)
        step = module.stride[1] * module.in_channels
        threads = choose_threads(runs.numel())
        kernels.copy_windows(threads, rows.flatten(2).numpy(), module.stride[0], step, runs.numpy())
        return target
