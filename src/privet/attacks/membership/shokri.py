"""Shadow models with an attack classifier: what membership looks like is learnt from models whose members are known."""

from dataclasses import dataclass, field
from typing import final

import numpy as np

from privet.arguments import whole
from privet.attacks.estimators import Classifier, LogisticClassifier
from privet.attacks.membership.attack import Attack
from privet.attacks.membership.referenced import ONLINE
from privet.attacks.membership.signals import check_labels
from privet.errors import InvalidArgument
from privet.scores import Records, References
from privet.views import BlackBox, Labels, Numbers, confidence_logits

__all__ = ["Shokri"]

_FLOOR = -50.0  # ln confidences below it tell nothing more to a classifier


@final
@dataclass(frozen=True, eq=False)
class Shokri(Attack[BlackBox]):
    """One classifier for each class, on the confidences: that of the true label first, the others from high to low.

    *Adversary*: sees the confidence in every class; knows the record, its label, and shadow models trained the same way
    whose members they chose; wants its membership.

    The classifier is trained on what the shadow models say of the records, with *their* membership; the target's is not
    there. Its score is the ln odds of membership. A class with fewer than ``least`` answers on either side is judged by the
    classifier of all classes together.

    *Reference*: Shokri et al. 2017, section V. Deviations: the classifier is logistic regression, or another, where the
    paper has a network of 64 hidden units; confidences are logarithms, and sorted as in Salem et al. 2019, of
    which the first ``top`` are kept. Shadow models are asked about the very records that are judged, trained on or not;
    the paper's adversary has other records of the same kind.
    """

    references: References
    top: int = 10
    least: int = 50
    classifier: Classifier = field(default_factory=LogisticClassifier)

    name = "shadow classifier"
    sees = BlackBox
    adversary = ONLINE

    def __post_init__(self) -> None:
        whole("top", self.top)
        whole("least", self.least, least=2)

    def score(self, view: BlackBox, records: Records) -> Numbers:
        references = self.references.align(records)
        said = _said(references)
        asked = view.log_confidences(records.inputs)
        labels = check_labels(records, min(asked.shape[1], said.shape[2]))
        coin = references.members
        shown = self._features(asked, labels)
        taught = np.stack([self._features(each, labels) for each in said])
        everyone = self.classifier.learn(taught.reshape(-1, taught.shape[2]), coin.ravel())
        answer = everyone(shown)
        for label in np.unique(labels):
            mine = labels == label
            coins = coin[:, mine].ravel()
            if min(int(coins.sum()), int((~coins).sum())) >= self.least:
                own = self.classifier.learn(taught[:, mine].reshape(-1, taught.shape[2]), coins)
                answer[mine] = own(shown[mine])
        return answer

    def _features(self, log_confidences: Numbers, labels: Labels) -> Numbers:
        others = np.maximum(log_confidences, _FLOOR)
        others[np.arange(len(labels)), labels] = -np.inf
        ordered = -np.sort(-others, axis=1)[:, :-1][:, : self.top]
        truth = np.clip(confidence_logits(log_confidences, labels), _FLOOR, -_FLOOR)
        return np.concatenate([truth[:, None], ordered], axis=1)


def _said(references: References) -> Numbers:
    said = references.log_confidences
    if said is None:
        raise InvalidArgument(
            "'references' must keep the confidences in all classes for this attack, got φ alone. "
            "Study with keep_confidences=True, or take LiRA or RMIA."
        )
    members = references.members
    if members.all() or not members.any():
        raise InvalidArgument(
            "'references' must hold models with and without the records, got one kind only. "
            "Train the shadow models on halves of the records."
        )
    return said
