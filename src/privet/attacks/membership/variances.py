"""The variance of φ over reference models: of each record by itself, of all records together, or between.

With n models on a side, a record's own variance has n − 1 degrees of freedom, which is few. The pooled
variance has many, and is wrong for records whose models scatter more or less than others. ``Moderated``
weighs the two, by how much the variances of records differ.

*Reference*: Carlini et al. 2022 (own and global variance); Smyth 2004, "Linear models and empirical Bayes
methods for assessing differential expression", section 6.2 (the weight of the pooled variance, from the
variance of the logarithms of variances). Deviation: the prior is centred at the pooled variance, where Smyth
takes the mean of logarithms; with two models to a side that was the weaker choice.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import final

import numpy as np
from scipy.special import digamma, polygamma

from privet.arguments import positive
from privet.attacks.membership.reference_attack import ReferenceStatistics
from privet.views import Numbers

__all__ = [
    "Moderated",
    "Overall",
    "PerRecord",
    "Pooled",
    "VarianceEstimate",
    "estimate_prior_weight",
    "pooled_variance",
]

_LEAST = 1e-4  # of the pooled variance: models that agree on a record are not infinitely certain
_SHARE, _CORRELATION = 0.2, 0.85  # see _model_share
_UNKNOWN_WEIGHT = 8.0  # where no record has two models on a side
_WEIGHTS = np.geomspace(2.0, 64.0, 256)  # beyond these more or fewer degrees of freedom change nothing


class VarianceEstimate(ABC):
    """How the variance of φ over models is estimated."""

    @abstractmethod
    def of(self, side: ReferenceStatistics, pooled: Numbers) -> Numbers:
        """The variance of each query and record, from one side and its pooled variance (queries × 1)."""


@final
@dataclass(frozen=True)
class Pooled(VarianceEstimate):
    """One variance for all records."""

    def of(self, side: ReferenceStatistics, pooled: Numbers) -> Numbers:
        return np.broadcast_to(pooled, side.means.shape)


@final
@dataclass(frozen=True)
class Overall(VarianceEstimate):
    """The variance of all signals of the side, where differences between records count as noise.

    *Reference*: the global variance of Carlini et al. 2022 as their code and LeakPro compute it.
    """

    def of(self, side: ReferenceStatistics, pooled: Numbers) -> Numbers:
        if not side.known.any():
            return np.broadcast_to(pooled, side.means.shape)
        counts, means = side.counts[side.known], side.means[:, side.known]
        centre = (means * counts).sum(axis=1, keepdims=True) / counts.sum()
        total = side.squares.sum(axis=1) + (counts * (means - centre) ** 2).sum(axis=1)
        return np.broadcast_to(_above_zero(total / counts.sum()), side.means.shape)


@final
@dataclass(frozen=True)
class PerRecord(VarianceEstimate):
    """Each record's own variance: for more than about 64 models.

    The pooled one where there are fewer than two models, and never below 1e−4 of it.
    """

    def of(self, side: ReferenceStatistics, pooled: Numbers) -> Numbers:
        own = side.squares / np.maximum(side.counts - 1.0, 1.0)
        answer: Numbers = np.where(side.counts >= 2, np.maximum(own, _LEAST * pooled), pooled)
        return answer


@final
@dataclass(frozen=True)
class Moderated(VarianceEstimate):
    """Between the two: (ν₀ σ₀² + S)/(ν₀ + n − 1), with σ₀² pooled and S the record's squares.

    The ``weight`` ν₀ is estimated from the references unless it is given: it is large where the variances of
    records are alike, and 2 at least. With few models this is nearly ``Pooled``, with many ``PerRecord``.

    *Reference*: Smyth 2004; see this module.
    """

    weight: float | None = None

    def __post_init__(self) -> None:
        if self.weight is not None:
            positive("weight", self.weight)

    def of(self, side: ReferenceStatistics, pooled: Numbers) -> Numbers:
        weight = estimate_prior_weight(side) if self.weight is None else self.weight
        freedom = np.maximum(side.counts - 1.0, 0.0)
        answer: Numbers = (weight * pooled + side.squares) / (weight + freedom)
        return np.broadcast_to(answer, side.means.shape)


def pooled_variance(side: ReferenceStatistics, spare: ReferenceStatistics) -> Numbers:
    """The variance of models about each record's mean, over all records; queries × 1.

    Where no record has two models on this side, it is that of the other side. Where none has on either side,
    it is a share of the variance of this side's φ over records, so that IN and OUT keep their own deviations:
    only their ratio decides LiRA's order with one query. ``_model_share`` says which share.
    """
    for statistics in (side, spare):
        if statistics.freedom > 0:
            return _above_zero(statistics.squares.sum(axis=1) / statistics.freedom)
    known = side if side.known.any() else spare
    return _above_zero(_model_share(side, spare) * known.means[:, known.known].var(axis=1))


def _model_share(side: ReferenceStatistics, spare: ReferenceStatistics) -> Numbers:
    """The share of models in the variance of φ over records, with one model to a side; one for each query.

    The true means with and without a record are correlated by about 0.85 (0.81 to 0.98 on five of six sets of
    data, 0.52 on the sixth). Noise of models lowers the correlation of single models from there, and by how
    much tells its share: 1 − r/0.85. With one side alone it is a fifth, the middle of those sets.
    """
    both = side.known & spare.known
    if side is spare or both.sum() < 3:
        return np.full(len(side.means), _SHARE)
    first, second = (
        part.means[:, both] - part.means[:, both].mean(axis=1, keepdims=True) for part in (side, spare)
    )
    spreads = np.sqrt((first**2).sum(axis=1) * (second**2).sum(axis=1))
    correlation = (first * second).sum(axis=1) / np.where(spreads > 0, spreads, 1.0)
    answer: Numbers = np.clip(1.0 - correlation / _CORRELATION, 0.05, 0.9)
    return answer


def estimate_prior_weight(side: ReferenceStatistics) -> Numbers:
    """The degrees of freedom ν₀ that the pooled variance is worth, from 2 to 64; queries × 1.

    If the variances of records are an inverse-gamma population, the variance of ln s² is ψ′(d/2) + ψ′(ν₀/2)
    with d = n − 1 (Smyth 2004, section 6.2). Records on which all models agree are left out. Where no two
    records are left, it is 8.
    """
    return np.array([[_weight_of(side.counts, squares)] for squares in side.squares])


def _weight_of(counts: Numbers, squares: Numbers) -> float:
    several = (counts >= 2) & (squares > 0)
    if several.sum() < 2:
        return _UNKNOWN_WEIGHT
    half = (counts[several] - 1.0) / 2
    logs = np.log(squares[several] / half) - digamma(half)
    excess = logs.var(ddof=1) - polygamma(1, half).mean()
    # ψ′ decreases; np.interp needs increasing places, and keeps to the ends beyond them.
    return float(np.interp(excess, polygamma(1, _WEIGHTS / 2)[::-1], _WEIGHTS[::-1]))


def _above_zero(variances: Numbers) -> Numbers:
    """Queries × 1; 1 where the models agree on every record."""
    answer: Numbers = np.where(variances > 0, variances, 1.0)[:, None]
    return answer
