"""What the population tells about a secret, alone and together with what the model tells."""

from dataclasses import dataclass
from typing import final

import numpy as np

from privet.arguments import at_least, positive
from privet.attacks.inversion.attributes.answers import (
    PredictedNumbers,
    ask_confidences,
    ask_errors,
    ask_gradient_norms,
    log_error_density,
)
from privet.attacks.inversion.attributes.attack import AttributeAttack, AttributeTargets, describe_adversary
from privet.attacks.inversion.attributes.knowledge import PublicPeople
from privet.views import BlackBox, LabelOnly, Numbers, WhiteBox

__all__ = ["Imputation", "ImputedGradientInversion", "ImputedInversion"]

_LEAST = 1e-3  # a confidence of 0, as the leaf of a tree has, must not outweigh everything else
_KNOWS = "the record without the secret, its label, and people whose secret is public"


@final
@dataclass(frozen=True)
class Imputation(AttributeAttack):
    """What the other columns and the label tell, learnt from public people. The model is not asked.

    It is the baseline of every attribute attack: an attack that does not exceed it learnt nothing from the
    model.
    """

    takes_numbers = True
    name = "imputation"
    sees = LabelOnly
    adversary = describe_adversary("nothing of the model", _KNOWS)

    def score(
        self, view: LabelOnly | PredictedNumbers, targets: AttributeTargets, public: PublicPeople
    ) -> Numbers:
        del view
        return public.log_imputations(targets.inputs, targets.labels)


@final
@dataclass(frozen=True)
class ImputedInversion(AttributeAttack):
    """Imputation × confidence: ln P[v | what is known] + ln p(label | record with v).

    By Bayes' rule this is the posterior of v if the imputation did not use the label, and the confidence were
    a true likelihood. The imputation does use the label, because that predicts better where the model is not
    overfitted. An overfitted model is sure of the label only with the value that it was trained on, and that
    is what betrays members.

    For a regression model the likelihood is a normal density of the error. Its standard deviation is
    ``training_error``, where the error on the training data was published, as it often is (Yeom et al. 2018,
    section 4.2), and otherwise the one on the public people.

    *Adversary*: sees confidences, or the numbers of a regression model; knows the record without the secret,
    its label, and public people.
    """

    training_error: float | None = None

    takes_numbers = True
    name = "imputation × confidence"
    sees = BlackBox
    adversary = describe_adversary("the confidence in every class", _KNOWS)

    def __post_init__(self) -> None:
        if self.training_error is not None:
            at_least("training_error", self.training_error, 0)

    def score(
        self, view: BlackBox | PredictedNumbers, targets: AttributeTargets, public: PublicPeople
    ) -> Numbers:
        if isinstance(view, PredictedNumbers):
            return self._error_likelihood(view, targets, public) + public.log_imputations(
                targets.inputs, targets.labels
            )
        answers = ask_confidences(view, public.secret, targets.inputs, targets.labels)
        likelihood = np.log(_LEAST + (1 - _LEAST) * np.exp(answers.log_confidence))
        score: Numbers = likelihood + public.log_imputations(targets.inputs, targets.labels)
        return score

    def _error_likelihood(
        self, view: PredictedNumbers, targets: AttributeTargets, public: PublicPeople
    ) -> Numbers:
        spread = public.error_spread(view)
        if self.training_error is not None:  # an error of 0 would leave no room for rounding
            spread = max(self.training_error, 0.01 * spread)
        errors = ask_errors(view, public.secret, targets.inputs, targets.labels)
        likelihood = log_error_density(errors, spread)
        # A value that fits badly is no more unlikely than the error rate of the model makes it.
        return np.maximum(likelihood, np.log(_LEAST))


@final
@dataclass(frozen=True)
class ImputedGradientInversion(AttributeAttack):
    """Imputation and gradients: with the value that it was trained on, the loss of a member is flat.

    The score is the imputation minus ``weight`` × ln of the gradient's norm.

    *Adversary*: sees the parameters; knows the record without the secret, its label, and public people.
    """

    weight: float = 1.0

    name = "imputation × gradient"
    sees = WhiteBox
    adversary = describe_adversary("the parameters", _KNOWS)

    def __post_init__(self) -> None:
        positive("weight", self.weight)

    def score(self, view: WhiteBox, targets: AttributeTargets, public: PublicPeople) -> Numbers:
        norms = ask_gradient_norms(view, public.secret, targets.inputs, targets.labels)
        flatness = -np.log(np.maximum(norms, 1e-12))
        score: Numbers = self.weight * flatness + public.log_imputations(targets.inputs, targets.labels)
        return score
