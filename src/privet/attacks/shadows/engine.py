"""What an engine is: it trains some models of a study and gives what each of them says of every record.

Engines differ in time and never in the answer, but for rounding: each model has its own members, order and seed, whoever
trains it. ``Sequential`` is the plain one that the others are held to.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import final

import numpy as np

from privet.attacks.shadows.recipe import Recipe, widened
from privet.errors import InvalidArgument
from privet.scores import Bits
from privet.views import BlackBox, Labels, Numbers, Rows, scaled

__all__ = ["Engine", "Job", "Sequential", "Tick", "Told", "check_models", "told"]

Tick = Callable[[float], None]  # so many models' worth of work is done


@final
@dataclass(frozen=True, eq=False, kw_only=True)
class Job:
    """A study before it is run: one recipe, the records, who is a member of which model, and the seed of each.

    ``shown`` are the records as the models are asked about them, once for each query.
    """

    recipe: Recipe
    inputs: Rows
    labels: Labels
    members: Bits
    seeds: tuple[int, ...]
    shown: tuple[Rows, ...]
    keep_confidences: bool = False

    def __post_init__(self) -> None:
        records = len(self.labels)
        if (
            len(self.inputs) != records
            or self.members.shape != (len(self.seeds), records)
            or any(len(rows) != records for rows in self.shown)
        ):
            raise InvalidArgument(
                "A job must have one label, one row of each query and one bit of each model for every record, and has not. "
                "Let 'study' make it."
            )

    @property
    def classes(self) -> int:
        """How many classes the labels name."""
        return int(self.labels.max()) + 1


@final
@dataclass(frozen=True, eq=False)
class Told:
    """What one model says: φ of queries × records, and its log confidences where they were asked for."""

    model: int
    signals: Numbers
    log_confidences: Numbers | None = None


class Engine(ABC):
    """A way to train many models."""

    @property
    @abstractmethod
    def name(self) -> str:
        """What a report calls it."""

    @abstractmethod
    def refusal(self, job: Job) -> str | None:
        """Why this engine cannot do the job; None where it can."""

    @abstractmethod
    def run(self, job: Job, models: Sequence[int], tick: Tick) -> Iterator[Told]:
        """Train these models; each is handed over as soon as it is done, in any order."""


@final
@dataclass(frozen=True)
class Sequential(Engine):
    """One model after the other, as everybody does."""

    @property
    def name(self) -> str:
        return "sequential"

    def refusal(self, job: Job) -> str | None:
        return None

    def run(self, job: Job, models: Sequence[int], tick: Tick) -> Iterator[Told]:
        check_models(job, models)
        for model in models:
            chosen = np.flatnonzero(job.members[model])
            view = job.recipe.fit(job.inputs[chosen], job.labels[chosen], job.seeds[model])
            yield told(job, model, view)
            tick(1.0)


def check_models(job: Job, models: Sequence[int]) -> None:
    """Refuse numbers of models that the job does not have: a worker process would wait for them."""
    if any(not 0 <= model < len(job.seeds) for model in models):
        raise InvalidArgument(
            f"'models' must be among the {len(job.seeds)} of the job, got others. Number them from 0."
        )


def told(job: Job, model: int, view: BlackBox) -> Told:
    """Ask one model about every record."""
    signals = np.empty((len(job.shown), len(job.labels)))
    kept = None
    for query, rows in enumerate(job.shown):
        log_confidences = widened(view.log_confidences(rows), job.classes)
        signals[query] = scaled(log_confidences, job.labels)
        if query == 0 and job.keep_confidences:
            kept = log_confidences
    return Told(model, signals, kept)
