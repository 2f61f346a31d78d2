"""The level of agreement of each candidate pair in each column.

Two tables are stacked, so that equal values have equal codes. A pair of values that occurs in many pairs of
rows is compared once. Missing values agree with nothing and contradict nothing: level −1.

Two levels come from the tables and not from one comparison. *Elsewhere*: two texts differ, and one of them
stands in another text column of the other row, as when given name and surname were exchanged. *Frequency*:
that two people are both called Smith says less than that both are called Zyskowski. Among pairs of the same
person a value is as frequent as in the tables (mean of p and q); among pairs of different people that agree,
its share is p·q / Σ p·q. The ratio of the two is the correction of the weight (Winkler 2000, "frequency-based
matching"; Linacre et al. 2022, Splink).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import final

import numpy as np
from numpy.typing import NDArray

from privet.attacks.linkage.records.comparisons import (
    Comparison,
    ExactComparison,
    NameComparison,
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
    comparisons: tuple[Comparison, ...]

    @classmethod
    def of(
        cls, known: PublishedTable, published: PublishedTable, comparisons: Mapping[str, Comparison]
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

    def _find_elsewhere(
        self, levels: Levels, known: NDArray[np.intp], published: NDArray[np.intp]
    ) -> None:
        values = {
            place: (words[self.known[place]][known], words[self.published[place]][published])
            for place, words in self._texts.items()
        }
        for place, (mine, theirs) in values.items():
            differs = len(self.level_names[place]) - 1
            apart = levels[:, place] == differs - 1  # the comparison's own last level
            levels[apart, place] = differs
            for other, (mine_there, theirs_there) in values.items():
                if other != place:
                    moved = apart & ((mine == theirs_there) | (theirs == mine_there))
                    levels[moved, place] = differs - 1

    def frequency_weights(self, known: NDArray[np.intp], levels: Levels) -> Numbers:
        """The logarithm of the correction of each pair for the frequency of the values it agrees in."""
        total = np.zeros(len(levels))
        for place, codes in enumerate(self.known):
            correction = self._corrections[place]
            agree = levels[:, place] == 0
            total[agree] += correction[codes[known[agree]]]
        return total

    @cached_property
    def _corrections(self) -> list[Numbers]:
        answer = []
        for place, column in enumerate(self.stacked.columns):
            size = len(column.categories) + 1
            sides = []
            for codes in (self.known[place], self.published[place]):
                counts = np.bincount(codes, minlength=size).astype(np.float64)
                counts[0] = 0.0
                sides.append(counts / max(counts.sum(), 1.0))
            p, q = sides
            chance = float((p * q).sum())
            with np.errstate(divide="ignore", invalid="ignore"):
                ratio = np.where(p * q > 0, (p + q) / 2 * chance / (p * q), 1.0)
            answer.append(np.log(ratio))
        return answer


def _grade_column(
    column: PublishedColumn, comparison: Comparison, a: NDArray[np.int64], b: NDArray[np.int64]
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
