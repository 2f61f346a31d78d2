"""The receiver operating characteristic, by exact counts.

The rule is "score at or above a threshold = member". Records with equal scores are called members together: a
group of ties is one straight segment of the curve, and points inside of it need a random choice. The TPR at a
false-positive rate is that of the best existing threshold, so nothing is interpolated, and nothing is said
below one false positive in n.
"""

from dataclasses import dataclass
from typing import NamedTuple, final

import numpy as np
from numpy.typing import NDArray

from privet.arguments import open_fraction, whole
from privet.auditing.proportions import Rate, at_least, at_most, most_below, rate
from privet.errors import InvalidArgument
from privet.scores import Scores
from privet.views import Numbers

__all__ = ["Band", "OperatingPoint", "Roc", "ScoreOrder"]

_ROUND_OFF = 1e-12  # 0.29 × 100 is below 29 in float64


class OperatingPoint(NamedTuple):
    """One threshold: records that score at or above it are called members."""

    threshold: float
    fpr: Rate
    tpr: Rate


class Band(NamedTuple):
    """Intervals along the curve, for drawing: each holds for its own threshold, not all of them together."""

    fpr: Numbers
    tpr: Numbers
    lower: Numbers
    upper: Numbers


class ScoreOrder(NamedTuple):
    """Records from the highest score to the lowest, and where in that order each group of ties ends."""

    order: NDArray[np.intp]
    last: NDArray[np.intp]

    @classmethod
    def of(cls, scores: Scores) -> "ScoreOrder":
        order = np.argsort(scores.values)[::-1]
        values = scores.values[order]
        return cls(order, np.append(np.flatnonzero(values[1:] != values[:-1]), len(values) - 1))


@final
@dataclass(frozen=True, eq=False)
class Roc:
    """Counts at every threshold, from +∞, where nobody is called a member, down to the lowest score."""

    thresholds: Numbers
    true_positives: NDArray[np.int64]
    false_positives: NDArray[np.int64]

    def __post_init__(self) -> None:
        shapes = {np.shape(self.thresholds), np.shape(self.true_positives), np.shape(self.false_positives)}
        if len(shapes) != 1 or len(shapes.pop()) != 1:
            raise InvalidArgument(
                "A curve must have both counts for each of its thresholds, and has not. Make it with "
                "Roc.of(scores)."
            )
        counts = np.asarray(self.true_positives), np.asarray(self.false_positives)
        if not all(count.size and count.dtype.kind in "iu" and count[-1] > 0 for count in counts):
            raise InvalidArgument(
                "A curve must have records of both sides, and has not. Score members and others."
            )

    @classmethod
    def of(cls, scores: Scores) -> "Roc":
        """One sort: O(n log n)."""
        return cls.from_order(scores, ScoreOrder.of(scores))

    @classmethod
    def from_order(cls, scores: Scores, order: "ScoreOrder") -> "Roc":
        """From scores whose order is known."""
        last = order.last
        true = np.cumsum(scores.members[order.order], dtype=np.int64)[last]
        thresholds = scores.values[order.order[last]]
        return cls(np.append(np.inf, thresholds), np.append(0, true), np.append(0, last + 1 - true))

    def __repr__(self) -> str:
        return f"Roc({self.members} members, {self.others} others, AUC {self.area:.3f})"

    @property
    def members(self) -> int:
        """How many members were scored."""
        return int(self.true_positives[-1])

    @property
    def others(self) -> int:
        """How many non-members were scored."""
        return int(self.false_positives[-1])

    @property
    def tpr(self) -> Numbers:
        """The share of members found, at each threshold."""
        return self.true_positives / self.members

    @property
    def fpr(self) -> Numbers:
        """The share of non-members called members, at each threshold."""
        return self.false_positives / self.others

    @property
    def fpr_floor(self) -> float:
        """The smallest false-positive rate that so many non-members can show: one false positive."""
        return 1 / self.others

    @property
    def area(self) -> float:
        """P[a member scores above another] + ½ P[they tie]: the trapezoids under the segments."""
        steps = np.diff(self.false_positives).astype(np.float64)
        heights = self.true_positives[1:] + self.true_positives[:-1]
        return float(steps @ heights) / (2.0 * self.members * self.others)

    @property
    def best_balanced_accuracy(self) -> float:
        """The maximum over all thresholds. Optimistic: the threshold is chosen on the same records."""
        return float(0.5 + 0.5 * (self.tpr - self.fpr).max())

    def at(self, fpr: float, confidence: float = 0.95) -> OperatingPoint | None:
        """The best threshold whose false-positive rate is at most this; None below the floor.

        The threshold depends on the non-members alone. So given them, the number of members found is
        binomial, and the interval of the TPR is exact for that threshold. The false-positive rate has its own
        interval.
        """
        _rate("fpr", fpr)
        open_fraction("confidence", confidence)
        allowed = _allowed_alarms(fpr, self.others)
        if allowed < 1:
            return None
        index = self._index(allowed)
        return OperatingPoint(
            float(self.thresholds[index]),
            rate(int(self.false_positives[index]), self.others, confidence),
            rate(int(self.true_positives[index]), self.members, confidence),
        )

    def tpr_at(self, fpr: float, confidence: float = 0.95) -> Rate | None:
        """The share of members found at this false-positive rate; None below the floor.

        The estimate is that of ``at``. Its threshold has this false-positive rate among the scored
        non-members; its rate among all others is not known, so the interval accounts for both the rate of the
        threshold and the members that it finds. Each end gets half of the failure, and of that the
        false-positive rate and the true-positive rate get half each.

        *Lower end.* "The (k + 1)-th highest non-member" is a threshold above which, with k so that
        P[Binomial(n, fpr) ≤ k] is within the failure, no more than ``fpr`` of all others lie. Where no k is
        so small, the threshold of ``at`` is randomised: a threshold with the false-positive rate a whose
        calls are kept with probability fpr/a has the rate ``fpr``, and finds TPR · fpr/a. *Upper end.* At the
        k-th highest non-member, with P[Binomial(n, fpr) ≥ k] within the failure, at least ``fpr`` of all
        others are called members, so a threshold with the rate ``fpr`` finds no more members than this one.

        Reference: Clopper & Pearson 1934; ranks as limits of a quantile, Hahn & Meeker 1991, section 5.2.
        """
        point = self.at(fpr, confidence)
        if point is None:
            return None
        failure = (1 - confidence) / 4
        below = most_below(self.others, fpr, failure)
        above = self.others - most_below(self.others, 1 - fpr, failure)
        lower, upper = 0.0, 1.0
        if below >= 0:
            lower = float(at_least(self._hits(below), self.members, failure))
        else:
            allowed = _allowed_alarms(fpr, self.others)
            alarms = float(at_most(allowed, self.others, failure))
            lower = float(at_least(self._hits(allowed), self.members, failure)) * fpr / max(alarms, fpr)
        if above <= self.others:
            index = int(np.searchsorted(self.false_positives, above, side="left"))
            upper = float(at_most(self.true_positives[index], self.members, failure))
        return Rate(point.tpr.value, min(lower, point.tpr.value), max(upper, point.tpr.value))

    def _index(self, false_positives: int) -> int:
        """The lowest threshold with at most so many false positives."""
        return int(np.searchsorted(self.false_positives, false_positives, side="right")) - 1

    def _hits(self, false_positives: int) -> int:
        return int(self.true_positives[self._index(false_positives)])

    def band(self, points: int = 200, confidence: float = 0.95) -> Band:
        """At most ``points`` points of the curve, evenly spaced in log FPR, each with the interval of its
        TPR.
        """
        whole("points", points, least=2, most=10**6)
        failure = (1 - open_fraction("confidence", confidence)) / 2
        wanted = np.unique(np.geomspace(1, self.others, points).astype(np.int64))
        indices = np.searchsorted(self.false_positives, wanted, side="right") - 1
        indices = np.unique(np.append(indices, len(self.thresholds) - 1))
        hits = self.true_positives[indices]
        return Band(
            self.fpr[indices],
            self.tpr[indices],
            at_least(hits, self.members, failure),
            at_most(hits, self.members, failure),
        )


def _allowed_alarms(fpr: float, others: int) -> int:
    """How many false positives among so many non-members this rate allows."""
    return int(np.floor(fpr * others * (1 + _ROUND_OFF)))


def _rate(name: str, value: float) -> float:
    if not 0 < value <= 1:
        raise InvalidArgument(f"'{name}' must be above 0 and at most 1, got {value!r}. Give a rate.")
    return value
