"""Gradient inversion: what a shared gradient gives away of the examples behind it.

``PublicModel`` is the model that every participant got, ``SharedGradient`` (``privet.shared_gradients``) what
one of them sent. An attack turns the second into examples: exactly through a first linear layer
(``FirstLayer``) or a malicious one (``Imprint``), by optimisation (``DeepLeakage``, ``InvertingGradients``,
``TabularInversion``), token by token (``SpanCheck``), or under the noise of DP-SGD (``RankOne``,
``ExpectedSignal``, ``CandidateTest``). ``run`` lets a ``RecoveryGame`` judge.

>>> import numpy as np
>>> from torch import nn
>>> layers = nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 2))
>>> model = PublicModel(layers, shape=(3,))
>>> message = model.share(np.array([[0.25, 0.5, 0.75]]), np.array([1]))
>>> FirstLayer().recover(model, [message]).rows.round(3).tolist()
[[0.25, 0.5, 0.75]]

Names are loaded when they are first used, because all of them need torch.
"""

from typing import TYPE_CHECKING

from privet.lazy_loading import load_lazily
from privet.public_calls import check_public_calls

if TYPE_CHECKING:
    from privet.attacks.inversion.gradients.attack import GradientInversion, Reconstructions, align_batches
    from privet.attacks.inversion.gradients.imprint import Imprint, ImprintModel
    from privet.attacks.inversion.gradients.labels import recover_labels
    from privet.attacks.inversion.gradients.linear_layer import FirstLayer
    from privet.attacks.inversion.gradients.matching_attacks import DeepLeakage, InvertingGradients
    from privet.attacks.inversion.gradients.noisy_steps import CandidateTest, ExpectedSignal, RankOne
    from privet.attacks.inversion.gradients.public_model import PublicModel
    from privet.attacks.inversion.gradients.tabular import MixedColumns, TabularInversion
    from privet.attacks.inversion.gradients.tokens import SpanCheck

_MODULES = {
    "CandidateTest": "noisy_steps",
    "DeepLeakage": "matching_attacks",
    "ExpectedSignal": "noisy_steps",
    "FirstLayer": "linear_layer",
    "GradientInversion": "attack",
    "Imprint": "imprint",
    "ImprintModel": "imprint",
    "InvertingGradients": "matching_attacks",
    "MixedColumns": "tabular",
    "PublicModel": "public_model",
    "RankOne": "noisy_steps",
    "Reconstructions": "attack",
    "SpanCheck": "tokens",
    "TabularInversion": "tabular",
    "align_batches": "attack",
    "recover_labels": "labels",
}

__all__ = [
    "CandidateTest",
    "DeepLeakage",
    "ExpectedSignal",
    "FirstLayer",
    "GradientInversion",
    "Imprint",
    "ImprintModel",
    "InvertingGradients",
    "MixedColumns",
    "PublicModel",
    "RankOne",
    "Reconstructions",
    "SpanCheck",
    "TabularInversion",
    "align_batches",
    "recover_labels",
]

__getattr__, __dir__ = load_lazily(__name__, _MODULES, needs=dict.fromkeys(_MODULES, "torch"))


check_public_calls(__name__)
