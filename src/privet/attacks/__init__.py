"""Attacks: a view of the target and what the adversary knows in, one score for each record out; higher = member.

>>> import numpy as np
>>> from privet.scores import Challenge, Records
>>> view = Probabilities(lambda rows: np.stack([1 - rows[:, 0], rows[:, 0]], axis=1))
>>> records = Records(np.array([[0.9], [0.6], [0.8], [0.3]]), np.array([1, 1, 1, 1]))
>>> Loss().run(view, Challenge(records, np.array([True, False, True, False]))).values.round(2).tolist()
[-0.11, -0.51, -0.22, -1.2]
"""

from privet.attacks.attack import Attack
from privet.attacks.bavaria import BaVarIA, NormalLaw, OfflineBaVarIA, StudentLaw
from privet.attacks.boundary import BoundaryDistance
from privet.attacks.estimators import BoostedTrees, Logistic
from privet.attacks.label_only import (
    AugmentationRobustness,
    BitFlips,
    GaussianNoise,
    NoiseRobustness,
    mirrored,
    shifts,
)
from privet.attacks.likelihood_ratio import BASE, RMIA, OfflineBASE, OfflineRMIA, Population
from privet.attacks.lira import LiRA, OfflineLiRA, PerRecord, Pooled
from privet.attacks.model_views import Logits, Outputs, Predictions, Probabilities, see
from privet.attacks.quantile import BoostedQuantiles, GaussianRidge, QuantileRegression
from privet.attacks.shokri import Shokri
from privet.attacks.signals import Query, identity, signal, signals
from privet.attacks.thresholds import Confidence, Entropy, Gap, Loss, ModifiedEntropy
from privet.attacks.white_box import GradientAlignment, GradientNorm, LayerClassifier, Shadow
from privet.public_calls import check_public_calls

__all__ = [
    "BASE",
    "RMIA",
    "Attack",
    "AugmentationRobustness",
    "BaVarIA",
    "BitFlips",
    "BoostedQuantiles",
    "BoostedTrees",
    "BoundaryDistance",
    "Confidence",
    "Entropy",
    "Gap",
    "GaussianNoise",
    "GaussianRidge",
    "GradientAlignment",
    "GradientNorm",
    "LayerClassifier",
    "LiRA",
    "Logistic",
    "Logits",
    "Loss",
    "ModifiedEntropy",
    "NoiseRobustness",
    "NormalLaw",
    "OfflineBASE",
    "OfflineBaVarIA",
    "OfflineLiRA",
    "OfflineRMIA",
    "Outputs",
    "PerRecord",
    "Pooled",
    "Population",
    "Predictions",
    "Probabilities",
    "QuantileRegression",
    "Query",
    "Shadow",
    "Shokri",
    "StudentLaw",
    "identity",
    "mirrored",
    "see",
    "shifts",
    "signal",
    "signals",
]


check_public_calls(__name__)
