"""The pairs of ``normals`` in one pass over the memory, compiled by numba where it is installed.

Numba brings its own compiler, so none is needed on the machine. The first call on a machine compiles for about two
seconds, and the result is kept. The same bits are read in the same way as in ``normals``; only the last digits of
logarithm, sine and cosine may differ, which are polynomials here (errors below 2 units in the last place).

Long buffers are cut into stripes with a key of their own each, so that several threads can work on them and the
result does not depend on how many.

*Reference*: the polynomials are those of Moshier's Cephes library for single precision.
"""

import math
import threading
from collections.abc import Callable
from functools import lru_cache
from importlib import import_module
from importlib.util import find_spec
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from privet.randomness import NoiseSource
from privet.training.normals import BYTES, COARSE, below
from privet.training.secure_stream import CipherNoise, fill, offspring

__all__ = ["add_normal", "is_available"]

_PAIRS = 1 << 15
_NEAR = 1 << 10  # pairs whose intermediate values stay in the first-level cache
_STRIPE = 1 << 19  # numbers
_F, _I = np.float32, np.int32
_LN2_HEAD, _LN2_REST = _F(0.693359375), _F(-2.12194440e-4)
_HALF_TURN = _F(math.pi * 2.0**-31)
_NOWHERE, _NOTHING = np.empty(0, dtype=np.int64), np.empty(0, dtype=_F)
_kept = threading.local()

Floats = npt.NDArray[np.float32]


class _Room(NamedTuple):
    """What one thread works in."""

    raw: npt.NDArray[np.uint8]
    uniform: npt.NDArray[np.int32]
    angle: npt.NDArray[np.int32]
    dither: npt.NDArray[np.int16]
    radius: Floats
    exponents: npt.NDArray[np.int32]
    out: Floats


@lru_cache(maxsize=1)
def is_available() -> bool:
    """Whether numba is installed."""
    return find_spec("numba") is not None


def add_normal(flat: Floats, deviation: float, cell: float, source: NoiseSource, threads: int) -> None:
    """flat ← cell · round((noise + dither + flat)/cell), with normal noise of this deviation."""
    stripes = [flat[start : start + _STRIPE] for start in range(0, flat.size, _STRIPE)]
    # A stripe's key is drawn here and not in a thread, so that a seed means the same for any number of threads.
    work = [(stripe, offspring(source)) for stripe in stripes]
    if threads == 1 or len(work) == 1 or not isinstance(source, CipherNoise):
        _work(work, deviation, cell)
        return
    _kernels()  # compiled once, before the threads ask for it
    failed: list[BaseException] = []

    def share(turn: int) -> None:
        try:
            _work(work[turn::threads], deviation, cell)
        except BaseException as failure:
            failed.append(failure)

    others = [threading.Thread(target=share, args=(turn,)) for turn in range(1, threads)]
    for thread in others:
        thread.start()
    share(0)
    for thread in others:
        thread.join()
    if failed:
        raise failed[0]


def _work(work: list[tuple[Floats, NoiseSource]], deviation: float, cell: float) -> None:
    for stripe, source in work:
        for start in range(0, stripe.size, 2 * _PAIRS):
            _block(stripe[start : start + 2 * _PAIRS], deviation, cell, source)


def _block(piece: Floats, deviation: float, cell: float, source: NoiseSource) -> None:
    count, finish = _kernels()
    pairs = -(-piece.size // 2)
    room = _room(pairs + pairs % 2)
    fill(room.raw, source)
    rare, refined = _NOWHERE, _NOTHING
    if count(room.uniform):
        rare = np.flatnonzero(room.uniform < COARSE)
        refined = (room.uniform[rare] + below(rare.size, source)).astype(_F)
    target = piece
    if piece.size < room.out.size:
        target = room.out
        target[: piece.size] = piece
        target[piece.size :] = 0
    near = (room.radius.view(_I), room.exponents, room.radius)
    bits = (room.uniform, room.angle, room.dither, rare, refined)
    finish(*near, *bits, target, _F(deviation / cell), _F(cell))
    if target is not piece:
        piece[:] = target[: piece.size]


def _room(pairs: int) -> _Room:
    """Room that this thread used before, if it has the right size; a few sizes are kept."""
    kept: dict[int, _Room] = _kept.__dict__.setdefault("rooms", {})
    if pairs not in kept:
        if len(kept) >= 4:
            kept.clear()
        raw = np.zeros(BYTES * pairs, dtype=np.uint8)
        kept[pairs] = _Room(
            raw,
            raw[: 4 * pairs].view(np.int32),
            raw[4 * pairs : 8 * pairs].view(np.int32),
            raw[8 * pairs :].view(np.int16),
            np.zeros(_NEAR, dtype=np.float32),
            np.zeros(_NEAR, dtype=np.int32),
            np.zeros(2 * pairs, dtype=np.float32),
        )
    return kept[pairs]


@lru_cache(maxsize=1)
def _kernels() -> tuple[Callable[..., Any], Callable[..., Any]]:
    """Both loops, compiled."""
    numba = import_module("numba")

    def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
        options = {"nogil": True, "error_model": "numpy", "fastmath": {"contract", "nsz", "nnan", "arcp"}}
        try:
            made = numba.njit(cache=True, **options)(function)
        except RuntimeError:  # no folder for the cache can be written to
            made = numba.njit(**options)(function)
        return made  # type: ignore[no-any-return]

    return compiled(_count), compiled(_finish)


def _count(uniform: npt.NDArray[np.int32]) -> int:
    """Cut the words to the 31 bits of U, and count those that are too coarse."""
    # Numba computes with 64 bits unless told otherwise, which would halve the lanes: hence _I around everything.
    coarse = _I(0)
    for i in range(uniform.size):
        units = _I(uniform[i] & _I(0x7FFFFFFF))
        uniform[i] = units
        coarse = _I(coarse + _I(units < _I(COARSE)))
    return int(coarse)


def _finish(
    bits: npt.NDArray[np.int32],
    exponents: npt.NDArray[np.int32],
    radius: Floats,
    uniform: npt.NDArray[np.int32],
    angles: npt.NDArray[np.int32],
    dithers: npt.NDArray[np.int16],
    rare: npt.NDArray[np.int64],
    refined: Floats,
    out: Floats,
    deviation: np.float32,
    cell: np.float32,
) -> None:
    """The numbers, in cells, and the rounded sum, some pairs at a time.

    ``bits`` is the memory of ``radius`` read as integers; both and ``exponents`` are room. ``refined`` are the
    values of U 2³¹ at the places ``rare``.
    """
    pairs, seen = uniform.size, 0
    twice, per_cell = _F(-2) * deviation * deviation, _F(1) / cell
    for start in range(0, pairs, _NEAR):
        size = min(_NEAR, pairs - start)
        units, angle = uniform[start : start + size], angles[start : start + size]
        first, second = out[start : start + size], out[pairs + start : pairs + start + size]
        dither, other = dithers[start : start + size], dithers[pairs + start : pairs + start + size]
        for i in range(size):
            radius[i] = _F(units[i])
        while seen < rare.size and rare[seen] < start + size:
            radius[rare[seen] - start] = refined[seen]
            seen += 1
        for i in range(size):  # U 2³¹ = m 2^e with m between √½ and √2
            exponent = _I(_I(bits[i] - _I(0x3F3504F3)) >> _I(23))
            bits[i] = _I(bits[i] - _I(exponent << _I(23)))
            exponents[i] = _I(exponent - _I(31))
        for i in range(size):
            m, e = radius[i] - _F(1), _F(exponents[i])
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
            r = math.sqrt(twice * logarithm)  # U ≤ 1, and the logarithm of 1 is exactly 0
            # The nearest quarter turn, and the angle from there.
            quarter = _I(_I(angle[i] + _I(1 << 29)) >> _I(30))
            x = _F(_I(angle[i] - _I(quarter << _I(30)))) * _HALF_TURN
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
