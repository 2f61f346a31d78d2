"""Sampling schemes as public parameters. Each scheme makes its sampler, and says which event its lots are.

The default is Poisson. Most training code runs shuffled epochs, and most accounting is wrong about them:
Privet knows no theorem that amplifies them. Privet proves their cost without amplification.
"""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from typing import final

from privet import events
from privet.adjacency import AddRemove, Adjacency
from privet.arguments import fraction, whole
from privet.caveats import Caveat
from privet.errors import InvalidArgument, NotProved
from privet.events import Compose, Event, FixedSize, Gaussian, Poisson, Repeat
from privet.randomness import NoiseSource
from privet.training.loop.executions import Executions
from privet.training.noise.correlated import BandedNoise, Correlation, IndependentNoise, TreeNoise
from privet.training.sampling.batch_sampler import (
    BatchSampler,
    CyclicBatchSampler,
    CyclicPoissonBatchSampler,
    FixedSizeBatchSampler,
    PoissonBatchSampler,
    ShuffledBatchSampler,
    require_size_within,
)

__all__ = [
    "CyclicPoissonSampling",
    "CyclicSampling",
    "FixedSizeSampling",
    "PoissonSampling",
    "Sampling",
    "ShuffledSampling",
]


class Sampling(ABC):
    """How the lots of a run are drawn."""

    @property
    def caveats(self) -> frozenset[Caveat]:
        """Caveats of every number that relies on this scheme."""
        return frozenset()

    @property
    def needs_size(self) -> bool:
        """Whether the actual number of examples determines the lots, so that it must be the public number."""
        return False

    @property
    def depends_on_position(self) -> bool:
        """Whether the position of an example in the data determines its lots."""
        return False

    @abstractmethod
    def make_sampler(self, population: int, source: NoiseSource) -> BatchSampler:
        """Make the sampler for the actual number of examples."""

    @abstractmethod
    def expected_lot(self, population: int) -> Fraction:
        """Expected number of examples in a lot: the public divisor of a sum of gradients."""

    @abstractmethod
    def event(
        self, noise: float, correlation: Correlation, steps: int, population: int, adjacency: Adjacency
    ) -> Event:
        """The event of this number of steps with this noise multiplier."""

    def event_of_executions(
        self,
        noise: float,
        correlation: Correlation,
        executions: Executions,
        population: int,
        adjacency: Adjacency,
    ) -> Event:
        """The event of the steps that were executed, some of them again after a crash.

        It depends on which steps were executed, not on which of them were lost. So a kill alone does not
        change it.
        """
        if not executions.layers:
            return Compose(())
        if executions.is_path:
            return self.event(noise, correlation, executions.layers[0][1], population, adjacency)
        return self._rerun_event(noise, correlation, executions, population, adjacency)

    @abstractmethod
    def _rerun_event(
        self,
        noise: float,
        correlation: Correlation,
        executions: Executions,
        population: int,
        adjacency: Adjacency,
    ) -> Event:
        """The event where some step was executed more than once."""

    @abstractmethod
    def __str__(self) -> str: ...


class _IndependentLots(Sampling):
    """The lots of different steps are independent, so each step has its own event."""

    @abstractmethod
    def _step(self, noise: float, population: int) -> Event: ...

    def event(
        self, noise: float, correlation: Correlation, steps: int, population: int, adjacency: Adjacency
    ) -> Event:
        del adjacency
        if not isinstance(correlation, IndependentNoise):
            raise NotProved(
                "Correlated noise needs to know how often, and at what distance, an example takes part. "
                f"{self} do not fix that. Use CyclicPoissonSampling with banded noise, or CyclicSampling."
            )
        return Repeat(self._step(noise, population), steps)

    def _rerun_event(
        self,
        noise: float,
        correlation: Correlation,
        executions: Executions,
        population: int,
        adjacency: Adjacency,
    ) -> Event:
        return self.event(noise, correlation, executions.steps + executions.again, population, adjacency)


@final
@dataclass(frozen=True)
class PoissonSampling(_IndependentLots):
    """Each example with probability ``rate``, independently. An empty lot is a lot.

    Reference: Abadi et al. 2016.
    """

    rate: float

    def __post_init__(self) -> None:
        fraction("rate", self.rate)

    def make_sampler(self, population: int, source: NoiseSource) -> BatchSampler:
        return PoissonBatchSampler(population, self.rate, source)

    def expected_lot(self, population: int) -> Fraction:
        return Fraction(self.rate) * population

    def _step(self, noise: float, population: int) -> Event:
        del population
        return Poisson(self.rate, Gaussian(noise))

    def __str__(self) -> str:
        return f"Poisson lots at rate {self.rate:.6g}"


@final
@dataclass(frozen=True)
class FixedSizeSampling(_IndependentLots):
    """``size`` different examples, drawn uniformly and afresh for every step, and accounted as that."""

    size: int

    def __post_init__(self) -> None:
        whole("size", self.size)

    @property
    def needs_size(self) -> bool:
        return True

    def make_sampler(self, population: int, source: NoiseSource) -> BatchSampler:
        return FixedSizeBatchSampler(population, self.size, source)

    def expected_lot(self, population: int) -> Fraction:
        return Fraction(require_size_within(self.size, population))

    def _step(self, noise: float, population: int) -> Event:
        return FixedSize(self.size, population, Gaussian(noise))

    def __str__(self) -> str:
        return f"fresh lots of {self.size}"


@final
@dataclass(frozen=True)
class CyclicPoissonSampling(Sampling):
    """Cyclic Poisson sampling: Poisson lots at ``rate`` from ``parts`` fixed parts in turn.

    The part of an example is its index modulo ``parts``. Neighbours keep these indices: an example that is
    removed leaves a gap. With banded noise of at most ``parts`` bands, the steps in which an example can be
    drawn have independent noise, so sampling amplifies.

    Reference: Choquette-Choo et al. 2023, Theorem 4.
    """

    parts: int
    rate: float

    def __post_init__(self) -> None:
        whole("parts", self.parts)
        fraction("rate", self.rate)

    @property
    def depends_on_position(self) -> bool:
        return True

    def make_sampler(self, population: int, source: NoiseSource) -> BatchSampler:
        return CyclicPoissonBatchSampler(population, self.parts, self.rate, source)

    def expected_lot(self, population: int) -> Fraction:
        return Fraction(self.rate) * Fraction(population, require_size_within(self.parts, population))

    def event(
        self, noise: float, correlation: Correlation, steps: int, population: int, adjacency: Adjacency
    ) -> Event:
        del population, adjacency
        turns = -(-steps // self.parts)
        match correlation:
            case IndependentNoise():
                return Repeat(Poisson(self.rate, Gaussian(noise)), turns)
            case BandedNoise(coefficients) if len(coefficients) <= self.parts:
                norm = sum(value * value for value in coefficients) ** 0.5
                return Repeat(Poisson(self.rate, Gaussian(noise / norm)), turns)
        raise NotProved(
            f"Sampling from {self.parts} parts amplifies independent noise, and banded noise of at most "
            f"{self.parts} bands. Use more parts, fewer bands, or CyclicSampling."
        )

    def _rerun_event(
        self,
        noise: float,
        correlation: Correlation,
        executions: Executions,
        population: int,
        adjacency: Adjacency,
    ) -> Event:
        """One Poisson event per draw, by the length of the noise coefficients that the draw appears with.

        The length exceeds ‖c‖ where the bands reach into steps that ran again. Such a draw is one draw at the
        rate q with a vector of squared length up to (k+1)‖c‖² after k crashes. k + 1 separate draws do not
        bound it.
        """
        del population, adjacency
        column = correlation.coefficients if isinstance(correlation, BandedNoise) else (1.0,)
        longer, rest = executions.draws(column, self.parts)
        norm = sum(value * value for value in column) ** 0.5
        parts: list[Event] = [Poisson(self.rate, Gaussian(noise / math.sqrt(length))) for length in longer]
        if rest:
            parts.append(Repeat(Poisson(self.rate, Gaussian(noise / norm)), rest))
        return parts[0] if len(parts) == 1 else Compose(tuple(parts))

    def __str__(self) -> str:
        return f"Poisson lots at rate {self.rate:.6g} from {self.parts} parts in turn"


@final
@dataclass(frozen=True)
class CyclicSampling(Sampling):
    """The same ``parts`` lots in the same order in every epoch, without amplification.

    The lot of an example is its index modulo ``parts``. No other example changes it. Neighbours keep these
    indices: an example that is removed leaves a gap.
    """

    parts: int

    def __post_init__(self) -> None:
        whole("parts", self.parts)

    @property
    def depends_on_position(self) -> bool:
        return True

    def make_sampler(self, population: int, source: NoiseSource) -> BatchSampler:
        return CyclicBatchSampler(population, self.parts, source)

    def expected_lot(self, population: int) -> Fraction:
        return Fraction(population, require_size_within(self.parts, population))

    def event(
        self, noise: float, correlation: Correlation, steps: int, population: int, adjacency: Adjacency
    ) -> Event:
        del population, adjacency
        turns = -(-steps // self.parts)
        match correlation:
            case BandedNoise(coefficients):
                return events.BandedNoise(noise, coefficients[:steps], steps, self.parts, turns)
            case TreeNoise():
                return events.TreeNoise(noise, steps, self.parts, turns)
        return Repeat(Gaussian(noise), turns)

    def _rerun_event(
        self,
        noise: float,
        correlation: Correlation,
        executions: Executions,
        population: int,
        adjacency: Adjacency,
    ) -> Event:
        """Rows that ran again have fresh noise: one Gaussian mechanism, with more rows than the plan has."""
        match correlation:
            case BandedNoise(coefficients):
                return Gaussian(noise / math.sqrt(executions.squared_reach(coefficients, self.parts)))
            case TreeNoise():
                furthest = executions.layers[0][1]
                first = self.event(noise, correlation, furthest, population, adjacency)
                extra = executions.squared_tree_extra(self.parts)
                return Compose((first, Gaussian(noise / math.sqrt(extra)))) if extra else first
        return Repeat(Gaussian(noise), executions.most_turns(self.parts))

    def __str__(self) -> str:
        return f"{self.parts} fixed lots in turn"


@final
@dataclass(frozen=True)
class ShuffledSampling(Sampling):
    """Each example once per epoch, in random order.

    *Guarantee*: given the order, an example takes part in one step of an epoch. So an epoch costs one
    Gaussian, without amplification, if its neighbour keeps its position (zero-out or replace-one). Under
    add-remove adjacency the other examples move up, and nothing is proved.

    ``accept=Caveat.UNVETTED`` accounts the lots as Poisson samples, as is common practice, with that caveat.
    The true ε can be larger, much larger for small noise (Chua et al. 2024).
    """

    size: int
    accept: Caveat | None = None

    def __post_init__(self) -> None:
        whole("size", self.size)
        if self.accept not in (None, Caveat.UNVETTED):
            raise InvalidArgument(
                f"'accept' must be None or Caveat.UNVETTED, got {self.accept!r}. "
                f"Leave it out to get what is proved for shuffled epochs."
            )

    @property
    def caveats(self) -> frozenset[Caveat]:
        return frozenset() if self.accept is None else frozenset({self.accept})

    @property
    def needs_size(self) -> bool:
        return True

    def make_sampler(self, population: int, source: NoiseSource) -> BatchSampler:
        return ShuffledBatchSampler(population, self.size, source)

    def expected_lot(self, population: int) -> Fraction:
        return Fraction(population, -(-population // require_size_within(self.size, population)))

    def event(
        self, noise: float, correlation: Correlation, steps: int, population: int, adjacency: Adjacency
    ) -> Event:
        if not isinstance(correlation, IndependentNoise):
            raise NotProved(
                "A new shuffle in every epoch lets an example take part in two consecutive steps, which "
                "wastes correlated noise. Use CyclicSampling, which keeps its order."
            )
        if self.accept is not None:
            return Repeat(
                Poisson(require_size_within(self.size, population) / population, Gaussian(noise)), steps
            )
        if isinstance(adjacency, AddRemove):
            raise NotProved(
                "Shuffled epochs have no proved ε under add-remove adjacency, because the other examples "
                "move up when one is removed. Use PoissonSampling, or ZeroOut() adjacency, or accept the "
                "caveat with ShuffledSampling(size, accept=Caveat.UNVETTED)."
            )
        epochs = -(-steps // -(-population // require_size_within(self.size, population)))
        return Repeat(Gaussian(noise), epochs)

    def _rerun_event(
        self,
        noise: float,
        correlation: Correlation,
        executions: Executions,
        population: int,
        adjacency: Adjacency,
    ) -> Event:
        """A run resumes where an epoch begins, so an example is in one step of each epoch that has begun."""
        if self.accept is not None:
            steps = executions.steps + executions.again
            return self.event(noise, correlation, steps, population, adjacency)
        lots_per_epoch = -(-population // require_size_within(self.size, population))
        epochs = sum(
            -(-stop // lots_per_epoch) - start // lots_per_epoch for start, stop in executions.layers
        )
        return Repeat(Gaussian(noise), epochs)

    def __str__(self) -> str:
        return f"shuffled epochs in lots of {self.size}"
