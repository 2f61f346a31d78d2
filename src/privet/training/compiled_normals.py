"""The pairs of ``normals`` in one pass over the memory, compiled by numba where it is installed.

Numba brings its own compiler, so none is needed on the machine. The first call on a machine compiles for about two
seconds, and the result is kept. The same bits are read in the same way as in ``normals``; only the last digits of
logarithm, sine and cosine may differ (see ``normal_kernels``).

Long buffers are cut into stripes with a key of their own each, so that several threads can work on them and the
result does not depend on how many.
"""

import threading
from collections.abc import Callable
from functools import lru_cache
from importlib import import_module
from importlib.util import find_spec
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from privet.randomness import NoiseSource
from privet.training.normals import BYTES, COARSE, below
from privet.training.secure_stream import CipherNoise, fill, offspring

__all__ = ["add_normal", "is_available"]

_PAIRS = 1 << 15
_STRIPE = 1 << 19  # numbers
_F, _I = np.float32, np.int32
_REFINED = _I(
    -(2**31)
)  # the sign of a word that holds U 2³¹ as a float32, because 31 bits are too coarse for it
_kept = threading.local()

Floats = npt.NDArray[np.float32]
Scales = tuple[np.float32, np.float32, np.float32]


class _Room(NamedTuple):
    """What one thread works in."""

    raw: npt.NDArray[np.uint8]
    uniform: npt.NDArray[np.int32]
    angle: npt.NDArray[np.int32]
    dither: npt.NDArray[np.int16]


@lru_cache(maxsize=1)
def is_available() -> bool:
    """Whether numba is installed."""
    return find_spec("numba") is not None


def add_normal(
    flat: Floats, deviation: float, cell: float, source: NoiseSource, threads: int, divisor: float
) -> None:
    """flat ← cell · round((noise + dither + flat)/cell) / divisor, with normal noise of this deviation."""
    scales = _F(deviation / cell), _F(1 / cell), _F(cell / divisor)
    if flat.size <= _STRIPE:
        _work([(flat, source)], scales)
        return
    # A stripe's key is drawn here and not in a thread, so that a seed means the same for any number of threads.
    work = [(flat[start : start + _STRIPE], offspring(source)) for start in range(0, flat.size, _STRIPE)]
    if threads == 1 or not isinstance(source, CipherNoise):
        _work(work, scales)
        return
    _kernel()  # compiled once, before the threads ask for it
    failed: list[BaseException] = []

    def share(turn: int) -> None:
        try:
            _work(work[turn::threads], scales)
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


def _work(work: list[tuple[Floats, NoiseSource]], scales: Scales) -> None:
    for stripe, source in work:
        for start in range(0, stripe.size, 2 * _PAIRS):
            _block(stripe[start : start + 2 * _PAIRS], scales, source)


def _block(piece: Floats, scales: Scales, source: NoiseSource) -> None:
    finish = _kernel()
    pairs = -(-piece.size // 2)
    room = _room(pairs)
    fill(room.raw, source)
    target = piece
    if piece.size < 2 * pairs:
        target = np.zeros(2 * pairs, dtype=_F)
        target[:-1] = piece
    bits = (room.uniform, room.angle, room.dither)
    if finish(*bits, target, *scales, False):
        rare = np.flatnonzero(room.uniform < COARSE)
        exact = (room.uniform[rare] + below(rare.size, source)).astype(_F)
        room.uniform[rare] = exact.view(_I) | _REFINED
        finish(*bits, target, *scales, True)
    if target is not piece:
        piece[:] = target[:-1]


def _room(pairs: int) -> _Room:
    """Room that this thread used before, if it has the right size; a few sizes are kept."""
    kept: dict[int, _Room] = _kept.__dict__.setdefault("rooms", {})
    if pairs not in kept:
        if len(kept) >= 4:
            kept.clear()
        raw = np.zeros(BYTES * (pairs + pairs % 2), dtype=np.uint8)  # whole words of 8 bytes
        kept[pairs] = _Room(
            raw,
            raw[: 4 * pairs].view(np.int32),
            raw[4 * pairs : 8 * pairs].view(np.int32),
            raw[8 * pairs : 12 * pairs].view(np.int16),
        )
    return kept[pairs]


@lru_cache(maxsize=1)
def _kernel() -> Callable[..., int]:
    """The loop, compiled."""
    made: Callable[..., int] = import_module("privet.training.normal_kernels").finish
    return made
