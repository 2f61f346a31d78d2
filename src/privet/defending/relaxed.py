"""RelaxLoss: the training loss is kept at a level, so that members and others have losses alike."""

from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from privet.arguments import positive
from privet.defending.loss_defences import BatchLoss, LossBatch, LossDefence, LossRun

__all__ = ["RelaxLoss"]


@final
@dataclass(frozen=True)
class RelaxLoss(LossDefence):
    """Gradient descent above the level, ascent below it; in every other epoch the other classes' confidences
    are made equal instead.

    *Reference*: Chen, Yu & Fritz 2022, algorithm 1. Deviation: the flattened target is used for all records
    of a batch whose mean loss is below the level, and has no cap on the confidence.
    """

    level: float = 0.5

    def __post_init__(self) -> None:
        positive("level", self.level)

    @property
    def name(self) -> str:
        return f"RelaxLoss {self.level:g}"

    def begin(self, run: LossRun) -> BatchLoss:
        def loss(module: nn.Module, batch: LossBatch) -> Tensor:
            output = module(batch.inputs)
            plain: Tensor = cross_entropy(output, batch.labels)
            if float(plain.detach()) > self.level:
                return plain
            if batch.epoch % 2 == 0:
                return -plain
            with torch.no_grad():
                own = torch.softmax(output, dim=1).gather(1, batch.labels[:, None])
                flat = ((1 - own) / (run.classes - 1)).expand(-1, run.classes).clone()
                flat.scatter_(1, batch.labels[:, None], own)
            return cross_entropy(output, flat)

        return loss
