"""The squared norm of a sum of outer products, example by example, by a compiled loop. Importing this module imports numba.

‖Σ_t g_t x_tᵀ‖² = Σ_st (x_s·x_t)(g_s·g_t) is symmetric in s and t, so little more than half of the products are enough; batched
matrix products take all of them. Here an example is transposed into the nearest caches, and the products are taken in tiles of 8 by
16, 32 or 48 tokens that stay in registers.
"""

import numpy as np

from privet.training.compilation import compiled, share, wide
from privet.training.per_example.kernels.arithmetic import FASTMATH, Floats, Norms
from privet.training.per_example.kernels.vectors import LANES, has_registers, outer_sum, transpose

__all__ = ["LANES", "ROOM", "gram_squares", "has_registers"]

ROOM = 1 << 18
"""How many numbers of an example a thread transposes, and products it holds, at most: 1 MB."""

_F = np.float32
_ROWS = 8
_three, _two, _one = (outer_sum(_ROWS, n) for n in (3, 2, 1))


def _turn(rows: Floats, b: int, tokens_first: bool, out: Floats) -> None:
    """out[i, t] = number i of token t of example b; columns past the last token are left alone."""
    wide()
    width, across = out.shape
    tokens = rows.shape[0] if tokens_first else rows.shape[1]
    start = b * width if tokens_first else b * tokens * width
    step = rows.shape[1] * width if tokens_first else width
    flat, found = rows.reshape(-1), out.reshape(-1)
    by_tile, whole = tokens - tokens % LANES, width - width % LANES
    for t in range(0, by_tile, LANES):
        for i in range(0, whole, LANES):
            transpose(flat, start + t * step + i, step, found, i * across + t, across)
        for i in range(whole, width):
            for k in range(t, t + LANES):
                found[i * across + k] = flat[start + k * step + i]
    for t in range(by_tile, tokens):
        for i in range(width):
            found[i * across + t] = flat[start + t * step + i]


_turn = compiled(_turn, FASTMATH)


def _products(turned: Floats, out: Floats) -> None:
    """out[s, t] = Σ_i turned[i, s]·turned[i, t], for t from the register of s on."""
    width, across = turned.shape
    flat, found = turned.reshape(-1), out.reshape(-1)
    for s in range(0, across, _ROWS):
        t = s - s % LANES
        while t < across:
            places = (s, 0, across, t, 0, across, 1, width, s * across + t, across)
            left = (across - t) // LANES
            if left == 3 or left > 4:
                _three(flat, flat, found, places)
                t += 3 * LANES
            elif left > 1:
                _two(flat, flat, found, places)
                t += 2 * LANES
            else:
                _one(flat, flat, found, places)
                t += LANES


_products = compiled(_products, FASTMATH)


def _gram_part(
    part: int, parts: int, x: Floats, g: Floats, tokens_first: bool, guard: float, norms: Norms
) -> None:
    wide()
    batch, tokens = norms.size, x.shape[0] if tokens_first else x.shape[1]
    across = -(-tokens // LANES) * LANES
    turned_x = np.zeros((x.shape[2], across), dtype=_F)
    turned_g = np.zeros((g.shape[2], across), dtype=_F)
    of_x, of_g = np.empty((across, across), dtype=_F), np.empty((across, across), dtype=_F)
    for b in range(batch * part // parts, batch * (part + 1) // parts):
        _turn(x, b, tokens_first, turned_x)
        _turn(g, b, tokens_first, turned_g)
        _products(turned_x, of_x)
        _products(turned_g, of_g)
        total, diagonal = 0.0, 0.0
        for s in range(tokens):
            ours, theirs = of_x[s, s + 1 : tokens], of_g[s, s + 1 : tokens]
            found = _F(0)
            for t in range(ours.size):
                found += ours[t] * theirs[t]
            diagonal += np.float64(of_x[s, s] * of_g[s, s])
            total += 2.0 * np.float64(found)
        norms[b] = max(total + diagonal, 0.0) + guard * diagonal


_gram_part = compiled(_gram_part, FASTMATH)


def _gram_squares(threads: int, x: Floats, g: Floats, tokens_first: bool, guard: float, norms: Norms) -> None:
    """norms[b] = Σ_st (x_bs·x_bt)(g_bs·g_bt), raised by ``guard`` times its diagonal; [examples, tokens, …], or tokens first."""
    share(_gram_part, threads, (x, g, tokens_first, guard, norms))


gram_squares = compiled(_gram_squares, FASTMATH)
