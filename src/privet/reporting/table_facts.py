"""The facts on a table that is to be published: who is unique in it, its classes, and the secret within them.

They are figures of the table alone. What an adversary gets out of it is in the recoveries beside them.
"""

from dataclasses import dataclass
from typing import NamedTuple, final

from privet.bounds import Interval

__all__ = ["ClassBin", "PopulationShare", "TableFacts", "UniquenessBySize", "WorstSet"]


class WorstSet(NamedTuple):
    """A set of columns under which many rows are unique, and their share."""

    columns: tuple[str, ...]
    share: float


class UniquenessBySize(NamedTuple):
    """All sets of so many quasi-identifiers: the lowest, the median and the highest share unique."""

    size: int
    sets: int
    lowest: float
    median: float
    highest: float
    worst: tuple[WorstSet, ...]


class ClassBin(NamedTuple):
    """Classes with ``least`` to ``most`` rows: how many there are, and how many rows are in them."""

    least: int
    most: int
    classes: int
    rows: int


class PopulationShare(NamedTuple):
    """The share of the population that is unique, where the table is a sample of it.

    ``unique`` is an estimate; ``between`` holds the truth with ``confidence``. ``of_unique_rows`` is the
    share of the table's unique rows that are unique in the population; None where no row is unique.
    """

    fraction: float
    unique: float
    between: Interval
    of_unique_rows: float | None
    of_unique_rows_between: Interval | None
    confidence: float


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class TableFacts:
    """A published table by its quasi-identifiers.

    ``l_diversity`` counts distinct values of the secret in the worst class, ``l_entropy`` is l by entropy,
    ``t_closeness`` the largest distance of a class from the table. They are None without a secret.
    ``presence`` is δ: between which probabilities a reader knows that somebody of the population is in.
    ``rows_are_people`` is False for a synthetic table, whose rows are nobody's.
    """

    rows: int
    quasi: tuple[str, ...]
    secret: str | None
    unique_share: float
    curve: tuple[UniquenessBySize, ...]
    bins: tuple[ClassBin, ...]
    classes: int
    k_anonymity: int
    l_diversity: int | None = None
    l_entropy: float | None = None
    t_closeness: float | None = None
    t_ordered: bool | None = None
    homogeneous_share: float | None = None
    presence: Interval | None = None
    population: PopulationShare | None = None
    rows_are_people: bool = True

    def __repr__(self) -> str:
        return (
            f"TableFacts({self.rows:,} rows, {100 * self.unique_share:.3g} % unique by "
            f"{len(self.quasi)} quasi-identifiers, k = {self.k_anonymity})"
        )

    @property
    def failure(self) -> float:
        """The probability that its interval about the population is wrong."""
        return 0.0 if self.population is None else 1 - self.population.confidence
