"""ε from many independent runs, half of them with a canary: the simplest bound, with the fewest assumptions.

(ε, δ)-DP means P[E with] ≤ exp(ε)·P[E without] + δ for every event E, and the same with the sides exchanged.
Each score comes from its own run, so the counts of E are binomial. With Clopper & Pearson's limits, a lower
one for p and an upper one for q, at half of the failure each, ε ≥ ln((p − δ)/q).

Reference: Jagielski, Ullman & Oprea 2020, "Auditing differentially private machine learning"; Nasr et al.
2021.
"""

import math
from dataclasses import dataclass, field
from typing import final

import numpy as np

from privet.arguments import open_fraction
from privet.auditing.audits import Audit, check_delta
from privet.auditing.proportions import CountArray, at_most
from privet.auditing.thresholds import Errors, SelectionSplit, errors_at, errors_by_threshold
from privet.scores import Scores

__all__ = ["ClopperPearson"]


@final
@dataclass(frozen=True)
class ClopperPearson(Audit):
    """Two error rates at a threshold that was chosen on other runs, each bounded by Clopper & Pearson.

    The event ("at or above" for members, or "below" for others) is chosen together with the threshold.
    """

    confidence: float = 0.95
    split: SelectionSplit = field(default_factory=SelectionSplit)

    title = "Error rates over many runs of training"
    reference = "Jagielski, Ullman & Oprea 2020"

    def __post_init__(self) -> None:
        open_fraction("confidence", self.confidence)

    @property
    def assumes(self) -> str:
        return "Each score comes from its own run, with or without the canary."

    def epsilon(self, scores: Scores, *, delta: float) -> float:
        check_delta(delta)
        choosing, measuring = self.split.divide(scores)
        thresholds, errors_seen = errors_by_threshold(choosing)
        by_event = [self._bounds(errors_seen, delta, flipped) for flipped in (False, True)]
        flipped = bool(by_event[1].max() > by_event[0].max())
        threshold = float(thresholds[int(np.argmax(by_event[flipped]))])
        return max(float(self._bounds(errors_at(measuring, threshold), delta, flipped)), 0.0)

    def ceiling(self, members: int, others: int, *, delta: float) -> float:
        check_delta(delta)
        left_members, left_others = self.split.sizes(members, others)
        perfect = Errors(np.asarray(0), left_members, np.asarray(0), left_others)
        return max(*(float(self._bounds(perfect, delta, flipped)) for flipped in (False, True)), 0.0)

    def _bounds(self, errors: Errors, delta: float, flipped: bool) -> CountArray:
        """ln((p − δ)/q): p = TPR and q = FPR, or p = TNR and q = FNR where the event is "below the
        threshold".
        """
        failure = (1 - self.confidence) / 2
        misses = at_most(errors.false_negatives, errors.members, failure)
        alarms = at_most(errors.false_positives, errors.others, failure)
        first, second = (alarms, misses) if flipped else (misses, alarms)
        gain = np.maximum(1 - first - delta, 0.0)
        with np.errstate(divide="ignore"):
            return np.where(gain > 0, np.log(gain) - np.log(second), -math.inf)
