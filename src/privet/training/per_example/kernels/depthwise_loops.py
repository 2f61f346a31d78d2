"""The gradient of a depthwise convolution's weight for each example. Imports numba.

Each channel has its own kernel, so a matrix product has nothing to share. With channels last, the products of
an output pixel with a position of its window are one product of two rows of channels.
"""

import numpy as np

from privet.training.compilation import compile_loop, run_parts, use_wide_registers
from privet.training.per_example.kernels.arithmetic import FASTMATH, Floats

__all__ = ["depthwise_gradients", "warm_up"]

_F = np.float32


def _part(
    part: int, parts: int, x: Floats, g: Floats, move: int, step: int, above: int, before: int, out: Floats
) -> None:
    use_wide_registers()
    images, height, width, channels = x.shape
    _, down, across, _ = g.shape
    rows, columns = out.shape[1], out.shape[2]
    line = np.zeros(channels, dtype=_F)  # a row of pixels is added before it joins the others
    for b in range(images * part // parts, images * (part + 1) // parts):
        for i in range(rows):
            # The pixels whose window has this row inside of the image; below, the same for a column.
            top = max(0, -((i - above) // move))
            bottom = max(top, min(down, (height - 1 + above - i) // move + 1))
            for j in range(columns):
                left = max(0, -((j - before) // step))
                right = max(left, min(across, (width - 1 + before - j) // step + 1))
                total = out[b, i, j]
                total[:] = _F(0)
                for p in range(top, bottom):
                    line[:] = _F(0)
                    for q in range(left, right):
                        there, here = g[b, p, q], x[b, p * move + i - above, q * step + j - before]
                        for c in range(channels):
                            line[c] += there[c] * here[c]
                    for c in range(channels):
                        total[c] += line[c]


_part = compile_loop(_part, FASTMATH)


def _depthwise_gradients(
    threads: int, x: Floats, g: Floats, move: int, step: int, above: int, before: int, out: Floats
) -> None:
    """out = Σ_pixels g ∘ windows of x, channel by channel.

    out is [images, window rows, window columns, C], g [images, down, across, C] and x [images, rows, columns,
    C]. The window of pixel (p, q) starts at row move·p − above and column step·q − before. Outside of the
    image are zeros.
    """
    run_parts(_part, threads, (x, g, move, step, above, before, out))


depthwise_gradients = compile_loop(_depthwise_gradients, FASTMATH)


def warm_up() -> None:
    """Compile the loop, for the types of arrays that it is called with."""
    x = np.ones((1, 1, 1, 1), dtype=_F)
    depthwise_gradients(1, x, x, 1, 1, 0, 0, x.copy())
