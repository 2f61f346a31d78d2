"""Questions → queries, with the search for keys that are not listed."""

from dataclasses import dataclass, replace
from typing import final

from privet.releasing.engines.aggregates import Grouping, UnitCount
from privet.releasing.queries import LinearCombination, NoiseKind, StatisticQueries, SumQuery
from privet.releasing.questions import Question
from privet.releasing.sensitivity import UnitBounds

__all__ = ["CompiledStatistic", "compile_question"]

_DISCOVERY_SHARE = 1 / 3  # of what a statistic gets, where keys must be found before it is asked


@final
@dataclass(frozen=True)
class CompiledStatistic:
    """A question with its queries.

    ``discovery`` asks which groups there are, before anything else. Where its counts are the answer,
    ``queries`` has no sums.
    """

    question: Question
    grouping: Grouping
    queries: StatisticQueries
    discovery: SumQuery | None

    @property
    def simultaneous_noises(self) -> int:
        """How many noises an error bar must hold for at once."""
        numbers = sum(len(query.numbers) for query in self.queries.sums)
        return self.question.statistic.simultaneous_noises(numbers)


def compile_question(question: Question, kind: NoiseKind) -> CompiledStatistic:
    """The queries of one statistic of a plan."""
    statistic, contribution = question.statistic, question.contribution
    grouping = statistic.grouping
    bounds = UnitBounds(question.adjacency, contribution, grouping)
    queries = statistic.queries(bounds, kind)
    if grouping.keys is not None:
        return CompiledStatistic(question, grouping, queries, None)
    answered = contribution.rows == 1 and statistic.counts_rows
    share = 1.0 if answered else _DISCOVERY_SHARE
    discovery = SumQuery((LinearCombination.of(UnitCount()),), bounds.one_number(0, 1), 1.0, share)
    rest = replace(queries, sums=()) if answered else queries.at_share(1 - share)
    return CompiledStatistic(question, grouping, rest, discovery)
