"""Whose history a few known items come from, by their likelihood.

The model: a known item is wrong with probability ω. Then it is an entry of anybody. Else it is one of the
person's own entries, all equally likely, with a value and a day that are off by a little. For a released
person with h entries the likelihood ratio against "an entry of anybody" is the product over the known items

    ω + (1 − ω) · [they have the item] · (1/h) / q(i) · K(value gap) / mean K · K(day gap) / mean K,

where q(i) is the item's share of all entries, K(gap) = exp(−gap / scale), and the mean of K is over all
people who have the item (and, with the weight of one of them, over all entries). Before looking a target is
absent with probability ½, and else each person equally likely. How far the best one stands out is the log
odds that it is them, against everybody else and nobody.

The scoreboard of Narayanan & Shmatikov adds up similarities; this one multiplies what they are worth. It
counts against a person that known items are missing, and that a long history has something of everything.
"""

from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from privet.arguments import open_fraction, positive
from privet.attacks.linkage.histories.attack import HistoryAttack
from privet.attacks.linkage.histories.joined_items import JoinedItems
from privet.attacks.linkage.histories.sparse_histories import Histories
from privet.views import Numbers

__all__ = ["HistoryLikelihood"]

_GRID = 1001


@final
@dataclass(frozen=True)
class HistoryLikelihood(HistoryAttack):
    """The likelihood of known items under each released history; ``threshold`` is in log odds."""

    threshold: float = 0.0
    wrong: float = 0.05
    value_scale: float = 0.5
    day_scale: float = 10.0

    def __post_init__(self) -> None:
        open_fraction("wrong", self.wrong)
        positive("value_scale", self.value_scale)
        positive("day_scale", self.day_scale)

    @property
    def name(self) -> str:
        return "likelihood of known items"

    def score(self, joined: JoinedItems, released: Histories) -> Numbers:
        sizes = released.sizes[released.sizes > 0]
        support = np.maximum(joined.support, 1.0)[joined.row_known]
        log_ratio = np.log(len(released) / support) - np.log(sizes[joined.row_person])
        sides = (
            (joined.value_gap, joined.known_value, released.value, self.value_scale),
            (joined.day_gap, joined.known_day, released.day, self.day_scale),
        )
        for gaps, known, all_entries, scale in sides:
            if gaps is not None and known is not None and all_entries is not None:
                near = np.exp(-gaps / scale)
                common = np.bincount(joined.row_known, weights=near, minlength=len(known))
                everywhere = _mean_nearness(known, all_entries, scale)
                mean = (common + everywhere) / (joined.support + 1.0)
                log_ratio += (
                    np.log(np.maximum(near, 1e-300)) - np.log(np.maximum(mean, 1e-300))[joined.row_known]
                )
        odds = (1 - self.wrong) / self.wrong
        scores = joined.add_up(np.logaddexp(0.0, np.log(odds) + log_ratio))
        known_items = np.bincount(joined.known_target, minlength=len(joined.targets))
        answer: Numbers = scores + known_items[:, None] * np.log(self.wrong)
        return answer

    def stand_out(self, scores: Numbers, best: NDArray[np.intp], joined: JoinedItems) -> Numbers:
        scaled = scores - np.log(joined.people)
        rows = np.arange(len(scores))
        highest = scaled[rows, best]
        others = scaled.copy()
        others[rows, best] = -np.inf
        against = np.logaddexp(logsumexp(others, axis=1), 0.0) if joined.people > 1 else np.zeros(len(rows))
        answer: Numbers = highest - against
        return answer


def _mean_nearness(known: Numbers, entries: Numbers, scale: float) -> Numbers:
    """The mean of exp(−gap / scale) over all entries, for each known number; of many entries
    by their quantiles.
    """
    grid, counts = np.unique(entries, return_counts=True)
    if len(grid) > _GRID:
        grid = np.quantile(entries, (np.arange(_GRID) + 0.5) / _GRID)
        counts = np.ones(_GRID, dtype=np.int64)
    answer: Numbers = np.exp(-np.abs(known[:, None] - grid) / scale) @ (counts / counts.sum())
    return answer
