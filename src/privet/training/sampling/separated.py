"""Separated sampling: an example waits a number of steps before it takes part again, and takes part so often
at most.

This is for federated runs in which clients come and go, so that nobody can promise independent coins. Nothing
is amplified. Correlated noise makes up for it: it needs to know only how often, and at what distance, an
example takes part.
"""

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import final

import numpy as np
import torch
from torch import Tensor

from privet import events
from privet.accounting.correlated import banded_sensitivity
from privet.adjacency import AddRemove, Adjacency
from privet.arguments import whole
from privet.errors import NotProved
from privet.events import Compose, Event, Gaussian, Repeat
from privet.randomness import NoiseSource
from privet.training.loop.executions import Executions
from privet.training.noise.correlated import BandedNoise, Correlation, TreeNoise
from privet.training.sampling.batch_sampler import BatchSampler, require_size_within
from privet.training.sampling.schemes import Sampling
from privet.training.sampling.subsets import Indices, draw_subset

__all__ = ["SeparatedBatchSampler", "SeparatedSampling"]

_UP = 1 + 2.0**-30  # far above the rounding of the sums below, and too small to show in an ε


@final
class SeparatedBatchSampler(BatchSampler):
    """``size`` of the examples that may take part, uniformly; all of them if there are fewer."""

    def __init__(
        self, population: int, size: int, separation: int, participations: int, source: NoiseSource
    ) -> None:
        super().__init__(population, source)
        self.size, self.separation, self.participations = size, separation, participations
        self._last = np.zeros(population, dtype=np.int64)  # the step of the last participation; 0 for none
        self._times = np.zeros(population, dtype=np.int64)

    def state(self) -> dict[str, Tensor]:
        return {"last": torch.from_numpy(self._last.copy()), "times": torch.from_numpy(self._times.copy())}

    def restore(self, state: dict[str, Tensor]) -> None:
        self._last, self._times = state["last"].numpy().copy(), state["times"].numpy().copy()

    def _draw(self) -> Indices:
        step = self.lots_drawn + 1
        rested = (self._last == 0) | (step - self._last >= self.separation)
        ready = np.flatnonzero(rested & (self._times < self.participations))
        if ready.size > self.size:
            ready = ready[draw_subset(int(ready.size), self.size, self._bits())]
        self._last[ready] = step
        self._times[ready] += 1
        return ready


@final
@dataclass(frozen=True)
class SeparatedSampling(Sampling):
    """At most ``size`` examples a step, each at least ``separation`` steps apart and ``participations``
    times.

    *Guarantee*: without amplification, for neighbours that have the same examples in the same lots (zero-out
    and replace-one). Who is in a lot depends on who was in earlier ones, and never on the data.

    Reference: Kairouz et al. 2021 (DP-FTRL); Choquette-Choo et al. 2023, Section 2, for participations that
    are at least b steps apart.
    """

    size: int
    separation: int
    participations: int

    def __post_init__(self) -> None:
        whole("size", self.size)
        whole("separation", self.separation)
        whole("participations", self.participations)

    @property
    def needs_size(self) -> bool:
        return True

    def make_sampler(self, population: int, source: NoiseSource) -> BatchSampler:
        require_size_within(self.size, population)
        return SeparatedBatchSampler(population, self.size, self.separation, self.participations, source)

    def expected_lot(self, population: int) -> Fraction:
        return Fraction(require_size_within(self.size, population))

    def event(
        self, noise: float, correlation: Correlation, steps: int, population: int, adjacency: Adjacency
    ) -> Event:
        del population
        if isinstance(adjacency, AddRemove):
            raise NotProved(
                "Separated lots have no proved ε under add-remove adjacency, because an example that is "
                "there takes the place of another. Use ZeroOut() or ReplaceOne() adjacency."
            )
        turns = self._turns(steps)
        match correlation:
            case BandedNoise(coefficients):
                return events.BandedNoise(noise, coefficients[:steps], steps, self.separation, turns)
            case TreeNoise():
                return events.TreeNoise(noise, steps, self.separation, turns)
        return Repeat(Gaussian(noise), turns)

    def _rerun_event(
        self,
        noise: float,
        correlation: Correlation,
        executions: Executions,
        population: int,
        adjacency: Adjacency,
    ) -> Event:
        """The rows of one path through the executions, and those that ran again, which have fresh noise.

        Participations are separated along every path, because a run that resumes knows those before it. So a
        row Σ_j c_j g_{t−j} holds participations of an example at distances of at least b. It moves by at most
        Σ_k c_{kb}, because C's entries fall.
        """
        furthest = executions.layers[0][1]
        again = sum(stop - start for start, stop in executions.layers[1:])
        first = self.event(noise, correlation, furthest, population, adjacency)
        match correlation:
            case BandedNoise(coefficients):
                assert isinstance(first, events.BandedNoise)
                row = math.fsum(coefficients[:: self.separation])
                squared = banded_sensitivity(first) ** 2 + again * row**2
                return Gaussian(noise / math.sqrt(squared * _UP))
            case TreeNoise():
                extra = executions.squared_tree_extra(self.separation)
                return Compose((first, Gaussian(noise / math.sqrt(extra)))) if extra else first
        return Repeat(Gaussian(noise), self._turns(furthest) + again)

    def _turns(self, steps: int) -> int:
        return min(self.participations, -(-steps // self.separation))

    def __str__(self) -> str:
        return (
            f"lots of up to {self.size}, each example {self.separation} steps apart and at most "
            f"{self.participations} times"
        )
