"""Inversion: what a model or a gradient gives away of the people that it was computed from.

``attributes`` recovers a secret column of a person.
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
from privet.public_calls import check_public_calls

__all__ = [
    "AttributeAttack",
    "AttributeGame",
    "AttributeRecovery",
    "AttributeTargets",
    "ConfidenceInversion",
    "Imputation",
    "ImputedGradientInversion",
    "ImputedInversion",
    "LabelOnlyInversion",
    "LossThresholdInversion",
    "MarginalInversion",
    "PredictedNumbers",
    "PublicPeople",
    "SecretAttribute",
]


check_public_calls(__name__)
