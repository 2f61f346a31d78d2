"""The squared norm of a sum of outer products, for each example, in a compiled loop. Imports numba.

‖Σ_t g_t x_tᵀ‖² = Σ_st (x_s·x_t)(g_s·g_t) is symmetric in s and t, so little more than half of the products
are enough. Batched matrix products compute all of them. Here an example is transposed into the nearest
caches, and the products are computed in tiles of 8 by 16, 32 or 48 tokens that stay in registers.
"""

import numpy as np

from privet.training.compilation import compile_loop, run_parts, use_wide_registers
from privet.training.per_example.kernels.arithmetic import FASTMATH, Floats, Norms
from privet.training.per_example.kernels.vectors import (
    LANES,
    has_wide_registers,
    make_outer_sum,
    transpose_tile,
)

__all__ = ["LANES", "LARGEST_EXAMPLE", "gram_squared_norms", "has_wide_registers", "warm_up"]

LARGEST_EXAMPLE = 1 << 18
"""The most numbers of an example that a thread transposes, and the most products that it holds: 1 MB."""

_F = np.float32
_ROWS = 8
_three, _two, _one = (make_outer_sum(_ROWS, n) for n in (3, 2, 1))


def _transpose(rows: Floats, b: int, tokens_first: bool, out: Floats) -> None:
    """out[i, t] = number i of token t of example b. Columns past the last token are not written."""
    use_wide_registers()
    width, across = out.shape
    tokens = rows.shape[0] if tokens_first else rows.shape[1]
    start = b * width if tokens_first else b * tokens * width
    step = rows.shape[1] * width if tokens_first else width
    flat, flat_out = rows.reshape(-1), out.reshape(-1)
    by_tile, whole = tokens - tokens % LANES, width - width % LANES
    for t in range(0, by_tile, LANES):
        for i in range(0, whole, LANES):
            transpose_tile(flat, start + t * step + i, step, flat_out, i * across + t, across)
        for i in range(whole, width):
            for k in range(t, t + LANES):
                flat_out[i * across + k] = flat[start + k * step + i]
    for t in range(by_tile, tokens):
        for i in range(width):
            flat_out[i * across + t] = flat[start + t * step + i]


_transpose = compile_loop(_transpose, FASTMATH)


def _products(columns: Floats, out: Floats) -> None:
    """out[s, t] = Σ_i columns[i, s]·columns[i, t], for t from the register of s on."""
    width, across = columns.shape
    flat, flat_out = columns.reshape(-1), out.reshape(-1)
    for s in range(0, across, _ROWS):
        t = s - s % LANES
        while t < across:
            positions = (s, 0, across, t, 0, across, 1, width, s * across + t, across)
            left = (across - t) // LANES
            if left == 3 or left > 4:
                _three(flat, flat, flat_out, positions)
                t += 3 * LANES
            elif left > 1:
                _two(flat, flat, flat_out, positions)
                t += 2 * LANES
            else:
                _one(flat, flat, flat_out, positions)
                t += LANES


_products = compile_loop(_products, FASTMATH)


def _gram_part(
    part: int, parts: int, x: Floats, g: Floats, tokens_first: bool, guard: float, norms: Norms
) -> None:
    use_wide_registers()
    batch, tokens = norms.size, x.shape[0] if tokens_first else x.shape[1]
    across = -(-tokens // LANES) * LANES
    transposed_x = np.zeros((x.shape[2], across), dtype=_F)
    transposed_g = np.zeros((g.shape[2], across), dtype=_F)
    gram_x, gram_g = np.empty((across, across), dtype=_F), np.empty((across, across), dtype=_F)
    for b in range(batch * part // parts, batch * (part + 1) // parts):
        _transpose(x, b, tokens_first, transposed_x)
        _transpose(g, b, tokens_first, transposed_g)
        _products(transposed_x, gram_x)
        _products(transposed_g, gram_g)
        total, diagonal = 0.0, 0.0
        for s in range(tokens):
            row_x, row_g = gram_x[s, s + 1 : tokens], gram_g[s, s + 1 : tokens]
            partial = _F(0)
            for t in range(row_x.size):
                partial += row_x[t] * row_g[t]
            diagonal += np.float64(gram_x[s, s] * gram_g[s, s])
            total += 2.0 * np.float64(partial)
        norms[b] = max(total + diagonal, 0.0) + guard * diagonal


_gram_part = compile_loop(_gram_part, FASTMATH)


def _gram_squared_norms(
    threads: int, x: Floats, g: Floats, tokens_first: bool, guard: float, norms: Norms
) -> None:
    """norms[b] = Σ_st (x_bs·x_bt)(g_bs·g_bt), raised by ``guard`` times its diagonal.

    x and g are [examples, tokens, …], or [tokens, examples, …] with ``tokens_first``.
    """
    run_parts(_gram_part, threads, (x, g, tokens_first, guard, norms))


gram_squared_norms = compile_loop(_gram_squared_norms, FASTMATH)


def warm_up() -> None:
    """Compile the loop, for the types of arrays that it is called with."""
    if has_wide_registers():
        x = np.ones((1, 2, 2), dtype=_F)
        gram_squared_norms(1, x, x, False, 0.0, np.zeros(1))
