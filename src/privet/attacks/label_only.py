"""Attacks that see the predicted class and nothing else: a member's prediction is harder to change.

Confidence cannot be hidden by answering with labels alone: it shows in how far a record can be moved before its label
turns. Scores are continuous where the number of queries allows it.

*Reference*: Choquette-Choo et al. 2021. Deviation, for all of them: the score is a number that no shadow model has
calibrated; the paper learns a threshold, or a classifier over augmentations, from shadow models.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import final

import numpy as np

from privet.arguments import open_fraction, positive, whole
from privet.attacks.attack import Attack
from privet.attacks.signals import Query
from privet.errors import InvalidArgument
from privet.randomness import experiment
from privet.scores import Records
from privet.views import Adversary, LabelOnly, Numbers, Rows

__all__ = [
    "AugmentationRobustness",
    "BitFlips",
    "GaussianNoise",
    "Noise",
    "NoiseRobustness",
    "mirrored",
    "shifts",
]

LABELS = Adversary(
    sees="the predicted class",
    knows="the record and its label",
    wants="whether a record was trained on",
)


class Noise(ABC):
    """A random change of a record, of one strength."""

    @abstractmethod
    def applied(self, inputs: Rows, generator: np.random.Generator) -> Rows:
        """All records under one draw, the same for each: the order of records does not matter."""


@final
@dataclass(frozen=True)
class GaussianNoise(Noise):
    """Independent Gaussian noise on every number; ``bounds`` are what the numbers can be."""

    scale: float
    bounds: tuple[float, float] | None = None

    def __post_init__(self) -> None:
        positive("scale", self.scale)

    def applied(self, inputs: Rows, generator: np.random.Generator) -> Rows:
        # In the records' own type where they are float32: half the memory.
        kind = np.float32 if inputs.dtype == np.float32 else np.float64
        moved: Rows = inputs.astype(kind) + (self.scale * generator.normal(size=inputs.shape[1:])).astype(
            kind
        )
        if self.bounds is not None:
            moved = np.clip(moved, *self.bounds)
        return moved


@final
@dataclass(frozen=True)
class BitFlips(Noise):
    """Each feature of a record of zeros and ones is turned with this probability."""

    rate: float

    def __post_init__(self) -> None:
        open_fraction("rate", self.rate)

    def applied(self, inputs: Rows, generator: np.random.Generator) -> Rows:
        turned = generator.random(inputs.shape[1:]) < self.rate
        numbers = inputs.astype(np.float64)
        flipped: Rows = np.where(turned, 1.0 - numbers, numbers)
        return flipped


@final
@dataclass(frozen=True)
class NoiseRobustness(Attack[LabelOnly]):
    """The share of noisy copies that are still predicted right, over noises of several strengths.

    *Adversary*: sees the predicted class; knows the record and its label; wants its membership. Asks 1 + draws × noises
    times for each record.

    A record that is predicted right itself comes before all that are not, and the share of right copies orders each group. Ties
    are left only where all answers are the same; more draws break them.

    *Reference*: Choquette-Choo et al. 2021 (robustness to random noise), with Bernoulli noise for binary features.
    """

    noises: tuple[Noise, ...]
    draws: int = 50
    seed: int = 0

    name = "label-only, noise"
    sees = LabelOnly
    adversary = LABELS

    def __post_init__(self) -> None:
        whole("draws", self.draws)
        whole("seed", self.seed, least=0)
        if not self.noises:
            raise InvalidArgument(
                "'noises' must hold at least one noise, got none. Give (GaussianNoise(0.1),)."
            )

    def score(self, view: LabelOnly, records: Records) -> Numbers:
        labels, generator = records.known_labels, experiment(self.seed)
        right = np.zeros(len(records))
        for noise in self.noises:
            for _ in range(self.draws):
                right += view.labels(noise.applied(records.inputs, generator)) == labels
        share = right / (self.draws * len(self.noises) + 1)  # below 1
        answer: Numbers = (view.labels(records.inputs) == labels) + share
        return answer


@final
@dataclass(frozen=True)
class AugmentationRobustness(Attack[LabelOnly]):
    """How many augmented copies are predicted right; ties are broken by noise.

    *Adversary*: sees the predicted class; knows the record, its label, and how the target's training data was augmented; wants
    its membership. A model that was trained with augmentation gives more away, not less.

    The score is the number of right answers over the record and its copies; among equals, the one that is right under more
    noise comes first, where a noise is given.

    *Reference*: Choquette-Choo et al. 2021 (data augmentation attack). Deviation: a count, where the paper learns weights from a shadow
    model.
    """

    copies: tuple[Query, ...]
    noises: tuple[Noise, ...] = ()
    draws: int = 20
    seed: int = 0

    name = "label-only, augmentations"
    sees = LabelOnly
    adversary = LABELS

    def __post_init__(self) -> None:
        whole("draws", self.draws)
        whole("seed", self.seed, least=0)
        if not self.copies:
            raise InvalidArgument("'copies' must hold at least one augmentation, got none. Give shifts(1).")

    def score(self, view: LabelOnly, records: Records) -> Numbers:
        labels = records.known_labels
        right: Numbers = (view.labels(records.inputs) == labels).astype(np.float64)
        for copy in self.copies:
            right += view.labels(copy(records.inputs)) == labels
        if self.noises:
            # Half of what noise gives: in [0, 1), it never outweighs a copy.
            right += 0.5 * NoiseRobustness(self.noises, self.draws, self.seed).score(view, records)
        return right


def shifts(pixels: int) -> tuple[Query, ...]:
    """Images moved by up to that many pixels in every direction (last two axes), the border repeated.

    >>> len(shifts(1))
    8
    """
    whole("pixels", pixels, most=1000)
    span = range(-pixels, pixels + 1)
    return tuple(_Shift(down, right) for down in span for right in span if (down, right) != (0, 0))


def mirrored(inputs: Rows) -> Rows:
    """Images with left and right exchanged (last axis)."""
    return inputs[..., ::-1]


@final
@dataclass(frozen=True)
class _Shift:
    down: int
    right: int

    def __call__(self, inputs: Rows) -> Rows:
        height, width = inputs.shape[-2:]
        rows = np.clip(np.arange(height) - self.down, 0, height - 1)
        columns = np.clip(np.arange(width) - self.right, 0, width - 1)
        return inputs[..., rows[:, None], columns[None, :]]
