"""Loops of embeddings, layer normalisation, windows and LSTMs, on torch's threads. Imports numba.

Every loop takes contiguous float32 arrays on the CPU. The caller has checked this.
"""

import numpy as np

from privet.training.compilation import compile_loop, run_parts, use_wide_registers
from privet.training.per_example.kernels.arithmetic import (
    FASTMATH,
    Floats,
    Integers,
    Norms,
    sigmoid,
    sum_of_squares,
    tanh,
)

__all__ = [
    "add_embedding_rows",
    "copy_windows",
    "embedding_squared_norms",
    "layer_norm_sums",
    "lstm_backward",
    "lstm_forward",
    "warm_up",
]

_F = np.float32
_BLOCK = 32  # tokens that are added before their sum joins the others, against rounding


def _squares_part(
    part: int, parts: int, ids: Integers, rows: Floats, skip: int, keys: int, norms: Norms
) -> None:
    """The tokens of an example with the same key are a linked list, from the last to the first."""
    use_wide_registers()
    batch, tokens, width = rows.shape
    owner, last = np.full(keys, -1, dtype=np.int32), np.zeros(keys, dtype=np.int32)
    before = np.zeros(tokens, dtype=np.int32)
    added = np.zeros(width, dtype=_F)
    for b in range(batch * part // parts, batch * (part + 1) // parts):
        example_ids = ids[b]
        for t in range(tokens):
            key = example_ids[t]
            before[t] = last[key] if owner[key] == b else -1
            owner[key], last[key] = b, t
        total = 0.0
        for t in range(tokens):
            key = example_ids[t]
            if key == skip or last[key] != t:
                continue
            other = before[t]
            if other < 0:
                total += sum_of_squares(rows[b, t])
                continue
            here = rows[b, t]
            for i in range(width):  # a slice assignment would add two seconds of compilation
                added[i] = here[i]
            while other >= 0:
                here = rows[b, other]
                for i in range(width):
                    added[i] += here[i]
                other = before[other]
            total += sum_of_squares(added)
        norms[b] = total


_squares_part = compile_loop(_squares_part, FASTMATH)


def _embedding_squared_norms(
    threads: int, ids: Integers, rows: Floats, skip: int, keys: int, norms: Norms
) -> None:
    """norms[b] = Σ_v ‖Σ_{t: ids[b, t] = v} rows[b, t]‖², over all v except ``skip``."""
    run_parts(_squares_part, threads, (ids, rows, skip, keys, norms))


def _rows_part(
    part: int, parts: int, ids: Integers, rows: Floats, factors: Floats, skip: int, out: Floats
) -> None:
    """A thread owns keys, because examples may share them. The last bits decide: small keys are frequent."""
    use_wide_registers()
    batch, tokens, _ = rows.shape
    for b in range(batch):
        factor = factors[b]
        for t in range(tokens):
            key = ids[b, t]
            if key != skip and ((key & 255) * parts) >> 8 == part:
                there, here = out[key], rows[b, t]
                for i in range(here.size):
                    there[i] += factor * here[i]


_rows_part = compile_loop(_rows_part, FASTMATH)


def _add_embedding_rows(
    threads: int, ids: Integers, rows: Floats, factors: Floats, skip: int, out: Floats
) -> None:
    """out[ids[b, t]] += factors[b] · rows[b, t], except for ``skip``."""
    run_parts(_rows_part, threads, (ids, rows, factors, skip, out))


def _layer_norm_part(
    part: int,
    parts: int,
    x: Floats,
    means: Floats,
    scales: Floats,
    g: Floats,
    weights: Floats,
    biases: Floats,
) -> None:
    use_wide_registers()
    batch, tokens, width = x.shape
    block_weight, block_bias = np.zeros(width, dtype=_F), np.zeros(width, dtype=_F)
    for b in range(batch * part // parts, batch * (part + 1) // parts):
        weight, bias = weights[b], biases[b]
        weight[:], bias[:] = _F(0), _F(0)
        for start in range(0, tokens, _BLOCK):
            block_weight[:], block_bias[:] = _F(0), _F(0)
            for t in range(start, min(tokens, start + _BLOCK)):
                mean, scale, numbers, row = means[b, t], scales[b, t], x[b, t], g[b, t]
                for i in range(width):
                    block_weight[i] += (numbers[i] - mean) * scale * row[i]
                for i in range(width):
                    block_bias[i] += row[i]
            for i in range(width):
                weight[i] += block_weight[i]
            for i in range(width):
                bias[i] += block_bias[i]


_layer_norm_part = compile_loop(_layer_norm_part, FASTMATH)


def _layer_norm_sums(
    threads: int, x: Floats, means: Floats, scales: Floats, g: Floats, weights: Floats, biases: Floats
) -> None:
    """weights[b] = Σ_t (x_bt − mean_bt)·scale_bt ∘ g_bt and biases[b] = Σ_t g_bt."""
    run_parts(_layer_norm_part, threads, (x, means, scales, g, weights, biases))


def _windows_part(part: int, parts: int, x: Floats, move: int, step: int, out: Floats) -> None:
    use_wide_registers()
    images, down, across, rows, run = out.shape
    for b in range(images * part // parts, images * (part + 1) // parts):
        for p in range(down):
            for i in range(rows):
                row = x[b, p * move + i]
                for q in range(across):
                    here, there = row[q * step : q * step + run], out[b, p, q, i]
                    for j in range(run):
                        there[j] = here[j]


_windows_part = compile_loop(_windows_part, FASTMATH)


def _copy_windows(threads: int, x: Floats, move: int, step: int, out: Floats) -> None:
    """Copy the windows of x [images, rows, numbers] to out [images, down, across, window rows, run]."""
    run_parts(_windows_part, threads, (x, move, step, out))


def _forward_part(
    part: int, parts: int, gates: Floats, cells: Floats, ends: Floats, states: Floats, t: int
) -> None:
    use_wide_registers()
    batch = gates.shape[1]
    for b in range(batch * part // parts, batch * (part + 1) // parts):
        i, f, g, o = gates[t, b, 0], gates[t, b, 1], gates[t, b, 2], gates[t, b, 3]
        before, after, end, state = cells[t, b], cells[t + 1, b], ends[t, b], states[t, b]
        # Each loop is over one or two rows. With more, the compiler cannot prove that they do not overlap.
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


_forward_part = compile_loop(_forward_part, FASTMATH)


def _lstm_forward(threads: int, gates: Floats, cells: Floats, ends: Floats, states: Floats, t: int) -> None:
    """One time step of an LSTM. Overwrites gates [times, examples, 4, width] by their activations."""
    run_parts(_forward_part, threads, (gates, cells, ends, states, t))


def _backward_part(
    part: int,
    parts: int,
    gates: Floats,
    cells: Floats,
    ends: Floats,
    gate_gradients: Floats,
    dh: Floats,
    dc: Floats,
    t: int,
) -> None:
    use_wide_registers()
    batch = gates.shape[1]
    for b in range(batch * part // parts, batch * (part + 1) // parts):
        i, f, g, o = gates[t, b, 0], gates[t, b, 1], gates[t, b, 2], gates[t, b, 3]
        of_i, of_f, of_g, of_o = (
            gate_gradients[t, b, 0],
            gate_gradients[t, b, 1],
            gate_gradients[t, b, 2],
            gate_gradients[t, b, 3],
        )
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


_backward_part = compile_loop(_backward_part, FASTMATH)


def _lstm_backward(
    threads: int,
    gates: Floats,
    cells: Floats,
    ends: Floats,
    gate_gradients: Floats,
    dh: Floats,
    dc: Floats,
    t: int,
) -> None:
    """The gradients of the gates of time t. dc is first that of cell t + 1, and then that of cell t."""
    run_parts(_backward_part, threads, (gates, cells, ends, gate_gradients, dh, dc, t))


embedding_squared_norms, add_embedding_rows = (
    compile_loop(_embedding_squared_norms, FASTMATH),
    compile_loop(_add_embedding_rows, FASTMATH),
)
copy_windows, layer_norm_sums = (
    compile_loop(_copy_windows, FASTMATH),
    compile_loop(_layer_norm_sums, FASTMATH),
)
lstm_forward, lstm_backward = compile_loop(_lstm_forward, FASTMATH), compile_loop(_lstm_backward, FASTMATH)


def warm_up() -> None:
    """Compile all loops, for the types of arrays that they are called with."""
    rows, ids = np.ones((1, 1, 1), dtype=_F), np.zeros((1, 1), dtype=np.int64)
    each, four = np.ones((1, 1), dtype=_F), np.ones((1, 1, 4, 1), dtype=_F)
    embedding_squared_norms(1, ids, rows, -1, 1, np.zeros(1))
    add_embedding_rows(1, ids, rows, each[0], -1, each.copy())
    layer_norm_sums(1, rows, each, each, rows, each.copy(), each.copy())
    copy_windows(1, rows, 1, 1, np.ones((1, 1, 1, 1, 1), dtype=_F))
    cells = np.ones((2, 1, 1), dtype=_F)
    lstm_forward(1, four.copy(), cells, rows.copy(), rows.copy(), 0)
    lstm_backward(1, four, cells, rows, four.copy(), each.copy(), each.copy(), 0)
