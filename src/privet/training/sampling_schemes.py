"""Ways of choosing lots, as public parameters: each knows its sampler and what its lots let be proved.

The default is Poisson. Shuffled epochs are what most training code runs, and what most accounting is wrong about: no
theorem that Privet knows amplifies them. What is proved for them is the cost without amplification.
"""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from typing import final

from privet.adjacency import AddRemove, Adjacency
from privet.arguments import fraction, whole
from privet.caveats import Caveat
from privet.errors import InvalidArgument, NotProved
from privet.events import BandedNoise, Compose, Event, FixedSize, Gaussian, Poisson, Repeat, TreeNoise
from privet.randomness import NoiseSource
from privet.training.correlated import Banded, Correlation, Independent, Tree
from privet.training.executions import Executions
from privet.training.lots import (
    CyclicLots,
    FixedLots,
    Lots,
    PartLots,
    PoissonLots,
    ShuffledLots,
    checked_size,
)

__all__ = [
    "CyclicSampling",
    "FixedSizeSampling",
    "PartSampling",
    "PoissonSampling",
    "Sampling",
    "ShuffledSampling",
]


class Sampling(ABC):
    """How lots are chosen."""

    @property
    def caveats(self) -> frozenset[Caveat]:
        """What must be said with every number that rests on this."""
        return frozenset()

    @property
    def needs_size(self) -> bool:
        """Whether lots are made from the number of examples that there are, so that it must be the public one."""
        return False

    @property
    def goes_by_place(self) -> bool:
        """Whether an example's lots follow from its place in the data."""
        return False

    @abstractmethod
    def lots(self, population: int, source: NoiseSource) -> Lots:
        """The sampler, for the number of examples that there are."""

    @abstractmethod
    def expected_lot(self, population: int) -> Fraction:
        """How many examples a lot has on average: the public divisor of a sum of gradients."""

    @abstractmethod
    def event(
        self, noise: float, correlation: Correlation, steps: int, population: int, adjacency: Adjacency
    ) -> Event:
        """What that many steps with this noise multiplier are."""

    def event_of(
        self,
        noise: float,
        correlation: Correlation,
        executions: Executions,
        population: int,
        adjacency: Adjacency,
    ) -> Event:
        """What the steps are that were executed, some of them again after a crash.

        It depends on which steps were executed, and not on which of them were lost, so a kill alone does not change it.
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
        """The same where some step was executed more than once."""

    @abstractmethod
    def __str__(self) -> str: ...


class _Afresh(Sampling):
    """Lots of different steps have nothing to do with each other, so a step has an event of its own."""

    @abstractmethod
    def _step(self, noise: float, population: int) -> Event: ...

    def event(
        self, noise: float, correlation: Correlation, steps: int, population: int, adjacency: Adjacency
    ) -> Event:
        del adjacency
        if not isinstance(correlation, Independent):
            raise NotProved(
                f"Correlated noise needs to know how often, and how far apart, an example takes part, and {self} do not "
                f"say. Use PartSampling with banded noise, or CyclicSampling."
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
class PoissonSampling(_Afresh):
    """Every example with probability ``rate``, independently; empty lots are lots.

    Reference: Abadi et al. 2016.
    """

    rate: float

    def __post_init__(self) -> None:
        fraction("rate", self.rate)

    def lots(self, population: int, source: NoiseSource) -> Lots:
        return PoissonLots(population, self.rate, source)

    def expected_lot(self, population: int) -> Fraction:
        return Fraction(self.rate) * population

    def _step(self, noise: float, population: int) -> Event:
        del population
        return Poisson(self.rate, Gaussian(noise))

    def __str__(self) -> str:
        return f"Poisson lots at rate {self.rate:.6g}"


@final
@dataclass(frozen=True)
class FixedSizeSampling(_Afresh):
    """``size`` different examples, uniformly, afresh for every step; accounted as that."""

    size: int

    def __post_init__(self) -> None:
        whole("size", self.size)

    @property
    def needs_size(self) -> bool:
        return True

    def lots(self, population: int, source: NoiseSource) -> Lots:
        return FixedLots(population, self.size, source)

    def expected_lot(self, population: int) -> Fraction:
        return Fraction(checked_size(self.size, population))

    def _step(self, noise: float, population: int) -> Event:
        return FixedSize(self.size, population, Gaussian(noise))

    def __str__(self) -> str:
        return f"fresh lots of {self.size}"


@final
@dataclass(frozen=True)
class PartSampling(Sampling):
    """Poisson lots from one of ``parts`` fixed parts after the other; ``rate`` is that within a part.

    An example's part is its number modulo ``parts``. Neighbours are meant with these numbers: one that is left out leaves a gap.
    With banded noise of at most ``parts`` bands an example's turns meet independent noise, so that sampling amplifies.

    Reference: Choquette-Choo et al. 2023, Theorem 4.
    """

    parts: int
    rate: float

    def __post_init__(self) -> None:
        whole("parts", self.parts)
        fraction("rate", self.rate)

    @property
    def goes_by_place(self) -> bool:
        return True

    def lots(self, population: int, source: NoiseSource) -> Lots:
        return PartLots(population, self.parts, self.rate, source)

    def expected_lot(self, population: int) -> Fraction:
        return Fraction(self.rate) * Fraction(population, checked_size(self.parts, population))

    def event(
        self, noise: float, correlation: Correlation, steps: int, population: int, adjacency: Adjacency
    ) -> Event:
        del population, adjacency
        turns = -(-steps // self.parts)
        match correlation:
            case Independent():
                return Repeat(Poisson(self.rate, Gaussian(noise)), turns)
            case Banded(coefficients) if len(coefficients) <= self.parts:
                norm = sum(value * value for value in coefficients) ** 0.5
                return Repeat(Poisson(self.rate, Gaussian(noise / norm)), turns)
        raise NotProved(
            f"Sampling from {self.parts} parts amplifies independent noise, or banded noise of at most that many bands. "
            f"Use more parts, fewer bands, or CyclicSampling."
        )

    def _rerun_event(
        self,
        noise: float,
        correlation: Correlation,
        executions: Executions,
        population: int,
        adjacency: Adjacency,
    ) -> Event:
        """Every draw by the length of what it is seen behind: more than ‖c‖ where its bands reach into steps that ran again.

        Such a draw is one at the rate q, behind a vector of up to (k+1)‖c‖² after k crashes, which k + 1 draws do not bound.
        """
        del population, adjacency
        column = correlation.coefficients if isinstance(correlation, Banded) else (1.0,)
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
    """The same ``parts`` lots in the same order in every epoch. Nothing is amplified; separations are known.

    An example's lot is its number modulo ``parts``, which no other example has a say in. Neighbours are meant with
    these numbers: one that is left out leaves a gap.
    """

    parts: int

    def __post_init__(self) -> None:
        whole("parts", self.parts)

    @property
    def goes_by_place(self) -> bool:
        return True

    def lots(self, population: int, source: NoiseSource) -> Lots:
        return CyclicLots(population, self.parts, source)

    def expected_lot(self, population: int) -> Fraction:
        return Fraction(population, checked_size(self.parts, population))

    def event(
        self, noise: float, correlation: Correlation, steps: int, population: int, adjacency: Adjacency
    ) -> Event:
        del population, adjacency
        turns = -(-steps // self.parts)
        match correlation:
            case Banded(coefficients):
                return BandedNoise(noise, coefficients[:steps], steps, self.parts, turns)
            case Tree():
                return TreeNoise(noise, steps, self.parts, turns)
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
            case Banded(coefficients):
                return Gaussian(noise / math.sqrt(executions.squared_reach(coefficients, self.parts)))
            case Tree():
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
    """Every example once in an epoch, in random order.

    *Guarantee*: given the order, an example takes part in one step of an epoch, so an epoch costs one Gaussian, without
    amplification, where its neighbour keeps its place (zero-out or replace-one). Under add-remove adjacency the other
    examples move up, and nothing is proved.

    ``accept`` takes the caveat ``UNVETTED`` and accounts the lots as Poisson samples, as is widely done. The true
    ε can be larger, by much at small noise (Chua et al. 2024).
    """

    size: int
    accept: Caveat | None = None

    def __post_init__(self) -> None:
        whole("size", self.size)
        if self.accept not in (None, Caveat.UNVETTED):
            raise InvalidArgument(
                f"'accept' must be None or Caveat.UNVETTED, got {self.accept!r}. "
                f"Leave it out for what is proved of shuffled epochs."
            )

    @property
    def caveats(self) -> frozenset[Caveat]:
        return frozenset() if self.accept is None else frozenset({self.accept})

    @property
    def needs_size(self) -> bool:
        return True

    def lots(self, population: int, source: NoiseSource) -> Lots:
        return ShuffledLots(population, self.size, source)

    def expected_lot(self, population: int) -> Fraction:
        return Fraction(population, -(-population // checked_size(self.size, population)))

    def event(
        self, noise: float, correlation: Correlation, steps: int, population: int, adjacency: Adjacency
    ) -> Event:
        if not isinstance(correlation, Independent):
            raise NotProved(
                "Shuffling anew in every epoch lets an example take part in two steps that follow each other, which wastes "
                "correlated noise. Use CyclicSampling, whose order stays."
            )
        if self.accept is not None:
            return Repeat(Poisson(checked_size(self.size, population) / population, Gaussian(noise)), steps)
        if isinstance(adjacency, AddRemove):
            raise NotProved(
                "Shuffled epochs have no proved ε under add-remove adjacency, because every other example moves up when "
                "one is left out. Use PoissonSampling, or ZeroOut() adjacency, or take the caveat with "
                "ShuffledSampling(size, accept=Caveat.UNVETTED)."
            )
        epochs = -(-steps // -(-population // checked_size(self.size, population)))
        return Repeat(Gaussian(noise), epochs)

    def _rerun_event(
        self,
        noise: float,
        correlation: Correlation,
        executions: Executions,
        population: int,
        adjacency: Adjacency,
    ) -> Event:
        """Runs are taken up again where an epoch begins, so an example is in one step of each epoch that was begun."""
        if self.accept is not None:
            steps = executions.steps + executions.again
            return self.event(noise, correlation, steps, population, adjacency)
        turns = -(-population // checked_size(self.size, population))
        epochs = sum(-(-stop // turns) - start // turns for start, stop in executions.layers)
        return Repeat(Gaussian(noise), epochs)

    def __str__(self) -> str:
        return f"shuffled epochs in lots of {self.size}"
