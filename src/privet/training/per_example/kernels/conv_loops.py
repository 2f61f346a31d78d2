"""The gradient of a convolution's weight for each example, by a compiled loop, without windows in memory. Importing this imports numba.

With channels last, the channels of a place lie together, and so do the outputs of a pixel. The sum over all pixels of
g[pixel, output]·x[place in the pixel's window, channel] is kept in registers, for a few of them at a time; a pixel adds the products
of numbers of the one with vectors of the other. Windows are never copied, and nothing is written but the gradient: one to six
times as fast as copies and batched products, on the layers of the bench.

The vectors are channels if those are whole registers (``window_gradients``), or else outputs (``short_window_gradients``), with a
run, which is a row of a window, for the numbers. It is for processors with 32 registers of 16 numbers.
"""

from privet.training.compilation import compiled, share
from privet.training.per_example.kernels.arithmetic import FASTMATH, Floats
from privet.training.per_example.kernels.vectors import LANES, has_registers, outer_sum

__all__ = ["LANES", "has_registers", "short_window_gradients", "window_gradients"]

# So many outputs, and so many registers of channels: at most 24 sums, so that there are registers for the rest.
_eight_3, _eight_2, _eight_1 = (outer_sum(8, n) for n in (3, 2, 1))
_two_3, _two_2, _two_1 = (outer_sum(2, n) for n in (3, 2, 1))
_one_3, _one_2, _one_1 = (outer_sum(1, n) for n in (3, 2, 1))


def _part(
    part: int, parts: int, x: Floats, g: Floats, move: int, step: int, above: int, before: int, out: Floats
) -> None:
    images, high, long, channels = x.shape
    _, down, across, outputs = g.shape
    rows, columns = out.shape[2], out.shape[3]
    registers = channels // LANES
    each = 3 if registers % 3 == 0 else 2 if registers % 2 == 0 else 1
    xs, gs, found = x.reshape(-1), g.reshape(-1), out.reshape(-1)
    for b in range(images * part // parts, images * (part + 1) // parts):
        for i in range(rows):
            # The pixels whose window has this row inside of the image; then the same for a column.
            top = max(0, -((i - above) // move))
            bottom = max(top, min(down, (high - 1 + above - i) // move + 1))
            for j in range(columns):
                left = max(0, -((j - before) // step))
                right = max(left, min(across, (long - 1 + before - j) // step + 1))
                for v in range(0, registers, each):
                    o = 0
                    while o < outputs:
                        first = ((b * down + top) * across + left) * outputs + o
                        vector = (b * high + top * move + i - above) * long + left * step + j - before
                        to = (((b * outputs + o) * rows + i) * columns + j) * channels + LANES * v
                        where = (
                            first, across * outputs, outputs, vector * channels + LANES * v, move * long * channels,
                            step * channels, bottom - top, right - left, to, rows * columns * channels,
                        )  # fmt: skip
                        if outputs - o >= 8:
                            if each == 3:
                                _eight_3(gs, xs, found, where)
                            elif each == 2:
                                _eight_2(gs, xs, found, where)
                            else:
                                _eight_1(gs, xs, found, where)
                            o += 8
                        elif outputs - o >= 2:
                            if each == 3:
                                _two_3(gs, xs, found, where)
                            elif each == 2:
                                _two_2(gs, xs, found, where)
                            else:
                                _two_1(gs, xs, found, where)
                            o += 2
                        else:
                            if each == 3:
                                _one_3(gs, xs, found, where)
                            elif each == 2:
                                _one_2(gs, xs, found, where)
                            else:
                                _one_1(gs, xs, found, where)
                            o += 1


_part = compiled(_part, FASTMATH)


def _window_gradients(
    threads: int, x: Floats, g: Floats, move: int, step: int, above: int, before: int, out: Floats
) -> None:
    """out [images, O, window's rows, columns, C] = Σ_pixels g [images, down, across, O] · windows of x [images, rows, columns, C].

    Pixel (p, q) has the window that begins at row move·p − above and column step·q − before; outside of the image are zeros.
    """
    share(_part, threads, (x, g, move, step, above, before, out))


# Runs are taken in pieces of these lengths: 9 and 8 are a row of three by three colours, and of eight by eight grey ones.
_short_9, _short_8, _short_5, _short_3, _short_1 = (outer_sum(n, 1) for n in (9, 8, 5, 3, 1))


def _short_part(part: int, parts: int, x: Floats, g: Floats, move: int, step: int, out: Floats) -> None:
    images, high, long = x.shape
    _, down, across, outputs = g.shape
    rows, run = out.shape[1], out.shape[2]
    xs, gs, found = x.reshape(-1), g.reshape(-1), out.reshape(-1)
    for b in range(images * part // parts, images * (part + 1) // parts):
        for i in range(rows):
            for o in range(0, outputs, LANES):
                done = 0
                while done < run:
                    left = run - done
                    first, vector = (b * high + i) * long + done, b * down * across * outputs + o
                    to = ((b * rows + i) * run + done) * outputs + o
                    where = (
                        first, move * long, step, vector, across * outputs, outputs, down, across, to, outputs,
                    )  # fmt: skip
                    if left >= 9:
                        _short_9(xs, gs, found, where)
                        done += 9
                    elif left == 8:
                        _short_8(xs, gs, found, where)
                        done += 8
                    elif left >= 5:
                        _short_5(xs, gs, found, where)
                        done += 5
                    elif left >= 3:
                        _short_3(xs, gs, found, where)
                        done += 3
                    else:
                        _short_1(xs, gs, found, where)
                        done += 1


_short_part = compiled(_short_part, FASTMATH)


def _short_window_gradients(threads: int, x: Floats, g: Floats, move: int, step: int, out: Floats) -> None:
    """The same for a few channels: x [images, rows, numbers], out [images, window's rows, run, O], and nothing outside.

    A window begins at row move·p and number step·q.
    """
    share(_short_part, threads, (x, g, move, step, out))


window_gradients = compiled(_window_gradients, FASTMATH)
short_window_gradients = compiled(_short_window_gradients, FASTMATH)
