"""Batch samplers: they draw the lot of each step from privacy randomness, exactly. An empty lot is a lot.

A float32 coin at rate 10⁻⁷ shows heads 19 % too often, and an accountant that was told 10⁻⁷ then reports too
little. Here the rate is the float64 itself, as a fraction, and each example is in a lot with exactly that
probability.

A run that resumes does not replay earlier draws. Each draw is independent of the draws before it, so the
sampler only continues to count. Samplers that go round (``CyclicBatchSampler``,
``CyclicPoissonBatchSampler``, ``ShuffledBatchSampler``) need the count ``lots_drawn``, which a checkpoint
stores.

*Leaks*: the indices that were drawn must stay secret, because amplification by sampling relies on it. The
time that a step takes shows the size of its lot.
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
from privet.training.sampling.subsets import Indices, draw_poisson_sample, draw_subset

__all__ = [
    "BatchSampler",
    "CyclicBatchSampler",
    "CyclicPoissonBatchSampler",
    "FixedSizeBatchSampler",
    "PoissonBatchSampler",
    "ShuffledBatchSampler",
    "require_size_within",
]

_LOTS_AT_ONCE = 64  # at most
_COINS_AT_ONCE = 1 << 21
_EXAMPLES_AT_ONCE = 1 << 15


class BatchSampler(ABC):
    """Draws lots: rising indices of examples, as int64."""

    def __init__(self, population: int, source: NoiseSource) -> None:
        self.population = whole("population", population)
        self._source = require_source(source)
        self.lots_drawn = 0

    def draw(self) -> Tensor:
        """Draw the next lot."""
        indices = self._draw()
        self.lots_drawn += 1
        return torch.from_numpy(indices)

    def resume(self, lots_drawn: int) -> None:
        """Continue after this number of lots."""
        self.lots_drawn = whole("lots_drawn", lots_drawn, least=0)

    def state(self) -> dict[str, Tensor]:
        """What later lots depend on apart from ``lots_drawn``: nothing, for most samplers."""
        return {}

    def restore(self, state: dict[str, Tensor]) -> None:
        """Continue from ``state``, after ``resume``."""
        del state

    @abstractmethod
    def _draw(self) -> Indices: ...

    def _bits(self) -> NoiseSource:
        return expand_source(self._source)


@final
class PoissonBatchSampler(BatchSampler):
    """Each example with probability ``rate``, independently.

    Small lots are drawn several at once: k lots of n examples are one lot of k n. Lots that were drawn ahead
    are dropped by a copy of the sampler, and by a process after a fork, which draw their own.

    >>> from privet.randomness import SeededNoise
    >>> PoissonBatchSampler(4, 1.0, SeededNoise(1)).draw()
    tensor([0, 1, 2, 3])
    """

    def __init__(self, population: int, rate: float, source: NoiseSource) -> None:
        super().__init__(population, source)
        self.rate = fraction("rate", rate)
        most = min(_COINS_AT_ONCE / self.population, _EXAMPLES_AT_ONCE / (self.rate * self.population))
        self._lots_at_once = max(1, min(_LOTS_AT_ONCE, int(most)))
        self._drawn_ahead: list[Indices] = []
        self._owner = os.getpid()

    def __getstate__(self) -> dict[str, object]:
        return self.__dict__ | {"_drawn_ahead": []}

    def _draw(self) -> Indices:
        if not self._drawn_ahead or self._owner != os.getpid():
            count = self._lots_at_once
            indices = draw_poisson_sample(count * self.population, self.rate, self._bits())
            starts = self.population * np.arange(count, dtype=np.int64)
            lots = np.split(indices, np.searchsorted(indices, starts[1:]))
            self._drawn_ahead = [lot - start for lot, start in zip(lots, starts, strict=True)]
            self._owner = os.getpid()
        return self._drawn_ahead.pop()


@final
class FixedSizeBatchSampler(BatchSampler):
    """``size`` different examples, each set with equal probability, drawn afresh for every step."""

    def __init__(self, population: int, size: int, source: NoiseSource) -> None:
        super().__init__(population, source)
        self.size = require_size_within(size, population)

    def _draw(self) -> Indices:
        return draw_subset(self.population, self.size, self._bits())


@final
class CyclicPoissonBatchSampler(BatchSampler):
    """Poisson lots from one part after the other.

    Step i draws from the examples i mod ``parts`` + k · ``parts`` only. The part of an example is its index
    modulo ``parts``. No other example changes it.
    """

    def __init__(self, population: int, parts: int, rate: float, source: NoiseSource) -> None:
        super().__init__(population, source)
        self.parts, self.rate = whole("parts", parts), fraction("rate", rate)

    def _draw(self) -> Indices:
        part = self.lots_drawn % self.parts
        size = len(range(part, self.population, self.parts))
        return part + self.parts * draw_poisson_sample(size, self.rate, self._bits())


@final
class CyclicBatchSampler(BatchSampler):
    """The same lots in every epoch: step i takes the examples i mod ``parts`` + k · ``parts``."""

    def __init__(self, population: int, parts: int, source: NoiseSource) -> None:
        super().__init__(population, source)
        self.parts = whole("parts", parts)

    def _draw(self) -> Indices:
        return np.arange(self.lots_drawn % self.parts, self.population, self.parts, dtype=np.int64)


@final
class ShuffledBatchSampler(BatchSampler):
    """Each example once per epoch, in a uniformly random order. The last lot of an epoch may be smaller.

    A run that resumes within an epoch shuffles again, and does not know which examples the epoch has already
    used. Therefore it must resume at the beginning of an epoch.
    """

    def __init__(self, population: int, size: int, source: NoiseSource) -> None:
        super().__init__(population, source)
        self.size = require_size_within(size, population)
        self._order = np.empty(0, dtype=np.int64)

    @property
    def lots_per_epoch(self) -> int:
        """Number of lots in an epoch."""
        return -(-self.population // self.size)

    def resume(self, lots_drawn: int) -> None:
        if whole("lots_drawn", lots_drawn, least=0) % self.lots_per_epoch:
            raise InvalidArgument(
                f"'lots_drawn' must be a multiple of the {self.lots_per_epoch} lots of an epoch, got "
                f"{lots_drawn}, because a new shuffle would use some examples twice. Save and resume "
                "shuffled runs at the end of an epoch."
            )
        self.lots_drawn = lots_drawn

    def _draw(self) -> Indices:
        number = self.lots_drawn % self.lots_per_epoch
        if number == 0:
            self._order = _draw_permutation(self.population, self._bits())
        return np.sort(self._order[number * self.size : (number + 1) * self.size])


def require_size_within(size: int, population: int) -> int:
    """Check that a lot size, or a number of parts, does not exceed the population."""
    if whole("size", size) > whole("population", population):
        raise InvalidArgument(
            f"'size' must not exceed 'population' = {population}, got {size}. "
            f"Choose a smaller lot: it contains each example once."
        )
    return size


def _draw_permutation(size: int, source: NoiseSource) -> Indices:
    """Draw a uniform order: sort by independent 64-bit keys, and draw them again if two are equal."""
    while True:
        keys = source.bits(size)
        order = np.argsort(keys)
        if size < 2 or bool((np.diff(keys[order]) != 0).all()):
            return order
