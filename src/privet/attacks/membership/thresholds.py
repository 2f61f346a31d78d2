"""Attacks on the target alone: one number for each record, compared with one threshold for all.

They are the baseline of every comparison: an easy record that was never trained on scores higher than a hard
member.
"""

from dataclasses import dataclass
from typing import final

import numpy as np
from scipy.special import expit

from privet.attacks.membership.attack import Attack
from privet.attacks.membership.signals import check_labels, log_confidence, signal
from privet.scores import Records
from privet.views import Adversary, BlackBox, LabelOnly, Labels, Numbers, confidence_logits

__all__ = ["Confidence", "Entropy", "Gap", "Loss", "ModifiedEntropy"]

_WANTS = "whether a record was trained on"


@final
@dataclass(frozen=True)
class Loss(Attack[BlackBox]):
    """Members have a lower loss.

    *Adversary*: sees the confidence in every class; knows the record and its true label; wants its
    membership.

    *Reference*: Yeom et al. 2018, adversary 2 (threshold). The score is −loss = ln p of the true label; the
    threshold (in the paper the average training loss) is left to the reader of the ROC. Song & Mittal's
    confidence in the true label gives the same order.
    """

    name = "loss"
    sees = BlackBox
    adversary = Adversary(
        sees="the confidence in every class", knows="the record and its label", wants=_WANTS
    )

    def score(self, view: BlackBox, records: Records) -> Numbers:
        return log_confidence(signal(view, records))


@final
@dataclass(frozen=True)
class Confidence(Attack[BlackBox]):
    """Members are predicted with more confidence, whatever their label.

    *Adversary*: sees the confidence in every class; knows the record and not its label; wants its membership.

    *Reference*: Salem et al. 2019, adversary 3, the largest posterior. The score is its ln(p/(1−p)), which
    gives the same order and keeps p near 1 apart. The confidence in the true label is ``Loss``.
    """

    name = "largest confidence"
    sees = BlackBox
    adversary = Adversary(
        sees="the confidence in every class", knows="the record without its label", wants=_WANTS
    )

    def score(self, view: BlackBox, records: Records) -> Numbers:
        log_confidences = view.log_confidences(records.inputs)
        return confidence_logits(log_confidences, _top(log_confidences))


@final
@dataclass(frozen=True)
class Entropy(Attack[BlackBox]):
    """Members' confidences have a lower entropy, whatever their label.

    *Adversary*: sees the confidence in every class; knows the record and not its label; wants its membership.

    *Reference*: Song & Mittal 2021, prediction entropy. The score is Σ p ln p. One threshold
    serves all classes, where Song & Mittal learn one for each class from shadow models.
    """

    name = "entropy"
    sees = BlackBox
    adversary = Adversary(
        sees="the confidence in every class", knows="the record without its label", wants=_WANTS
    )

    def score(self, view: BlackBox, records: Records) -> Numbers:
        log_confidences = view.log_confidences(records.inputs)
        top = _top(log_confidences)
        logs = _clip_logs(log_confidences)
        # Near 1 a confidence is computed from the others: its own logarithm has lost its digits.
        logs[np.arange(len(top)), top] = log_confidence(confidence_logits(log_confidences, top))
        answer: Numbers = (np.exp(logs) * logs).sum(axis=1)
        return answer


@final
@dataclass(frozen=True)
class ModifiedEntropy(Attack[BlackBox]):
    """Entropy that knows the label: confidence in a wrong class counts against membership.

    *Adversary*: sees the confidence in every class; knows the record and its label; wants its membership.

    *Reference*: Song & Mittal 2021, modified prediction entropy: Mentr = −(1−p_y) ln p_y − Σ_{i≠y} p_i
    ln(1−p_i); the score is −Mentr. One threshold serves all classes, where the paper learns one for each
    class from shadow models.
    """

    name = "modified entropy"
    sees = BlackBox
    adversary = Adversary(
        sees="the confidence in every class", knows="the record and its label", wants=_WANTS
    )

    def score(self, view: BlackBox, records: Records) -> Numbers:
        log_confidences = view.log_confidences(records.inputs)
        labels = check_labels(records, log_confidences.shape[1])
        rows, top = np.arange(len(labels)), _top(log_confidences)
        confidences = np.exp(log_confidences)
        # ln(1 − p) of the only class that can be near 1 is computed from the others.
        with np.errstate(divide="ignore"):
            log_rest = np.log1p(-np.minimum(confidences, 1.0))
        log_rest[rows, top] = log_confidence(-confidence_logits(log_confidences, top))
        terms = confidences * log_rest
        phi = confidence_logits(log_confidences, labels)
        terms[rows, labels] = expit(-phi) * log_confidence(phi)
        answer: Numbers = terms.sum(axis=1)
        return answer


@final
@dataclass(frozen=True)
class Gap(Attack[LabelOnly]):
    """A record that is predicted correctly is called a member: the leak by the generalisation gap alone.

    *Adversary*: sees the predicted class; knows the record and its label; wants its membership.

    *Reference*: Yeom et al. 2018, adversary 1 (bounded loss) for the 0–1 loss; the baseline of Choquette-Choo
    et al. 2021. Balanced accuracy is ½ + (train accuracy − test accuracy)/2. The score has two values, and
    its ties are real: the ROC has one corner.
    """

    name = "gap"
    sees = LabelOnly
    adversary = Adversary(sees="the predicted class", knows="the record and its label", wants=_WANTS)

    def score(self, view: LabelOnly, records: Records) -> Numbers:
        right: Numbers = (view.labels(records.inputs) == records.known_labels).astype(np.float64)
        return right


def _top(log_confidences: Numbers) -> Labels:
    answer: Labels = np.argmax(log_confidences, axis=1).astype(np.int64)
    return answer


def _clip_logs(log_confidences: Numbers) -> Numbers:
    """Logarithms without −∞: e^−745 is the smallest float above 0, and 0 ln 0 is 0."""
    answer: Numbers = np.maximum(log_confidences, -745.0)
    return answer
