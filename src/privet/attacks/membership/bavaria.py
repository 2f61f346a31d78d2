"""BaVarIA: LiRA with means and variances inferred from all records together, so that two models are enough to
start.

For each record, φ over models without it is Gaussian with unknown mean and variance, which have a
normal–inverse-gamma prior:

    σ² ~ InvGamma(ν₀/2, ν₀ σ₀²/2),   μ | σ² ~ N(m₀, σ²/κ₀).

After n models with mean x̄ and squares S: κ = κ₀ + n, ν = ν₀ + n, m = (κ₀ m₀ + n x̄)/κ, and 2β = ν₀ σ₀² + S +
κ₀ n (x̄ − m₀)²/κ. The φ of one more model has Student's t distribution with ν degrees of freedom, location m
and squared scale 2β (κ + 1)/(ν κ). With n = 0 it is that of the prior, so a record without models on one side
is not a special case. This is the offline attack.

Online, the two means of a record have one prior. A record that is hard without training is hard with it:
over records the two are correlated (0.80 to 0.85 on two sets of data), so models of either side tell of both.
Given the record's scale λ, (μ_in, μ_out) ~ N(m₀, λ B), and φ of a model is N(μ, λ σ₀²) with the σ₀² of its
side. Then μ has the posterior of two Gaussian measurements. With d the offsets of the two means from m₀,
which vary by λ (B + diag(σ₀²/n)), let q = dᵀ (B + diag(σ₀²/n))⁻¹ d; and let 1/λ ~ χ²_ν₀/ν₀. Then φ of one
more model on a side is Student's with ν = ν₀ + (n − 1) + 2 degrees of freedom, and its squared scale is
(ν₀ + S/σ₀² + q)/ν times σ₀² + V, where λ V is the posterior variance of μ. Each side has its own λ and S.

*Reference*: Brännvall 2026, "Exponential-family membership inference: from LiRA and RMIA to BaVarIA" (both
its Student and its normal form). We know it from its abstract and summary. Deviations: the prior is ours. m₀
is the mean over records, σ₀² the pooled variance, κ₀ = σ₀²/τ² with τ² the variance of means between records,
and B has these variances and the covariance of the two means (moments, from the references alone). ν₀ comes
from how much the variances of records differ (``estimate_prior_weight``), unless it is given.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
from scipy.special import gammaln

from privet.arguments import positive
from privet.attacks.membership.reference_attack import (
    OFFLINE,
    ONLINE,
    ReferenceAttack,
    ReferenceStatistics,
    at_temperature,
    summarize_in,
    summarize_out,
)
from privet.attacks.membership.signals import QueryTransform, TargetSignals, identity
from privet.attacks.membership.variances import estimate_prior_weight, pooled_variance
from privet.errors import InvalidArgument
from privet.scores import Bits, References
from privet.views import Numbers

__all__ = [
    "BaVarIA",
    "NormalPredictive",
    "OfflineBaVarIA",
    "PredictiveDistribution",
    "PredictiveParameters",
    "StudentPredictive",
    "joint_predictive",
    "posterior_predictive",
]

_CLOSEST = 0.98  # of the correlation of the two means: at 1 the models of one side would leave nothing open


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
    prior_weight: float | None = None
    queries: Sequence[QueryTransform] = (identity,)

    name = "BaVarIA"
    adversary = ONLINE

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.prior_weight is not None:
            positive("prior_weight", self.prior_weight)

    def judge(self, target: Numbers | TargetSignals) -> Numbers:
        phi, _ = at_temperature(target, self.references, 1.0)
        trained, left_out = summarize_in(self.references), summarize_out(self.references)
        if not trained.known.any() or not left_out.known.any():
            raise InvalidArgument(
                "'references' must hold models with and without a record, got one kind only. Train at least "
                "two models on different halves, or take OfflineBaVarIA."
            )
        with_it, without_it = joint_predictive(trained, left_out, self.prior_weight)
        scores = self.distribution.log_density(phi, with_it) - self.distribution.log_density(phi, without_it)
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
    prior_weight: float | None = None
    queries: Sequence[QueryTransform] = (identity,)

    name = "BaVarIA offline"
    adversary = OFFLINE

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.prior_weight is not None:
            positive("prior_weight", self.prior_weight)

    def judge(self, target: Numbers | TargetSignals) -> Numbers:
        phi, _ = at_temperature(target, self.references, 1.0)
        left_out = summarize_out(self.references)
        if not left_out.known.any():
            raise InvalidArgument(
                "'references' must hold a model without some record, got none. Train reference models on "
                "halves of the records."
            )
        next_model = posterior_predictive(left_out, left_out, self.prior_weight)
        t = (phi - next_model.centre) / np.sqrt(next_model.squared_scale)
        nu = next_model.freedom
        z = np.sign(t) * (8 * nu + 1) / (8 * nu + 3) * np.sqrt(nu * np.log1p(t**2 / nu))
        answer: Numbers = z.sum(axis=0) / np.sqrt(len(z))
        return answer


@final
@dataclass(frozen=True, eq=False)
class _SidePrior:
    """The prior of one side, queries × 1: centre m₀, pooled variance σ₀², and the variance of means between
    records.
    """

    centre: Numbers
    within: Numbers
    between: Numbers
    weight: Numbers  # ν₀
    offsets: Numbers  # mean − m₀, queries × records; 0 where there is no model

    @classmethod
    def of(
        cls, side: ReferenceStatistics, spare: ReferenceStatistics, prior_weight: float | None
    ) -> "_SidePrior":
        """``spare`` lends its variance where this side has none."""
        own = np.where(side.known, side.means, 0.0)
        centre = own.sum(axis=1, keepdims=True) / side.known.sum()
        offsets = np.where(side.known, own - centre, 0.0)
        within = pooled_variance(side, spare)
        spread = (offsets**2).sum(axis=1, keepdims=True) / side.known.sum()
        # The means of records vary by τ² plus σ²/n; below a thousandth of σ², the estimate of τ² is noise.
        between = np.maximum(spread - within * (1.0 / side.counts[side.known]).mean(), 1e-3 * within)
        weight = estimate_prior_weight(side) if prior_weight is None else np.full_like(within, prior_weight)
        return cls(centre, within, between, weight, offsets)


def posterior_predictive(
    side: ReferenceStatistics, spare: ReferenceStatistics, prior_weight: float | None
) -> PredictiveParameters:
    """The distribution of one more model's φ on one side, from the models of that side.

    ``spare`` lends its variance where this side has none.
    """
    prior, counts = _SidePrior.of(side, spare, prior_weight), side.counts
    kappa_0 = prior.within / prior.between
    kappa, nu = kappa_0 + counts, prior.weight + counts
    mean = prior.centre + counts * prior.offsets / kappa
    twice_beta = prior.weight * prior.within + side.squares + kappa_0 * counts * prior.offsets**2 / kappa
    return PredictiveParameters(mean, twice_beta * (kappa + 1) / (nu * kappa), nu)


def joint_predictive(
    trained: ReferenceStatistics, left_out: ReferenceStatistics, prior_weight: float | None
) -> tuple[PredictiveParameters, PredictiveParameters]:
    """The distributions of φ of one more model with the record and of one without it, from both sides."""
    one, other = (
        _SidePrior.of(trained, left_out, prior_weight),
        _SidePrior.of(left_out, trained, prior_weight),
    )
    covariance = _covariance(one, other, trained.known & left_out.known)
    # Precisions: of the prior, a 2 × 2 matrix for each query, and of the means of models, a diagonal one.
    determinant = one.between * other.between - covariance**2
    across = -covariance / determinant
    told_one, told_other = trained.counts / one.within, left_out.counts / other.within
    sum_one, sum_other = other.between / determinant + told_one, one.between / determinant + told_other
    posterior = sum_one * sum_other - across**2  # its inverse is the covariance of (μ_in, μ_out)
    pull_one, pull_other = told_one * one.offsets, told_other * other.offsets
    move_one = (sum_other * pull_one - across * pull_other) / posterior
    move_other = (sum_one * pull_other - across * pull_one) / posterior
    distance = pull_one * (one.offsets - move_one) + pull_other * (other.offsets - move_other)  # q
    told = trained.known.astype(np.float64) + left_out.known

    def predict(
        side: ReferenceStatistics, prior: _SidePrior, move: Numbers, variance: Numbers
    ) -> PredictiveParameters:
        nu = prior.weight + np.maximum(side.counts - 1.0, 0.0) + told
        scale = (prior.weight + side.squares / prior.within + np.maximum(distance, 0.0)) / nu
        return PredictiveParameters(prior.centre + move, scale * (prior.within + variance), nu)

    return (
        predict(trained, one, move_one, sum_other / posterior),
        predict(left_out, other, move_other, sum_one / posterior),
    )


def _covariance(one: _SidePrior, other: _SidePrior, both: Bits) -> Numbers:
    """Of μ_in and μ_out over the records with models on both sides, within what their variances allow."""
    if both.sum() < 2:
        return np.zeros_like(one.between)
    first, second = one.offsets[:, both], other.offsets[:, both]
    moment = (
        (first - first.mean(axis=1, keepdims=True)) * (second - second.mean(axis=1, keepdims=True))
    ).mean(axis=1, keepdims=True)
    most = _CLOSEST * np.sqrt(one.between * other.between)
    answer: Numbers = np.clip(moment, -most, most)
    return answer
