"""HAMP: labels of high entropy in training, and confidences of random inputs in answers."""

from dataclasses import dataclass
from typing import final

import numpy as np
import torch
from scipy.optimize import brentq
from torch import Tensor, nn
from torch.nn.functional import kl_div, log_softmax, one_hot

from privet.arguments import at_least, open_fraction
from privet.defending.loss_defences import BatchLoss, LossBatch, LossDefence, LossRun
from privet.views import BlackBox, Numbers, Rows

__all__ = ["HAMP"]


@final
@dataclass(frozen=True)
class HAMP(LossDefence):
    """Soft labels whose entropy is a share of the largest, a reward for entropy, and masked answers.

    An answer has the order of the model's confidences and the values of its confidences for a random input.
    So only the order of classes is told, and the label stays.

    *Reference*: Chen & Pattabiraman 2024, their training and their output modification: minimise
    KL(soft label ‖ answer) − α H(answer). Deviations: random inputs are bits for zeros and ones, and
    otherwise uniform between the least and the largest number of the records; they are drawn once for a
    model, and one of them is picked for each answer.
    """

    entropy_share: float = 0.8
    entropy_weight: float = 0.01

    def __post_init__(self) -> None:
        open_fraction("entropy_share", self.entropy_share)
        at_least("entropy_weight", self.entropy_weight, 0)

    @property
    def name(self) -> str:
        return f"HAMP {self.entropy_share:g}"

    def begin(self, run: LossRun) -> BatchLoss:
        own = confidence_at_entropy(run.classes, self.entropy_share)
        rest = (1 - own) / (run.classes - 1)

        def loss(module: nn.Module, batch: LossBatch) -> Tensor:
            logs = log_softmax(module(batch.inputs), dim=1)
            wanted = rest + (own - rest) * one_hot(batch.labels, run.classes)
            entropy = -(logs.exp() * logs).sum(dim=1).mean()
            return kl_div(logs, wanted, reduction="batchmean") - self.entropy_weight * entropy

        return loss

    def finish(self, run: LossRun, module: nn.Module) -> BlackBox:
        view = run.recipe.view(module)
        generator = np.random.default_rng([run.seed, 41])
        shape = (512, *run.inputs.shape[1:])
        if bool(((run.inputs == 0) | (run.inputs == 1)).all()):
            drawn = generator.integers(0, 2, shape).astype(np.float64)
        else:
            low, high = float(run.inputs.min()), float(run.inputs.max())
            drawn = generator.uniform(low, high, shape)
        rows = torch.as_tensor(drawn).to(run.inputs.dtype).numpy()
        return _ShuffledView(view, np.sort(view.log_confidences(rows), axis=1), run.seed)


def confidence_at_entropy(classes: int, share: float) -> float:
    """The confidence p in one class, with the rest spread evenly, whose entropy is this share of ln classes.

    >>> round(confidence_at_entropy(2, 0.5), 4)
    0.89
    """

    def excess(p: float) -> float:
        rest = (1 - p) / (classes - 1)
        return float(-p * np.log(p) - (classes - 1) * rest * np.log(rest) - share * np.log(classes))

    return float(brentq(excess, 1 / classes, 1 - 1e-12))


@final
class _ShuffledView(BlackBox):
    """Values of random inputs in the order of the model's own confidences."""

    def __init__(self, view: BlackBox, values: Numbers, seed: int) -> None:
        self._view, self._values = view, values
        self._generator = np.random.default_rng([seed, 42])

    def log_confidences(self, inputs: Rows) -> Numbers:
        own = self._view.log_confidences(inputs)
        places = np.argsort(np.argsort(own, axis=1, kind="stable"), axis=1)
        picked = self._values[self._generator.integers(0, len(self._values), len(own))].copy()
        picked[:, -1] += 1e-9  # the label stays where values tie
        return np.take_along_axis(picked, places, axis=1)
