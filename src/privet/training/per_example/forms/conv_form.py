"""The weight of a convolution: in one, two and three dimensions, with groups, strides, dilations and every padding.

A convolution is a matrix product of the windows of its input, one row for each output pixel. Two ways lead to
the norms, as for any product of matrices (see ``products``): with P pixels, windows of K numbers and O outputs,
the gradient written out takes P·K·O products for an example and O·K numbers of memory, the Gram form P²·(K+O). The
written-out form also gives the clipped sum; after the Gram form the sum is one ordinary weight gradient, of
the output gradients scaled by the clip factors, which is P·K·O products again. So the choice is between the memory
of the one and the P²·(K+O) of the other.

Windows are copied a few examples at a time, so that they stay in the cache, and with channels last, where
a window is a few long runs (2 to 4 times as fast as ``F.unfold`` on the layers of common networks).
"""

from collections.abc import Iterator
from typing import final

import torch
from torch import Tensor, nn

from privet.training.per_example.forms.linear_form import gram_sums
from privet.training.per_example.forms.products import Gradient, Product, compiled, squared_rows
from privet.training.per_example.scratch import Scratch
from privet.training.threads import choose_threads

__all__ = ["Windows"]

WINDOW_NUMBERS = 1 << 19
"""How many numbers of windows are made at a time: 2 MB, about the second-level cache."""

GRAM_PRICE = 1.3
"""A product of the Gram form costs this much of one of the written-out form: it makes both of two equal halves."""

SHORT = 32
"""How many numbers of a row of a window torch copies slowly."""

NEAR_PRICE, FAR_PRICE = 12.0, 48.0
"""What a number of a written-out gradient costs in products: it is written once and read twice, near or far."""

SHIFT_GAIN = 0.5
"""How many products of pixels may be made for one of windows: the sums over the places take time too."""

NEAR = 1 << 22
"""How many numbers are near: 16 MB, as for temporaries elsewhere."""


@final
class Windows(Product):
    """The weight of a convolution: gradients from x [images, C, …] and g [images, O, …].

    ``padding`` are the zeros around x, before and after each size from the last to the first, as for ``F.pad``.
    """

    __slots__ = (
        "_dense",
        "_given",
        "_outputs_last",
        "_padded",
        "_padding",
        "_scratch",
        "batch",
        "gradient",
        "module",
    )

    def __init__(
        self,
        x: Tensor,
        gradient: Gradient,
        module: nn.modules.conv._ConvNd,
        scratch: Scratch,
        padding: list[int],
    ) -> None:
        self._given = x
        self._padding, self._padded = padding, None if any(padding) else x
        self.gradient = gradient  # [examples, images each, O, …]
        self.module = module
        self.batch = gradient.rows.shape[0]
        self._scratch = scratch
        self._dense: Tensor | None = None
        self._outputs_last = False  # in what is written out

    @property
    def x(self) -> Tensor:
        """The input with zeros around, and then channels last."""
        if self._padded is None:
            x, ends = self._given, self._padding[::-1]  # (after, before), from the first size of an image
            sizes = [n + ends[2 * i] + ends[2 * i + 1] for i, n in enumerate(x.shape[2:])]
            room = self._scratch.lend(x, x.shape[0], *sizes, x.shape[1]).zero_().movedim(-1, 1)
            inside = tuple(slice(ends[2 * i + 1], ends[2 * i + 1] + n) for i, n in enumerate(x.shape[2:]))
            room[:, :, *inside] = x
            self._padded = room
        return self._padded

    def squared_norms(self) -> Tensor:
        module = self.module
        images = self._given.shape[0] // self.batch
        pixels = self.gradient.rows[0, 0, 0].numel() * images
        inner, outer = module.weight[0].numel(), module.out_channels // module.groups
        numbers = inner * outer  # of a gradient, in each group
        far = self.batch * numbers * module.groups > NEAR
        dense = (FAR_PRICE if far else NEAR_PRICE) * numbers  # with it, the sum is there too
        if dense <= GRAM_PRICE * pixels * pixels * (inner + outer):
            return squared_rows(self._written_out())
        return self._gram()

    def add_sum(self, factors: Tensor, out: Tensor) -> None:
        module = self.module
        if self._dense is not None:
            total = torch.mv(self._dense.view(self.batch, -1).t(), factors)
            out += self._as_weight(total.unsqueeze(0))[0]
            return
        scaled = self.gradient.scaled(factors).flatten(0, 1)
        _, weight, _ = torch.ops.aten.convolution_backward(
            scaled,
            self._given,
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
        out += weight

    def dense(self) -> Tensor:
        return self._as_weight(self._written_out())

    def _as_weight(self, rows: Tensor) -> Tensor:
        """[…, G, O/G, k…, C/G] as [examples, O, C/G, k…]."""
        module = self.module
        inner = module.in_channels // module.groups
        if self._outputs_last:
            return rows.view(-1, *module.kernel_size, inner, module.out_channels).movedim((-1, -2), (1, 2))
        return rows.view(-1, module.out_channels, *module.kernel_size, inner).movedim(-1, 2)

    def _written_out(self) -> Tensor:
        if self._dense is None:
            module = self.module
            shape = (module.groups, module.out_channels // module.groups, module.weight[0].numel())
            images = self.x.shape[0]
            rows = self._scratch.lend(self.x, images, *shape)
            if not self._looped(rows):
                for some, windows, gradient in self._pieces():
                    torch.matmul(gradient.transpose(2, 3), windows, out=rows[some])
            each = images // self.batch
            self._dense = rows if each == 1 else rows.view(self.batch, each, *shape).sum(1)
        return self._dense

    def _looped(self, rows: Tensor) -> bool:
        """The gradients by a compiled loop, if it is for this layer; whether it was."""
        module, x = self.module, self._given
        loops = compiled("conv_loops")
        usual = len(module.stride) == 2 and module.groups == 1 and set(module.dilation) == {1}
        if loops is None or not usual or not loops.has_registers() or x.dtype is not torch.float32:
            return False
        outputs, channels, (high, wide) = module.out_channels, module.in_channels, module.kernel_size
        whole = channels % loops.LANES == 0
        if not (whole or outputs % loops.LANES == 0) or not x.is_cpu:
            return False
        images = (x if whole else self.x).permute(0, 2, 3, 1)
        g = self.gradient.rows.flatten(0, 1).permute(0, 2, 3, 1)
        if not images.is_contiguous():
            return False
        if not g.is_contiguous():
            g = self._scratch.lend(x, *g.shape).copy_(g)
        threads, (down, across) = choose_threads(rows.numel()), module.stride
        if whole:
            out = rows.view(-1, outputs, high, wide, channels)
            moves = down, across, self._padding[2], self._padding[0]
            loops.window_gradients(threads, images.numpy(), g.numpy(), *moves, out.numpy())
        else:
            out = rows.view(-1, high, wide * channels, outputs)
            pixels = images.flatten(2).numpy()
            loops.short_window_gradients(threads, pixels, g.numpy(), down, across * channels, out.numpy())
            self._outputs_last = True
        return True

    def _shifted(self) -> bool:
        """Whether the products of pixels, of which those of windows are sums, are fewer."""
        module, x = self.module, self.x
        pixels = self.gradient.rows[0, 0, 0].numel()
        own = x.shape[0] == self.batch and module.groups == 1 and len(module.stride) == 2
        return own and x[0, 0].numel() ** 2 * x.shape[1] < SHIFT_GAIN * pixels**2 * module.weight[0].numel()

    def _shift_gram(self) -> Tensor:
        """The Gram form by pixels: windows at p and q have the product Σ_s x[p+s]·x[q+s] over the places s in a window."""
        module, x = self.module, self.x
        down, across = self.gradient.rows.shape[3:]
        high, wide = x.shape[2:]
        norms = torch.empty(self.batch, dtype=torch.float64, device=x.device)
        step = max(2, WINDOW_NUMBERS // (high * wide) ** 2)
        places = [
            [slice(o * d, o * d + (n - 1) * s + 1, s) for o in range(k)]
            for n, k, s, d in zip(
                (down, across), module.kernel_size, module.stride, module.dilation, strict=True
            )
        ]
        for start in range(0, self.batch, step):
            pixels = x[start : start + step].permute(0, 2, 3, 1).flatten(1, 2)
            between = torch.bmm(pixels, pixels.transpose(1, 2)).view(-1, high, wide, high, wide)
            shifts = [between[:, r, c, r, c] for r in places[0] for c in places[1]]
            total = shifts[0].contiguous() if len(shifts) == 1 else shifts[0] + shifts[1]
            for shift in shifts[2:]:
                total += shift
            g = self.gradient.rows[start : start + step, 0].flatten(2).transpose(1, 2)
            products = total.view(-1, down * across, down * across)
            products *= torch.bmm(g, g.transpose(1, 2))
            norms[start : start + step] = gram_sums(products)
        return norms

    def _gram(self) -> Tensor:
        if self._shifted():
            return self._shift_gram()
        each = self.x.shape[0] // self.batch
        norms = torch.empty(self.batch, dtype=torch.float64, device=self.x.device)
        for some, windows, gradient in self._pieces(each):
            examples = slice(some.start // each, some.stop // each)
            joined = [
                t.view(-1, each, *t.shape[1:]).transpose(1, 2).flatten(2, 3) for t in (windows, gradient)
            ]
            products = joined[0] @ joined[0].transpose(2, 3)
            products *= joined[1] @ joined[1].transpose(2, 3)
            norms[examples] = gram_sums(products).sum(1)
        return norms

    def _pieces(self, multiple: int = 1) -> Iterator[tuple[slice, Tensor, Tensor]]:
        """A few images at a time: windows [images, G, P, K] and gradients [images, G, P, O/G]."""
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
        room = self._scratch.lend(x, min(step, x.shape[0]), *sizes)
        for start in range(0, x.shape[0], step):
            stop = min(start + step, x.shape[0])
            part = x[start:stop]
            view = part.as_strided((stop - start, *sizes), (strides[0], *steps), part.storage_offset())
            windows = self._copied(part, view, room[: stop - start])
            windows = windows.view(stop - start, module.groups, pixels, inner)
            grads = g[start:stop].reshape(stop - start, module.groups, -1, pixels).transpose(2, 3)
            yield slice(start, stop), windows, grads
        self._scratch.give_back(room)

    def _copied(self, part: Tensor, view: Tensor, room: Tensor) -> Tensor:
        """The windows in their room; short runs by a compiled loop, which is twice as fast on them."""
        module, out = self.module, self.gradient.rows.shape[3:]
        run = module.kernel_size[-1] * module.in_channels
        usual = len(out) == 2 and module.groups == 1 and module.dilation[1] == module.dilation[0] == 1
        rows = part.permute(0, *range(2, part.dim()), 1)
        loops = compiled() if usual and run <= SHORT else None
        if loops is None or part.dtype != torch.float32 or not part.is_cpu or not rows.is_contiguous():
            return room.copy_(view)
        found = room.view(part.shape[0], *out, module.kernel_size[0], run)
        step = module.stride[1] * module.in_channels
        loops.copy_windows(
            choose_threads(found.numel()), rows.flatten(2).numpy(), module.stride[0], step, found.numpy()
        )
        return room
