"""ε from many independent runs, half of them with a canary: the plainest bound, and the one that assumes least.

(ε, δ)-DP means P[E with] ≤ exp(ε)·P[E without] + δ for every event E, and the same with the sides exchanged. Each score is of its
own run, so the counts of E are binomial; with Clopper & Pearson's limits, one side from below and the other from above, at half of
the failure each, ε ≥ ln((p − δ)/q).

Reference: Jagielski, Ullman & Oprea 2020, "Auditing differentially private machine learning"; Nasr et al. 2021.
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

    Which event is looked at ("at or above" of members, or "below" of others) is chosen with the threshold.
    """

    confidence: float = 0.95
    split: SelectionSplit = field(default_factory=SelectionSplit)

    title = "Error rates over many runs of training"
    reference = "Jagielski, Ullman & Oprea 2020"

    def __post_init__(self) -> None:
        open_fraction("confidence", self.confidence)

    @property
    def assumes(self) -> str:
        return "Each score is of a run of its own, with or without the canary."

    def epsilon(self, scores: Scores, *, delta: float) -> float:
        check_delta(delta)
        choosing, measuring = self.split.divide(scores)
        thresholds, seen = errors_by_threshold(choosing)
        both = [self._sides(seen, delta, flipped) for flipped in (False, True)]
        flipped = bool(both[1].max() > both[0].max())
        threshold = float(thresholds[int(np.argmax(both[flipped]))])
        return max(float(self._sides(errors_at(measuring, threshold), delta, flipped)), 0.0)

    def ceiling(self, members: int, others: int, *, delta: float) -> float:
        check_delta(delta)
        kept, kept_others = self.split.sizes(members, others)
        perfect = Errors(np.asarray(0), kept, np.asarray(0), kept_others)
        return max(*(float(self._sides(perfect, delta, flipped)) for flipped in (False, True)), 0.0)

    def _sides(self, errors: Errors, delta: float, flipped: bool) -> CountArray:
        """ln((p − δ)/q): p = TPR and q = FPR, or p = TNR and q = FNR where the event is "below the threshold"."""
        failure = (1 - self.confidence) / 2
        misses = at_most(errors.false_negatives, errors.members, failure)
        alarms = at_most(errors.false_positives, errors.others, failure)
        first, second = (alarms, misses) if flipped else (misses, alarms)
        gain = np.maximum(1 - first - delta, 0.0)
        with np.errstate(divide="ignore"):
            return np.where(gain > 0, np.log(gain) - np.log(second), -math.inf)
