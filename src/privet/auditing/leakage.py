"""How well an attack tells members from others: one result for one list of scores."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, final

import numpy as np
from scipy.special import ndtri

from privet.arguments import open_fraction, whole
from privet.auditing.proportions import Rate, at_least, at_most
from privet.auditing.roc import OperatingPoint, Roc, ScoreOrder
from privet.data_frames import to_data_frame
from privet.scores import Scores
from privet.views import Numbers

__all__ = ["RATES", "Leakage", "area_variance", "count_intervals", "measure"]

RATES = (0.1, 0.01, 1e-3, 1e-4)
_REPORTED = (1e-3, 1e-2, 1e-1)


@final
@dataclass(frozen=True, eq=False)
class Leakage:
    """What an attack achieved, every figure with its interval at ``confidence``.

    Averages hide the victims: the true-positive rates at low false-positive rates come first, balanced
    accuracy last.
    """

    attack: str
    roc: Roc
    auc: Rate
    balanced_accuracy: Rate | None
    confidence: float = 0.95

    @property
    def fpr_floor(self) -> float:
        """The smallest false-positive rate that the number of non-members supports."""
        return self.roc.fpr_floor

    def at(self, fpr: float) -> OperatingPoint | None:
        """The best threshold with at most this false-positive rate, or None below the floor."""
        return self.roc.at(fpr, self.confidence)

    def tpr(self, fpr: float) -> Rate | None:
        """The share of members found at this false-positive rate, or None where n does not support it.

        Its interval takes into account that the threshold's false-positive rate is estimated from so many
        non-members.
        """
        return self.roc.tpr_at(fpr, self.confidence)

    @property
    def tprs(self) -> Mapping[float, Rate | None]:
        """The true-positive rates at 10 %, 1 %, 0.1 % and 0.01 %.

        None marks a rate that n does not support.
        """
        return {fpr: self.tpr(fpr) for fpr in RATES}

    @property
    def reported_fpr(self) -> float | None:
        """The lowest of 0.1 %, 1 % and 10 % that the number of non-members supports: the rate that reports
        show.
        """
        return next((fpr for fpr in _REPORTED if _is_supported(fpr, self.roc.others)), None)

    @property
    def excludes_chance(self) -> bool:
        """Whether one of the intervals excludes the value of an attack without information, on either side of
        it.

        ``count_intervals`` counts these intervals. An attack that is wrong more often than chance also tells
        members from others.
        """
        intervals = [(0.5, self.auc), (0.5, self.balanced_accuracy), *self.tprs.items()]
        if self.reported_fpr is not None:
            intervals.append((0.5, self.precision(prior=0.5, fpr=self.reported_fpr)))
        return any(rate is not None and not rate.lower <= chance <= rate.upper for chance, rate in intervals)

    def precision(self, *, prior: float, fpr: float) -> Rate | None:
        """Of those called members at this FPR, the share that are, when a share ``prior`` of the population
        is.

        p·TPR / (p·TPR + (1 − p)·FPR) with the rates of the threshold that is used. The interval takes the TPR
        from below and the FPR from above, or the other way round, each at half of the failure.
        """
        open_fraction("prior", prior)
        point = self._rectangle(fpr)
        if point is None:
            return None

        def share(tpr: float, fpr: float) -> float:
            called = prior * tpr + (1 - prior) * fpr
            return (
                prior * tpr / called if called > 0 else prior
            )  # nobody is called a member: nothing is learnt

        return Rate(
            share(point.tpr.value, point.fpr.value),
            share(point.tpr.lower, point.fpr.upper),
            share(point.tpr.upper, point.fpr.lower),
        )

    @property
    def reported_point(self) -> OperatingPoint | None:
        """The threshold at the reported rate, with intervals of both of its rates that hold together at
        ``confidence``.
        """
        return None if self.reported_fpr is None else self._rectangle(self.reported_fpr)

    def _rectangle(self, fpr: float) -> OperatingPoint | None:
        return self.roc.at(fpr, (1 + self.confidence) / 2)

    def __repr__(self) -> str:
        point = (
            ""
            if self.reported_fpr is None
            else f"TPR {self.tpr(self.reported_fpr)} at {self.reported_fpr:g} FPR, "
        )
        return (
            f"Leakage({self.attack!r}: AUC {self.auc}, {point}{self.roc.members} members, {self.roc.others} "
            f"others)"
        )

    def to_pandas(self) -> Any:  # noqa: ANN401 - a pandas.DataFrame
        """A data frame with one row for each figure: its name, its value and the ends of its interval."""
        figures = {"AUC": self.auc, "balanced accuracy": self.balanced_accuracy}
        figures |= {f"TPR at {fpr:g} FPR": tpr for fpr, tpr in self.tprs.items()}
        return to_data_frame(
            {"attack": self.attack, "figure": name, **(rate or Rate(math.nan, math.nan, math.nan))._asdict()}
            for name, rate in figures.items()
        )

    def __str__(self) -> str:
        lines = [
            f"TPR at {fpr:.4g} FPR: {'not supported by so few non-members' if tpr is None else tpr}"
            for fpr, tpr in self.tprs.items()
        ]
        accuracy = "not known" if self.balanced_accuracy is None else str(self.balanced_accuracy)
        return "\n".join(
            [
                f"{self.attack}: {self.roc.members} members, {self.roc.others} others",
                *lines,
                f"AUC: {self.auc}",
                f"balanced accuracy: {accuracy}",
            ]
        )


def count_intervals(others: int) -> int:
    """How many intervals a ``Leakage`` with so many non-members has: the area, balanced accuracy, precision,
    and each TPR.
    """
    return 3 + sum(_is_supported(fpr, others) for fpr in RATES)


def _is_supported(fpr: float, others: int) -> bool:
    return fpr * others >= 1 - 1e-9


def measure(scores: Scores, *, confidence: float = 0.95, seed: int = 0) -> Leakage:
    """ROC, AUC, true-positive rates at low false-positive rates, and balanced accuracy of one attack.

    ``seed`` splits the records in two halves, for balanced accuracy alone: each half is judged by the
    threshold that is best on the other, so that choosing it does not bias the result. It is None where a side
    has fewer than two records.

    >>> leakage = measure(Scores.of(np.array([3.0, 2.0, 2.0]), np.array([2.0, 1.0, 0.0])))
    >>> round(leakage.auc.value, 4), leakage.tpr(0.001) is None
    (0.8889, True)
    """
    open_fraction("confidence", confidence)
    order = ScoreOrder.of(scores)
    roc = Roc.from_order(scores, order)
    return Leakage(
        scores.attack,
        roc,
        _area(roc, confidence),
        _balanced_accuracy(scores, order, confidence, np.random.default_rng(whole("seed", seed, least=0))),
        confidence,
    )


def _area(roc: Roc, confidence: float) -> Rate:
    """The AUC with the wider of two intervals.

    Newcombe 2006, method 5: all areas θ whose distance from the estimate is within z standard errors, with
    the variance of Hanley & McNeil 1982 taken *at θ* and (m + n)/2 − 1 in place of both m − 1 and n − 1.
    Unlike intervals that take the variance at the estimate, it does not shrink to a point at an area of 1.
    DeLong, DeLong & Clarke-Pearson 1988 has the variance for scores of any distribution, and shrinks there.
    Both hold for large samples: where so few records are in perfect order by chance more often than the
    failure allows, the interval contains ½.
    """
    area, members, others = roc.area, roc.members, roc.others
    z = float(ndtri((1 + confidence) / 2))

    def inside(theta: float) -> bool:
        return (area - theta) ** 2 <= z * z * _hanley(theta, members, others)

    lower, upper = _end(inside, area, 0.0), _end(inside, area, 1.0)
    if members > 1 and others > 1:
        reach = z * _delong(roc) ** 0.5
        lower, upper = min(lower, area - reach), max(upper, area + reach)
    if members + others <= 2 / (1 - confidence) and 2 / math.comb(members + others, members) > 1 - confidence:
        lower, upper = min(lower, 0.5), max(upper, 0.5)
    return Rate(area, max(lower, 0.0), min(upper, 1.0))


def _end(inside: Callable[[float], bool], start: float, stop: float) -> float:
    """The farthest point inside, from ``start`` towards ``stop``: the outer end of a bisection bracket."""
    near, far = start, stop
    for _ in range(60):
        middle = 0.5 * (near + far)
        near, far = (middle, far) if inside(middle) else (near, middle)
    return far


def area_variance(roc: Roc, at: float) -> float:
    """The variance of the AUC, for comparing two: DeLong's, but not below Hanley & McNeil's for an area
    ``at``.

    DeLong's variance is tiny for a few records that happen to be separated well. A comparison asks how rare
    that is if the area is no larger than elsewhere, so the variance is taken at that area. It is kept one
    record away from 0 and 1.
    """
    edge = 1 / (min(roc.members, roc.others) + 2)
    return max(_delong(roc), _hanley(min(max(at, edge), 1 - edge), roc.members, roc.others))


def _hanley(theta: float, members: int, others: int) -> float:
    """Hanley & McNeil 1982 as Newcombe 2006 writes it: the same (m + n)/2 − 1 for both sides."""
    star = (members + others) / 2 - 1
    spread = 1 + star * (1 - theta) / (2 - theta) + star * theta / (1 + theta)
    return theta * (1 - theta) * spread / (members * others)


def _delong(roc: Roc) -> float:
    """The variance of members' shares of others below, plus that of others' shares of members above."""
    true, false = np.diff(roc.true_positives), np.diff(roc.false_positives)
    beaten = 1 - (roc.fpr[1:] + roc.fpr[:-1]) / 2  # of others, by a member with this score
    above = (roc.tpr[1:] + roc.tpr[:-1]) / 2
    return _variance(beaten, true) / roc.members + _variance(above, false) / roc.others


def _variance(values: Numbers, weights: Numbers) -> float:
    total = float(weights.sum())
    mean = float(weights @ values) / total
    return float(weights @ (values - mean) ** 2) / (total - 1)


def _balanced_accuracy(
    scores: Scores, order: ScoreOrder, confidence: float, generator: np.random.Generator
) -> Rate | None:
    """(TPR + TNR)/2, where each half of the records is judged by the best threshold of the other half.

    Limits are Clopper & Pearson's for the pooled counts of each side, at half of the failure each.
    """
    sides = [np.flatnonzero(scores.members), np.flatnonzero(~scores.members)]
    if min(len(side) for side in sides) < 2:
        return None
    half = np.zeros(len(scores), dtype=np.bool_)
    for side in sides:
        half[generator.permutation(side)[: len(side) // 2]] = True
    halved, members = half[order.order], scores.members[order.order]
    counts = [
        [np.append(0, np.cumsum(side & part)[order.last]) for side in (members, ~members)]
        for part in (halved, ~halved)
    ]
    hits = [0, 0]
    for (true, false), (judged_true, judged_false) in (counts, counts[::-1]):
        best = int(np.argmax(true / true[-1] - false / false[-1]))
        hits[0] += int(judged_true[best])
        hits[1] += int(judged_false[-1] - judged_false[best])
    failure = (1 - confidence) / 4
    trials = [len(side) for side in sides]
    lower = [float(at_least(hit, trial, failure)) for hit, trial in zip(hits, trials, strict=True)]
    upper = [float(at_most(hit, trial, failure)) for hit, trial in zip(hits, trials, strict=True)]
    value = (hits[0] / trials[0] + hits[1] / trials[1]) / 2
    return Rate(value, sum(lower) / 2, sum(upper) / 2)
