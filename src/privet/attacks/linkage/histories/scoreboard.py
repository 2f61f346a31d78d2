"""The scoreboard of Narayanan & Shmatikov: rare items, ratings and dates that agree add up.

The score of a released person is the sum over the known items i that they have of

    1 / log(1 + supp(i)) · (exp(−|value − value'| / ρ) + exp(−|day − day'| / d)),

where supp(i) is the number of people who have the item: few people have seen an obscure film, so it tells
more. Where values or days are not known on both sides their term is left out; without both it is 1. The best
person is claimed if their *eccentricity* (best − second best) / σ is above φ, where σ is the standard
deviation of the scores over all released people.

*Reference*: Narayanan & Shmatikov 2008, "Robust de-anonymization of large sparse datasets", section 4 and
the algorithm Scoreboard-RH of section 5: ρ = 1.5 stars, d = 30 days, φ = 1.5.

*Deviation*: the weight is 1 / log(1 + supp), which is finite for an item that one person has.
"""

from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import NDArray

from privet.arguments import positive
from privet.attacks.linkage.histories.attack import HistoryAttack
from privet.attacks.linkage.histories.joined_items import JoinedItems
from privet.attacks.linkage.histories.sparse_histories import Histories
from privet.errors import InvalidArgument
from privet.views import Numbers

__all__ = ["Scoreboard"]


@final
@dataclass(frozen=True)
class Scoreboard(HistoryAttack):
    """Scoreboard-RH, with the eccentricity φ as its ``threshold``.

    >>> ratings = Histories.of(["a", "a", "b", "b", "c"], ["Alien", "Brazil", "Alien", "Cube", "Alien"])
    >>> known = Histories.of(["target", "target"], ["Alien", "Brazil"])
    >>> ratings.people[Scoreboard(threshold=0.5).identify(ratings, known).people].tolist()
    ['a']
    """

    threshold: float = 1.5
    value_scale: float = 1.5
    day_scale: float = 30.0

    def __post_init__(self) -> None:
        if not self.threshold >= 0:
            raise InvalidArgument(
                f"'threshold' must be at least 0, got {self.threshold:g}. At 0 all but ties are claimed."
            )
        positive("value_scale", self.value_scale)
        positive("day_scale", self.day_scale)

    @property
    def name(self) -> str:
        return "scoreboard of known items"

    def score(self, joined: JoinedItems, released: Histories) -> Numbers:
        del released
        parts = np.zeros(len(joined.row_known))
        for gaps, scale in ((joined.value_gap, self.value_scale), (joined.day_gap, self.day_scale)):
            if gaps is not None:
                parts += np.exp(-gaps / scale)
        if joined.value_gap is None and joined.day_gap is None:
            parts += 1.0
        weights = 1.0 / np.log1p(np.maximum(joined.support, 1.0))
        return joined.add_up(parts * weights[joined.row_known])

    def stand_out(self, scores: Numbers, best: NDArray[np.intp], joined: JoinedItems) -> Numbers:
        del joined
        if scores.shape[1] < 2:
            return np.zeros(len(scores))  # nobody to stand out from
        highest = scores[np.arange(len(scores)), best]
        second = np.partition(scores, -2, axis=1)[:, -2]
        spread = scores.std(axis=1)
        answer: Numbers = np.where(spread > 0, (highest - second) / np.where(spread > 0, spread, 1.0), 0.0)
        return answer
