"""BaVarIA: LiRA with means and variances inferred from all records together, so that two models are enough to
start.

For each record, φ over models is Gaussian with unknown mean and variance, which have a normal–inverse-gamma
prior:

    σ² ~ InvGamma(ν₀/2, ν₀ σ₀²/2),   μ | σ² ~ N(m₀, σ²/κ₀).

After n models with mean x̄ and squares S: κ = κ₀ + n, ν = ν₀ + n, m = (κ₀ m₀ + n x̄)/κ, and 2β = ν₀ σ₀² + S +
κ₀ n (x̄ − m₀)²/κ. The φ of one more model has Student's t distribution with ν degrees of freedom, location m
and squared scale 2β (κ + 1)/(ν κ). With n = 0 it is that of the prior, so a record without models on one side
is not a special case.

*Reference*: Brännvall 2026, "Exponential-family membership inference: from LiRA and RMIA to BaVarIA" (both
its Student and its normal form). Deviations: the prior is ours. m₀ is the mean over records, σ₀² the pooled
variance, κ₀ = σ₀²/τ² with τ² the variance of means between records (moments, from the references alone), and
ν₀ is a field.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
from scipy.special import gammaln

from privet.arguments import positive
from privet.attacks.membership.lira import pooled_variance
from privet.attacks.membership.reference_attack import (
    OFFLINE,
    ONLINE,
    ReferenceAttack,
    ReferenceStatistics,
    check_target,
    summarize_in,
    summarize_out,
)
from privet.attacks.membership.signals import QueryTransform, identity
from privet.errors import InvalidArgument
from privet.scores import References
from privet.views import Numbers

__all__ = [
    "BaVarIA",
    "NormalPredictive",
    "OfflineBaVarIA",
    "PredictiveDistribution",
    "PredictiveParameters",
    "StudentPredictive",
    "posterior_predictive",
]


@final
@dataclass(frozen=True, eq=False)
class PredictiveParameters:
    """The distribution of one more model's φ: centre, squared scale and degrees of freedom of each query and
    record.
    """

    centre: Numbers
    squared_scale: Numbers
    freedom: Numbers


class PredictiveDistribution(ABC):
    """The shape of the distribution of the next model's φ."""

    @abstractmethod
    def log_density(self, values: Numbers, next_model: PredictiveParameters) -> Numbers:
        """ln of the density."""


@final
@dataclass(frozen=True)
class StudentPredictive(PredictiveDistribution):
    """Student's t distribution: uncertainty about the variance makes its tails heavier."""

    def log_density(self, values: Numbers, next_model: PredictiveParameters) -> Numbers:
        nu, squared = next_model.freedom, next_model.squared_scale
        far = (values - next_model.centre) ** 2 / (nu * squared)
        answer: Numbers = (
            gammaln((nu + 1) / 2)
            - gammaln(nu / 2)
            - 0.5 * np.log(np.pi * nu * squared)
            - (nu + 1) / 2 * np.log1p(far)
        )
        return answer


@final
@dataclass(frozen=True)
class NormalPredictive(PredictiveDistribution):
    """A Gaussian with the same centre and squared scale: lighter tails; LiRA with a regularised variance."""

    def log_density(self, values: Numbers, next_model: PredictiveParameters) -> Numbers:
        squared = next_model.squared_scale
        far = (values - next_model.centre) ** 2 / squared
        answer: Numbers = -0.5 * (np.log(2 * np.pi * squared) + far)
        return answer


@final
@dataclass(frozen=True, eq=False)
class BaVarIA(ReferenceAttack):
    """The likelihood ratio of φ, IN against OUT, with the parameters integrated out.

    *Adversary*: sees the confidence in every class; knows the record, its label, and reference models trained
    with it and without it; wants its membership.

    *Reference*: see this module; the score is ln of the IN density less ln of the OUT density, summed over
    queries.
    """

    references: References
    distribution: PredictiveDistribution = StudentPredictive()
    prior_weight: float = 4.0
    queries: Sequence[QueryTransform] = (identity,)

    name = "BaVarIA"
    adversary = ONLINE

    def __post_init__(self) -> None:
        super().__post_init__()
        positive("prior_weight", self.prior_weight)

    def judge(self, target: Numbers) -> Numbers:
        target = check_target(target, self.references)
        trained, left_out = summarize_in(self.references), summarize_out(self.references)
        if not trained.known.any() or not left_out.known.any():
            raise InvalidArgument(
                "'references' must hold models with and without a record, got one kind only. Train at least "
                "two models on different halves, or take OfflineBaVarIA."
            )
        scores = self.distribution.log_density(
            target, posterior_predictive(trained, left_out, self.prior_weight)
        ) - self.distribution.log_density(target, posterior_predictive(left_out, trained, self.prior_weight))
        answer: Numbers = scores.sum(axis=0)
        return answer


@final
@dataclass(frozen=True, eq=False)
class OfflineBaVarIA(ReferenceAttack):
    """How unlikely so high a φ is for a model without the record, under Student's t distribution.

    *Adversary*: sees the confidence in every class; knows the record, its label, and reference models trained
    without it; wants its membership. Models that were trained on it are ignored; a record that all models
    were trained on is judged by the prior.

    The score is the normal deviate of the same tail, by Wallace's (1959) approximation z = ±(8ν + 1)/(8ν + 3)
    √(ν ln(1 + t²/ν)), which keeps the order exactly where ν is the same and does not saturate in float64;
    over queries Σ z/√Q.

    *Reference*: see this module.
    """

    references: References
    prior_weight: float = 4.0
    queries: Sequence[QueryTransform] = (identity,)

    name = "BaVarIA offline"
    adversary = OFFLINE

    def __post_init__(self) -> None:
        super().__post_init__()
        positive("prior_weight", self.prior_weight)

    def judge(self, target: Numbers) -> Numbers:
        target = check_target(target, self.references)
        left_out = summarize_out(self.references)
        if not left_out.known.any():
            raise InvalidArgument(
                "'references' must hold a model without some record, got none. Train reference models on "
                "halves of the records."
            )
        next_model = posterior_predictive(left_out, left_out, self.prior_weight)
        t = (target - next_model.centre) / np.sqrt(next_model.squared_scale)
        nu = next_model.freedom
        z = np.sign(t) * (8 * nu + 1) / (8 * nu + 3) * np.sqrt(nu * np.log1p(t**2 / nu))
        answer: Numbers = z.sum(axis=0) / np.sqrt(len(z))
        return answer


def posterior_predictive(
    side: ReferenceStatistics, spare: ReferenceStatistics, prior_weight: float
) -> PredictiveParameters:
    """The distribution of one more model's φ on one side.

    ``spare`` lends its variance where this side has none.
    """
    counts = side.counts
    own = np.where(side.known, side.means, 0.0)
    centre = own.sum(axis=1, keepdims=True) / side.known.sum()
    within = pooled_variance(side, spare)
    spread = np.where(side.known, (own - centre) ** 2, 0.0).sum(axis=1, keepdims=True) / side.known.sum()
    # The means of records vary by τ² plus σ²/n; below a thousandth of σ², the estimate of τ² is noise.
    between = np.maximum(spread - within * (1.0 / counts[side.known]).mean(), 1e-3 * within)
    kappa_0 = within / between
    kappa, nu = kappa_0 + counts, prior_weight + counts
    mean = (kappa_0 * centre + counts * own) / kappa
    twice_beta = prior_weight * within + side.squares + kappa_0 * counts * (own - centre) ** 2 / kappa
    return PredictiveParameters(
        mean, twice_beta * (kappa + 1) / (nu * kappa), np.broadcast_to(nu, mean.shape)
    )
