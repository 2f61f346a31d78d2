"""Normal noise in one pass over memory, compiled by numba where it is installed.

Numba brings its own compiler, so the machine needs none. It compiles once on a machine, for three seconds, in
the background (see ``loops``); the result is cached on disk. The bits are read in the same way as in
``normals``. Only the last digits of logarithm, sine and cosine may differ (see ``normal_kernels``).

On a processor with AES instructions the loop makes its own bits. Each call draws a fresh key from the source,
and all of torch's threads share the work. The numbers that follow from a key do not depend on the number of
threads. On other processors the bits come from ``secure_stream``.
"""

import threading
from functools import lru_cache
from importlib import import_module
from importlib.util import find_spec
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from privet.randomness import NoiseSource, SecureNoise
from privet.training.loops import load_loops, wait_for_loops
from privet.training.noise.normals import BYTES, COARSE, draw_fractions
from privet.training.noise.secure_stream import expand_source, fill_bits
from privet.training.threads import choose_threads

__all__ = ["add_normal", "is_available", "is_ready"]

_LOOPS = "privet.training.noise.normal_kernels"
_PAIRS = 1 << 15
_F, _I = np.float32, np.int32
_REFINED = _I(-(2**31))  # the sign bit of a word that holds U·2³¹ as a float32, with more than 31 bits
_thread = threading.local()

Floats = npt.NDArray[np.float32]
Scales = tuple[np.float32, np.float32, np.float32]


class _Workspace(NamedTuple):
    """The memory of one thread."""

    raw: npt.NDArray[np.uint8]
    uniform: npt.NDArray[np.int32]
    angle: npt.NDArray[np.int32]
    dither: npt.NDArray[np.int16]


@lru_cache(maxsize=1)
def is_available() -> bool:
    """Whether numba is installed."""
    return find_spec("numba") is not None


def is_ready(source: NoiseSource) -> bool:
    """Whether the loops are compiled. Noise from a seed waits for them: it has the same digits every time."""
    if not is_available():
        return False
    if not isinstance(source, SecureNoise):
        wait_for_loops()
    return load_loops(_LOOPS) is not None


@lru_cache(maxsize=1)
def has_cipher() -> bool:
    """Whether the loops can make their own bits with the processor's AES instructions."""
    return bool(import_module("privet.training.noise.cipher_loops").is_available())


def add_normal(flat: Floats, deviation: float, cell: float, source: NoiseSource, divisor: float) -> None:
    """flat ← cell · round((noise + dither + flat)/cell) / divisor, with normal noise of this deviation."""
    scales = _F(deviation / cell), _F(1 / cell), _F(cell / divisor)
    if has_cipher():
        # A copy has the same array type for all sources; numba would compile once for each type.
        secret = source.bits(3).copy()
        load_loops(_LOOPS).add(choose_threads(flat.size), secret, flat, *scales)
        return
    bits = expand_source(source)
    for start in range(0, flat.size, 2 * _PAIRS):
        _add_block(flat[start : start + 2 * _PAIRS], scales, bits)


def _add_block(piece: Floats, scales: Scales, source: NoiseSource) -> None:
    finish = load_loops(_LOOPS).finish
    pairs = -(-piece.size // 2)
    workspace = _get_workspace(pairs)
    fill_bits(workspace.raw, source)
    target = piece
    if piece.size < 2 * pairs:
        target = np.zeros(2 * pairs, dtype=_F)
        target[:-1] = piece
    bits = (workspace.uniform, workspace.angle, workspace.dither)
    if finish(*bits, target, *scales, False):
        coarse = np.flatnonzero(workspace.uniform < COARSE)
        exact = (workspace.uniform[coarse] + draw_fractions(coarse.size, source)).astype(_F)
        workspace.uniform[coarse] = exact.view(_I) | _REFINED
        finish(*bits, target, *scales, True)
    if target is not piece:
        piece[:] = target[:-1]


def _get_workspace(pairs: int) -> _Workspace:
    """The workspace of this thread for this size. A thread caches up to four sizes."""
    cache: dict[int, _Workspace] = _thread.__dict__.setdefault("workspaces", {})
    if pairs not in cache:
        if len(cache) >= 4:
            cache.clear()
        raw = np.zeros(BYTES * (pairs + pairs % 2), dtype=np.uint8)  # whole words of 8 bytes
        cache[pairs] = _Workspace(
            raw,
            raw[: 4 * pairs].view(np.int32),
            raw[4 * pairs : 8 * pairs].view(np.int32),
            raw[8 * pairs : 12 * pairs].view(np.int16),
        )
    return cache[pairs]
