"""Statistics → queries: sums of whole numbers that get noise, or a choice among cells.

*Mean and variance.* With a = (v − lower)/(upper − lower) in [0, 1], a row's parts (1 − a, a), or ((1 − a)²,
2a(1 − a), a²), are not negative and add up to 1, like the polynomials of Bernstein. So the vector of their sums moves
by 1 for each row in the sum of absolute values, and Laplace noise with the *whole* ε hides all of it: number of rows,
sum, and sum of squares together. Gaussian noise, which counts squares, goes on the number of rows, the sum of
2a − 1 and the sum of 1 − 8a(1 − a), each between −1 and 1 for a row.

*Deviation from the usual*: libraries split ε between sum and count. At equal ε the error of the mean is √2 smaller
here.
"""

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import final

from privet.releasing.engines.aggregates import (
    SHARE_STEPS,
    Aggregate,
    Cells,
    Grouping,
    KeyColumn,
    KeyKind,
    RowCount,
    ShareSum,
    UnitCount,
    ValueCount,
    ValueSum,
)
from privet.releasing.postprocessing import (
    Finish,
    MeanOfMoments,
    MeanOfParts,
    Plain,
    VarianceOfMoments,
    VarianceOfParts,
)
from privet.releasing.questions import Part
from privet.releasing.sensitivity import Bounds, Reach
from privet.releasing.statistics import (
    Category,
    Count,
    GroupBy,
    Histogram,
    Marginal,
    Mean,
    Quantile,
    Statistic,
    Sum,
    TopK,
    Variance,
)

__all__ = ["Choice", "Compiled", "Linear", "NoiseKind", "Query", "compiled"]

_SHARE = 1 / SHARE_STEPS
_DISCOVERY = 1 / 3  # of what a statistic gets, where keys must be found before it is asked


@final
class NoiseKind(StrEnum):
    """Which law all sums of a plan get."""

    LAPLACE = "laplace"
    GAUSSIAN = "gaussian"


@final
@dataclass(frozen=True)
class Linear:
    """A whole-number combination of aggregates."""

    terms: tuple[tuple[Aggregate, int], ...]

    @staticmethod
    def of(aggregate: Aggregate) -> "Linear":
        """The aggregate itself."""
        return Linear(((aggregate, 1),))


@final
@dataclass(frozen=True)
class Query:
    """One or several numbers for each group, which get independent noise of one law."""

    parts: tuple[Linear, ...]
    reach: Reach
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
class Choice:
    """One cell for each group, by the exponential mechanism."""

    cells: Cells
    probability: float
    coordinates: int
    exchanged: bool
    fraction: float = 1.0


@final
@dataclass(frozen=True)
class Compiled:
    """What a statistic asks for: a grouping, noisy sums or a choice, and how an answer is made of them.

    ``discovery`` asks which groups there are, before anything else; ``queries`` may be empty where its own counts
    are the answer.
    """

    part: Part
    grouping: Grouping
    queries: tuple[Query, ...]
    choice: Choice | None
    discovery: Query | None
    finish: Finish

    @property
    def statements(self) -> int:
        """How many noises an error bar speaks of at once: all parts of a ratio; all categories, of which some win."""
        statistic = self.part.statistic
        if isinstance(statistic, TopK) and statistic.categories is not None:
            return len(statistic.categories)
        return max(sum(len(query.parts) for query in self.queries), 1)


def compiled(part: Part, kind: NoiseKind) -> Compiled:
    """The queries of one statistic of a plan."""
    statistic = part.statistic
    grouping = _grouping(statistic)
    bounds = Bounds(part.adjacency, part.contribution, grouping)
    scalar = statistic.statistic if isinstance(statistic, GroupBy) else statistic
    queries, finish = _queries(scalar, bounds, kind)
    choice = _choice(scalar, bounds) if isinstance(scalar, Quantile) else None
    discovery = None
    if grouping.keys is None:
        one_row = part.contribution.rows == 1 and isinstance(scalar, (Count, TopK))
        share = 1.0 if one_row else _DISCOVERY
        discovery = Query((Linear.of(UnitCount()),), bounds.number(0, 1), 1.0, share)
        queries = () if one_row else tuple(_reduced(query, 1 - share) for query in queries)
        choice = None if choice is None else replace(choice, fraction=1 - share)
    return Compiled(part, grouping, queries, choice, discovery, finish)


def _queries(statistic: Statistic, bounds: Bounds, kind: NoiseKind) -> tuple[tuple[Query, ...], Finish]:
    rows = bounds.contribution.rows
    match statistic:
        case Count() | Histogram() | Marginal() | TopK():
            return (Query((Linear.of(RowCount()),), bounds.number(0, rows), 1.0),), Plain()
        case Sum(column, lower, upper):
            steps = ValueSum.fitting(column, lower, upper)
            low, high = steps.bounds
            reach = _sum_reach(rows * low, rows * high, bounds, kind)
            return (Query((Linear.of(steps),), reach, 2.0**steps.exponent),), Plain()
        case Mean(column, lower, upper):
            return _mean(column, lower, upper, bounds, kind)
        case Variance(column, lower, upper):
            return _variance(column, lower, upper, bounds, kind)
    return (), Plain()  # a quantile, which is chosen


def _sum_reach(low: int, high: int, bounds: Bounds, kind: NoiseKind) -> Reach:
    plain = bounds.number(low, high)
    if kind is NoiseKind.GAUSSIAN or not low < 0 < high:
        return plain
    joint = bounds.joint(max(-low, high))
    return min((plain, joint), key=lambda reach: reach.distance * reach.coordinates)


def _mean(
    column: str, lower: float, upper: float, bounds: Bounds, kind: NoiseKind
) -> tuple[tuple[Query, ...], Finish]:
    rows, present, share = bounds.contribution.rows, ValueCount(column), ShareSum(column, lower, upper, 1)
    above = Linear.of(share)
    below = Linear(((present, SHARE_STEPS), (share, -1)))
    if kind is NoiseKind.LAPLACE:
        query = Query((below, above), bounds.joint(rows * SHARE_STEPS), _SHARE)
        return (query,), MeanOfParts(lower, upper)
    centered = Linear(((share, 2), (present, -SHARE_STEPS)))
    most = rows * SHARE_STEPS
    return (
        Query((Linear.of(present),), bounds.number(0, rows), 1.0, 0.5),
        Query((centered,), bounds.number(-most, most), _SHARE, 0.5),
    ), MeanOfMoments(lower, upper)


def _variance(
    column: str, lower: float, upper: float, bounds: Bounds, kind: NoiseKind
) -> tuple[tuple[Query, ...], Finish]:
    rows, present = bounds.contribution.rows, ValueCount(column)
    share, square = ShareSum(column, lower, upper, 1), ShareSum(column, lower, upper, 2)
    # Shares and squares are rounded one by one, and rounded down when a unit is weighed: three steps for each row,
    # and four for each unit, are more than enough.
    slack = 3 * rows + 4
    middle = Linear(((share, 2), (square, -2)))
    if kind is NoiseKind.LAPLACE:
        below = Linear(((present, SHARE_STEPS), (share, -2), (square, 1)))
        query = Query((below, middle, Linear.of(square)), bounds.joint(rows * SHARE_STEPS + slack), _SHARE)
        return (query,), VarianceOfParts(lower, upper)
    centered = Linear(((share, 2), (present, -SHARE_STEPS)))
    spread = Linear(((present, SHARE_STEPS), (share, -8), (square, 8)))
    most = rows * SHARE_STEPS
    wide = most + 4 * slack
    return (
        Query((Linear.of(present),), bounds.number(0, rows), 1.0, 1 / 3),
        Query((centered,), bounds.number(-most, most), _SHARE, 1 / 3),
        Query((spread,), bounds.number(-wide, wide), _SHARE, 1 / 3),
    ), VarianceOfMoments(lower, upper)


def _choice(quantile: Quantile, bounds: Bounds) -> Choice:
    cells = Cells(quantile.column, quantile.lower, quantile.upper, quantile.candidates)
    exchanged = bounds.adjacency.contribution_distance > 1
    return Choice(cells, quantile.probability, bounds.exchanges, exchanged)


def _grouping(statistic: Statistic) -> Grouping:
    match statistic:
        case Histogram(column, categories) | TopK(column, _, categories) if categories is not None:
            return Grouping((KeyColumn(column, KeyKind.of(categories[0])),), tuple((c,) for c in categories))
        case TopK(column):
            return Grouping((KeyColumn(column),), None)
        case Marginal():
            columns = tuple(KeyColumn(name, KeyKind.of(values[0])) for name, values in statistic.columns)
            return Grouping(columns, statistic.keys)
        case GroupBy(by, _, keys):
            if keys is None:
                return Grouping(tuple(KeyColumn(column) for column in statistic.columns), None)
            return _listed(statistic.columns, tuple((key,) if isinstance(by, str) else key for key in keys))  # type: ignore[misc]
    return Grouping()


def _listed(columns: tuple[str, ...], keys: tuple[tuple[Category, ...], ...]) -> Grouping:
    """The grouping by public keys, each column compared as what its keys are."""
    return Grouping(
        tuple(KeyColumn(column, KeyKind.of(keys[0][place])) for place, column in enumerate(columns)), keys
    )


def _reduced(query: Query, share: float) -> Query:
    return replace(query, fraction=query.fraction * share)
