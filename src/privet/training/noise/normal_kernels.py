"""The loops of ``compiled_normals``. Imports numba, so it is only imported when a loop is needed.

Logarithm, sine and cosine are polynomials with errors below 2 units in the last place.

*Reference*: the polynomials are those of Moshier's Cephes library for single precision.
"""

import math

import numpy as np
import numpy.typing as npt

from privet.training.compilation import compile_loop, run_parts, use_wide_registers
from privet.training.noise.cipher_loops import BATCH, expand, is_available, keystream
from privet.training.noise.normals import BYTES, COARSE

__all__ = ["add", "finish", "warm_up"]

_F, _I = np.float32, np.int32
_LN2_HEAD, _LN2_REST = _F(0.693359375), _F(-2.12194440e-4)
_HALF_TURN = _F(math.pi * 2.0**-31)

CHUNK = 1 << 10
"""Pairs whose bits a thread makes at once: 12 kB."""
_BLOCKS = CHUNK * BYTES // 16

Floats = npt.NDArray[np.float32]
Words = npt.NDArray[np.uint32]


def _numbers(
    words: npt.NDArray[np.int32],
    angles: npt.NDArray[np.int32],
    dither: npt.NDArray[np.int16],
    other: npt.NDArray[np.int16],
    first: Floats,
    second: Floats,
    deviation: np.float32,
    per_cell: np.float32,
    cell: np.float32,
) -> None:
    """Add two normal numbers for every pair of words, in cells, to ``first`` and ``second``, and round."""
    use_wide_registers()
    # Numba computes with 64-bit integers by default, which would halve the lanes: hence _I everywhere.
    twice = _F(-2) * deviation * deviation
    for i in range(words.size):
        word = words[i]
        bits = _F(word).view(_I) if word >= _I(0) else _I(word & _I(0x7FFFFFFF))
        # U·2³¹ = (1 + m) 2^e with 1 + m between √½ and √2
        exponent = _I(_I(bits - _I(0x3F3504F3)) >> _I(23))
        m = _I(bits - _I(exponent << _I(23))).view(_F) - _F(1)
        e = _F(_I(exponent - _I(31)))
        p = _F(7.0376836292e-2) * m - _F(1.1514610310e-1)
        p = p * m + _F(1.1676998740e-1)
        p = p * m - _F(1.2420140846e-1)
        p = p * m + _F(1.4249322787e-1)
        p = p * m - _F(1.6668057665e-1)
        p = p * m + _F(2.0000714765e-1)
        p = p * m - _F(2.4999993993e-1)
        p = p * m + _F(3.3333331174e-1)
        square = m * m
        logarithm = m + (m * square * p + e * _LN2_REST - _F(0.5) * square) + e * _LN2_HEAD
        r = _F(math.sqrt(twice * logarithm))  # U ≤ 1, and the logarithm of 1 is exactly 0
        # The nearest quarter turn, and the angle relative to it.
        angle = angles[i]
        quarter = _I(_I(angle + _I(1 << 29)) >> _I(30))
        x = _F(_I(angle - _I(quarter << _I(30)))) * _HALF_TURN
        y = x * x
        s = x + x * y * (_F(-1.6666654611e-1) + y * (_F(8.3321608736e-3) - y * _F(1.9515295891e-4)))
        c = _F(4.166664568298827e-2) + y * (_F(-1.388731625493765e-3) + y * _F(2.443315711809948e-5))
        c = _F(1) - _F(0.5) * y + y * y * c
        odd = _I(quarter & _I(1)) != _I(0)
        cosine, sine = (s if odd else c), (c if odd else s)
        cosine = -cosine if _I(_I(quarter + _I(1)) & _I(2)) != _I(0) else cosine
        sine = -sine if _I(quarter & _I(2)) != _I(0) else sine
        first[i] = cell * np.rint((r * cosine + _F(dither[i])) + first[i] * per_cell)
        second[i] = cell * np.rint((r * sine + _F(other[i])) + second[i] * per_cell)


_FASTMATH = {"contract", "nsz", "nnan", "arcp"}
_numbers = compile_loop(_numbers, _FASTMATH)


def _count_coarse(words: npt.NDArray[np.int32]) -> int:
    """Keep the 31 bits of U of each word, and count the words that are too coarse."""
    coarse = _I(0)
    for i in range(words.size):
        units = _I(words[i] & _I(0x7FFFFFFF))
        words[i] = units
        coarse = _I(coarse + _I(units < _I(COARSE)))
    return int(coarse)


_count_coarse = compile_loop(_count_coarse, _FASTMATH)


def _finish(
    words: npt.NDArray[np.int32],
    angles: npt.NDArray[np.int32],
    dithers: npt.NDArray[np.int16],
    out: Floats,
    deviation: np.float32,
    per_cell: np.float32,
    cell: np.float32,
    refined: bool,
) -> int:
    """Add the noise to ``out`` and return 0.

    Unless ``refined``, coarse words stop it: then it returns their number and leaves ``out`` alone. A refined
    word is negative, and holds U·2³¹ as a float32.
    """
    if not refined:
        coarse = _count_coarse(words)
        if coarse:
            return coarse
    pairs = words.size
    first, second = out[:pairs], out[pairs : 2 * pairs]
    dither, other = dithers[:pairs], dithers[pairs : 2 * pairs]
    _numbers(words, angles, dither, other, first, second, deviation, per_cell, cell)
    return 0


def _refine(words: npt.NDArray[np.int32], schedule: Words, nonce: int, first: int) -> None:
    """Give coarse words 53 further bits. Those of word i come from stream block 2⁶³ + 16 (first + i)."""
    bits = np.empty(2 * BATCH, dtype=np.uint64)
    for i in range(words.size):
        if words[i] < _I(COARSE):
            block = np.uint64(1 << 63) + np.uint64(BATCH) * np.uint64(first + i)
            keystream(schedule, nonce, block, bits)
            fraction = (np.float64(bits[0] >> np.uint64(11)) + 0.5) * 2.0**-53
            exact = _F(np.float64(words[i]) + fraction)
            words[i] = _I(exact.view(_I) | _I(-(2**31)))


_refine = compile_loop(_refine, _FASTMATH)


def _add_part(
    part: int,
    parts: int,
    schedule: Words,
    nonce: int,
    out: Floats,
    deviation: np.float32,
    per_cell: np.float32,
    cell: np.float32,
) -> None:
    """The work of one thread: for each chunk, make bits and numbers in the nearest cache."""
    bits = np.empty(3 * CHUNK, dtype=_I)
    dithers = bits[2 * CHUNK :].view(np.int16)
    edge = np.zeros(2, dtype=_F)
    chunks = -(-out.size // (2 * CHUNK))
    for chunk in range(part * chunks // parts, (part + 1) * chunks // parts):
        keystream(schedule, nonce, np.uint64(chunk * _BLOCKS), bits)
        mine = out[2 * CHUNK * chunk : min(out.size, 2 * CHUNK * (chunk + 1))]
        half = mine.size // 2
        pairs = mine.size - half
        words, angles = bits[:pairs], bits[CHUNK : CHUNK + pairs]
        if _count_coarse(words):
            _refine(words, schedule, nonce, chunk * CHUNK)
        _numbers(
            words[:half], angles[:half], dithers[:half], dithers[CHUNK : CHUNK + half], mine[:half],
            mine[half : 2 * half], deviation, per_cell, cell,
        )  # fmt: skip
        if pairs > half:  # one number is left; the second number of its pair is dropped
            edge[0] = mine[2 * half]
            _numbers(
                words[half:], angles[half:], dithers[half:pairs], dithers[CHUNK + half : CHUNK + pairs],
                edge[:1], edge[1:], deviation, per_cell, cell,
            )  # fmt: skip
            mine[2 * half] = edge[0]


_add_part = compile_loop(_add_part, _FASTMATH)


def _add(
    threads: int,
    secret: npt.NDArray[np.uint64],
    out: Floats,
    deviation: np.float32,
    per_cell: np.float32,
    cell: np.float32,
) -> None:
    """Add normal noise to ``out`` and round. The secret has three words: a key of two words, and a nonce."""
    schedule = np.empty(44, dtype=np.uint32)
    expand(secret[:2], schedule)
    run_parts(_add_part, threads, (schedule, secret[2], out, deviation, per_cell, cell))


finish, add = compile_loop(_finish, _FASTMATH), compile_loop(_add, _FASTMATH)


def warm_up() -> None:
    """Compile the loop that this machine uses, for the types of arrays that it is called with."""
    out, one = np.zeros(2, dtype=_F), _F(1)
    if is_available():
        add(1, np.zeros(3, dtype=np.uint64), out, one, one, one)
    else:
        bits = np.ones(1, dtype=_I)
        finish(bits, bits.copy(), np.zeros(2, dtype=np.int16), out, one, one, one, False)
