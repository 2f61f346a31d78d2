"""Loops that torch has no operation for, compiled by numba. Importing this module imports numba: ``compiled`` does it.

Every loop takes contiguous float32 arrays in the processor's memory; whoever calls it has looked (``products``).
"""

from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["add_outer_squares", "add_rows", "scale_and_sum", "squares_by_key"]

_F = np.float32
_BLOCK = 1024  # squares that are added in float32 before the sum goes on in float64, as in ``products``

Floats = npt.NDArray[np.float32]
Integers = npt.NDArray[np.int64]


def _compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    numba: Any = import_module("numba")
    options = {
        "nogil": True,
        "fastmath": {"contract", "reassoc", "nsz"},
    }  # NaN and infinity stay what they are
    try:
        made = numba.njit(cache=True, **options)(function)
    except RuntimeError:  # no folder for the cache can be written to
        made = numba.njit(**options)(function)
    return made  # type: ignore[no-any-return]


def _squares_by_key(
    ids: Integers, rows: Floats, skip: int, keys: int, norms: npt.NDArray[np.float64]
) -> None:
    """norms[b] = Σ_v ‖Σ_{t: ids[b, t] = v} rows[b, t]‖², over all v but ``skip``.

    The tokens of an example with the same key are a chain, from the last to the first.
    """
    batch, tokens, width = rows.shape
    owner, last = np.full(keys, -1, dtype=np.int64), np.zeros(keys, dtype=np.int64)
    before = np.zeros(tokens, dtype=np.int64)
    added = np.zeros(width, dtype=_F)
    for b in range(batch):
        for t in range(tokens):
            key = ids[b, t]
            before[t] = last[key] if owner[key] == b else -1
            owner[key], last[key] = b, t
        total = 0.0
        for t in range(tokens):
            key = ids[b, t]
            if key == skip or last[key] != t:
                continue
            here = rows[b, t]
            other = before[t]
            if other >= 0:
                for i in range(width):
                    added[i] = here[i]
                while other >= 0:
                    for i in range(width):
                        added[i] += rows[b, other, i]
                    other = before[other]
                here = added
            for start in range(0, width, _BLOCK):
                part = _F(0)
                for i in range(start, min(width, start + _BLOCK)):
                    part += here[i] * here[i]
                total += np.float64(part)
        norms[b] = total


def _add_rows(ids: Integers, rows: Floats, factors: Floats, skip: int, out: Floats) -> None:
    """out[ids[b, t]] += factors[b] · rows[b, t], but for ``skip``."""
    batch, tokens, width = rows.shape
    for b in range(batch):
        factor = factors[b]
        for t in range(tokens):
            key = ids[b, t]
            if key != skip:
                for i in range(width):
                    out[key, i] += factor * rows[b, t, i]


def _add_outer_squares(
    x: Floats, g: Floats, weight: float, bias: float, norms: npt.NDArray[np.float64]
) -> None:
    """norms[b] += (weight · ‖x_b‖² + bias) ‖g_b‖²."""
    for b in range(x.shape[0]):
        of_x, of_g = 0.0, 0.0
        for start in range(0, x.shape[1], _BLOCK):
            part = _F(0)
            for i in range(start, min(x.shape[1], start + _BLOCK)):
                part += x[b, i] * x[b, i]
            of_x += np.float64(part)
        for start in range(0, g.shape[1], _BLOCK):
            part = _F(0)
            for i in range(start, min(g.shape[1], start + _BLOCK)):
                part += g[b, i] * g[b, i]
            of_g += np.float64(part)
        norms[b] += (weight * of_x + bias) * of_g


def _scale_and_sum(g: Floats, factors: Floats, sums: Floats) -> None:
    """g_b ← factors_b · g_b, and sums += Σ_b g_b; nothing is added up if ``sums`` has no numbers."""
    adds = sums.size == g.shape[1]
    for b in range(g.shape[0]):
        factor = factors[b]
        for i in range(g.shape[1]):
            g[b, i] *= factor
        if adds:
            for i in range(g.shape[1]):
                sums[i] += g[b, i]


squares_by_key, add_rows = _compiled(_squares_by_key), _compiled(_add_rows)
add_outer_squares, scale_and_sum = _compiled(_add_outer_squares), _compiled(_scale_and_sum)
