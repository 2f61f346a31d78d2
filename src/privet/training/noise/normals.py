"""Pairs of normal numbers from random bits, many at once, by torch alone (Box & Muller 1958).

A pair needs 12 bytes: 31 bits of U and 32 bits of an angle θ, for √(−2 ln U) (cos θ, sin θ), and 16 bits of dither
for each of the two numbers. All is done in blocks that stay in the processor's cache. ``compiled_normals`` does the
same in one pass, where numba is installed.

*Tails*. Where U is below 2⁻¹⁹ its 31 bits are too coarse. There 53 more are drawn, so that U goes down to 2⁻⁸⁵,
which is 10.8 standard deviations.
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
from privet.training.noise.secure_stream import fill

__all__ = ["BITS", "BYTES", "COARSE", "Block", "add_normal", "below", "blocks"]

BITS = 31  # of U
COARSE = 1 << 12  # a U below this many units of 2⁻³¹ gets further bits
BYTES = 12  # for a pair
_PAIRS = 1 << 16
_kept = threading.local()


@final
class Block:
    """Room for the pairs of one block; used again and again, because fresh memory is slow."""

    def __init__(self, pairs: int) -> None:
        self._raw = np.zeros(BYTES * pairs, dtype=np.uint8)
        raw = torch.from_numpy(self._raw)
        self._uniform = raw[: 4 * pairs].view(torch.int32)
        self._angle = raw[4 * pairs : 8 * pairs].view(torch.int32)
        self._dither = raw[8 * pairs :].view(torch.int16)
        self._floats = torch.empty(3 * pairs)
        self.pairs = pairs

    def draw(self, source: NoiseSource) -> None:
        """Fresh bits."""
        fill(self._raw, source)

    def dither(self) -> tuple[Tensor, Tensor]:
        """Uniform whole numbers from −2¹⁵ to 2¹⁵ − 1, for the first and for the second numbers of the pairs."""
        return self._dither[: self.pairs], self._dither[self.pairs :]

    def logarithms(self, source: NoiseSource) -> Tensor:
        """ln U for every pair."""
        found = self._floats[: self.pairs]
        found.copy_(self._uniform.bitwise_and_(2**BITS - 1))
        if float(found.amin()) < COARSE:
            rare = torch.nonzero(self._uniform < COARSE).flatten()
            found[rare] = (self._uniform[rare] + torch.from_numpy(below(rare.numel(), source))).to(
                torch.float32
            )
        return found.mul_(2.0**-BITS).log_()

    def pairs_of(self, radii: Tensor) -> tuple[Tensor, Tensor]:
        """Radius times cosine and sine of the angles."""
        angle, cosine = self._floats[self.pairs : 2 * self.pairs], self._floats[2 * self.pairs :]
        angle.copy_(self._angle).mul_(math.pi * 2.0**-31)
        torch.cos(angle, out=cosine).mul_(radii)
        return cosine, angle.sin_().mul_(radii)


def add_normal(flat: Tensor, deviation: float, cell: float, source: NoiseSource) -> None:
    """flat ← cell · round((noise + dither + flat)/cell), with normal noise of this deviation."""
    for piece, block in blocks(flat, per_pair=2):
        block.draw(source)
        radii = block.logarithms(source).mul_(-2 * (deviation / cell) ** 2).sqrt_()
        middle = min(block.pairs, piece.numel())
        for part, found, dither in zip(
            (piece[:middle], piece[middle:]), block.pairs_of(radii), block.dither(), strict=True
        ):
            add_rounded(part, found[: part.numel()], dither[: part.numel()], cell)


def add_rounded(part: Tensor, noise: Tensor, dither: Tensor, cell: float) -> None:
    """part ← cell · round(noise + dither + part/cell); noise and dither count cells, and the noise is overwritten."""
    noise.add_(dither)
    torch.add(noise, part, alpha=1 / cell, out=noise)
    torch.mul(noise.round_(), cell, out=part)


def below(count: int, source: NoiseSource) -> npt.NDArray[np.float64]:
    """Uniform numbers strictly between 0 and 1, with 53 bits."""
    words = source.bits(count) >> np.uint64(11)
    return (words.astype(np.float64) + 0.5) * 2.0**-53


def blocks(flat: Tensor, per_pair: int) -> Iterator[tuple[Tensor, Block]]:
    """Pieces of a flat buffer, each with room for its pairs, of which ``per_pair`` numbers are used."""
    size = flat.numel()
    start = 0
    while start < size:
        piece = flat[start : start + per_pair * _PAIRS]
        needed = -(-piece.numel() // per_pair)
        yield piece, _block(needed + needed % 2)
        start += piece.numel()


def _block(pairs: int) -> Block:
    """A block that this thread used before, if it has the right size; a few sizes are kept."""
    kept: dict[int, Block] = _kept.__dict__.setdefault("blocks", {})
    if pairs not in kept:
        if len(kept) >= 4:
            kept.clear()
        kept[pairs] = Block(pairs)
    return kept[pairs]
