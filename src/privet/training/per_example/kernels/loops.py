"""Loops that torch has no operation for, compiled by numba and run on torch's threads. Importing this module imports numba.

Nothing else imports it before it must. Every loop takes contiguous float32 arrays in the processor's memory; whoever calls
it has looked (``products``).
"""

import numpy as np

from privet.training.compilation import compiled, share, wide
from privet.training.per_example.kernels.arithmetic import (
    FASTMATH,
    Floats,
    Integers,
    Norms,
    sigmoid,
    square,
    tanh,
)

__all__ = ["add_rows", "copy_windows", "lstm_backward", "lstm_forward", "normed_sums", "squares_by_key"]

_F = np.float32
_FEW = 32  # tokens that are added up before they join the others


def _squares_part(
    part: int, parts: int, ids: Integers, rows: Floats, skip: int, keys: int, norms: Norms
) -> None:
    """The tokens of an example with the same key are a chain, from the last to the first."""
    wide()
    batch, tokens, width = rows.shape
    owner, last = np.full(keys, -1, dtype=np.int32), np.zeros(keys, dtype=np.int32)
    before = np.zeros(tokens, dtype=np.int32)
    added = np.zeros(width, dtype=_F)
    for b in range(batch * part // parts, batch * (part + 1) // parts):
        mine = ids[b]
        for t in range(tokens):
            key = mine[t]
            before[t] = last[key] if owner[key] == b else -1
            owner[key], last[key] = b, t
        total = 0.0
        for t in range(tokens):
            key = mine[t]
            if key == skip or last[key] != t:
                continue
            other = before[t]
            if other < 0:
                total += square(rows[b, t])
                continue
            here = rows[b, t]
            for i in range(width):  # by hand: to check shapes numba would compile two seconds longer
                added[i] = here[i]
            while other >= 0:
                here = rows[b, other]
                for i in range(width):
                    added[i] += here[i]
                other = before[other]
            total += square(added)
        norms[b] = total


_squares_part = compiled(_squares_part, FASTMATH)


def _squares_by_key(threads: int, ids: Integers, rows: Floats, skip: int, keys: int, norms: Norms) -> None:
    """norms[b] = Σ_v ‖Σ_{t: ids[b, t] = v} rows[b, t]‖², over all v but ``skip``."""
    share(_squares_part, threads, (ids, rows, skip, keys, norms))


def _rows_part(
    part: int, parts: int, ids: Integers, rows: Floats, factors: Floats, skip: int, out: Floats
) -> None:
    """By keys, since two examples may have the same: by their last bits, since small keys tend to be frequent ones."""
    wide()
    batch, tokens, _ = rows.shape
    for b in range(batch):
        factor = factors[b]
        for t in range(tokens):
            key = ids[b, t]
            if key != skip and ((key & 255) * parts) >> 8 == part:
                there, here = out[key], rows[b, t]
                for i in range(here.size):
                    there[i] += factor * here[i]


_rows_part = compiled(_rows_part, FASTMATH)


def _add_rows(threads: int, ids: Integers, rows: Floats, factors: Floats, skip: int, out: Floats) -> None:
    """out[ids[b, t]] += factors[b] · rows[b, t], but for ``skip``."""
    share(_rows_part, threads, (ids, rows, factors, skip, out))


def _normed_part(
    part: int,
    parts: int,
    x: Floats,
    means: Floats,
    scales: Floats,
    g: Floats,
    weights: Floats,
    biases: Floats,
) -> None:
    wide()
    batch, tokens, width = x.shape
    some, same = np.zeros(width, dtype=_F), np.zeros(width, dtype=_F)
    for b in range(batch * part // parts, batch * (part + 1) // parts):
        weight, bias = weights[b], biases[b]
        weight[:], bias[:] = _F(0), _F(0)
        for start in range(0, tokens, _FEW):
            some[:], same[:] = _F(0), _F(0)
            for t in range(start, min(tokens, start + _FEW)):
                mean, scale, given, row = means[b, t], scales[b, t], x[b, t], g[b, t]
                for i in range(width):
                    some[i] += (given[i] - mean) * scale * row[i]
                for i in range(width):
                    same[i] += row[i]
            for i in range(width):
                weight[i] += some[i]
            for i in range(width):
                bias[i] += same[i]


_normed_part = compiled(_normed_part, FASTMATH)


def _normed_sums(
    threads: int, x: Floats, means: Floats, scales: Floats, g: Floats, weights: Floats, biases: Floats
) -> None:
    """weights[b] = Σ_t (x_bt − mean_bt)·scale_bt ∘ g_bt and biases[b] = Σ_t g_bt, a few tokens at a time for the sake of rounding."""
    share(_normed_part, threads, (x, means, scales, g, weights, biases))


def _windows_part(part: int, parts: int, x: Floats, move: int, step: int, out: Floats) -> None:
    wide()
    images, down, across, rows, run = out.shape
    for b in range(images * part // parts, images * (part + 1) // parts):
        for p in range(down):
            for i in range(rows):
                row = x[b, p * move + i]
                for q in range(across):
                    here, there = row[q * step : q * step + run], out[b, p, q, i]
                    for j in range(run):
                        there[j] = here[j]


_windows_part = compiled(_windows_part, FASTMATH)


def _copy_windows(threads: int, x: Floats, move: int, step: int, out: Floats) -> None:
    """Windows of images x [images, rows, numbers]: out [images, down, across, window's rows, run] ← runs of its rows."""
    share(_windows_part, threads, (x, move, step, out))


def _forward_part(
    part: int, parts: int, gates: Floats, cells: Floats, ends: Floats, states: Floats, t: int
) -> None:
    wide()
    batch = gates.shape[1]
    for b in range(batch * part // parts, batch * (part + 1) // parts):
        i, f, g, o = gates[t, b, 0], gates[t, b, 1], gates[t, b, 2], gates[t, b, 3]
        before, after, end, state = cells[t, b], cells[t + 1, b], ends[t, b], states[t, b]
        # Loops over one or two rows each: with more, the compiler cannot tell that they are apart.
        for j in range(i.size):
            i[j] = sigmoid(i[j])
        for j in range(f.size):
            f[j] = sigmoid(f[j])
        for j in range(g.size):
            g[j] = tanh(g[j])
        for j in range(o.size):
            o[j] = sigmoid(o[j])
        for j in range(i.size):
            after[j] = f[j] * before[j] + i[j] * g[j]
        for j in range(end.size):
            end[j] = tanh(after[j])
        for j in range(end.size):
            state[j] = o[j] * end[j]


_forward_part = compiled(_forward_part, FASTMATH)


def _lstm_forward(threads: int, gates: Floats, cells: Floats, ends: Floats, states: Floats, t: int) -> None:
    """One time of a long short-term memory: gates [times, examples, 4, width] get their activations."""
    share(_forward_part, threads, (gates, cells, ends, states, t))


def _backward_part(
    part: int,
    parts: int,
    gates: Floats,
    cells: Floats,
    ends: Floats,
    found: Floats,
    dh: Floats,
    dc: Floats,
    t: int,
) -> None:
    wide()
    batch = gates.shape[1]
    for b in range(batch * part // parts, batch * (part + 1) // parts):
        i, f, g, o = gates[t, b, 0], gates[t, b, 1], gates[t, b, 2], gates[t, b, 3]
        of_i, of_f, of_g, of_o = found[t, b, 0], found[t, b, 1], found[t, b, 2], found[t, b, 3]
        before, end, state, cell = cells[t, b], ends[t, b], dh[b], dc[b]
        for j in range(cell.size):
            cell[j] += state[j] * o[j] * (_F(1) - end[j] * end[j])
        for j in range(of_i.size):
            of_i[j] = cell[j] * g[j] * i[j] * (_F(1) - i[j])
        for j in range(of_f.size):
            of_f[j] = cell[j] * before[j] * f[j] * (_F(1) - f[j])
        for j in range(of_g.size):
            of_g[j] = cell[j] * i[j] * (_F(1) - g[j] * g[j])
        for j in range(of_o.size):
            of_o[j] = state[j] * end[j] * o[j] * (_F(1) - o[j])
        for j in range(cell.size):
            cell[j] *= f[j]


_backward_part = compiled(_backward_part, FASTMATH)


def _lstm_backward(
    threads: int,
    gates: Floats,
    cells: Floats,
    ends: Floats,
    found: Floats,
    dh: Floats,
    dc: Floats,
    t: int,
) -> None:
    """The gradients of the gates of one time, from those of its state and of the cell; then that of the cell before."""
    share(_backward_part, threads, (gates, cells, ends, found, dh, dc, t))


squares_by_key, add_rows = compiled(_squares_by_key, FASTMATH), compiled(_add_rows, FASTMATH)
copy_windows, normed_sums = compiled(_copy_windows, FASTMATH), compiled(_normed_sums, FASTMATH)
lstm_forward, lstm_backward = compiled(_lstm_forward, FASTMATH), compiled(_lstm_backward, FASTMATH)
