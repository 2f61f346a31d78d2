"""Pairs of normal numbers from random bits, many at once, by torch alone (Box & Muller 1958).

A pair needs 12 bytes: 31 bits of U and 32 bits of an angle θ, for √(−2 ln U) (cos θ, sin θ), and 16 bits of
dither for each of the two numbers. The work is done in blocks that stay in the processor's cache.
``compiled_normals`` does the same in one pass, where numba is installed.

*Tails*. For U below 2⁻¹⁹, 31 bits are too coarse. 53 further bits are drawn there, so that U goes down to
2⁻⁸⁵, which is 10.8 standard deviations.
"""

import math
import threading
from collections.abc import Iterator
from typing import final

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from privet.randomness import NoiseSource
from privet.training.noise.secure_stream import fill_bits

__all__ = ["BITS", "BYTES", "COARSE", "Block", "add_normal", "draw_fractions", "split_blocks"]

BITS = 31  # of U
COARSE = 1 << 12  # in units of 2⁻³¹; a smaller U gets further bits
BYTES = 12  # for a pair
_PAIRS = 1 << 16
_thread = threading.local()


@final
class Block:
    """The memory of the pairs of one block. It is reused, because fresh memory is slow."""

    def __init__(self, pairs: int) -> None:
        self._raw = np.zeros(BYTES * pairs, dtype=np.uint8)
        raw = torch.from_numpy(self._raw)
        self._uniform = raw[: 4 * pairs].view(torch.int32)
        self._angle = raw[4 * pairs : 8 * pairs].view(torch.int32)
        self._dither = raw[8 * pairs :].view(torch.int16)
        self._floats = torch.empty(3 * pairs)
        self.pairs = pairs

    def draw(self, source: NoiseSource) -> None:
        """Draw fresh bits."""
        fill_bits(self._raw, source)

    def dither(self) -> tuple[Tensor, Tensor]:
        """Uniform integers from −2¹⁵ to 2¹⁵ − 1, for the first and the second numbers of the pairs."""
        return self._dither[: self.pairs], self._dither[self.pairs :]

    def logarithms(self, source: NoiseSource) -> Tensor:
        """ln U for every pair."""
        uniform = self._floats[: self.pairs]
        uniform.copy_(self._uniform.bitwise_and_(2**BITS - 1))
        if float(uniform.amin()) < COARSE:
            coarse = torch.nonzero(self._uniform < COARSE).flatten()
            fractions = torch.from_numpy(draw_fractions(coarse.numel(), source))
            uniform[coarse] = (self._uniform[coarse] + fractions).to(torch.float32)
        return uniform.mul_(2.0**-BITS).log_()

    def make_pairs(self, radii: Tensor) -> tuple[Tensor, Tensor]:
        """The radii times the cosine, and times the sine, of the angles."""
        angle, cosine = self._floats[self.pairs : 2 * self.pairs], self._floats[2 * self.pairs :]
        angle.copy_(self._angle).mul_(math.pi * 2.0**-31)
        torch.cos(angle, out=cosine).mul_(radii)
        return cosine, angle.sin_().mul_(radii)


def add_normal(flat: Tensor, deviation: float, cell: float, source: NoiseSource) -> None:
    """flat ← cell · round((noise + dither + flat)/cell), with normal noise of this deviation."""
    for piece, block in split_blocks(flat, per_pair=2):
        block.draw(source)
        radii = block.logarithms(source).mul_(-2 * (deviation / cell) ** 2).sqrt_()
        middle = min(block.pairs, piece.numel())
        halves = piece[:middle], piece[middle:]
        for part, noise, dither in zip(halves, block.make_pairs(radii), block.dither(), strict=True):
            add_rounded(part, noise[: part.numel()], dither[: part.numel()], cell)


def add_rounded(part: Tensor, noise: Tensor, dither: Tensor, cell: float) -> None:
    """part ← cell · round(noise + dither + part/cell); noise and dither are in cells. Overwrites noise."""
    noise.add_(dither)
    torch.add(noise, part, alpha=1 / cell, out=noise)
    torch.mul(noise.round_(), cell, out=part)


def draw_fractions(count: int, source: NoiseSource) -> npt.NDArray[np.float64]:
    """Draw uniform numbers strictly between 0 and 1, with 53 bits."""
    words = source.bits(count) >> np.uint64(11)
    return (words.astype(np.float64) + 0.5) * 2.0**-53


def split_blocks(flat: Tensor, per_pair: int) -> Iterator[tuple[Tensor, Block]]:
    """Split a flat buffer into pieces, each with a block for its pairs. A pair gives ``per_pair`` numbers."""
    size = flat.numel()
    start = 0
    while start < size:
        piece = flat[start : start + per_pair * _PAIRS]
        needed = -(-piece.numel() // per_pair)
        yield piece, _get_block(needed + needed % 2)
        start += piece.numel()


def _get_block(pairs: int) -> Block:
    """The block of this thread for this size. A thread caches up to four sizes."""
    cache: dict[int, Block] = _thread.__dict__.setdefault("blocks", {})
    if pairs not in cache:
        if len(cache) >= 4:
            cache.clear()
        cache[pairs] = Block(pairs)
    return cache[pairs]
