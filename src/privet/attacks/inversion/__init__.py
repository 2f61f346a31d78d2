"""Inversion: what a model or a gradient gives away of the people that it was computed from.

``attributes`` recovers a secret column of a person; ``prototypes`` draws what a model learnt of a class;
``gradients`` recovers examples from shared gradients. ``picture_quality`` and ``identification`` say how near
a recovered picture is to the truth. ``registry`` lists the attacks that ``privet.audit`` runs by name.
"""

from privet.attacks.inversion.attributes.answers import PredictedNumbers
from privet.attacks.inversion.attributes.attack import (
    AttributeAttack,
    AttributeGame,
    AttributeRecovery,
    AttributeTargets,
)
from privet.attacks.inversion.attributes.classical import (
    ConfidenceInversion,
    LabelOnlyInversion,
    LossThresholdInversion,
    MarginalInversion,
)
from privet.attacks.inversion.attributes.imputed import Imputation, ImputedGradientInversion, ImputedInversion
from privet.attacks.inversion.attributes.knowledge import PublicPeople
from privet.attacks.inversion.attributes.secret import SecretAttribute
from privet.attacks.inversion.prototypes.game import PrototypeGame, PrototypeRecovery, score_pictures
from privet.attacks.inversion.prototypes.panel import JudgePanel
from privet.attacks.inversion.prototypes.priors import PCAPrior, PicturePrior, PixelPrior
from privet.attacks.inversion.prototypes.search import ConfidencePrototype, GradientPrototype, PrototypeAttack
from privet.public_calls import check_public_calls

__all__ = [
    "AttributeAttack",
    "AttributeGame",
    "AttributeRecovery",
    "AttributeTargets",
    "ConfidenceInversion",
    "ConfidencePrototype",
    "GradientPrototype",
    "Imputation",
    "ImputedGradientInversion",
    "ImputedInversion",
    "JudgePanel",
    "LabelOnlyInversion",
    "LossThresholdInversion",
    "MarginalInversion",
    "PCAPrior",
    "PicturePrior",
    "PixelPrior",
    "PredictedNumbers",
    "PrototypeAttack",
    "PrototypeGame",
    "PrototypeRecovery",
    "PublicPeople",
    "SecretAttribute",
    "score_pictures",
]


check_public_calls(__name__)
