"""LiRA: a likelihood ratio for each record, from reference models with and without it.

φ of a record is assumed Gaussian over models, with one mean and variance for models trained on the record and
another for the other models. With few models the variance of one record is a poor estimate, so all records
are pooled.

*Reference*: Carlini et al. 2022, algorithm 1 (online), its offline attack, and its global variance for few
models. Deviations, for all of them: variances are unbiased (n − 1) and means are means, where the published
code divides by n and takes medians. The pooled variance is that of models about each record's own mean; the
published code takes that of all signals, where differences between records count as noise. Queries are
independent (a diagonal covariance).
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import numpy as np

from privet.attacks.membership.reference_attack import (
    OFFLINE,
    ONLINE,
    ReferenceAttack,
    ReferenceStatistics,
    check_target,
    require_out_models,
    summarize_in,
    summarize_out,
)
from privet.attacks.membership.signals import QueryTransform, identity
from privet.errors import InvalidArgument
from privet.scores import References
from privet.views import Numbers

__all__ = ["LiRA", "OfflineLiRA", "PerRecord", "Pooled", "VarianceEstimate", "pooled_variance"]

_LEAST = 1e-4  # of the pooled variance: models that agree on a record are not infinitely certain


class VarianceEstimate(ABC):
    """How the variance of φ over models is estimated."""

    @abstractmethod
    def of(self, side: ReferenceStatistics, pooled: Numbers) -> Numbers:
        """The variance of each query and record, from one side and its pooled variance (queries × 1)."""


@final
@dataclass(frozen=True)
class Pooled(VarianceEstimate):
    """One variance for all records: for fewer than about 64 models."""

    def of(self, side: ReferenceStatistics, pooled: Numbers) -> Numbers:
        return np.broadcast_to(pooled, side.means.shape)


@final
@dataclass(frozen=True)
class PerRecord(VarianceEstimate):
    """Each record's own variance.

    The pooled one where there are fewer than two models, and never below 1e−4 of it.
    """

    def of(self, side: ReferenceStatistics, pooled: Numbers) -> Numbers:
        own = side.squares / np.maximum(side.counts - 1.0, 1.0)
        answer: Numbers = np.where(side.counts >= 2, np.maximum(own, _LEAST * pooled), pooled)
        return answer


@final
@dataclass(frozen=True, eq=False)
class LiRA(ReferenceAttack):
    """The likelihood ratio of φ, IN against OUT.

    *Adversary*: sees the confidence in every class; knows the record, its label, and reference models trained
    with it and without it; wants its membership.

    The score is Σ over queries of ln N(φ; μ_in, σ²_in) − ln N(φ; μ_out, σ²_out). A record without models on
    one side takes the mean of the other side, shifted by the average difference of the records that have
    both; where no record has both, the attack is refused.

    *Reference*: Carlini et al. 2022, algorithm 1; see this module for deviations.
    """

    references: References
    variance: VarianceEstimate = Pooled()
    queries: Sequence[QueryTransform] = (identity,)

    name = "LiRA"
    adversary = ONLINE

    def judge(self, target: Numbers) -> Numbers:
        target = check_target(target, self.references)
        trained, left_out = summarize_in(self.references), summarize_out(self.references)
        mean_in, mean_out = both_means(trained, left_out)
        scores = _log_density(
            target, mean_in, self.variance.of(trained, pooled_variance(trained, left_out))
        ) - _log_density(target, mean_out, self.variance.of(left_out, pooled_variance(left_out, trained)))
        answer: Numbers = scores.sum(axis=0)
        return answer


@final
@dataclass(frozen=True, eq=False)
class OfflineLiRA(ReferenceAttack):
    """How unlikely so high a φ is for a model that was not trained on the record.

    *Adversary*: sees the confidence in every class; knows the record, its label, and reference models trained
    without it; wants its membership. Models that were trained on it are ignored.

    The score is z = (φ − μ_out)/σ_out, over queries Σ z/√Q. With one query it orders records as the paper's
    1 − Pr[Z > φ] does, and does not saturate at 1 in float64.

    *Reference*: Carlini et al. 2022, the offline attack; see this module for deviations. With one model it is
    the difficulty calibration of Watson et al. 2022, in units of one σ.
    """

    references: References
    variance: VarianceEstimate = Pooled()
    queries: Sequence[QueryTransform] = (identity,)

    name = "LiRA offline"
    adversary = OFFLINE

    def judge(self, target: Numbers) -> Numbers:
        target = check_target(target, self.references)
        left_out = summarize_out(self.references)
        require_out_models(self.references)
        spread = self.variance.of(left_out, pooled_variance(left_out, left_out))
        z = (target - left_out.means) / np.sqrt(spread)
        answer: Numbers = z.sum(axis=0) / np.sqrt(len(z))
        return answer


def pooled_variance(side: ReferenceStatistics, spare: ReferenceStatistics) -> Numbers:
    """The variance of models about each record's mean, over all records; queries × 1.

    Where no record has two models on this side, it is that of the other side. Where none has on either side,
    it is half the variance of the difference between IN and OUT; with one side alone, half the variance of
    all records' means, because models and records cannot be separated: it only sets a unit, and changes no
    order with one query.
    """
    for statistics in (side, spare):
        if statistics.freedom > 0:
            return _above_zero(statistics.squares.sum(axis=1) / statistics.freedom)
    both = side.known & spare.known
    apart = side.means[:, both] - spare.means[:, both]
    if side is spare or both.sum() < 2:
        apart = np.concatenate([side.means[:, side.known], spare.means[:, spare.known]], axis=1)
    return _above_zero(apart.var(axis=1) / 2)


def both_means(trained: ReferenceStatistics, left_out: ReferenceStatistics) -> tuple[Numbers, Numbers]:
    """μ_in and μ_out of every record; a missing one is the other, shifted by the average difference."""
    both = trained.known & left_out.known
    if not both.any():
        raise InvalidArgument(
            "'references' must hold models with and without a record, got no record that has both. Train at "
            "least two models on different halves, or take an offline attack."
        )
    shift = (trained.means[:, both] - left_out.means[:, both]).mean(axis=1, keepdims=True)
    mean_in = np.where(trained.known, trained.means, left_out.means + shift)
    mean_out = np.where(left_out.known, left_out.means, trained.means - shift)
    return mean_in, mean_out


def _log_density(values: Numbers, means: Numbers, variances: Numbers) -> Numbers:
    """ln N(values; means, variances), without the constant that cancels."""
    answer: Numbers = -0.5 * ((values - means) ** 2 / variances + np.log(variances))
    return answer


def _above_zero(variances: Numbers) -> Numbers:
    """Queries × 1; 1 where the models agree on every record."""
    answer: Numbers = np.where(variances > 0, variances, 1.0)[:, None]
    return answer
