"""ε from a Gaussian trade-off curve through one point: the middle of the ROC gives its far end, *if* the
curve is Gaussian.

At a threshold with false-positive rate a and false-negative rate b, μ-GDP needs Φ⁻¹(1 − a) − Φ⁻¹(b) ≤ μ. A
few records give the middle of the curve, and the Gaussian shape extends it to the δ in question. The scores
do not show that shape: this is a model, and its confidence interval holds within the model.

Reference: Dong, Roth & Su 2022, equation 6 and Corollary 2.13 of arXiv 1905.02383; Nasr et al. 2023, "Tight
auditing of differentially private machine learning". Deviation: the threshold is chosen on other records than
those that measure it.
"""

import math
from dataclasses import dataclass, field
from typing import final

import numpy as np
from scipy.special import ndtri

from privet.arguments import open_fraction
from privet.auditing.audits import Audit, check_delta
from privet.auditing.curves import gaussian_epsilon
from privet.auditing.proportions import CountArray, at_least, at_most
from privet.auditing.thresholds import Errors, SelectionSplit, errors_at, errors_by_threshold
from privet.bounds import Interval
from privet.scores import Scores

__all__ = ["GaussianFit"]


@final
@dataclass(frozen=True)
class GaussianFit(Audit):
    """μ from two error rates at a threshold that was chosen on other records, and ε of μ-GDP at a δ above 0.

    Model-based.

    That μ-GDP is refuted below the bound needs no model. The bound on *ε at δ* needs one: the Gaussian curve.
    """

    confidence: float = 0.95
    split: SelectionSplit = field(default_factory=SelectionSplit)

    title = "A Gaussian trade-off curve through one point"
    reference = "Nasr et al. 2023"

    def __post_init__(self) -> None:
        open_fraction("confidence", self.confidence)

    @property
    def assumes(self) -> str:
        return (
            "A model, not a distribution-free bound: the mechanism's trade-off curve is Gaussian, and the "
            "scores are independent, from separate runs or from canaries that do not interfere."
        )

    def epsilon(self, scores: Scores, *, delta: float) -> float:
        return gaussian_epsilon(self._separation_interval(scores, 1 - self.confidence)[0], check_delta(delta))

    def separation(self, scores: Scores) -> Interval:
        """The interval of μ at this confidence, if the ROC of the attack is Gaussian.

        The upper end is about this attack at this threshold; a better attack may show more.
        """
        return Interval(*self._separation_interval(scores, (1 - self.confidence) / 2))

    def ceiling(self, members: int, others: int, *, delta: float) -> float:
        check_delta(delta)
        left_members, left_others = self.split.sizes(members, others)
        perfect = Errors(np.asarray(0), left_members, np.asarray(0), left_others)
        return gaussian_epsilon(float(_least(perfect, 1 - self.confidence)), delta)

    def _separation_interval(self, scores: Scores, failure: float) -> tuple[float, float]:
        choosing, measuring = self.split.divide(scores)
        thresholds, errors_seen = errors_by_threshold(choosing)
        chosen = float(thresholds[int(np.argmax(_least(errors_seen, failure)))])
        errors = errors_at(measuring, chosen)
        return max(float(_least(errors, failure)), 0.0), max(float(_most(errors, failure)), 0.0)


def _least(errors: Errors, failure: float) -> CountArray:
    """Φ⁻¹(1 − a) − Φ⁻¹(b) with upper limits of both rates, at half of the failure each.

    −∞ where a rate may be 1.
    """
    alarms = at_most(errors.false_positives, errors.others, failure / 2)
    misses = at_most(errors.false_negatives, errors.members, failure / 2)
    known = (alarms < 1) & (misses < 1)
    return np.where(
        known, -ndtri(np.where(known, alarms, 0.5)) - ndtri(np.where(known, misses, 0.5)), -math.inf
    )


def _most(errors: Errors, failure: float) -> CountArray:
    """Φ⁻¹(1 − a) − Φ⁻¹(b) with lower limits of both rates; +∞ where a rate may be 0."""
    alarms = at_least(errors.false_positives, errors.others, failure / 2)
    misses = at_least(errors.false_negatives, errors.members, failure / 2)
    known = (alarms > 0) & (misses > 0)
    return np.where(
        known, -ndtri(np.where(known, alarms, 0.5)) - ndtri(np.where(known, misses, 0.5)), math.inf
    )
