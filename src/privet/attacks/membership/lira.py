"""LiRA: a likelihood ratio for each record, from reference models with and without it.

φ of a record is assumed Gaussian over models, with one mean and variance for models trained on the record and
another for the other models. With few models the variance of one record is a poor estimate, so it is weighed
with that of all records (``Moderated``).

*Reference*: Carlini et al. 2022, algorithm 1 (online), its offline attack, and its global variance for few
models. Deviations, for all of them: variances are unbiased (n − 1) and means are means, where the published
code divides by n and takes medians. Variances are between the paper's two, its own of each record and one for
all; ``PerRecord`` and ``Pooled`` are those. The pooled variance is that of models about each record's own
mean; the published code takes that of all signals, where differences between records count as noise. Queries
are independent (a diagonal covariance).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import numpy as np

from privet.attacks.membership.reference_attack import (
    OFFLINE,
    ONLINE,
    ReferenceAttack,
    ReferenceStatistics,
    at_temperature,
    require_out_models,
    summarize_in,
    summarize_out,
)
from privet.attacks.membership.signals import QueryTransform, TargetSignals, identity
from privet.attacks.membership.variances import Moderated, VarianceEstimate, pooled_variance
from privet.errors import InvalidArgument
from privet.scores import References
from privet.views import Numbers

__all__ = ["LiRA", "OfflineLiRA", "both_means"]

_MODERATED = Moderated()


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
    variance: VarianceEstimate = _MODERATED
    queries: Sequence[QueryTransform] = (identity,)

    name = "LiRA"
    adversary = ONLINE

    def judge(self, target: Numbers | TargetSignals) -> Numbers:
        phi, _ = at_temperature(target, self.references, 1.0)
        trained, left_out = summarize_in(self.references), summarize_out(self.references)
        mean_in, mean_out = both_means(trained, left_out)
        scores = _log_density(
            phi, mean_in, self.variance.of(trained, pooled_variance(trained, left_out))
        ) - _log_density(phi, mean_out, self.variance.of(left_out, pooled_variance(left_out, trained)))
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
    variance: VarianceEstimate = _MODERATED
    queries: Sequence[QueryTransform] = (identity,)

    name = "LiRA offline"
    adversary = OFFLINE

    def judge(self, target: Numbers | TargetSignals) -> Numbers:
        phi, _ = at_temperature(target, self.references, 1.0)
        left_out = summarize_out(self.references)
        require_out_models(self.references)
        spread = self.variance.of(left_out, pooled_variance(left_out, left_out))
        z = (phi - left_out.means) / np.sqrt(spread)
        answer: Numbers = z.sum(axis=0) / np.sqrt(len(z))
        return answer


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
