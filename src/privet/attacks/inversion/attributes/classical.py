"""The published attribute attacks. Each of them can be far below what the population alone tells: compare
with the imputation.
"""

from dataclasses import dataclass
from typing import final

import numpy as np

from privet.arguments import at_least
from privet.attacks.estimators import impute
from privet.attacks.inversion.attributes.answers import (
    PredictedNumbers,
    ask_confidences,
    ask_errors,
    ask_labels,
    log_error_density,
)
from privet.attacks.inversion.attributes.attack import AttributeAttack, AttributeTargets, describe_adversary
from privet.attacks.inversion.attributes.knowledge import PublicPeople
from privet.views import BlackBox, LabelOnly, Numbers

__all__ = ["ConfidenceInversion", "LabelOnlyInversion", "LossThresholdInversion", "MarginalInversion"]

_FIRST = 1e6  # puts one criterion before all others
_RECORD = "the record without the secret, its label"


@final
@dataclass(frozen=True)
class MarginalInversion(AttributeAttack):
    """All values are tried; each is weighted by its marginal and by how often the model errs in this way.

    *Adversary*: sees predicted labels, or the numbers of a regression model; knows the record without the
    secret, its label, the marginals of the secret, and the model's confusion matrix, or the standard
    deviation of its error.

    *Reference*: Fredrikson et al. 2014, "Privacy in pharmacogenetics", figure 2: the value that maximises
    π(y, f(x_v)) · P[v], where π(y, y′) is P[true label y | predicted y′]. The confusion matrix is estimated
    on public people, with one half added to each count; the error of a regression model is normal, as in the
    paper. The paper also multiplies the marginals of the known columns, which do not depend on v.
    """

    takes_numbers = True
    name = "marginal inversion (Fredrikson)"
    sees = LabelOnly
    adversary = describe_adversary(
        "predicted labels", f"{_RECORD}, the shares of the values, and how often the model errs"
    )

    def score(
        self, view: LabelOnly | PredictedNumbers, targets: AttributeTargets, public: PublicPeople
    ) -> Numbers:
        if isinstance(view, PredictedNumbers):
            errors = ask_errors(view, public.secret, targets.inputs, targets.labels)
            density = log_error_density(errors, public.error_spread(view))
            return density + public.log_marginals
        predicted = ask_labels(view, public.secret, targets.inputs)
        of_public = view.labels(public.inputs)
        classes = 1 + max(int(part.max()) for part in (predicted, of_public, targets.labels, public.targets))
        counts = np.full((classes, classes), 0.5)
        np.add.at(counts, (public.targets, of_public), 1.0)
        log_true = np.log(counts / counts.sum(axis=0, keepdims=True))
        answer: Numbers = log_true[targets.labels[:, None], predicted] + public.log_marginals
        return answer


@final
@dataclass(frozen=True)
class LossThresholdInversion(AttributeAttack):
    """The value with which the target looks like a member: a loss of at most the average training loss.

    *Adversary*: sees confidences; knows the record without the secret, its label, the shares of the values,
    and the average training loss, which is often published.

    *Reference*: Yeom et al. 2018, section 4.3: a membership adversary (adversary 1 of theirs) is asked about
    each value; among values that it calls members, the one with the highest prior. Where it calls none, the
    highest prior.
    """

    training_loss: float

    name = "loss threshold inversion (Yeom)"
    sees = BlackBox
    adversary = describe_adversary(
        "the confidence in every class", f"{_RECORD}, the shares of the values, and the average training loss"
    )

    def __post_init__(self) -> None:
        at_least("training_loss", self.training_loss, 0)

    def score(self, view: BlackBox, targets: AttributeTargets, public: PublicPeople) -> Numbers:
        answers = ask_confidences(view, public.secret, targets.inputs, targets.labels)
        member = -answers.log_confidence <= self.training_loss
        score: Numbers = member * _FIRST + public.log_marginals
        return score


@final
@dataclass(frozen=True)
class ConfidenceInversion(AttributeAttack):
    """The one value with which the model is right; of several the most confident, of none the least
    confident.

    *Adversary*: sees confidences; knows the record without the secret, and its label.

    *Reference*: Mehnaz et al. 2022, "Are your sensitive attributes private?", CSMIA, section 4.2: case 1, the
    model is right with one value only; case 2, with several: the highest confidence; case 3, with none: the
    lowest confidence in its wrong answer.
    """

    name = "confidence inversion (CSMIA)"
    sees = BlackBox
    adversary = describe_adversary("the confidence in every class", _RECORD)

    def score(self, view: BlackBox, targets: AttributeTargets, public: PublicPeople) -> Numbers:
        answers = ask_confidences(view, public.secret, targets.inputs, targets.labels)
        # A right answer counts with its confidence, a wrong one with minus its confidence, below all right
        # ones.
        score: Numbers = np.where(answers.right, np.exp(answers.log_largest), -np.exp(answers.log_largest))
        return score


@final
@dataclass(frozen=True)
class LabelOnlyInversion(AttributeAttack):
    """The one value with which the model is right; for other targets, a classifier that is learnt from such
    cases.

    *Adversary*: sees predicted labels; knows the record without the secret, and its label. No public secrets
    are used.

    *Reference*: Mehnaz et al. 2022, LOMIA, section 4.3: targets for which exactly one value gives the true
    label teach a classifier from the other columns and the label to the value, which then guesses for all
    others. The classifier here is the one of the imputation. Where no target has exactly one such value,
    there is nothing to learn, and all values are equal.
    """

    seed: int = 0

    name = "label-only inversion (LOMIA)"
    sees = LabelOnly
    adversary = describe_adversary("predicted labels", _RECORD)

    def score(self, view: LabelOnly, targets: AttributeTargets, public: PublicPeople) -> Numbers:
        secret = public.secret
        right = ask_labels(view, secret, targets.inputs) == targets.labels[:, None]
        single = right.sum(axis=1) == 1
        if not single.any():
            return np.zeros(right.shape)
        features = [*secret.other_columns(targets.inputs).T, targets.labels.astype(str)]
        taught = np.argmax(right[single], axis=1).astype(np.int64)
        learned = impute([column[single] for column in features], taught, secret.count, seed=self.seed)
        with np.errstate(divide="ignore"):
            guesses = np.log(np.maximum(learned(features), 1e-12))
        score: Numbers = np.where(single[:, None], right * _FIRST, guesses)
        return score
