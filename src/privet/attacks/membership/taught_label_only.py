"""A label-only attack that shadow models teach: how robust is a member's label under noise of each strength?

Noise that is too weak changes no label, and noise that is too strong changes all of them. Which strength
tells members apart depends on the model and the data, so shadow models, whose members are known, decide.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import final

import numpy as np

from privet.arguments import whole
from privet.attacks.estimators import Classifier, LogisticClassifier
from privet.attacks.membership.attack import Attack
from privet.attacks.membership.label_only import Noise
from privet.attacks.membership.white_box import Shadow
from privet.errors import InvalidArgument
from privet.randomness import experiment
from privet.scores import Records
from privet.views import Adversary, LabelOnly, Numbers, narrow_view

__all__ = ["NoiseClassifier", "noise_features"]


@final
@dataclass(frozen=True, eq=False)
class NoiseClassifier(Attack[LabelOnly]):
    """A classifier over the shares of noisy copies that are predicted correctly, one share for each noise.

    *Adversary*: sees the predicted class; knows the record, its label, and shadow models trained the same
    way; wants its membership. It takes 1 + draws × noises queries for each record.

    The classifier learns from the shadows' own coins, never from the target's. Of the shadows, too, only
    labels are seen. The score is the ln odds of membership.

    *Reference*: Choquette-Choo et al. 2021, robustness to random noise, with the strength of the noise tuned
    on a shadow model. Deviation: all strengths are weighed by a classifier (logistic regression on the ln
    odds of the shares), where the paper takes the best one and a threshold.
    """

    shadows: Sequence[Shadow]
    noises: Sequence[Noise]
    draws: int = 100
    seed: int = 0
    classifier: Classifier = field(default_factory=LogisticClassifier)

    name = "label-only, taught"
    sees = LabelOnly
    is_calibrated = True
    adversary = Adversary(
        sees="the predicted class",
        knows="the record and its label, and shadow models trained the same way",
        wants="whether a record was trained on",
    )

    def __post_init__(self) -> None:
        whole("draws", self.draws)
        whole("seed", self.seed, least=0)
        object.__setattr__(self, "noises", tuple(self.noises))
        if not self.noises:
            raise InvalidArgument("'noises' must hold at least one noise, got none. Give (BitFlips(0.02),).")
        if not self.shadows:
            raise InvalidArgument("'shadows' must hold at least one model, got none. Train one or more.")

    def score(self, view: LabelOnly, records: Records) -> Numbers:
        taught = [
            self._features(
                narrow_view(one.view, LabelOnly),  # type: ignore[type-abstract]
                one.challenge.records,
            )
            for one in self.shadows
        ]
        coin = np.concatenate([one.challenge.members for one in self.shadows])
        if coin.all() or not coin.any():
            raise InvalidArgument(
                "'shadows' must hold members and others, got one kind only. Keep some records out of each "
                "shadow."
            )
        return self.classifier.learn(np.concatenate(taught), coin)(self._features(view, records))

    def _features(self, view: LabelOnly, records: Records) -> Numbers:
        return noise_features(view, records, self.noises, self.draws, self.seed)


def noise_features(
    view: LabelOnly, records: Records, noises: Sequence[Noise], draws: int, seed: int
) -> Numbers:
    """Whether a record is predicted correctly, and the ln odds of a right answer under each noise: records ×
    (1 + noises).
    """
    labels, generator = records.known_labels, experiment(seed)
    columns = [(view.labels(records.inputs) == labels).astype(np.float64)]
    for noise in noises:
        right = np.zeros(len(records))
        for _ in range(draws):
            right += view.labels(noise.apply(records.inputs, generator)) == labels
        columns.append(np.log((right + 0.5) / (draws - right + 0.5)))
    return np.stack(columns, axis=1)
