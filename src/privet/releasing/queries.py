"""What a statistic asks of a table: sums of whole numbers that get noise, or a choice among cells.

``SumQuery`` and ``CellChoice`` are public: they say what will be computed, with which sensitivity, before a
row is read.
"""

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import final

from privet.releasing.engines.aggregates import Aggregate, Cells
from privet.releasing.postprocessing import PlainSums, PostProcessing
from privet.releasing.sensitivity import Sensitivity

__all__ = ["CellChoice", "LinearCombination", "NoiseKind", "StatisticQueries", "SumQuery"]


@final
class NoiseKind(StrEnum):
    """Which noise all sums of a plan get."""

    LAPLACE = "laplace"
    GAUSSIAN = "gaussian"


@final
@dataclass(frozen=True)
class LinearCombination:
    """A sum of aggregates with whole-number factors."""

    terms: tuple[tuple[Aggregate, int], ...]

    @staticmethod
    def of(aggregate: Aggregate) -> "LinearCombination":
        """The aggregate itself."""
        return LinearCombination(((aggregate, 1),))


@final
@dataclass(frozen=True)
class SumQuery:
    """One or several numbers for each group, which get independent noise of one distribution."""

    numbers: tuple[LinearCombination, ...]
    sensitivity: Sensitivity
    step: float
    """What one step is worth; a count has steps of 1 and is never rounded to a coarser grid."""
    fraction: float = 1.0
    """Of what the statistic may spend: of its ε, or of its squared Gaussian multipliers."""

    @property
    def counts(self) -> bool:
        """Whether the numbers are counts."""
        return self.step == 1.0


@final
@dataclass(frozen=True)
class CellChoice:
    """One cell for each group, by the exponential mechanism."""

    cells: Cells
    probability: float
    coordinates: int
    """In how many groups the counts can differ between neighbours."""
    exchanged: bool
    """Whether neighbours differ by an exchange of one unit for another."""
    fraction: float = 1.0


@final
@dataclass(frozen=True)
class StatisticQueries:
    """All that a statistic asks for: noisy sums or a choice, and how its answer is made of the sums."""

    sums: tuple[SumQuery, ...] = ()
    choice: CellChoice | None = None
    postprocessing: PostProcessing = PlainSums()  # noqa: RUF009 - frozen

    def at_share(self, share: float) -> "StatisticQueries":
        """The same queries at a share of what the statistic may spend."""
        sums = tuple(replace(query, fraction=query.fraction * share) for query in self.sums)
        choice = self.choice
        if choice is not None:
            choice = replace(choice, fraction=choice.fraction * share)
        return replace(self, sums=sums, choice=choice)
