"""Loops of the forms ``mlp`` and ``single_token_linear``, on torch's threads. Imports numba.

Every loop takes contiguous float32 arrays on the CPU. The caller has checked this.
"""

import numpy as np

from privet.training.compilation import compile_loop, run_parts, use_wide_registers
from privet.training.per_example.kernels.arithmetic import (
    FASTMATH,
    Floats,
    Integers,
    Norms,
    exponential,
    sum_of_squares,
)

__all__ = [
    "add_layer_squared_norms",
    "add_linear_squared_norms",
    "clip_factors",
    "cross_entropy_gradient",
    "scale_and_sum",
    "warm_up",
]

_F = np.float32
_FEWEST_COLUMNS = 32  # of one thread


def _products(row: Floats, weight: Floats, bias: Floats, out: Floats) -> None:
    """out = W row + b, for four rows of W at a time, so that each number of ``row`` is read once for four."""
    use_wide_registers()
    count = out.size
    for o in range(0, count - count % 4, 4):
        w0, w1, w2, w3 = weight[o], weight[o + 1], weight[o + 2], weight[o + 3]
        a0, a1, a2, a3 = _F(0), _F(0), _F(0), _F(0)
        for i in range(row.size):
            a0 += row[i] * w0[i]
            a1 += row[i] * w1[i]
            a2 += row[i] * w2[i]
            a3 += row[i] * w3[i]
        out[o], out[o + 1], out[o + 2], out[o + 3] = a0, a1, a2, a3
    for o in range(count - count % 4, count):
        w0, a0 = weight[o], _F(0)
        for i in range(row.size):
            a0 += row[i] * w0[i]
        out[o] = a0
    for o in range(bias.size):
        out[o] += bias[o]


_products = compile_loop(_products, FASTMATH)


def _cross_entropy_part(
    part: int,
    parts: int,
    x: Floats,
    weight: Floats,
    bias: Floats,
    y: Floats,
    labels: Integers,
    ignored: int,
    with_weight: float,
    with_bias: float,
    norms: Norms,
    out_of_range: Integers,
) -> None:
    use_wide_registers()
    rows, multiplies = y.shape[0], weight.size > 0
    for b in range(rows * part // parts, rows * (part + 1) // parts):
        label, inputs, row = labels[b], x[b], y[b]
        if label == ignored:
            row[:] = _F(0)
            norms[b] = 0.0
            continue
        if label < 0 or label >= row.size:
            out_of_range[0] = 1
            return
        if multiplies:
            _products(inputs, weight, bias, row)
        largest = row[0]
        for i in range(row.size):
            largest = max(largest, row[i])
        total = _F(0)
        for i in range(row.size):
            row[i] = exponential(row[i] - largest)
            total += row[i]
        for i in range(row.size):
            row[i] /= total
        row[label] -= _F(1)
        norms[b] = (with_weight * sum_of_squares(inputs) + with_bias) * sum_of_squares(row)


_cross_entropy_part = compile_loop(_cross_entropy_part, FASTMATH)


def _cross_entropy_gradient(
    threads: int,
    x: Floats,
    weight: Floats,
    bias: Floats,
    y: Floats,
    labels: Integers,
    ignored: int,
    with_weight: float,
    with_bias: float,
    norms: Norms,
) -> bool:
    """y ← the gradient of cross entropy at the outputs y: softmax minus 1 at the label, 0 if ignored.

    If ``weight`` is not empty, y is first set to xWᵀ + b. Then norms[b] = (with_weight · ‖x_b‖² +
    with_bias)‖y_b‖². Returns whether every other label is in range.
    """
    out_of_range = np.zeros(1, dtype=np.int64)
    run_parts(
        _cross_entropy_part,
        threads,
        (x, weight, bias, y, labels, ignored, with_weight, with_bias, norms, out_of_range),
    )
    return bool(out_of_range[0] == 0)


def _layer_part(
    part: int,
    parts: int,
    x: Floats,
    y: Floats,
    g: Floats,
    activation: int,
    with_weight: float,
    with_bias: float,
    norms: Norms,
) -> None:
    use_wide_registers()
    rows = x.shape[0]
    for b in range(rows * part // parts, rows * (part + 1) // parts):
        row, out = g[b], y[b]
        if activation == 1:
            for i in range(row.size):
                row[i] = _F(0) if out[i] <= _F(0) else row[i]
        elif activation == 2:
            for i in range(row.size):
                row[i] *= _F(1) - out[i] * out[i]
        elif activation == 3:
            for i in range(row.size):
                row[i] *= (_F(1) - out[i]) * out[i]
        norms[b] += (with_weight * sum_of_squares(x[b]) + with_bias) * sum_of_squares(row)


_layer_part = compile_loop(_layer_part, FASTMATH)


def _add_layer_squared_norms(
    threads: int,
    x: Floats,
    y: Floats,
    g: Floats,
    activation: int,
    with_weight: float,
    with_bias: float,
    norms: Norms,
) -> None:
    """g ← g ∘ a′, for activations y; then norms[b] += (with_weight · ‖x_b‖² + with_bias) ‖g_b‖².

    Activations are 0 for none, 1 for ReLU, 2 for tanh, 3 for sigmoid.
    """
    run_parts(_layer_part, threads, (x, y, g, activation, with_weight, with_bias, norms))


def _linear_part(
    part: int, parts: int, x: Floats, g: Floats, with_weight: float, with_bias: float, norms: Norms
) -> None:
    use_wide_registers()
    rows = x.shape[0]
    for b in range(rows * part // parts, rows * (part + 1) // parts):
        norms[b] += (with_weight * sum_of_squares(x[b]) + with_bias) * sum_of_squares(g[b])


_linear_part = compile_loop(_linear_part, FASTMATH)


def _add_linear_squared_norms(
    threads: int, x: Floats, g: Floats, with_weight: float, with_bias: float, norms: Norms
) -> None:
    """norms[b] += (with_weight · ‖x_b‖² + with_bias) ‖g_b‖²."""
    run_parts(_linear_part, threads, (x, g, with_weight, with_bias, norms))


def _clip_factors(norms: Norms, bound: float, factors: Floats) -> bool:
    """factors = min(1, bound/√norms), where bound/0 is infinite. Returns whether all norms are finite."""
    total = 0.0
    for b in range(norms.size):
        total += norms[b]
        factors[b] = _F(min(1.0, bound / np.sqrt(norms[b])))
    return bool(np.isfinite(total))


def _scale_part(part: int, parts: int, g: Floats, factors: Floats, sums: Floats, overwrite: bool) -> None:
    """A thread owns columns, so it has its own sums."""
    use_wide_registers()
    width = g.shape[1]
    a, b = width * part // parts, width * (part + 1) // parts
    adds = sums.size == width
    own_sums = sums[a:b] if adds else sums[:0]
    if overwrite:
        own_sums[:] = _F(0)
    for row in range(g.shape[0]):
        factor, columns = factors[row], g[row, a:b]
        for i in range(columns.size):
            columns[i] *= factor
        if adds:
            for i in range(columns.size):
                own_sums[i] += columns[i]


_scale_part = compile_loop(_scale_part, FASTMATH)


def _scale_and_sum(threads: int, g: Floats, factors: Floats, sums: Floats, overwrite: bool) -> None:
    """g_b ← factors_b · g_b, then sums += Σ_b g_b, from 0 if ``overwrite``. No sums if ``sums`` is empty."""
    run_parts(_scale_part, min(threads, max(1, g.shape[1] // _FEWEST_COLUMNS)), (g, factors, sums, overwrite))


cross_entropy_gradient, clip_factors = (
    compile_loop(_cross_entropy_gradient, FASTMATH),
    compile_loop(_clip_factors, FASTMATH),
)
add_layer_squared_norms, add_linear_squared_norms = (
    compile_loop(_add_layer_squared_norms, FASTMATH),
    compile_loop(_add_linear_squared_norms, FASTMATH),
)
scale_and_sum = compile_loop(_scale_and_sum, FASTMATH)


def warm_up() -> None:
    """Compile all loops, for the types of arrays that they are called with."""
    x, row, norms = np.ones((1, 1), dtype=_F), np.ones(1, dtype=_F), np.ones(1)
    labels = np.zeros(1, dtype=np.int64)
    cross_entropy_gradient(1, x, x, row, x.copy(), labels, -100, 1.0, 1.0, norms)
    add_layer_squared_norms(1, x, x, x.copy(), 0, 1.0, 1.0, norms)
    add_linear_squared_norms(1, x, x, 1.0, 1.0, norms)
    clip_factors(norms, 1.0, row)
    scale_and_sum(1, x.copy(), row, row.copy(), True)
