"""Attacks: from a view of the target and the adversary's knowledge to one score for each record.

Higher = more likely a member.

``membership`` holds the attacks, ``shadows`` trains reference models, ``preflight`` checks an experiment
before its figures are trusted. Views of models are made by ``model_views`` and ``torch_views``. Other
families of attacks have folders of their own beside ``membership``: ``inversion``, ``reconstruction``,
``linkage``, ``synthetic`` and ``text``. The last three are loaded when somebody first uses them.

>>> import numpy as np
>>> from privet.scores import Challenge, Records
>>> view = Probabilities(lambda rows: np.stack([1 - rows[:, 0], rows[:, 0]], axis=1))
>>> records = Records(np.array([[0.9], [0.6], [0.8], [0.3]]), np.array([1, 1, 1, 1]))
>>> Loss().run(view, Challenge(records, np.array([True, False, True, False]))).values.round(2).tolist()
[-0.11, -0.51, -0.22, -1.2]
"""

from privet.attacks.estimators import BoostedTrees, LogisticClassifier
from privet.attacks.membership.attack import Attack
from privet.attacks.membership.bavaria import BaVarIA, NormalPredictive, OfflineBaVarIA, StudentPredictive
from privet.attacks.membership.boundary import BoundaryDistance
from privet.attacks.membership.ensemble import Ensemble
from privet.attacks.membership.label_only import (
    AugmentationRobustness,
    BitFlips,
    GaussianNoise,
    NoiseRobustness,
    mirror,
    shift_transforms,
)
from privet.attacks.membership.likelihood_ratio import BASE, RMIA, OfflineBASE, OfflineRMIA, Population
from privet.attacks.membership.lira import LiRA, OfflineLiRA
from privet.attacks.membership.quantile import BoostedQuantiles, GaussianRidge, QuantileRegression
from privet.attacks.membership.shokri import Shokri
from privet.attacks.membership.signals import QueryTransform, identity, signal, signals
from privet.attacks.membership.taught_label_only import NoiseClassifier
from privet.attacks.membership.thresholds import Confidence, Entropy, Gap, Loss, ModifiedEntropy
from privet.attacks.membership.variances import Moderated, Overall, PerRecord, Pooled
from privet.attacks.membership.white_box import GradientAlignment, GradientNorm, LayerClassifier, Shadow
from privet.attacks.model_views import Logits, Predictions, Probabilities, see
from privet.attacks.outputs import Outputs
from privet.attacks.quantities import Quantities, quantity_records
from privet.attacks.reconstruction import (
    Averaging,
    ConsistentTables,
    Differencing,
    KnownOthers,
    LeastSquares,
    LinearProgram,
    ModelDifferencing,
)
from privet.lazy_loading import load_lazily
from privet.public_calls import check_public_calls

__all__ = [
    "BASE",
    "RMIA",
    "Attack",
    "AugmentationRobustness",
    "Averaging",
    "BaVarIA",
    "BitFlips",
    "BoostedQuantiles",
    "BoostedTrees",
    "BoundaryDistance",
    "Confidence",
    "ConsistentTables",
    "Differencing",
    "Ensemble",
    "Entropy",
    "Gap",
    "GaussianNoise",
    "GaussianRidge",
    "GradientAlignment",
    "GradientNorm",
    "KnownOthers",
    "LayerClassifier",
    "LeastSquares",
    "LiRA",
    "LinearProgram",
    "LogisticClassifier",
    "Logits",
    "Loss",
    "ModelDifferencing",
    "Moderated",
    "ModifiedEntropy",
    "NoiseClassifier",
    "NoiseRobustness",
    "NormalPredictive",
    "OfflineBASE",
    "OfflineBaVarIA",
    "OfflineLiRA",
    "OfflineRMIA",
    "Outputs",
    "Overall",
    "PerRecord",
    "Pooled",
    "Population",
    "Predictions",
    "Probabilities",
    "QuantileRegression",
    "Quantities",
    "QueryTransform",
    "Shadow",
    "Shokri",
    "StudentPredictive",
    "identity",
    "mirror",
    "quantity_records",
    "see",
    "shift_transforms",
    "signal",
    "signals",
]

_MODULES = {"linkage": "", "synthetic": "", "text": ""}

__getattr__, _ = load_lazily(__name__, _MODULES)


check_public_calls(__name__)
