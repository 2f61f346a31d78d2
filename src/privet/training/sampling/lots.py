"""Which examples a step looks at. Lots are drawn from privacy randomness, exactly, and empty lots are lots.

A float32 coin at rate 10⁻⁷ shows heads 19 % too often, and an accountant that was told 10⁻⁷ then reports too little. Here
the rate is the float64 itself, as a fraction, and every example is in a lot with exactly that probability.

What a run has drawn needs no replay: every draw is independent of those before, so a run that resumes only goes on
counting. Lots that go round (``CyclicLots``, ``PartLots``, ``ShuffledLots``) have a ``turn`` that is kept.

*Leaks*: which examples were drawn must stay secret; amplification by sampling rests on it. The time that a step takes tells the
size of its lot.
"""

import os
from abc import ABC, abstractmethod
from typing import final

import numpy as np
import torch
from torch import Tensor

from privet.arguments import fraction, whole
from privet.errors import InvalidArgument
from privet.randomness import NoiseSource
from privet.training.noise.secure_stream import expand_source, require_source
from privet.training.sampling.subsets import Indices, poisson_sample, subset

__all__ = ["CyclicLots", "FixedLots", "Lots", "PartLots", "PoissonLots", "ShuffledLots"]

_LOTS = 64  # at once, at most
_COINS = 1 << 21
_TOGETHER = 1 << 15  # examples


class Lots(ABC):
    """A source of lots: rising indices into the examples, as int64."""

    def __init__(self, population: int, source: NoiseSource) -> None:
        self.population = whole("population", population)
        self._source = require_source(source)
        self.turn = 0

    def draw(self) -> Tensor:
        """The next lot."""
        found = self._draw()
        self.turn += 1
        return torch.from_numpy(found)

    def resume(self, turn: int) -> None:
        """Go on after that many lots."""
        self.turn = whole("turn", turn, least=0)

    @abstractmethod
    def _draw(self) -> Indices: ...

    def _bits(self) -> NoiseSource:
        return expand_source(self._source)


@final
class PoissonLots(Lots):
    """Every example with probability ``rate``, independently of everything.

    Several lots are drawn at once, where they are small: k lots of n examples are one lot of k n. Those that wait are left
    behind by a copy and by a process after a fork, which draw their own.

    >>> from privet.randomness import SeededNoise
    >>> PoissonLots(4, 1.0, SeededNoise(1)).draw()
    tensor([0, 1, 2, 3])
    """

    def __init__(self, population: int, rate: float, source: NoiseSource) -> None:
        super().__init__(population, source)
        self.rate = fraction("rate", rate)
        few = min(_COINS / self.population, _TOGETHER / (self.rate * self.population))
        self._ahead = max(1, min(_LOTS, int(few)))
        self._waiting: list[Indices] = []
        self._owner = os.getpid()

    def __getstate__(self) -> dict[str, object]:
        return self.__dict__ | {"_waiting": []}

    def _draw(self) -> Indices:
        if not self._waiting or self._owner != os.getpid():
            found = poisson_sample(self._ahead * self.population, self.rate, self._bits())
            starts = self.population * np.arange(self._ahead, dtype=np.int64)
            parts = np.split(found, np.searchsorted(found, starts[1:]))
            self._waiting = [part - start for part, start in zip(parts, starts, strict=True)]
            self._owner = os.getpid()
        return self._waiting.pop()


@final
class FixedLots(Lots):
    """``size`` different examples, every such set with equal probability, afresh for every step."""

    def __init__(self, population: int, size: int, source: NoiseSource) -> None:
        super().__init__(population, source)
        self.size = checked_size(size, population)

    def _draw(self) -> Indices:
        return subset(self.population, self.size, self._bits())


@final
class PartLots(Lots):
    """Poisson lots that go round: step i draws from the examples i mod ``parts`` + k · ``parts`` only.

    An example's part is its number modulo ``parts``, which no other example has a say in.
    """

    def __init__(self, population: int, parts: int, rate: float, source: NoiseSource) -> None:
        super().__init__(population, source)
        self.parts, self.rate = whole("parts", parts), fraction("rate", rate)

    def _draw(self) -> Indices:
        part = self.turn % self.parts
        size = len(range(part, self.population, self.parts))
        return part + self.parts * poisson_sample(size, self.rate, self._bits())


@final
class CyclicLots(Lots):
    """The same lots in the same order in every epoch: step i looks at the examples i mod ``parts`` + k · ``parts``."""

    def __init__(self, population: int, parts: int, source: NoiseSource) -> None:
        super().__init__(population, source)
        self.parts = whole("parts", parts)

    def _draw(self) -> Indices:
        return np.arange(self.turn % self.parts, self.population, self.parts, dtype=np.int64)


@final
class ShuffledLots(Lots):
    """Every example once in an epoch, in a uniformly random order; the last lot of an epoch may be smaller.

    A run that resumes within an epoch shuffles what comes anew, and no longer knows whom the epoch has seen.
    So it must resume where an epoch begins.
    """

    def __init__(self, population: int, size: int, source: NoiseSource) -> None:
        super().__init__(population, source)
        self.size = checked_size(size, population)
        self._order = np.empty(0, dtype=np.int64)

    @property
    def turns(self) -> int:
        """Lots in an epoch."""
        return -(-self.population // self.size)

    def resume(self, turn: int) -> None:
        if whole("turn", turn, least=0) % self.turns:
            raise InvalidArgument(
                f"'turn' must be a multiple of the {self.turns} lots of an epoch, got {turn}, because a new shuffle "
                f"would show some examples twice. Save and resume shuffled runs at the end of an epoch."
            )
        self.turn = turn

    def _draw(self) -> Indices:
        start = self.turn % self.turns
        if start == 0:
            self._order = _permutation(self.population, self._bits())
        return np.sort(self._order[start * self.size : (start + 1) * self.size])


def checked_size(size: int, population: int) -> int:
    """A number of examples, or of parts, that the population has."""
    if whole("size", size) > whole("population", population):
        raise InvalidArgument(
            f"'size' must not exceed 'population' = {population}, got {size}. "
            f"Choose a smaller lot: it holds each example once."
        )
    return size


def _permutation(size: int, source: NoiseSource) -> Indices:
    """A uniform order: sorted by independent 64-bit keys, which are drawn anew if two of them are equal."""
    while True:
        keys = source.bits(size)
        order = np.argsort(keys)
        if size < 2 or bool((np.diff(keys[order]) != 0).all()):
            return order
