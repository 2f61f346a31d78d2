"""Distillation: a student learns what a teacher answers, not what the labels are; SELENA is of this kind."""

from dataclasses import dataclass, replace
from typing import final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.functional import kl_div, log_softmax

from privet.arguments import format_value, positive, whole
from privet.attacks.shadows.splits import Split, model_seed
from privet.attacks.shadows.stacked import Stacked
from privet.attacks.shadows.studies import conduct
from privet.defending.loss_defences import BatchLoss, LossBatch, LossDefence, LossRun
from privet.errors import InvalidArgument
from privet.scores import Bits, Records
from privet.views import Numbers

__all__ = ["SELENA", "Distillation", "NotSeen", "answer_without_seen"]


def _student_loss(targets: Tensor, temperature: float) -> BatchLoss:
    """KL from the teacher's answers, softened by the temperature, to the student's."""

    def loss(module: nn.Module, batch: LossBatch) -> Tensor:
        logs = log_softmax(module(batch.inputs) / temperature, dim=1)
        return temperature**2 * kl_div(logs, targets[batch.places], reduction="batchmean")

    return loss


@final
@dataclass(frozen=True)
class Distillation(LossDefence):
    """A student is trained on a teacher's softened answers to the same records.

    *Reference*: Hinton, Vinyals & Dean 2015, section 2; as a defence Shejwalkar & Houmansadr 2021 (DMP).
    Deviation: DMP asks the teacher about other records, which are rarely at hand; here it is asked about its
    own members. So more is left to find.
    """

    temperature: float = 4.0

    def __post_init__(self) -> None:
        positive("temperature", self.temperature)

    @property
    def name(self) -> str:
        return f"distillation {self.temperature:g}"

    def begin(self, run: LossRun) -> BatchLoss:
        teacher = run.recipe.fit(run.inputs.numpy(), run.labels.numpy(), model_seed(run.seed, 1))
        logs = torch.as_tensor(teacher.log_confidences(run.inputs.numpy())) / self.temperature
        return _student_loss(torch.softmax(logs, dim=1).to(run.inputs.dtype), self.temperature)


@final
@dataclass(frozen=True)
class SELENA(LossDefence):
    """Many sub-models, each without a part of the records; a student learns what the sub-models that did not
    see a record answer to it (Split-AI), so it never learns a member's own label.

    *Reference*: Tang et al. 2022, algorithms 1 and 2, with their 25 sub-models, 10 of which do not see a
    record. Deviation: the student is trained by KL alone.

    *Leaks*: sub-models that did not see a record may have seen a near-duplicate of it.
    """

    sub_models: int = 25
    not_seen_by: int = 10

    def __post_init__(self) -> None:
        whole("sub_models", self.sub_models, least=2)
        whole("not_seen_by", self.not_seen_by)
        if self.not_seen_by >= self.sub_models:
            raise InvalidArgument(
                f"'not_seen_by' must be below the {self.sub_models} sub-models, got "
                f"{format_value(self.not_seen_by)}. Give 10 of 25."
            )

    @property
    def name(self) -> str:
        return "SELENA" if (self.sub_models, self.not_seen_by) == (25, 10) else f"SELENA {self.sub_models}"

    def begin(self, run: LossRun) -> BatchLoss:
        records = Records(run.inputs.numpy(), run.labels.numpy())
        done = conduct(
            replace(run.recipe, gives=None),
            records,
            self.sub_models,
            seed=run.seed % 2**32,
            split=NotSeen(self.not_seen_by),
            engine=Stacked(),
            keep_confidences=True,
            progress=False,
        ).references
        assert done.log_confidences is not None  # they were asked for
        answers = answer_without_seen(np.exp(done.log_confidences), done.members)
        wide = np.zeros((len(answers), run.classes))  # a class that no record has is not in the answers
        wide[:, : answers.shape[1]] = answers
        return _student_loss(torch.as_tensor(wide).to(run.inputs.dtype), 1.0)


@final
@dataclass(frozen=True)
class NotSeen(Split):
    """Every record is left out of exactly so many models.

    >>> NotSeen(2).members(5, 100, seed=0).sum(axis=0).tolist() == [3] * 100
    True
    """

    count: int

    def members(self, models: int, records: int, seed: int) -> Bits:
        whole("models", models, least=self.count + 1)
        generator = np.random.default_rng([seed, 51])
        order: NDArray[np.int64] = generator.permuted(np.tile(np.arange(models), (records, 1)), axis=1)
        seen = np.ones((models, records), dtype=np.bool_)
        seen[order[:, : self.count].T, np.arange(records)] = False
        return seen


def answer_without_seen(confidences: Numbers, seen: Bits) -> Numbers:
    """Split-AI: the mean answer of the models that did not see a record, records × classes.

    ``confidences`` are models × records × classes, ``seen`` models × records.
    """
    if not (~seen).any(axis=0).all():
        raise InvalidArgument(
            "'seen' must leave a model without each record, and some records are in all of them. "
            "Leave each record out somewhere."
        )
    weights = ~seen[:, :, None]
    answer: Numbers = (confidences * weights).sum(axis=0) / weights.sum(axis=0)
    return answer
