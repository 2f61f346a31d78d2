"""Defences: a recipe or a model that leaks less, and how much less, by attacks that know the defence.

A training defence wraps a recipe, so that reference models are trained with it. An answer defence wraps a
model's answers. ``evaluate_defence`` attacks each on its population and on its most exposed records, and
measures its price in accuracy and time. Only ``PrivateTraining`` has a proof.

>>> from privet.defending import LabelSmoothing, HardLabels, PrivateTraining
>>> [defence.name for defence in (LabelSmoothing(0.2), HardLabels(), PrivateTraining(epsilon=8, delta=1e-5))]
['label smoothing 0.2', 'labels only', 'DP-SGD, ε = 8']
"""

from typing import TYPE_CHECKING

from privet.lazy_loading import load_lazily
from privet.public_calls import check_public_calls

if TYPE_CHECKING:
    from privet.defending.adversarial import AdversarialRegularization
    from privet.defending.answer_defences import (
        HardLabels,
        NoisyAnswers,
        RoundedAnswers,
        Temperature,
        TopAnswers,
    )
    from privet.defending.defence import (
        AnswerDefence,
        AnswerMask,
        Defence,
        DefenceProof,
        NoDefence,
        TrainingDefence,
    )
    from privet.defending.defence_results import DefenceResult
    from privet.defending.distilled import SELENA, Distillation
    from privet.defending.evaluation import ModelAnswers, collect_answers, evaluate_defence
    from privet.defending.game import DefenceGame, prepare_game
    from privet.defending.high_entropy import HAMP
    from privet.defending.memguard import MemGuard
    from privet.defending.private_training import PrivateTraining
    from privet.defending.regularized import Dropout, EarlyStop, LabelSmoothing, Mixup, WeightDecay
    from privet.defending.relaxed import RelaxLoss

_MODULES = {
    "MemGuard": "memguard",
    "AdversarialRegularization": "adversarial",
    "Distillation": "distilled",
    "SELENA": "distilled",
    "HAMP": "high_entropy",
    "RelaxLoss": "relaxed",
    "AnswerDefence": "defence",
    "AnswerMask": "defence",
    "Defence": "defence",
    "DefenceGame": "game",
    "DefenceProof": "defence",
    "DefenceResult": "defence_results",
    "Dropout": "regularized",
    "EarlyStop": "regularized",
    "HardLabels": "answer_defences",
    "LabelSmoothing": "regularized",
    "Mixup": "regularized",
    "ModelAnswers": "evaluation",
    "NoDefence": "defence",
    "NoisyAnswers": "answer_defences",
    "PrivateTraining": "private_training",
    "RoundedAnswers": "answer_defences",
    "Temperature": "answer_defences",
    "TopAnswers": "answer_defences",
    "TrainingDefence": "defence",
    "WeightDecay": "regularized",
    "collect_answers": "evaluation",
    "evaluate_defence": "evaluation",
    "prepare_game": "game",
}

__all__ = [
    "HAMP",
    "SELENA",
    "AdversarialRegularization",
    "AnswerDefence",
    "AnswerMask",
    "Defence",
    "DefenceGame",
    "DefenceProof",
    "DefenceResult",
    "Distillation",
    "Dropout",
    "EarlyStop",
    "HardLabels",
    "LabelSmoothing",
    "MemGuard",
    "Mixup",
    "ModelAnswers",
    "NoDefence",
    "NoisyAnswers",
    "PrivateTraining",
    "RelaxLoss",
    "RoundedAnswers",
    "Temperature",
    "TopAnswers",
    "TrainingDefence",
    "WeightDecay",
    "collect_answers",
    "evaluate_defence",
    "prepare_game",
]


__getattr__, __dir__ = load_lazily(__name__, _MODULES)


check_public_calls(__name__)
