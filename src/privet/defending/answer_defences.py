"""Defences on answers that look at one confidence vector: rounding, top k, temperature, noise, labels only.

They keep the model as it is. So all of them share one set of reference models, and what the labels give away
stays as it was: attacks by labels find as much as before.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import final

import numpy as np

from privet.arguments import positive, whole
from privet.defending.defence import AnswerDefence, AnswerMask
from privet.views import Numbers

__all__ = ["HardLabels", "NoisyAnswers", "RoundedAnswers", "Temperature", "TopAnswers"]

_LEAST = -745.0


@final
@dataclass(frozen=True, eq=False)
class _Function(AnswerMask):
    """A mask that is a function of the confidences, and of fresh random numbers."""

    apply: Callable[[Numbers, np.random.Generator], Numbers]

    def mask(self, log_confidences: Numbers, generator: np.random.Generator) -> Numbers:
        return self.apply(np.asarray(log_confidences, dtype=np.float64), generator)


class _VectorDefence(AnswerDefence):
    """A defence that learns nothing about the model."""

    def learn(self, members: Numbers, others: Numbers, seed: int) -> AnswerMask:
        del members, others, seed
        return _Function(self._change)

    def _change(self, log_confidences: Numbers, generator: np.random.Generator) -> Numbers:
        raise NotImplementedError


@final
@dataclass(frozen=True)
class HardLabels(_VectorDefence):
    """The predicted class, and nothing else.

    *Leaks*: what labels leak (Choquette-Choo et al. 2021).
    """

    name = "labels only"
    hides_confidences = True

    def _change(self, log_confidences: Numbers, generator: np.random.Generator) -> Numbers:
        answer = np.full_like(log_confidences, _LEAST)
        answer[np.arange(len(answer)), log_confidences.argmax(axis=1)] = 0.0
        return answer


@final
@dataclass(frozen=True)
class RoundedAnswers(_VectorDefence):
    """Confidences rounded to some decimal digits. The largest keeps its place: ties go to the model's label.

    *Reference*: Shokri et al. 2017, section VIII (coarse precision).
    """

    digits: int = 1

    def __post_init__(self) -> None:
        whole("digits", self.digits, least=0, most=15)

    @property
    def name(self) -> str:
        return f"rounding to {self.digits} digit{'' if self.digits == 1 else 's'}"

    def _change(self, log_confidences: Numbers, generator: np.random.Generator) -> Numbers:
        rounded: Numbers = np.asarray(np.round(np.exp(log_confidences), self.digits), dtype=np.float64)
        rows, top = np.arange(len(rounded)), log_confidences.argmax(axis=1)
        rounded[rows, top] = np.maximum(rounded[rows, top], 10.0**-self.digits)
        rounded[rows, top] += 1e-9  # among equals the model's label stays the answer
        return _to_logs(rounded)


@final
@dataclass(frozen=True)
class TopAnswers(_VectorDefence):
    """The k largest confidences; the rest is shared out evenly over the other classes.

    *Reference*: Shokri et al. 2017, section VIII (top k classes). Deviation: what is not shown is filled in
    evenly, which is what a reader would do.
    """

    count: int = 1

    def __post_init__(self) -> None:
        whole("count", self.count)

    @property
    def name(self) -> str:
        return f"top {self.count}"

    def _change(self, log_confidences: Numbers, generator: np.random.Generator) -> Numbers:
        confidences = np.exp(log_confidences)
        hidden = confidences.shape[1] - self.count
        if hidden <= 0:
            return log_confidences
        order = np.argsort(-confidences, axis=1, kind="stable")
        rows = np.arange(len(order))[:, None]
        shown = np.take_along_axis(confidences, order[:, : self.count], axis=1)
        even = np.maximum(1.0 - shown.sum(axis=1, keepdims=True), 0.0) / hidden
        # A class that is not shown has at most the least confidence that is shown.
        confidences[rows, order[:, self.count :]] = np.minimum(even, shown[:, -1:] * (1 - 1e-9))
        return _to_logs(confidences)


@final
@dataclass(frozen=True)
class Temperature(_VectorDefence):
    """Logits divided by a temperature above 1: softer confidences in the same order.

    *Reference*: Shokri et al. 2017, section VIII (entropy of the prediction vector).
    """

    temperature: float = 5.0

    def __post_init__(self) -> None:
        positive("temperature", self.temperature)

    @property
    def name(self) -> str:
        return f"temperature {self.temperature:g}"

    def _change(self, log_confidences: Numbers, generator: np.random.Generator) -> Numbers:
        soft = np.maximum(log_confidences, _LEAST) / self.temperature
        answer: Numbers = soft - np.logaddexp.reduce(soft, axis=1, keepdims=True)
        return answer


@final
@dataclass(frozen=True)
class NoisyAnswers(_VectorDefence):
    """Gaussian noise on the logits, drawn anew for every answer.

    *Leaks*: whoever asks again gets new noise, and averages it away; the evaluation does so.
    """

    scale: float = 1.0

    is_random = True

    def __post_init__(self) -> None:
        positive("scale", self.scale)

    @property
    def name(self) -> str:
        return f"noise {self.scale:g} on answers"

    def _change(self, log_confidences: Numbers, generator: np.random.Generator) -> Numbers:
        moved = log_confidences + self.scale * generator.normal(size=log_confidences.shape)
        answer: Numbers = moved - np.logaddexp.reduce(moved, axis=1, keepdims=True)
        return _clip(answer)


def _clip(logs: Numbers) -> Numbers:
    return np.asarray(np.maximum(logs, _LEAST), dtype=np.float64)


def _to_logs(confidences: Numbers) -> Numbers:
    total = confidences.sum(axis=1, keepdims=True)
    with np.errstate(divide="ignore"):
        return _clip(np.log(confidences / total))
