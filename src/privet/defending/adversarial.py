"""Adversarial regularisation: a classifier and an inference network that attacks it, trained in turn."""

from dataclasses import dataclass
from typing import final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy, logsigmoid, one_hot

from privet.arguments import open_fraction, positive, whole
from privet.attacks.shadows.torch_recipe import seeded_weights
from privet.defending.loss_defences import BatchLoss, LossBatch, LossDefence, LossRun

__all__ = ["AdversarialRegularization"]

_STREAM = 61


@final
@dataclass(frozen=True)
class AdversarialRegularization(LossDefence):
    """min over classifiers, max over attackers: loss + λ · gain of the attacker.

    The attacker sees a confidence vector and the label, and tells members from a part of the model's own
    records that is kept apart. Each step trains the attacker ``attacker_steps`` times, then the classifier
    once. In the first epoch the classifier learns alone.

    *Reference*: Nasr, Shokri & Houmansadr 2018, equation 6 and algorithm 1; their inference network (figure
    3) with two branches. Deviations: smaller layers; the attacker's records are a ``share`` of the members
    (the paper has a separate reference set), who stay members for the evaluation.
    """

    weight: float = 3.0
    share: float = 0.3
    attacker_steps: int = 1

    def __post_init__(self) -> None:
        positive("weight", self.weight)
        open_fraction("share", self.share)
        whole("attacker_steps", self.attacker_steps)

    @property
    def name(self) -> str:
        return f"adversarial regularisation {self.weight:g}"

    def trained_on(self, records: int, seed: int) -> NDArray[np.intp]:
        return np.sort(_shuffle(records, seed)[_count_apart(records, self.share) :])

    def begin(self, run: LossRun) -> BatchLoss:
        apart = torch.from_numpy(
            _shuffle(len(run.labels), run.seed)[: _count_apart(len(run.labels), self.share)].copy()
        )
        with seeded_weights(run.seed):
            attacker = _InferenceNetwork(run.classes)
        optimizer = torch.optim.Adam(attacker.parameters(), lr=1e-3)
        generator = np.random.default_rng([run.seed, _STREAM, 1])

        def teach(module: nn.Module, batch: LossBatch) -> None:
            drawn = apart[torch.from_numpy(generator.integers(0, len(apart), len(batch.labels)))]
            with torch.no_grad():
                answers = module(torch.cat([batch.inputs, run.inputs[drawn]])).softmax(dim=1)
            labels = torch.cat([batch.labels, run.labels[drawn]])
            coin = torch.cat([torch.ones(len(batch.labels)), torch.zeros(len(drawn))])
            gain = binary_cross_entropy_with_logits(attacker(answers, labels), coin)
            optimizer.zero_grad(set_to_none=True)
            gain.backward()  # type: ignore[no-untyped-call]
            optimizer.step()

        def loss(module: nn.Module, batch: LossBatch) -> Tensor:
            for _ in range(self.attacker_steps):
                teach(module, batch)
            output = module(batch.inputs)
            plain: Tensor = cross_entropy(output, batch.labels)
            if batch.epoch == 0:
                return plain
            return plain + self.weight * logsigmoid(attacker(output.softmax(dim=1), batch.labels)).mean()

        return loss


@final
class _InferenceNetwork(nn.Module):
    """The ln odds of membership from a confidence vector and a label."""

    def __init__(self, classes: int) -> None:
        super().__init__()
        self._classes = classes
        self._answers = nn.Sequential(nn.Linear(classes, 128), nn.ReLU(), nn.Linear(128, 64), nn.ReLU())
        self._labels = nn.Sequential(nn.Linear(classes, 64), nn.ReLU())
        self._joint = nn.Sequential(nn.Linear(128, 64), nn.ReLU(), nn.Linear(64, 1))

    def forward(self, confidences: Tensor, labels: Tensor) -> Tensor:
        tags = one_hot(labels, self._classes).to(confidences.dtype)
        both = torch.cat([self._answers(confidences), self._labels(tags)], dim=1)
        odds: Tensor = self._joint(both)[:, 0]
        return odds


def _shuffle(records: int, seed: int) -> NDArray[np.intp]:
    return np.random.default_rng([seed, _STREAM]).permutation(records)


def _count_apart(records: int, share: float) -> int:
    return min(records - 1, max(1, round(share * records)))
