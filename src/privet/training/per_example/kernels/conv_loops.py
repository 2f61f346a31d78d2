"""The gradient of a convolution's weight for each example, without copies of windows. Imports numba.

With channels last, the channels of a position are adjacent in memory, and so are the outputs of a pixel. The
sum over all pixels of g[pixel, output]·x[position in the pixel's window, channel] stays in registers, for a
few outputs and channels at a time. Each pixel adds products of numbers of one with vectors of the other. Only
the gradient is written. On the layers of the benchmark this is one to six times as fast as copied windows and
batched products.

The vectors are channels if these fill whole registers (``window_gradients``). Otherwise they are outputs
(``short_window_gradients``), and the numbers are a run, which is a row of a window. The loops need a
processor with 32 registers of 16 numbers.
"""

import numpy as np

from privet.training.compilation import compile_loop, run_parts
from privet.training.per_example.kernels.arithmetic import FASTMATH, Floats
from privet.training.per_example.kernels.vectors import LANES, has_wide_registers, make_outer_sum

__all__ = ["LANES", "has_wide_registers", "short_window_gradients", "warm_up", "window_gradients"]

# Numbers of outputs and of registers of channels. At most 24 sums, so that registers are left for the rest.
_eight_3, _eight_2, _eight_1 = (make_outer_sum(8, n) for n in (3, 2, 1))
_two_3, _two_2, _two_1 = (make_outer_sum(2, n) for n in (3, 2, 1))
_one_3, _one_2, _one_1 = (make_outer_sum(1, n) for n in (3, 2, 1))


def _part(
    part: int, parts: int, x: Floats, g: Floats, move: int, step: int, above: int, before: int, out: Floats
) -> None:
    images, height, width, channels = x.shape
    _, down, across, outputs = g.shape
    rows, columns = out.shape[2], out.shape[3]
    registers = channels // LANES
    each = 3 if registers % 3 == 0 else 2 if registers % 2 == 0 else 1
    flat_x, flat_g, flat_out = x.reshape(-1), g.reshape(-1), out.reshape(-1)
    for b in range(images * part // parts, images * (part + 1) // parts):
        for i in range(rows):
            # The pixels whose window has this row inside of the image; below, the same for a column.
            top = max(0, -((i - above) // move))
            bottom = max(top, min(down, (height - 1 + above - i) // move + 1))
            for j in range(columns):
                left = max(0, -((j - before) // step))
                right = max(left, min(across, (width - 1 + before - j) // step + 1))
                for v in range(0, registers, each):
                    o = 0
                    while o < outputs:
                        first = ((b * down + top) * across + left) * outputs + o
                        vector = (b * height + top * move + i - above) * width + left * step + j - before
                        to = (((b * outputs + o) * rows + i) * columns + j) * channels + LANES * v
                        positions = (
                            first, across * outputs, outputs,
                            vector * channels + LANES * v, move * width * channels, step * channels,
                            bottom - top, right - left,
                            to, rows * columns * channels,
                        )  # fmt: skip
                        if outputs - o >= 8:
                            if each == 3:
                                _eight_3(flat_g, flat_x, flat_out, positions)
                            elif each == 2:
                                _eight_2(flat_g, flat_x, flat_out, positions)
                            else:
                                _eight_1(flat_g, flat_x, flat_out, positions)
                            o += 8
                        elif outputs - o >= 2:
                            if each == 3:
                                _two_3(flat_g, flat_x, flat_out, positions)
                            elif each == 2:
                                _two_2(flat_g, flat_x, flat_out, positions)
                            else:
                                _two_1(flat_g, flat_x, flat_out, positions)
                            o += 2
                        else:
                            if each == 3:
                                _one_3(flat_g, flat_x, flat_out, positions)
                            elif each == 2:
                                _one_2(flat_g, flat_x, flat_out, positions)
                            else:
                                _one_1(flat_g, flat_x, flat_out, positions)
                            o += 1


_part = compile_loop(_part, FASTMATH)


def _window_gradients(
    threads: int, x: Floats, g: Floats, move: int, step: int, above: int, before: int, out: Floats
) -> None:
    """out = Σ_pixels g · windows of x.

    out is [images, O, window rows, window columns, C], g [images, down, across, O] and x [images, rows,
    columns, C]. The window of pixel (p, q) starts at row move·p − above and column step·q − before. Outside
    of the image are zeros.
    """
    run_parts(_part, threads, (x, g, move, step, above, before, out))


# Runs are split into pieces of these lengths: 9 is a row of a 3×3 window of RGB, 8 of an 8×8 window of grey
# images.
_short_9, _short_8, _short_5, _short_3, _short_1 = (make_outer_sum(n, 1) for n in (9, 8, 5, 3, 1))


def _short_part(part: int, parts: int, x: Floats, g: Floats, move: int, step: int, out: Floats) -> None:
    images, height, width = x.shape
    _, down, across, outputs = g.shape
    rows, run = out.shape[1], out.shape[2]
    flat_x, flat_g, flat_out = x.reshape(-1), g.reshape(-1), out.reshape(-1)
    for b in range(images * part // parts, images * (part + 1) // parts):
        for i in range(rows):
            for o in range(0, outputs, LANES):
                done = 0
                while done < run:
                    left = run - done
                    first, vector = (b * height + i) * width + done, b * down * across * outputs + o
                    to = ((b * rows + i) * run + done) * outputs + o
                    positions = (
                        first, move * width, step,
                        vector, across * outputs, outputs,
                        down, across,
                        to, outputs,
                    )  # fmt: skip
                    if left >= 9:
                        _short_9(flat_x, flat_g, flat_out, positions)
                        done += 9
                    elif left == 8:
                        _short_8(flat_x, flat_g, flat_out, positions)
                        done += 8
                    elif left >= 5:
                        _short_5(flat_x, flat_g, flat_out, positions)
                        done += 5
                    elif left >= 3:
                        _short_3(flat_x, flat_g, flat_out, positions)
                        done += 3
                    else:
                        _short_1(flat_x, flat_g, flat_out, positions)
                        done += 1


_short_part = compile_loop(_short_part, FASTMATH)


def _short_window_gradients(threads: int, x: Floats, g: Floats, move: int, step: int, out: Floats) -> None:
    """The same for few channels and no padding: x [images, rows, numbers], out [images, window rows, run, O].

    A window starts at row move·p and number step·q.
    """
    run_parts(_short_part, threads, (x, g, move, step, out))


window_gradients = compile_loop(_window_gradients, FASTMATH)
short_window_gradients = compile_loop(_short_window_gradients, FASTMATH)


def warm_up() -> None:
    """Compile all loops, for the types of arrays that they are called with."""
    if has_wide_registers():
        x = np.ones((1, 1, 1, LANES), dtype=np.float32)
        window_gradients(1, x, x, 1, 1, 0, 0, np.ones((1, LANES, 1, 1, LANES), dtype=np.float32))
        short_window_gradients(1, x[0], x, 1, 1, np.ones((1, 1, 1, LANES), dtype=np.float32))
