"""Predicates that match exactly one row of a synthetic table, made from that table alone.

A predicate is a conjunction of conditions on columns: a value is equal to v, at most v, or at least v. A
missing value is a value, too. *Univariate* predicates have one condition: the smallest or largest number, or
a value that occurs once. *Multivariate* ones take a random synthetic row and a few of its columns. Half of
them, by a coin, ask for the very numbers of the row; the others ask for numbers at least or at most as
extreme, seen from the median, which survives a generator that moves numbers a little. A number that no other
synthetic row has is always asked for in this way: it may have been drawn inside of a bin.

*Reference*: Giomi et al. 2022, "A unified framework for quantifying privacy risk in synthetic data",
section 4.1. Deviations: no predicate is made twice, and where fewer exist than were asked for, only those
that exist are used and counted; exact numbers are asked for by half of the predicates.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import final

import numpy as np

from privet.attacks.synthetic.gower import numbers_of
from privet.published_tables import PublishedColumn, PublishedTable, ValueKind
from privet.scores import Bits
from privet.views import Numbers

__all__ = [
    "Condition",
    "Predicate",
    "PredicateOperator",
    "TableValues",
    "make_multivariate",
    "make_univariate",
]

_TRIES = 20  # rows that are drawn for each multivariate predicate that is wanted, at most


@final
class PredicateOperator(StrEnum):
    """How a condition compares."""

    EQUAL = "="
    AT_MOST = "≤"
    AT_LEAST = "≥"


@final
@dataclass(frozen=True)
class Condition:
    """One column compared with one value: a code where equality is asked for, else a number."""

    column: str
    comparison: PredicateOperator
    value: float


Predicate = tuple[Condition, ...]


@final
@dataclass(frozen=True, eq=False)
class TableValues:
    """A table that predicates are evaluated on: codes and numbers, read once."""

    table: PublishedTable
    _numbers: dict[str, Numbers]

    @classmethod
    def of(cls, table: PublishedTable) -> "TableValues":
        """The values of a table."""
        numeric = (column for column in table.columns if column.kind is not ValueKind.TEXT)
        return cls(table, {column.name: numbers_of(column) for column in numeric})

    def numbers(self, name: str) -> Numbers:
        """The numbers of a column of numbers or dates."""
        return self._numbers[name]

    def match(self, predicate: Predicate) -> Bits:
        """Which rows satisfy every condition."""
        found: Bits = np.ones(len(self.table), dtype=np.bool_)
        for condition in predicate:
            match condition.comparison:
                case PredicateOperator.EQUAL:
                    found &= self.table[condition.column].codes == int(condition.value)
                case PredicateOperator.AT_MOST:
                    found &= self._numbers[condition.column] <= condition.value
                case PredicateOperator.AT_LEAST:
                    found &= self._numbers[condition.column] >= condition.value
        return found


def make_univariate(
    synthetic: TableValues, count: int, generator: np.random.Generator
) -> tuple[Predicate, ...]:
    """Different predicates of one column, ``count`` at most: the extremes first, then values that occur once,
    in a random order.
    """
    every = [condition for column in synthetic.table.columns for condition in _rare_values(column, synthetic)]
    shuffled = [every[place] for place in generator.permutation(len(every))]
    shuffled.sort(key=lambda condition: condition.comparison is PredicateOperator.EQUAL)
    return tuple((condition,) for condition in shuffled[:count])


def _rare_values(column: PublishedColumn, synthetic: TableValues) -> Iterator[Condition]:
    counts = np.bincount(column.codes, minlength=len(column.categories) + 1)
    for code in np.flatnonzero(counts == 1):
        yield Condition(column.name, PredicateOperator.EQUAL, float(code))
    if column.kind is ValueKind.TEXT:
        return
    known = synthetic.numbers(column.name)
    known = known[~np.isnan(known)]
    if len(known) == 0:
        return
    for comparison, edge in (
        (PredicateOperator.AT_MOST, known.min()),
        (PredicateOperator.AT_LEAST, known.max()),
    ):
        if (known == edge).sum() == 1:
            yield Condition(column.name, comparison, float(edge))


def make_multivariate(
    synthetic: TableValues, count: int, columns: int, generator: np.random.Generator
) -> tuple[Predicate, ...]:
    """Different predicates of ``columns`` columns, ``count`` at most, each matching one synthetic row."""
    names = synthetic.table.names
    width = min(columns, len(names))
    medians = {
        column.name: _median(synthetic.numbers(column.name))
        for column in synthetic.table.columns
        if column.kind is not ValueKind.TEXT
    }
    repeated = {name: np.bincount(synthetic.table[name].codes) > 1 for name in medians}
    found: dict[Predicate, None] = {}
    for _ in range(_TRIES * count):
        if len(found) == count:
            break
        row = int(generator.integers(len(synthetic.table)))
        chosen = [names[place] for place in sorted(generator.choice(len(names), width, replace=False))]
        exact = bool(generator.random() < 0.5)
        halved = {
            name: medians[name]
            for name in chosen
            if name in medians and not (exact and repeated[name][synthetic.table[name].codes[row]])
        }
        predicate = _describe_row(synthetic, row, chosen, halved)
        if predicate not in found and synthetic.match(predicate).sum() == 1:
            found[predicate] = None
    return tuple(found)


def _describe_row(
    synthetic: TableValues, row: int, names: Sequence[str], medians: dict[str, float]
) -> Predicate:
    """Conditions that the row satisfies: half lines in the columns with a median, equality in the others."""
    conditions = []
    for name in names:
        code = int(synthetic.table[name].codes[row])
        if code == 0 or name not in medians:
            conditions.append(Condition(name, PredicateOperator.EQUAL, float(code)))
            continue
        value = float(synthetic.numbers(name)[row])
        side = PredicateOperator.AT_LEAST if value > medians[name] else PredicateOperator.AT_MOST
        conditions.append(Condition(name, side, value))
    return tuple(conditions)


def _median(values: Numbers) -> float:
    known = values[~np.isnan(values)]
    return float(np.median(known)) if len(known) else np.nan
