"""Masks: long vectors of words from short seeds, that cancel in a sum.

A mask is the key stream of AES-256 in counter mode, read as words. Words are added modulo 2^bits, so a vector
plus one mask is uniform for everybody who does not know the seed.
"""

from typing import Any, final

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from numpy.typing import NDArray

from privet.errors import InvalidArgument
from privet.federated.sum_protocols import MessageRefused

__all__ = ["Masker", "Words", "read_words", "word_type", "write_words"]

Words = NDArray[np.unsignedinteger[Any]]
_TYPES: dict[int, type[np.unsignedinteger[Any]]] = {16: np.uint16, 32: np.uint32, 64: np.uint64}
_BLOCK = 16  # bytes


def word_type(bits: int) -> np.dtype[np.unsignedinteger[Any]]:
    """The little-endian type of words modulo 2^bits."""
    if bits not in _TYPES:
        raise InvalidArgument(f"'bits' must be 16, 32 or 64, got {bits!r}. Take the next larger word.")
    return np.dtype(_TYPES[bits]).newbyteorder("<")


def write_words(words: Words) -> bytes:
    """Words as bytes."""
    return words.tobytes()


def read_words(octets: bytes, *, bits: int, size: int) -> Words:
    """Words from bytes; exactly ``size`` of them."""
    kind = word_type(bits)
    if len(octets) != size * kind.itemsize:
        raise MessageRefused(
            f"A vector must have {size} words of {bits} bits, and has another length. Send what was asked "
            "for."
        )
    return np.frombuffer(octets, dtype=kind)


@final
class Masker:
    """Adds masks to one vector of words, in place. The space for the key stream is kept between masks."""

    def __init__(self, words: Words) -> None:
        if not words.flags.writeable:
            words = words.copy()
        self.words = words
        self._zeros = bytes(words.nbytes)
        self._stream = bytearray(words.nbytes + _BLOCK)
        self._mask = np.frombuffer(self._stream, dtype=words.dtype, count=words.size)

    def add(self, seed: bytes) -> None:
        """Plus the mask of this seed."""
        self._expand(seed)
        np.add(self.words, self._mask, out=self.words)

    def subtract(self, seed: bytes) -> None:
        """Minus the mask of this seed."""
        self._expand(seed)
        np.subtract(self.words, self._mask, out=self.words)

    def _expand(self, seed: bytes) -> None:
        # Each seed is drawn or derived for one vector, so the counter may begin at 0.
        stream = Cipher(algorithms.AES(seed), modes.CTR(bytes(_BLOCK))).encryptor()
        stream.update_into(self._zeros, self._stream)
