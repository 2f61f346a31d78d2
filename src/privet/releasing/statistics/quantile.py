"""A quantile of a column: one of many equal cells of a public interval, by the exponential mechanism."""

from dataclasses import dataclass
from typing import ClassVar, Self, final

from privet.arguments import open_fraction, whole
from privet.errors import InvalidArgument
from privet.releasing.engines.aggregates import Cells
from privet.releasing.queries import CellChoice, NoiseKind, StatisticQueries
from privet.releasing.sensitivity import UnitBounds
from privet.releasing.statistics.option_words import read_number, require_parts
from privet.releasing.statistics.statistic import RequiredColumn, Scalar
from privet.releasing.validation import check_bounds

__all__ = ["Quantile"]

_MOST_CANDIDATES = 2**20


@final
@dataclass(frozen=True)
class Quantile(Scalar):
    """The value that a share ``probability`` of a column lies below, sought in [lower, upper].

    The possible answers are the centres of ``candidates`` equal cells of the interval.
    """

    option: ClassVar[str] = "quantile"

    column: str
    probability: float
    lower: float
    upper: float
    candidates: int = 4096

    def __post_init__(self) -> None:
        check_bounds(self.column, self.lower, self.upper)
        open_fraction("probability", self.probability)
        whole("candidates", self.candidates, least=2)
        if self.candidates > _MOST_CANDIDATES:
            raise InvalidArgument(
                f"'candidates' must be at most {_MOST_CANDIDATES}, got {self.candidates}. "
                f"Narrow the interval instead."
            )

    def required_columns(self) -> tuple[RequiredColumn, ...]:
        return (RequiredColumn(self.column, numeric=True),)

    def queries(self, bounds: UnitBounds, kind: NoiseKind) -> StatisticQueries:
        del kind
        cells = Cells(self.column, self.lower, self.upper, self.candidates)
        exchanged = bounds.adjacency.contribution_distance > 1
        return StatisticQueries(choice=CellChoice(cells, self.probability, bounds.changed_groups, exchanged))

    @classmethod
    def from_words(cls, option: str, words: str) -> Self:
        column, *numbers = require_parts(
            option, words, words.rsplit(":", 3), 4, "COL:Q:LOW:HIGH, as in age:0.5:0:100"
        )
        probability, lower, upper = (read_number(option, number) for number in numbers)
        return cls(column, probability, lower, upper)

    @property
    def subject(self) -> str:
        return f"{self.probability!r} {self.column}"
