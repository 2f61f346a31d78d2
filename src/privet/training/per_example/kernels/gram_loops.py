"""The squared norm of a sum of outer products, for each example, in a compiled loop. Imports numba.

‖Σ_t g_t x_tᵀ‖² = Σ_st (x_s·x_t)(g_s·g_t) is symmetric in s and t, so little more than half of the products
are enough. Batched matrix products compute all of them. Here an example is transposed into the nearest
caches, and the products are computed in tiles of 8 by 16, 32 or 48 tokens that stay in registers. A few
tokens beyond a multiple of 16 (a class token) have rows of their own, because a tile would be mostly empty.
Layers with the same input (query, key and value), or with the same output gradient (the two matrices of a
recurrent layer), share its inner products: the first of them keeps them for the others.
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
_FEW = 4  # tokens beyond whole registers that get rows of their own
_three, _two, _one = (make_outer_sum(_ROWS, n) for n in (3, 2, 1))
_row_four, _row_one = (make_outer_sum(1, n) for n in (4, 1))


def _transpose(rows: Floats, b: int, tokens_first: bool, out: Floats) -> None:
    """out[i, t] = number i of token t of example b. Columns past the last token are not written."""
    use_wide_registers()
    width, across = out.shape
    tokens = rows.shape[0] if tokens_first else rows.shape[1]
    start = b * width if tokens_first else b * tokens * width
    step = rows.shape[1] * width if tokens_first else width
    flat, flat_out = rows.reshape(-1), out.reshape(-1)
    whole = width - width % LANES
    tiles = -(-tokens // LANES) if tokens >= LANES else 0
    for tile in range(tiles):
        t = min(tile * LANES, tokens - LANES)  # the last tile overlaps the one before
        for i in range(0, whole, LANES):
            transpose_tile(flat, start + t * step + i, step, flat_out, i * across + t, across)
        for i in range(whole, width):
            for k in range(t, t + LANES):
                flat_out[i * across + k] = flat[start + k * step + i]
    for t in range(0 if tiles == 0 else tokens, tokens):
        for i in range(width):
            flat_out[i * across + t] = flat[start + t * step + i]


_transpose = compile_loop(_transpose, FASTMATH)


def _products(columns: Floats, tiled: int, tokens: int, out: Floats) -> None:
    """out[s, t] = Σ_i columns[i, s]·columns[i, t], for t from the register of s on.

    If s is ``tiled`` or more, this is for all t.
    """
    width, across = columns.shape
    flat, flat_out = columns.reshape(-1), out.reshape(-1)
    for s in range(tiled, tokens):
        t = 0
        while t < across:
            positions = (s, 0, across, t, 0, across, 1, width, s * across + t, across)
            if across - t >= 4 * LANES:
                _row_four(flat, flat, flat_out, positions)
                t += 4 * LANES
            else:
                _row_one(flat, flat, flat_out, positions)
                t += LANES
    for s in range(0, tiled, _ROWS):
        t = s - s % LANES
        while t < tiled:
            positions = (s, 0, across, t, 0, across, 1, width, s * across + t, across)
            left = (tiled - t) // LANES
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
    part: int,
    parts: int,
    x: Floats,
    g: Floats,
    x_turned: bool,
    g_turned: bool,
    kept_x: Floats,
    kept_g: Floats,
    x_known: bool,
    g_known: bool,
    guard: float,
    norms: Norms,
) -> None:
    use_wide_registers()
    batch, tokens = norms.size, x.shape[0] if x_turned else x.shape[1]
    across = -(-tokens // LANES) * LANES
    whole = tokens - tokens % LANES
    tiled = whole if whole and tokens - whole <= _FEW else across
    transposed_x = np.zeros((0 if x_known else x.shape[2], across), dtype=_F)
    transposed_g = np.zeros((0 if g_known else g.shape[2], across), dtype=_F)
    own_x, own_g = np.empty((across, across), dtype=_F), np.empty((across, across), dtype=_F)
    for b in range(batch * part // parts, batch * (part + 1) // parts):
        gram_x = kept_x[b] if kept_x.size else own_x
        gram_g = kept_g[b] if kept_g.size else own_g
        if not x_known:
            _transpose(x, b, x_turned, transposed_x)
            _products(transposed_x, tiled, tokens, gram_x)
        if not g_known:
            _transpose(g, b, g_turned, transposed_g)
            _products(transposed_g, tiled, tokens, gram_g)
        total, diagonal = 0.0, 0.0
        for s in range(tokens):
            first, last = (s + 1, min(tiled, tokens)) if s < tiled else (0, s)
            row_x, row_g = gram_x[s, first:last], gram_g[s, first:last]
            partial = _F(0)
            for t in range(row_x.size):
                partial += row_x[t] * row_g[t]
            diagonal += np.float64(gram_x[s, s] * gram_g[s, s])
            total += 2.0 * np.float64(partial)
        norms[b] = max(total + diagonal, 0.0) + guard * diagonal


_gram_part = compile_loop(_gram_part, FASTMATH)


def _gram_squared_norms(
    threads: int,
    x: Floats,
    g: Floats,
    turned: tuple[bool, bool],
    kept_x: Floats,
    kept_g: Floats,
    known: tuple[bool, bool],
    guard: float,
    norms: Norms,
) -> None:
    """norms[b] = Σ_st (x_bs·x_bt)(g_bs·g_bt), raised by ``guard`` times its diagonal.

    x and g are [examples, tokens, …], or, where they are turned, [tokens, examples, …]. The inner products
    are kept in ``kept_x`` and ``kept_g``, unless these are empty. Where they are known, they are read there.
    """
    arguments = (x, g, turned[0], turned[1], kept_x, kept_g, known[0], known[1], guard, norms)
    run_parts(_gram_part, threads, arguments)


gram_squared_norms = compile_loop(_gram_squared_norms, FASTMATH)


def warm_up() -> None:
    """Compile the loop, for the types of arrays that it is called with."""
    if has_wide_registers():
        x = np.ones((1, 2, 2), dtype=_F)
        kept = np.zeros((1, LANES, LANES), dtype=_F)
        gram_squared_norms(1, x, x, (False, False), kept, kept.copy(), (False, False), 0.0, np.zeros(1))
