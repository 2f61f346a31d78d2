"""The squared norm of a sum of outer products, example by example, by a compiled loop. Importing this module imports numba.

‖Σ_t g_t x_tᵀ‖² = Σ_st (x_s·x_t)(g_s·g_t) is symmetric in s and t, so little more than half of the products are enough; batched
matrix products take all of them, and write them out. Here an example is transposed into the nearest caches, and the products are taken
in tiles of 16 by 16 tokens that stay in registers.
"""

import numpy as np

from privet.training.compiling import compiled, share, wide
from privet.training.gradients.arithmetic import FASTMATH, Floats, Norms
from privet.training.gradients.vectors import LANES, has_registers, outer_sum, transpose

__all__ = ["LANES", "ROOM", "gram_squares", "has_registers"]

ROOM = 1 << 18
"""How many numbers of an example a thread transposes at most: 1 MB."""

_F = np.float32
_tile = outer_sum(LANES, 1)


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


def _gram_part(
    part: int, parts: int, x: Floats, g: Floats, tokens_first: bool, guard: float, norms: Norms
) -> None:
    wide()
    batch, tokens = norms.size, x.shape[0] if tokens_first else x.shape[1]
    across = -(-tokens // LANES) * LANES
    xs, gs = np.zeros((x.shape[2], across), dtype=_F), np.zeros((g.shape[2], across), dtype=_F)
    of_x, of_g = np.empty(LANES * LANES, dtype=_F), np.empty(LANES * LANES, dtype=_F)
    flat_x, flat_g = xs.reshape(-1), gs.reshape(-1)
    for b in range(batch * part // parts, batch * (part + 1) // parts):
        _turn(x, b, tokens_first, xs)
        _turn(g, b, tokens_first, gs)
        total, diagonal = 0.0, 0.0
        for s in range(0, across, LANES):
            for t in range(s, across, LANES):
                _tile(flat_x, flat_x, of_x, (s, 0, across, t, 0, across, 1, xs.shape[0], 0, LANES))
                _tile(flat_g, flat_g, of_g, (s, 0, across, t, 0, across, 1, gs.shape[0], 0, LANES))
                found = _F(0)
                for i in range(of_x.size):
                    found += of_x[i] * of_g[i]
                total += np.float64(found) if s == t else 2.0 * np.float64(found)
                if s == t:
                    for i in range(0, of_x.size, LANES + 1):
                        diagonal += np.float64(of_x[i] * of_g[i])
        norms[b] = max(total, 0.0) + guard * diagonal


_gram_part = compiled(_gram_part, FASTMATH)


def _gram_squares(threads: int, x: Floats, g: Floats, tokens_first: bool, guard: float, norms: Norms) -> None:
    """norms[b] = Σ_st (x_bs·x_bt)(g_bs·g_bt), raised by ``guard`` times its diagonal; [examples, tokens, …], or tokens first."""
    share(_gram_part, threads, (x, g, tokens_first, guard, norms))


gram_squares = compiled(_gram_squares, FASTMATH)
