"""MemGuard: confidences are changed until a classifier of members cannot tell; the label stays."""

from dataclasses import dataclass
from typing import final

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits

from privet.arguments import at_least, whole
from privet.attacks.shadows.torch_recipe import seeded_weights
from privet.defending.defence import AnswerDefence, AnswerMask
from privet.views import Numbers

__all__ = ["MemGuard"]

_LABEL_WEIGHT = 10.0  # c₂ of the paper
_DISTORTION_WEIGHTS = (0.1, 1.0, 10.0, 100.0)  # c₃, raised tenfold as long as noise is found
_RATE = 0.1


@final
@dataclass(frozen=True)
class MemGuard(AnswerDefence):
    """Noise on the confidences that makes the defender's own classifier guess, within a mean distortion.

    The defender trains a classifier of members by sorted confidence vectors. For each answer a change of the
    logits is searched that puts the classifier at one half and keeps the label; it is used with the
    probability at which the expected L1 distortion is at most ``distortion``.

    *Reference*: Jia et al. 2019, algorithm 1 and theorem 1. Deviations: a smaller classifier and fewer
    steps, for all answers at once; the last step is halved until the classifier is at one half.

    *Leaks*: everything that labels leak; the noise keeps them (Choquette-Choo et al. 2021). An attack with
    references that use MemGuard sees its remaining traces.
    """

    distortion: float = 1.0
    steps: int = 60

    def __post_init__(self) -> None:
        at_least("distortion", self.distortion, 0)
        whole("steps", self.steps)

    @property
    def name(self) -> str:
        return f"MemGuard {self.distortion:g}"

    def learn(self, members: Numbers, others: Numbers, seed: int) -> AnswerMask:
        return _Guard(_train_classifier(members, others, seed), self)


@final
@dataclass(frozen=True, eq=False)
class _Guard(AnswerMask):
    classifier: nn.Module
    defence: MemGuard

    def mask(self, log_confidences: Numbers, generator: np.random.Generator) -> Numbers:
        logs = torch.as_tensor(np.maximum(log_confidences, -50.0))
        start = logs.softmax(dim=1)
        best, found = start.clone(), torch.zeros(len(logs), dtype=torch.bool)
        active = torch.ones(len(logs), dtype=torch.bool)
        for weight in _DISTORTION_WEIGHTS:
            places = active.nonzero()[:, 0]
            if len(places) == 0:
                break
            moved, fits = self._search(logs[places], weight)
            best[places[fits]] = moved[fits]
            found[places[fits]] = True
            active = torch.zeros_like(active)
            active[places[fits]] = True  # a larger weight may find less noise that also fits
        with torch.no_grad():
            before, after = (torch.sigmoid(self.classifier(rows)) - 0.5 for rows in (start, best))
        used = (best - start).abs().sum(dim=1)
        chance = torch.where(
            found & (after.abs() < before.abs()),
            torch.clamp(self.defence.distortion / used.clamp_min(1e-12), max=1.0),
            torch.zeros_like(used),
        )
        drawn = torch.from_numpy(generator.random(len(logs))) < chance
        shown = torch.where(drawn[:, None], best, start)
        answer: Numbers = np.log(np.maximum(shown.numpy(), 1e-300))
        answer[~drawn.numpy()] = log_confidences[~drawn.numpy()]
        return answer

    def _search(self, logs: Tensor, weight: float) -> tuple[Tensor, Tensor]:
        """Changed confidences, and for which rows the classifier changed its mind and the label stayed."""
        start, label = logs.softmax(dim=1), logs.argmax(dim=1)
        with torch.no_grad():
            side = self.classifier(start).sign()
        noise = torch.zeros_like(logs, requires_grad=True)
        before = torch.zeros_like(logs)
        best, fits = start.clone(), torch.zeros(len(logs), dtype=torch.bool)
        for _ in range(self.defence.steps):
            with torch.enable_grad():
                moved = logs + noise
                answers = moved.softmax(dim=1)
                odds = self.classifier(answers)
                own = moved.gather(1, label[:, None])[:, 0]
                others = moved.scatter(1, label[:, None], -torch.inf).max(dim=1).values
                cost = odds.abs() + _LABEL_WEIGHT * torch.relu(others - own + 1e-6)
                cost = cost + weight * (answers - start).abs().sum(dim=1)
                (slope,) = torch.autograd.grad(cost.sum(), noise)
            with torch.no_grad():
                new = (odds * side <= 0) & (answers.argmax(dim=1) == label) & ~fits
                best[new], fits = self._halve(logs[new], before[new], noise[new], side[new]), fits | new
                if bool(fits.all()):
                    break
                before = noise.clone()
                noise -= _RATE * slope / slope.norm(dim=1, keepdim=True).clamp_min(1e-12)
        return best.detach(), fits

    def _halve(self, logs: Tensor, low: Tensor, high: Tensor, side: Tensor) -> Tensor:
        """The point between two changes at which the classifier is at one half.

        Without it the classifier would have changed its mind about everybody, which tells as much. The label
        stays between two points that keep it: logits are linear.
        """
        for _ in range(12):
            middle = (low + high) / 2
            crossed = (self.classifier((logs + middle).softmax(dim=1)) * side <= 0)[:, None]
            low, high = torch.where(crossed, low, middle), torch.where(crossed, middle, high)
        return ((low + high) / 2 + logs).softmax(dim=1)


def _train_classifier(members: Numbers, others: Numbers, seed: int) -> nn.Module:
    """The defender's classifier: the ln odds of membership from a sorted confidence vector."""
    rows = torch.as_tensor(np.exp(np.concatenate([members, others])))
    coin = torch.cat([torch.ones(len(members)), torch.zeros(len(others))]).double()
    balance = torch.where(coin > 0, 0.5 / max(len(members), 1), 0.5 / max(len(others), 1))
    with seeded_weights(seed):
        classifier = _SortedClassifier(rows.shape[1]).double()
    optimizer = torch.optim.Adam(classifier.parameters(), lr=1e-2)
    for _ in range(150):
        with torch.enable_grad():
            loss = binary_cross_entropy_with_logits(classifier(rows), coin, weight=balance, reduction="sum")
            optimizer.zero_grad(set_to_none=True)
            loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
    return classifier.eval().requires_grad_(False)


@final
class _SortedClassifier(nn.Module):
    def __init__(self, classes: int) -> None:
        super().__init__()
        self._layers = nn.Sequential(
            nn.Linear(classes, 64), nn.ReLU(), nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 1)
        )

    def forward(self, confidences: Tensor) -> Tensor:
        odds: Tensor = self._layers(confidences.sort(dim=1).values)[:, 0]
        return odds
