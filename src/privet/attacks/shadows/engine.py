"""What an engine is: it trains some models of a study, and gives the signals of each for every record.

Engines differ in time and, apart from rounding, never in the result: each model has its own members, order
and seed, whichever engine trains it. ``Sequential`` is the plain one that the others are compared with in
tests.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import final

import numpy as np

from privet.attacks.shadows.recipe import Recipe, widen
from privet.errors import InvalidArgument
from privet.scores import TEMPERATURES, Bits
from privet.views import BlackBox, Labels, Numbers, Rows, confidence_logits

__all__ = ["Job", "ModelSignals", "Sequential", "ShadowEngine", "Tick", "check_models", "query_model"]

Tick = Callable[[float], None]  # reports progress, in models


@final
@dataclass(frozen=True, eq=False, kw_only=True)
class Job:
    """A study before it is run: one recipe, the records, the members of each model, and the seed of each
    model.

    ``query_inputs`` are the inputs that the models are asked about, one array for each query.
    """

    recipe: Recipe
    inputs: Rows
    labels: Labels
    members: Bits
    seeds: tuple[int, ...]
    query_inputs: tuple[Rows, ...]
    keep_confidences: bool = False

    def __post_init__(self) -> None:
        records = len(self.labels)
        if (
            len(self.inputs) != records
            or self.members.shape != (len(self.seeds), records)
            or any(len(rows) != records for rows in self.query_inputs)
        ):
            raise InvalidArgument(
                "A job must have one label, one row of each query and one bit of each model for "
                "every record, and has not. Let 'study' make it."
            )

    @property
    def classes(self) -> int:
        """How many classes there are in the labels."""
        return int(self.labels.max()) + 1


@final
@dataclass(frozen=True, eq=False)
class ModelSignals:
    """The signals of one model: φ of queries × records, the same at each of ``TEMPERATURES``, and log
    confidences where the job asks for them.
    """

    model: int
    signals: Numbers
    softened: Numbers  # temperatures × queries × records
    log_confidences: Numbers | None = None

    def to_arrays(self) -> dict[str, Numbers]:
        """The arrays by their names, as a file holds them."""
        arrays = {"signals": self.signals, "softened": self.softened}
        return arrays if self.log_confidences is None else arrays | {"log_confidences": self.log_confidences}

    @classmethod
    def from_arrays(cls, model: int, arrays: Mapping[str, Numbers]) -> "ModelSignals":
        """From the arrays of a file."""
        return cls(model, arrays["signals"], arrays["softened"], arrays.get("log_confidences"))


class ShadowEngine(ABC):
    """A way to train many models."""

    @property
    @abstractmethod
    def name(self) -> str:
        """What a report calls it."""

    @abstractmethod
    def refusal(self, job: Job) -> str | None:
        """Why this engine cannot do the job; None where it can."""

    @abstractmethod
    def run(self, job: Job, models: Sequence[int], tick: Tick) -> Iterator[ModelSignals]:
        """Train these models; yields each as soon as it is done, in any order."""


@final
@dataclass(frozen=True)
class Sequential(ShadowEngine):
    """One model after the other."""

    @property
    def name(self) -> str:
        return "sequential"

    def refusal(self, job: Job) -> str | None:
        return None

    def run(self, job: Job, models: Sequence[int], tick: Tick) -> Iterator[ModelSignals]:
        check_models(job, models)
        for model in models:
            members = np.flatnonzero(job.members[model])
            view = job.recipe.fit(job.inputs[members], job.labels[members], job.seeds[model])
            yield query_model(job, model, view)
            tick(1.0)


def check_models(job: Job, models: Sequence[int]) -> None:
    """Refuse numbers of models that the job does not have: a worker process would wait for them."""
    if any(not 0 <= model < len(job.seeds) for model in models):
        raise InvalidArgument(
            f"'models' must be among the {len(job.seeds)} of the job, got others. Number them from 0."
        )


def query_model(job: Job, model: int, view: BlackBox) -> ModelSignals:
    """Ask one model about every record."""
    signals = np.empty((len(job.query_inputs), len(job.labels)))
    softened = np.empty((len(TEMPERATURES), *signals.shape))
    saved = None
    for query, rows in enumerate(job.query_inputs):
        log_confidences = widen(view.log_confidences(rows), job.classes)
        signals[query] = confidence_logits(log_confidences, job.labels)
        for place, temperature in enumerate(TEMPERATURES):
            softened[place, query] = confidence_logits(log_confidences, job.labels, temperature)
        if query == 0 and job.keep_confidences:
            saved = log_confidences
    return ModelSignals(model, signals, softened, saved)
