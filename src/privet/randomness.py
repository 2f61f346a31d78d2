"""Two kinds of randomness that never convert into each other.

*Privacy noise* protects people: ``SecureNoise`` draws from the operating system and cannot be seeded;
``SeededNoise`` is for tests, and whatever uses it carries the caveat ``SEEDED_NOISE``. *Experiment
randomness* (splits, shuffles, initial weights) is an explicit ``numpy.random.Generator``, made by
``experiment``. Global random state is never touched.
"""

import os
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import final

import numpy as np

from privet.arguments import whole
from privet.caveats import Caveat
from privet.public_calls import check_public_calls

__all__ = ["NoiseSource", "SecureNoise", "SeededNoise", "experiment"]

_MOST_WORDS = 10**10  # 80 GB


class NoiseSource(ABC):
    """Where the bits of privacy noise come from."""

    @property
    @abstractmethod
    def caveats(self) -> frozenset[Caveat]:
        """The caveats of everything that uses this source."""

    @abstractmethod
    def bits(self, words: int) -> np.ndarray:
        """``words`` independent uniform 64-bit words."""


@final
@dataclass(frozen=True)
class SecureNoise(NoiseSource):
    """Bits from the operating system's generator: no seed, no state, safe after a fork.

    >>> SecureNoise().bits(3).dtype
    dtype('uint64')
    """

    @property
    def caveats(self) -> frozenset[Caveat]:
        return frozenset()

    def bits(self, words: int) -> np.ndarray:
        whole("words", words, least=0, most=_MOST_WORDS)
        return np.frombuffer(os.urandom(8 * words), dtype=np.uint64)


@final
@dataclass(frozen=True, eq=False)
class SeededNoise(NoiseSource):
    """Reproducible bits, for tests only.

    >>> bool((SeededNoise(7).bits(2) == SeededNoise(7).bits(2)).all())
    True
    """

    seed: int
    _generator: np.random.Generator = field(init=False, repr=False)

    def __post_init__(self) -> None:
        whole("seed", self.seed, least=0)
        object.__setattr__(self, "_generator", np.random.Generator(np.random.PCG64DXSM(self.seed)))

    @property
    def caveats(self) -> frozenset[Caveat]:
        return frozenset({Caveat.SEEDED_NOISE})

    def bits(self, words: int) -> np.ndarray:
        whole("words", words, least=0, most=_MOST_WORDS)
        return self._generator.integers(0, 2**64, size=words, dtype=np.uint64)


def experiment(seed: int) -> np.random.Generator:
    """Randomness of an experiment: reproducible, and never used as privacy noise."""
    return np.random.default_rng(whole("seed", seed, least=0))


check_public_calls(__name__)
