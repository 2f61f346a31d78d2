"""Loops of ``chains`` and ``straight``, compiled by numba and run on torch's threads. Importing this module imports numba.

Every loop takes contiguous float32 arrays in the processor's memory; whoever calls it has looked.
"""

import numpy as np

from privet.training.compilation import compiled, share, wide
from privet.training.per_example.kernels.arithmetic import (
    FASTMATH,
    Floats,
    Integers,
    Norms,
    exponential,
    square,
)

__all__ = ["add_chain_squares", "add_outer_squares", "entropy", "flat_factors", "scale_and_sum"]

_F = np.float32
_NARROW = 32  # columns of one thread at least


def _products(row: Floats, weight: Floats, bias: Floats, out: Floats) -> None:
    """out = W row + b, four rows of W at a time, so that the numbers of the row are read once for four."""
    wide()
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


_products = compiled(_products, FASTMATH)


def _entropy_part(
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
    unknown: Integers,
) -> None:
    wide()
    rows, thin = y.shape[0], weight.size > 0
    for b in range(rows * part // parts, rows * (part + 1) // parts):
        label, given, row = labels[b], x[b], y[b]
        if label == ignored:
            row[:] = _F(0)
            norms[b] = 0.0
            continue
        if label < 0 or label >= row.size:
            unknown[0] = 1
            return
        if thin:
            _products(given, weight, bias, row)
        most = row[0]
        for i in range(row.size):
            most = max(most, row[i])
        total = _F(0)
        for i in range(row.size):
            row[i] = exponential(row[i] - most)
            total += row[i]
        for i in range(row.size):
            row[i] /= total
        row[label] -= _F(1)
        norms[b] = (with_weight * square(given) + with_bias) * square(row)


_entropy_part = compiled(_entropy_part, FASTMATH)


def _entropy(
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
    """y ← the gradient of cross entropy at the outputs y: softmax, less 1 at the label, or 0 if that is ignored.

    If ``weight`` has numbers, y is first xWᵀ + b. Then norms[b] = (with_weight · ‖x_b‖² + with_bias)‖y_b‖². Gives whether every
    other label is a column of y.
    """
    unknown = np.zeros(1, dtype=np.int64)
    share(
        _entropy_part,
        threads,
        (x, weight, bias, y, labels, ignored, with_weight, with_bias, norms, unknown),
    )
    return bool(unknown[0] == 0)


def _chain_part(
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
    wide()
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
        norms[b] += (with_weight * square(x[b]) + with_bias) * square(row)


_chain_part = compiled(_chain_part, FASTMATH)


def _add_chain_squares(
    threads: int,
    x: Floats,
    y: Floats,
    g: Floats,
    activation: int,
    with_weight: float,
    with_bias: float,
    norms: Norms,
) -> None:
    """g ← g ∘ a′, by the outputs y of the activation; then norms[b] += (with_weight · ‖x_b‖² + with_bias) ‖g_b‖².

    Activations are 0 for none, 1 for max(0, ·), 2 for tanh, 3 for 1/(1 + exp(−·)).
    """
    share(_chain_part, threads, (x, y, g, activation, with_weight, with_bias, norms))


def _outer_part(
    part: int, parts: int, x: Floats, g: Floats, with_weight: float, with_bias: float, norms: Norms
) -> None:
    wide()
    rows = x.shape[0]
    for b in range(rows * part // parts, rows * (part + 1) // parts):
        norms[b] += (with_weight * square(x[b]) + with_bias) * square(g[b])


_outer_part = compiled(_outer_part, FASTMATH)


def _add_outer_squares(
    threads: int, x: Floats, g: Floats, with_weight: float, with_bias: float, norms: Norms
) -> None:
    """norms[b] += (with_weight · ‖x_b‖² + with_bias) ‖g_b‖²."""
    share(_outer_part, threads, (x, g, with_weight, with_bias, norms))


def _flat_factors(norms: Norms, bound: float, factors: Floats) -> bool:
    """factors = min(1, bound/√norms), by way of infinity for 0. Gives whether all norms are finite."""
    total = 0.0
    for b in range(norms.size):
        total += norms[b]
        factors[b] = _F(min(1.0, bound / np.sqrt(norms[b])))
    return bool(np.isfinite(total))


def _scale_part(part: int, parts: int, g: Floats, factors: Floats, sums: Floats, fresh: bool) -> None:
    """By columns: a thread has its own sums."""
    wide()
    width = g.shape[1]
    a, b = width * part // parts, width * (part + 1) // parts
    adds = sums.size == width
    mine = sums[a:b] if adds else sums[:0]
    if fresh:
        mine[:] = _F(0)
    for row in range(g.shape[0]):
        factor, some = factors[row], g[row, a:b]
        for i in range(some.size):
            some[i] *= factor
        if adds:
            for i in range(some.size):
                mine[i] += some[i]


_scale_part = compiled(_scale_part, FASTMATH)


def _scale_and_sum(threads: int, g: Floats, factors: Floats, sums: Floats, fresh: bool) -> None:
    """g_b ← factors_b · g_b, and sums += Σ_b g_b, from 0 if ``fresh``; nothing is added up if ``sums`` has no numbers."""
    share(_scale_part, min(threads, max(1, g.shape[1] // _NARROW)), (g, factors, sums, fresh))


entropy, flat_factors = compiled(_entropy, FASTMATH), compiled(_flat_factors, FASTMATH)
add_chain_squares, add_outer_squares = (
    compiled(_add_chain_squares, FASTMATH),
    compiled(_add_outer_squares, FASTMATH),
)
scale_and_sum = compiled(_scale_and_sum, FASTMATH)
