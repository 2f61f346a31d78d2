"""Shadow models with an attack classifier, which learns membership from models whose members are known."""

from dataclasses import dataclass, field
from typing import final

import numpy as np

from privet.arguments import whole
from privet.attacks.estimators import Classifier, LogisticClassifier
from privet.attacks.membership.attack import Attack
from privet.attacks.membership.reference_attack import ONLINE
from privet.attacks.membership.signals import check_labels
from privet.errors import InvalidArgument
from privet.scores import Records, References
from privet.views import BlackBox, Labels, Numbers, confidence_logits

__all__ = ["Shokri"]

_FLOOR = -50.0  # lower ln confidences have no further information for a classifier


@final
@dataclass(frozen=True, eq=False)
class Shokri(Attack[BlackBox]):
    """One classifier for each class, on the confidences: first that of the true label, then the others in
    descending order.

    *Adversary*: sees the confidence in every class; knows the record, its label, and shadow models trained
    the same way whose members they chose; wants its membership.

    The classifier is trained on the confidences of the shadow models with *their* membership, never that of
    the target. The score is the ln odds of membership. A class with fewer than ``least`` answers on either
    side is judged by the classifier of all classes together.

    *Reference*: Shokri et al. 2017, section V. Deviations: the classifier is logistic regression, or another,
    where the paper has a network of 64 hidden units; confidences are logarithms, and sorted as in Salem et
    al. 2019, of which the first ``top`` are kept. Shadow models are queried with the judged records
    themselves; the paper's adversary has other records of the same kind.
    """

    references: References
    top: int = 10
    least: int = 50
    classifier: Classifier = field(default_factory=LogisticClassifier)

    name = "shadow classifier"
    sees = BlackBox
    is_calibrated = True
    adversary = ONLINE

    def __post_init__(self) -> None:
        whole("top", self.top)
        whole("least", self.least, least=2)

    def score(self, view: BlackBox, records: Records) -> Numbers:
        references = self.references.align(records)
        shadow_confidences = _shadow_confidences(references)
        target = view.log_confidences(records.inputs)
        labels = check_labels(records, min(target.shape[1], shadow_confidences.shape[2]))
        coin = references.members
        features = self._features(target, labels)
        taught = np.stack([self._features(table, labels) for table in shadow_confidences])
        everyone = self.classifier.learn(taught.reshape(-1, taught.shape[2]), coin.ravel())
        answer = everyone(features)
        for label in np.unique(labels):
            of_class = labels == label
            coins = coin[:, of_class].ravel()
            if min(int(coins.sum()), int((~coins).sum())) >= self.least:
                own = self.classifier.learn(taught[:, of_class].reshape(-1, taught.shape[2]), coins)
                answer[of_class] = own(features[of_class])
        return answer

    def _features(self, log_confidences: Numbers, labels: Labels) -> Numbers:
        others = np.maximum(log_confidences, _FLOOR)
        others[np.arange(len(labels)), labels] = -np.inf
        ordered = -np.sort(-others, axis=1)[:, :-1][:, : self.top]
        truth = np.clip(confidence_logits(log_confidences, labels), _FLOOR, -_FLOOR)
        return np.concatenate([truth[:, None], ordered], axis=1)


def _shadow_confidences(references: References) -> Numbers:
    confidences = references.log_confidences
    if confidences is None:
        raise InvalidArgument(
            "'references' must store the confidences in all classes for this attack, got φ alone. "
            "Study with keep_confidences=True, or take LiRA or RMIA."
        )
    members = references.members
    if members.all() or not members.any():
        raise InvalidArgument(
            "'references' must hold models with and without the records, got one kind only. "
            "Train the shadow models on halves of the records."
        )
    return confidences
