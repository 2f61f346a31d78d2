"""Adversarial regularisation: a classifier and an inference network that attacks it, trained in turn."""

from dataclasses import dataclass
from typing import final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy, one_hot

from privet.arguments import open_fraction, positive, whole
from privet.attacks.shadows.torch_recipe import seeded_weights
from privet.defending.loss_defences import BatchLoss, LossBatch, LossDefence, LossRun

__all__ = ["AdversarialRegularization"]

_STREAM = 61


@final
@dataclass(frozen=True)
class AdversarialRegularization(LossDefence):
    """min over classifiers, max over attackers: loss + λ · mean probability of membership of the batch.

    The attacker sees the logits and the label, and tells members from a part of the model's own records that
    is kept apart. Each step trains the attacker ``attacker_steps`` times, on records drawn anew, then the
    classifier once. In the first epoch the classifier learns alone.

    *Reference*: Nasr, Shokri & Houmansadr 2018, equation 6 and algorithm 1; their inference network (figure
    3) with two branches. Deviations: the classifier lowers the attacker's probability, as the authors'
    program does, and not its logarithm, as equation 6 says; the attacker reads logits, as there. The
    logarithm has no lower bound: at the paper's λ = 3 the classifier forgot its task to look like a
    non-member. Smaller layers. The attacker's records are a ``share`` of the members (the paper has a
    separate reference set), who stay members for the evaluation.
    """

    weight: float = 3.0
    share: float = 0.3
    attacker_steps: int = 3

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
        shuffled = torch.from_numpy(_shuffle(len(run.labels), run.seed))
        first = _count_apart(len(run.labels), self.share)
        apart, trained = shuffled[:first], shuffled[first:]
        with seeded_weights(run.seed):
            attacker = _InferenceNetwork(run.classes)
        optimizer = torch.optim.Adam(attacker.parameters(), lr=1e-3)
        generator = np.random.default_rng([run.seed, _STREAM, 1])

        def teach(module: nn.Module, count: int) -> None:
            members, others = (
                places[torch.from_numpy(generator.integers(0, len(places), count))]
                for places in (trained, apart)
            )
            drawn = torch.cat([members, others])
            with torch.no_grad():
                answers = module(run.inputs[drawn])
            coin = torch.cat([torch.ones(count), torch.zeros(count)])
            gain = binary_cross_entropy_with_logits(attacker(answers, run.labels[drawn]), coin)
            optimizer.zero_grad(set_to_none=True)
            gain.backward()  # type: ignore[no-untyped-call]
            optimizer.step()

        def loss(module: nn.Module, batch: LossBatch) -> Tensor:
            for _ in range(self.attacker_steps):
                teach(module, len(batch.labels))
            output = module(batch.inputs)
            plain: Tensor = cross_entropy(output, batch.labels)
            if batch.epoch == 0:
                return plain
            odds = attacker(output, batch.labels)
            return plain + self.weight * torch.sigmoid(odds).mean()

        return loss


@final
class _InferenceNetwork(nn.Module):
    """The ln odds of membership from the logits and a label."""

    def __init__(self, classes: int) -> None:
        super().__init__()
        self._classes = classes
        self._answers = nn.Sequential(nn.Linear(classes, 128), nn.ReLU(), nn.Linear(128, 64), nn.ReLU())
        self._labels = nn.Sequential(nn.Linear(classes, 64), nn.ReLU())
        self._joint = nn.Sequential(nn.Linear(128, 64), nn.ReLU(), nn.Linear(64, 1))

    def forward(self, logits: Tensor, labels: Tensor) -> Tensor:
        tags = one_hot(labels, self._classes).to(logits.dtype)
        both = torch.cat([self._answers(logits), self._labels(tags)], dim=1)
        odds: Tensor = self._joint(both)[:, 0]
        return odds


def _shuffle(records: int, seed: int) -> NDArray[np.intp]:
    return np.random.default_rng([seed, _STREAM]).permutation(records)


def _count_apart(records: int, share: float) -> int:
    return min(records - 1, max(1, round(share * records)))
