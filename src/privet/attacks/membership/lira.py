"""LiRA: a likelihood ratio for each record, from reference models with and without it.

φ of a record is assumed Gaussian over models, with one mean and variance for models trained on the record and
another for the other models. With few models the variance of one record is a poor estimate. Which estimate is
taken is chosen by attacking the reference models (``choose_setting``), from three pairs on; with fewer, one
variance for all signals of a side (``Overall``).

*Reference*: Carlini et al. 2022, algorithm 1 (online), its offline attack, and its global variance for few
models. Deviations, for all of them: variances are unbiased (n − 1) and means are means, where the published
code divides by n and takes medians. Between the paper's two variances, that of each record and one for all
(``PerRecord``, ``Overall``), there is ``Moderated``. Queries are independent (a diagonal covariance).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import final

import numpy as np

from privet.attacks.membership.crossfit import choose_setting
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
from privet.attacks.membership.variances import (
    Moderated,
    Overall,
    PerRecord,
    VarianceEstimate,
    pooled_variance,
)
from privet.errors import InvalidArgument
from privet.scores import References
from privet.views import Numbers

__all__ = ["LiRA", "OfflineLiRA", "both_means"]

# The first two are those of the paper.
_VARIANCES = (Overall(), PerRecord(), Moderated(), Moderated(weight=2.0), Moderated(weight=16.0))


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
    variance: VarianceEstimate | None = None
    queries: Sequence[QueryTransform] = (identity,)

    name = "LiRA"
    adversary = ONLINE

    def judge(self, target: Numbers | TargetSignals) -> Numbers:
        phi, _ = at_temperature(target, self.references, 1.0)
        variance = _choose(self.references, _online) if self.variance is None else self.variance
        return _online(phi, self.references, variance)


@final
@dataclass(frozen=True, eq=False)
class OfflineLiRA(ReferenceAttack):
    """How unlikely so high a φ is for a model that was not trained on the record.

    *Adversary*: sees the confidence in every class; knows the record, its label, and reference models trained
    without it; wants its membership. Models that were trained on it give no score; where there are some, they
    help to choose the kind of variance (``crossfit``).

    The score is z = (φ − μ_out)/σ_out, over queries Σ z/√Q. With one query it orders records as the paper's
    1 − Pr[Z > φ] does, and does not saturate at 1 in float64.

    *Reference*: Carlini et al. 2022, the offline attack; see this module for deviations. With one model it is
    the difficulty calibration of Watson et al. 2022, in units of one σ.
    """

    references: References
    variance: VarianceEstimate | None = None
    queries: Sequence[QueryTransform] = (identity,)

    name = "LiRA offline"
    adversary = OFFLINE

    def judge(self, target: Numbers | TargetSignals) -> Numbers:
        phi, _ = at_temperature(target, self.references, 1.0)
        variance = _choose(self.references, _offline) if self.variance is None else self.variance
        return _offline(phi, self.references, variance)


def _online(phi: Numbers, references: References, variance: VarianceEstimate) -> Numbers:
    trained, left_out = summarize_in(references), summarize_out(references)
    mean_in, mean_out = both_means(trained, left_out)
    scores = _log_density(
        phi, mean_in, variance.of(trained, pooled_variance(trained, left_out))
    ) - _log_density(phi, mean_out, variance.of(left_out, pooled_variance(left_out, trained)))
    answer: Numbers = scores.sum(axis=0)
    return answer


def _offline(phi: Numbers, references: References, variance: VarianceEstimate) -> Numbers:
    left_out = summarize_out(references)
    require_out_models(references)
    z = (phi - left_out.means) / np.sqrt(variance.of(left_out, pooled_variance(left_out, left_out)))
    answer: Numbers = z.sum(axis=0) / np.sqrt(len(z))
    return answer


def _choose(
    references: References, formula: Callable[[Numbers, References, VarianceEstimate], Numbers]
) -> VarianceEstimate:
    """The variance that is best against the reference models; that of all signals where none can be attacked
    with two models on each side.
    """

    def settings(target: TargetSignals, rest: References) -> list[Numbers]:
        return [formula(target.phi, rest, each) for each in _VARIANCES]

    return _VARIANCES[choose_setting(references, settings, published=2, least=2) or 0]


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
