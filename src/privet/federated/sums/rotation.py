"""A public random rotation: no number of a rotated vector is much larger than the others.

x becomes H D x/√n, with H the Hadamard matrix of ±1 and D random signs, so each number of it is
sub-Gaussian with variance ‖x‖²/n, whatever x is. Lengths are filled up with zeros to a power of two.
"""

import numpy as np

from privet.views import Numbers

__all__ = ["PublicRotation"]


class PublicRotation:
    """The rotation of one round. Everybody knows it; it hides nothing."""

    def __init__(self, length: int, *, seed: int, round_number: int) -> None:
        self.length = length
        self.size = padded_size(length)
        signs = np.random.default_rng((seed, round_number)).integers(0, 2, self.size)
        self._signs = (2 * signs - 1).astype(np.float64)

    def turn(self, vector: Numbers) -> Numbers:
        """The rotated vector, with ``size`` numbers."""
        filled = np.zeros(self.size)
        filled[: self.length] = vector
        return _multiply_hadamard(filled * self._signs)

    def turn_back(self, rotated: Numbers) -> Numbers:
        """The vector that was rotated, with ``length`` numbers."""
        return (_multiply_hadamard(rotated) * self._signs)[: self.length]


def padded_size(length: int) -> int:
    """The power of two that is not below ``length``."""
    return 1 << max(length - 1, 0).bit_length()


def _multiply_hadamard(vector: Numbers) -> Numbers:
    """H x/√n by the fast transform; H is its own transpose and, with the factor, its own inverse."""
    size, half = vector.size, 1
    while half < size:
        pairs = vector.reshape(-1, 2, half)
        vector = np.stack((pairs[:, 0] + pairs[:, 1], pairs[:, 0] - pairs[:, 1]), axis=1).ravel()
        half *= 2
    turned: Numbers = vector / np.sqrt(size)
    return turned
