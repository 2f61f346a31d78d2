"""The pairs of ``normals`` in one pass over the memory, compiled by numba where it is installed.

Numba brings its own compiler, so none is needed on the machine. The first call on a machine compiles for three
seconds, and the result is kept. The same bits are read in the same way as in ``normals``; only the last digits of
logarithm, sine and cosine may differ (see ``normal_kernels``).

Where the processor has instructions for AES, the loop makes its own bits, under a key that is drawn from the source
for every call, and all of torch's threads work on it; which numbers come of a key does not depend on how many these are. Elsewhere the
bits come from ``secure_stream``.
"""

import threading
from functools import lru_cache
from importlib import import_module
from importlib.util import find_spec
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from privet.randomness import NoiseSource
from privet.training.noise.normals import BYTES, COARSE, below
from privet.training.noise.secure_stream import expanded, fill
from privet.training.threads import threads_for

__all__ = ["add_normal", "is_available"]

_PAIRS = 1 << 15
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


@lru_cache(maxsize=1)
def has_cipher() -> bool:
    """Whether the loops can make their own bits, by instructions of the processor."""
    return bool(import_module("privet.training.noise.cipher_loops").is_available())


def add_normal(flat: Floats, deviation: float, cell: float, source: NoiseSource, divisor: float) -> None:
    """flat ← cell · round((noise + dither + flat)/cell) / divisor, with normal noise of this deviation."""
    scales = _F(deviation / cell), _F(1 / cell), _F(cell / divisor)
    if has_cipher():
        secret = source.bits(3).copy()  # of one kind for all sources: each kind would be compiled anew
        kernels().add(threads_for(flat.size), secret, flat, *scales)
        return
    bits = expanded(source)
    for start in range(0, flat.size, 2 * _PAIRS):
        _block(flat[start : start + 2 * _PAIRS], scales, bits)


def _block(piece: Floats, scales: Scales, source: NoiseSource) -> None:
    finish = kernels().finish
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
def kernels() -> Any:  # noqa: ANN401 - a module
    """The compiled loops."""
    return import_module("privet.training.noise.normal_kernels")
