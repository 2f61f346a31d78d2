"""Which published row each known person is given: the likeliest one, or each row to one person at most.

Where both tables hold each person once, two known people cannot have the same row. The best assignment
maximises the sum of the log odds over all pairs that are linked, where not being linked counts 0 (Jaro 1989,
section 4). It is solved on the candidate pairs only (a sparse bipartite matching), never on rows × rows.
"""

from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.sparse.csgraph import min_weight_full_bipartite_matching

from privet.attacks.linkage.records.blocking import CandidatePairs
from privet.views import Numbers

__all__ = ["BestRows", "assign_rows", "choose_rows"]

_LOWEST = -30.0  # log odds below this are no candidates for an assignment


@final
@dataclass(frozen=True, eq=False)
class BestRows:
    """The likeliest published row of each known person, −1 where there is none, and its log odds.

    The odds are against all other rows and against "this person is not in the table", taken together.
    """

    rows: NDArray[np.int64]
    log_odds: Numbers

    @classmethod
    def none(cls, count: int) -> "BestRows":
        """Nobody has a row."""
        return cls(np.full(count, -1, dtype=np.int64), np.full(count, -np.inf))


def choose_rows(pairs: CandidatePairs, log_odds: Numbers, count: int) -> BestRows:
    """The likeliest row of each known person by itself; between equals, none.

    ``log_odds`` are against "this person is not in the table".

    >>> pairs = CandidatePairs(np.array([0, 0, 1]), np.array([4, 5, 6]))
    >>> found = choose_rows(pairs, np.array([3.0, 0.0, -1.0]), 2)
    >>> found.rows.tolist(), found.log_odds.round(3).tolist()
    ([4, 6], [2.307, -1.0])
    """
    found = BestRows.none(count)
    best = np.full(count, -np.inf)
    np.maximum.at(best, pairs.known, log_odds)
    top = log_odds == best[pairs.known]
    alone = np.bincount(pairs.known[top], minlength=count) == 1
    kept = top & alone[pairs.known]
    highest = np.maximum(best, 0.0)
    parts = np.exp(log_odds - highest[pairs.known])
    others = np.bincount(pairs.known[~kept], weights=parts[~kept], minlength=count) + np.exp(-highest)
    found.rows[pairs.known[kept]] = pairs.published[kept]
    against = highest + np.log(others)
    return BestRows(found.rows, np.where(found.rows >= 0, best - against, -np.inf))


def assign_rows(pairs: CandidatePairs, log_odds: Numbers, count: int, published: int) -> BestRows:
    """Rows by the best assignment, each to one known person at most.

    The odds of a row are against the rows that the assignment leaves to this person. Two people who claim a
    row equally well both go without.

    >>> pairs = CandidatePairs(np.array([0, 0, 1]), np.array([0, 1, 0]))
    >>> assign_rows(pairs, np.array([6.0, 5.0, 9.0]), 2, 2).rows.tolist()
    [1, 0]
    """
    near = log_odds > _LOWEST
    known, rows, odds = pairs.known[near], pairs.published[near], log_odds[near]
    if len(known) == 0:
        return BestRows.none(count)
    top = float(odds.max()) + 1.0
    # Column ``published + i`` is "person i is not linked"; all costs are above 0, as the solver wants them.
    costs = csr_array(
        (
            np.concatenate([top - odds, np.full(count, max(top, 1.0))]),
            (np.concatenate([known, np.arange(count)]), np.concatenate([rows, published + np.arange(count)])),
        ),
        shape=(count, published + count),
    )
    people, given = min_weight_full_bipartite_matching(costs)
    chosen = np.full(count, -1, dtype=np.int64)
    chosen[people] = np.where(given < published, given, -1)
    owner = np.full(published, -1, dtype=np.int64)
    owner[chosen[chosen >= 0]] = np.flatnonzero(chosen >= 0)
    free = (owner[rows] < 0) | (owner[rows] == known)
    left = CandidatePairs(known[free], rows[free])
    best = choose_rows(left, odds[free], count)
    agreed = best.rows == chosen
    mine = np.full(count, -np.inf)
    own = chosen[known] == rows
    mine[known[own]] = odds[own]
    rivals = (owner[rows] >= 0) & (owner[rows] != known)
    tied = np.zeros(count, dtype=np.bool_)
    robbed = owner[rows[rivals]]
    tied[robbed[odds[rivals] >= mine[robbed]]] = True
    kept = agreed & ~tied
    return BestRows(np.where(kept, best.rows, -1), np.where(kept, best.log_odds, -np.inf))
