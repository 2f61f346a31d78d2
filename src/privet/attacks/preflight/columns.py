"""Whether a single column tells members from others: every cut and every common value, tested exactly.

A mark in one place of each non-member moves no mean and no large component, and decides the membership all
the same. Here each column is cut at ranks that are fixed beforehand, and each value that many records share
is compared with all others. For a cut or a value that K of N records have, the number of members among them
is hypergeometric on a fair challenge, whatever the column is: with ties, rare values, missing values.

References: Fisher 1935 for the exact test; Tarone 1990 for the correction: tests that could not reach the
level with any coins are not counted.
"""

from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln, xlogy
from scipy.stats import hypergeom

from privet.attacks.preflight.false_alarms import LEVEL
from privet.attacks.preflight.features import Features
from privet.scores import Bits
from privet.views import Numbers

__all__ = ["ColumnCounts", "SideDifference", "count_columns", "join_counts", "largest_difference"]

_RANKS = (0.01, 0.02, 0.04, *(step / 16 for step in range(1, 16)), 0.96, 0.98, 0.99)
_SHARED = 8  # records; a value that fewer share cannot tell the sides apart
_AT_ONCE = 2**21  # numbers that are sorted at once
_EXACT = 24  # of the best differences the exact probability is computed

Counts = NDArray[np.int64]


@final
@dataclass(frozen=True, eq=False)
class ColumnCounts:
    """For each cut or value: its column, how many records are in it, how many of them are members, and
    whether it is a single value.
    """

    columns: Counts
    records: Counts
    members: Counts
    is_value: Bits


@final
@dataclass(frozen=True)
class SideDifference:
    """The cut or value by which the sides differ most, with its corrected probability on a fair challenge."""

    column: int
    is_value: bool
    of_members: int
    of_others: int
    p_value: float

    @property
    def significant(self) -> bool:
        """Whether a fair challenge shows such a difference in less than ``LEVEL`` of cases."""
        return self.p_value <= LEVEL


def count_columns(table: Features, coin: Bits, *, first: int = 0) -> ColumnCounts:
    """All cuts and common values of every column, with the number of members in each.

    Missing values (NaN) are one value, larger than all others. Columns are numbered from ``first``.
    """
    records = len(table)
    step = max(1, _AT_ONCE // max(records, 1))
    parts = [_count_part(table[:, at : at + step], coin, first + at) for at in range(0, table.shape[1], step)]
    return join_counts(parts)


def join_counts(parts: list[ColumnCounts]) -> ColumnCounts:
    """The counts of several tables as one."""
    if not parts:
        none = np.zeros(0, dtype=np.int64)
        return ColumnCounts(none, none, none, none.astype(np.bool_))
    return ColumnCounts(
        np.concatenate([part.columns for part in parts]),
        np.concatenate([part.records for part in parts]),
        np.concatenate([part.members for part in parts]),
        np.concatenate([part.is_value for part in parts]),
    )


def largest_difference(counts: ColumnCounts, members: int, others: int) -> SideDifference | None:
    """The most unlikely count of all, corrected for their number; None where no count could be unlikely."""
    if not len(counts.records) or not members or not others:
        return None
    least = _least_probabilities(members, others)[counts.records]
    tests = _count_tests(np.sort(least), LEVEL)
    able = np.flatnonzero(least <= LEVEL / tests)
    if not len(able):
        return None
    records, inside = counts.records[able], counts.members[able]
    bounds = _log_bounds(records, inside, members, others)
    best = np.argsort(bounds, kind="stable")[:_EXACT]
    total = members + others
    tails = np.minimum(
        hypergeom.sf(inside[best] - 1, total, records[best], members),
        hypergeom.cdf(inside[best], total, records[best], members),
    )
    winner = best[int(np.argmin(tails))]
    chosen = able[winner]
    return SideDifference(
        column=int(counts.columns[chosen]),
        is_value=bool(counts.is_value[chosen]),
        of_members=int(counts.members[chosen]),
        of_others=int(counts.records[chosen] - counts.members[chosen]),
        p_value=min(1.0, 2.0 * float(tails.min()) * tests),
    )


def _count_part(table: Features, coin: Bits, first_column: int) -> ColumnCounts:
    keys = _to_keys(table, coin)
    keys.sort(axis=1)
    columns, records = keys.shape
    members = np.cumsum(keys & 1, axis=1, dtype=np.int32)
    values = keys >> 1
    last = np.ones(keys.shape, dtype=np.bool_)  # the last record of those that share a value
    last[:, :-1] = values[:, 1:] != values[:, :-1]
    place = np.flatnonzero(last)
    column, end = place // records, place % records
    inside = members.ravel()[place].astype(np.int64)
    start = np.where(np.r_[True, column[1:] != column[:-1]], -1, np.r_[0, end[:-1]])
    before = np.where(start < 0, 0, np.r_[0, inside[:-1]])
    size = end - start
    shared = (size >= min(_SHARED, records)) & (size < records)
    # A cut lies after the value at its rank, or before it where others share that value.
    ranks = np.unique(np.clip((np.array(_RANKS) * records).astype(np.int64), 0, records - 1))
    at = np.searchsorted(place, (np.arange(columns)[:, None] * records + ranks).ravel())
    cuts = np.unique(np.concatenate([at, at[start[at] >= 0] - 1]))
    cuts = cuts[end[cuts] < records - 1]
    chosen = np.flatnonzero(shared)
    return ColumnCounts(
        first_column + np.concatenate([column[cuts], column[chosen]]),
        np.concatenate([end[cuts] + 1, size[chosen]]).astype(np.int64),
        np.concatenate([inside[cuts], inside[chosen] - before[chosen]]),
        np.repeat([False, True], [len(cuts), len(chosen)]),
    )


def _to_keys(table: Features, coin: Bits) -> Counts:
    """Columns × records: whole numbers in the order of the values, with the coin as their last bit."""
    floats = np.ascontiguousarray(table.T, dtype=np.float32) + np.float32(0)  # −0 is 0
    floats[np.isnan(floats)] = np.nan  # one NaN of many
    bits = floats.view(np.int32)
    ordered = (bits ^ ((bits >> 31) & np.int32(0x7FFFFFFF))).astype(np.int64)
    return (ordered << 1) | coin.astype(np.int64)


def _least_probabilities(members: int, others: int) -> Numbers:
    """For each number K of records: twice the probability of its most extreme count of members."""
    total = members + others
    records = np.arange(total + 1, dtype=np.float64)

    def log_choose(n: Numbers | float, k: Numbers) -> Numbers:
        chosen: Numbers = gammaln(n + 1.0) - gammaln(k + 1.0) - gammaln(n - k + 1.0)
        return chosen

    all_records = log_choose(float(total), records)
    ends = []
    for side, rest in ((members, others), (others, members)):
        most = np.minimum(records, side)
        ends.append(log_choose(float(side), most) + log_choose(float(rest), records - most) - all_records)
    least: Numbers = np.minimum(1.0, 2.0 * np.exp(np.minimum(*ends)))
    least[[0, total]] = 1.0
    return least


def _count_tests(least: Numbers, level: float) -> int:
    """Tarone's number: the smallest k such that at most k tests could reach level/k."""
    low, high = 1, max(1, len(least))
    while low < high:
        middle = (low + high) // 2
        if np.searchsorted(least, level / middle, side="right") <= middle:
            high = middle
        else:
            low = middle + 1
    return low


def _log_bounds(records: Counts, inside: Counts, members: int, others: int) -> Numbers:
    """Bounds on the logarithm of the tails (Hoeffding 1963, Theorem 1 and section 6), to find the smallest
    ones.
    """
    total = members + others

    def divergence(share: Numbers, chance: Numbers | float) -> Numbers:
        kept = xlogy(share, share) - xlogy(share, chance)
        found: Numbers = kept + xlogy(1 - share, 1 - share) - xlogy(1 - share, 1 - np.asarray(chance))
        return found

    by_records = records * divergence(inside / records, members / total)
    by_sides = members * divergence(inside / members, records / total)
    bounds: Numbers = -np.maximum(by_records, by_sides)
    return bounds
