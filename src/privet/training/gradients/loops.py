"""Loops that torch has no operation for, compiled by numba. Importing this module imports numba, so nothing else imports it before it must.

Every loop takes contiguous float32 arrays in the processor's memory; whoever calls it has looked (``products``).
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from privet.training.compiling import compiled, inlined, wide

__all__ = [
    "add_chain_squares",
    "add_outer_squares",
    "add_rows",
    "copy_windows",
    "entropy_gradient",
    "lstm_backward",
    "lstm_forward",
    "scale_and_sum",
    "squares_by_key",
]

_F, _I = np.float32, np.int32
_BLOCK = 1024  # squares that are added in float32 before the sum goes on in float64, as in ``products``

Floats = npt.NDArray[np.float32]
Integers = npt.NDArray[np.int64]


# NaN and infinity stay what they are.
_FASTMATH = {"contract", "reassoc", "nsz"}


def _compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    return compiled(function, _FASTMATH)


def _square(row: Floats) -> float:
    """‖row‖². Parts are slices that begin at 0: of other ranges numba asks in every turn whether the index is negative."""
    total = 0.0
    for start in range(0, row.size, _BLOCK):
        part = row[start : min(row.size, start + _BLOCK)]
        found = _F(0)
        for i in range(part.size):
            found += part[i] * part[i]
        total += np.float64(found)
    return total


_square = inlined(_square, _FASTMATH)


def _squares_by_key(
    ids: Integers, rows: Floats, skip: int, keys: int, norms: npt.NDArray[np.float64]
) -> None:
    """norms[b] = Σ_v ‖Σ_{t: ids[b, t] = v} rows[b, t]‖², over all v but ``skip``.

    The tokens of an example with the same key are a chain, from the last to the first.
    """
    wide()
    batch, tokens, width = rows.shape
    owner, last = np.full(keys, -1, dtype=np.int32), np.zeros(keys, dtype=np.int32)
    before = np.zeros(tokens, dtype=np.int32)
    added = np.zeros(width, dtype=_F)
    for b in range(batch):
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
                total += _square(rows[b, t])
                continue
            added[:] = rows[b, t]
            while other >= 0:
                here = rows[b, other]
                for i in range(width):
                    added[i] += here[i]
                other = before[other]
            total += _square(added)
        norms[b] = total


def _add_rows(ids: Integers, rows: Floats, factors: Floats, skip: int, out: Floats) -> None:
    """out[ids[b, t]] += factors[b] · rows[b, t], but for ``skip``."""
    wide()
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
    wide()
    for b in range(x.shape[0]):
        norms[b] += (weight * _square(x[b]) + bias) * _square(g[b])


def _copy_windows(x: Floats, move: int, step: int, out: Floats) -> None:
    """Windows of images x [images, rows, numbers]: out [images, down, across, window's rows, run] ← runs of its rows."""
    wide()
    images, down, across, rows, run = out.shape
    for b in range(images):
        for p in range(down):
            for i in range(rows):
                row = x[b, p * move + i]
                for q in range(across):
                    here, there = row[q * step : q * step + run], out[b, p, q, i]
                    for j in range(run):
                        there[j] = here[j]


def _exponential(x: np.float32) -> np.float32:
    """exp(x) for x ≤ 0, to 2 units in the last place; the polynomial is that of Moshier's Cephes library."""
    x = _F(-88) if x < _F(-88) else x
    n = _F(np.floor(x * _F(1.44269504088896341) + _F(0.5)))
    r = x - n * _F(0.693359375) + n * _F(2.12194440e-4)
    p = _F(1.9875691500e-4) * r + _F(1.3981999507e-3)
    p = p * r + _F(8.3334519073e-3)
    p = p * r + _F(4.1665795894e-2)
    p = p * r + _F(1.6666665459e-1)
    p = p * r + _F(5.0000001201e-1)
    power = _I(_I(_I(n) + _I(127)) << _I(23)).view(_F)  # numba computes with 64 bits unless told otherwise
    return (p * r * r + r + _F(1)) * power


_exponential = inlined(_exponential, _FASTMATH)


def _sigmoid(x: np.float32) -> np.float32:
    small = _exponential(-abs(x))
    share = _F(1) / (_F(1) + small)
    return small * share if x < _F(0) else share


def _tanh(x: np.float32) -> np.float32:
    """By exp(−2|x|), or near 0, where that cancels, by a polynomial of the same library."""
    z = x * x
    p = _F(-5.70498872745e-3) * z + _F(2.06390887954e-2)
    p = p * z - _F(5.37397155531e-2)
    p = p * z + _F(1.33314422036e-1)
    p = p * z - _F(3.33332819422e-1)
    near = p * z * x + x
    small = _exponential(_F(-2) * abs(x))
    far = (_F(1) - small) / (_F(1) + small)
    far = -far if x < _F(0) else far
    return near if abs(x) < _F(0.625) else far


_sigmoid = inlined(_sigmoid, _FASTMATH)
_tanh = inlined(_tanh, _FASTMATH)


def _lstm_forward(gates: Floats, cells: Floats, ends: Floats, states: Floats, t: int) -> None:
    """One time of a long short-term memory: gates [times, examples, 4, width] get their activations."""
    wide()
    for b in range(gates.shape[1]):
        i, f, g, o = gates[t, b, 0], gates[t, b, 1], gates[t, b, 2], gates[t, b, 3]
        before, after, end, state = cells[t, b], cells[t + 1, b], ends[t, b], states[t, b]
        # Loops over one or two rows each: with more, the compiler cannot tell that they are apart.
        for j in range(i.size):
            i[j] = _sigmoid(i[j])
        for j in range(f.size):
            f[j] = _sigmoid(f[j])
        for j in range(g.size):
            g[j] = _tanh(g[j])
        for j in range(o.size):
            o[j] = _sigmoid(o[j])
        for j in range(i.size):
            after[j] = f[j] * before[j] + i[j] * g[j]
        for j in range(end.size):
            end[j] = _tanh(after[j])
        for j in range(end.size):
            state[j] = o[j] * end[j]


def _lstm_backward(
    gates: Floats, cells: Floats, ends: Floats, found: Floats, dh: Floats, dc: Floats, t: int
) -> None:
    """The gradients of the gates of one time, from those of its state and of the cell; then that of the cell before."""
    wide()
    for b in range(gates.shape[1]):
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


def _entropy_gradient(outputs: Floats, labels: Integers, ignored: int, out: Floats) -> bool:
    """out ← softmax, less 1 at the label, or 0 if that is ignored. Whether every other label is a column."""
    wide()
    for b in range(outputs.shape[0]):
        label, row, shares = labels[b], outputs[b], out[b]
        if label == ignored:
            shares[:] = _F(0)
            continue
        if label < 0 or label >= row.size:
            return False
        most = row[0]
        for i in range(row.size):
            most = max(most, row[i])
        total = _F(0)
        for i in range(row.size):
            shares[i] = _exponential(row[i] - most)
            total += shares[i]
        for i in range(row.size):
            shares[i] /= total
        shares[label] -= _F(1)
    return True


def _add_chain_squares(
    x: Floats,
    y: Floats,
    g: Floats,
    activation: int,
    weight: float,
    bias: float,
    norms: npt.NDArray[np.float64],
) -> None:
    """g ← g ∘ a′, by the outputs y of the activation; then norms[b] += (weight · ‖x_b‖² + bias) ‖g_b‖².

    Activations are 0 for none, 1 for max(0, ·), 2 for tanh, 3 for 1/(1 + exp(−·)).
    """
    wide()
    for b in range(x.shape[0]):
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
        norms[b] += (weight * _square(x[b]) + bias) * _square(row)


def _scale_and_sum(g: Floats, factors: Floats, sums: Floats, fresh: bool) -> None:
    """g_b ← factors_b · g_b, and sums += Σ_b g_b, from 0 if ``fresh``; nothing is added up if ``sums`` has no numbers."""
    wide()
    adds = sums.size == g.shape[1]
    if fresh:
        sums[:] = _F(0)
    for b in range(g.shape[0]):
        factor, row = factors[b], g[b]
        for i in range(row.size):
            row[i] *= factor
        if adds:
            for i in range(row.size):
                sums[i] += row[i]


squares_by_key, add_rows = _compiled(_squares_by_key), _compiled(_add_rows)
add_outer_squares, scale_and_sum = _compiled(_add_outer_squares), _compiled(_scale_and_sum)
add_chain_squares, entropy_gradient = _compiled(_add_chain_squares), _compiled(_entropy_gradient)
copy_windows = _compiled(_copy_windows)
lstm_forward, lstm_backward = _compiled(_lstm_forward), _compiled(_lstm_backward)
