"""The level of agreement of each candidate pair in each column.

Two tables are stacked, so that equal values have equal codes. A pair of values that occurs in many pairs of
rows is compared once. Missing values agree with nothing and contradict nothing: level −1.

Two things come from the tables and not from one comparison. *Elsewhere*: two texts differ, and the known one
stands in another text column of the published row, as when given name and surname were exchanged. (Only the
known one is looked for, so that one such agreement counts once.) *Frequency*: that two people are both called
Smith says less than that both are called Zyskowski. Two different people agree in some value with
probability c, and in the value v with f(v)²; the same person has v with f(v). So the weight of an agreement
in v is corrected by c / f(v) (Winkler 2000, "frequency-based matching"). c is estimated from pairs within
each table, which are never the same person; f(v) from the other holders of v, without the pair itself,
because a rare name that two rows share is seen twice by being shared.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import final

import numpy as np
from numpy.typing import NDArray

from privet.attacks.linkage.records.comparisons import (
    ExactComparison,
    NameComparison,
    ValueComparison,
    choose_comparison,
)
from privet.published_tables import PublishedColumn, PublishedTable, ValueKind
from privet.views import Numbers

__all__ = ["ComparedTables", "Levels"]

Levels = NDArray[np.int8]


@final
@dataclass(frozen=True, eq=False)
class ComparedTables:
    """Two tables in their common columns, with the comparison of each column."""

    stacked: PublishedTable
    count: int  # the first rows of ``stacked`` are the known people, the others are published
    comparisons: tuple[ValueComparison, ...]

    @classmethod
    def of(
        cls, known: PublishedTable, published: PublishedTable, comparisons: Mapping[str, ValueComparison]
    ) -> "ComparedTables":
        """The common columns, with the comparisons that were chosen or that fit the kinds of values."""
        stacked = known.below(published)
        chosen = [comparisons.get(column.name) or choose_comparison(column) for column in stacked.columns]
        return cls(stacked, len(known), tuple(chosen))

    @cached_property
    def known(self) -> list[NDArray[np.int64]]:
        """The codes of the known people, column by column."""
        return [column.codes[: self.count] for column in self.stacked.columns]

    @cached_property
    def published(self) -> list[NDArray[np.int64]]:
        """The codes of the published rows, column by column."""
        return [column.codes[self.count :] for column in self.stacked.columns]

    def replay_published(self, rows: NDArray[np.intp]) -> "ComparedTables":
        """The same published table, with some of its own rows in the place of the known people."""
        everything = np.concatenate([self.count + rows, np.arange(self.count, len(self.stacked))])
        return ComparedTables(self.stacked.take(everything), len(rows), self.comparisons)

    @cached_property
    def level_names(self) -> tuple[tuple[str, ...], ...]:
        """The levels of each column in words, the best first."""
        movable = self._texts if len(self._texts) > 1 else {}
        return tuple(
            (*each.levels[:-1], "in another column", each.levels[-1]) if place in movable else each.levels
            for place, each in enumerate(self.comparisons)
        )

    def grade(self, known: NDArray[np.intp], published: NDArray[np.intp]) -> Levels:
        """The level of each pair of rows in each column, pairs × columns."""
        levels = np.empty((len(known), len(self.comparisons)), dtype=np.int8)
        for place, (column, comparison) in enumerate(
            zip(self.stacked.columns, self.comparisons, strict=True)
        ):
            a, b = self.known[place][known], self.published[place][published]
            levels[:, place] = _grade_column(column, comparison, a, b)
        if len(self._texts) > 1:
            self._find_elsewhere(levels, known, published)
        return levels

    @cached_property
    def _texts(self) -> dict[int, NDArray[np.int64]]:
        """For each text column the code of each of its categories in one vocabulary of all text columns."""
        places = [
            place
            for place, column in enumerate(self.stacked.columns)
            if column.kind is ValueKind.TEXT and isinstance(self.comparisons[place], NameComparison)
        ]
        if not places:
            return {}
        texts = [self.stacked.columns[place].categories for place in places]
        codes = np.unique(np.concatenate(texts).astype(np.str_), return_inverse=True)[1] + 1
        parts = np.split(codes, np.cumsum([len(part) for part in texts])[:-1])
        return {
            place: np.concatenate([[0], part]).astype(np.int64)
            for place, part in zip(places, parts, strict=True)
        }

    def _find_elsewhere(self, levels: Levels, known: NDArray[np.intp], published: NDArray[np.intp]) -> None:
        values = {
            place: (words[self.known[place]][known], words[self.published[place]][published])
            for place, words in self._texts.items()
        }
        for place, (mine, _) in values.items():
            differs = len(self.level_names[place]) - 1
            apart = levels[:, place] == differs - 1  # the comparison's own last level
            levels[apart, place] = differs
            for _, theirs in values.values():  # in the same column the two differ
                levels[apart & (mine == theirs) & (mine > 0), place] = differs - 1

    def frequency_weights(
        self, known: NDArray[np.intp], levels: Levels, corrections: list[Numbers]
    ) -> Numbers:
        """The logarithm of the correction of each pair for the frequency of the values it agrees in."""
        total = np.zeros(len(levels))
        for place, codes in enumerate(self.known):
            agree = levels[:, place] == 0
            total[agree] += corrections[place][codes[known[agree]]]
        return total

    @cached_property
    def corrections(self) -> list[Numbers]:
        """The logarithm of the correction for each value, column by column."""
        return [
            _correct_frequencies(known, published, len(column.categories) + 1)
            for known, published, column in zip(self.known, self.published, self.stacked.columns, strict=True)
        ]


def _correct_frequencies(known: NDArray[np.int64], published: NDArray[np.int64], size: int) -> Numbers:
    """log(c / f) of each value, where f is drawn to 1/(n + 1/c) if nobody else has it.

    Over pairs of different people that agree, c / f is 1 on average, as a ratio of two distributions is.
    """
    counts, pairs = np.zeros(size), 0.0
    agreeing = np.zeros(size)
    for codes in (known, published):
        side = np.bincount(codes, minlength=size).astype(np.float64)
        side[0] = 0.0
        counts += side
        pairs += float(side.sum() * (side.sum() - 1))
        agreeing += side * (side - 1)
    if agreeing.sum() == 0:
        return np.zeros(size)  # nothing to tell frequent values from rare ones by
    chance = float(agreeing.sum()) / pairs
    ratio = chance * (float(counts.sum()) + 1 / chance) / np.maximum(counts - 1, 1.0)
    answer: Numbers = np.log(ratio) - np.log(float((agreeing * ratio).sum() / agreeing.sum()))
    return answer


def _grade_column(
    column: PublishedColumn, comparison: ValueComparison, a: NDArray[np.int64], b: NDArray[np.int64]
) -> Levels:
    answer = np.zeros(len(a), dtype=np.int8)
    answer[(a == 0) | (b == 0)] = -1
    unequal = np.flatnonzero((a != b) & (a > 0) & (b > 0))
    if isinstance(comparison, ExactComparison):
        answer[unequal] = 1
        return answer
    first, second = np.minimum(a[unequal], b[unequal]), np.maximum(a[unequal], b[unequal])
    size = len(column.categories) + 1
    distinct, back = np.unique(first * size + second, return_inverse=True)
    graded = comparison.grade(
        column.categories, (distinct // size - 1).astype(np.intp), (distinct % size - 1).astype(np.intp)
    )
    answer[unequal] = graded[back]
    return answer
