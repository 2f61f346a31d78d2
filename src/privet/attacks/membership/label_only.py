"""Label-only attacks: a member's prediction is harder to change.

A model that answers with labels alone does not hide its confidence: it shows in how far a record can be moved
before its label changes. Scores are continuous where the number of queries allows it.

*Reference*: Choquette-Choo et al. 2021. Deviation, for all of them: no shadow model
calibrates the score; the paper learns a threshold, or a classifier over augmentations, from shadow models.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import numpy as np

from privet.arguments import open_fraction, positive, whole
from privet.attacks.membership.attack import Attack
from privet.attacks.membership.signals import QueryTransform
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
    "mirror",
    "shift_transforms",
]

LABELS = Adversary(
    sees="the predicted class",
    knows="the record and its label",
    wants="whether a record was trained on",
)


class Noise(ABC):
    """A random change of records, with one strength."""

    @abstractmethod
    def apply(self, inputs: Rows, generator: np.random.Generator) -> Rows:
        """Apply one draw to all records, the same for each: the order of records does not matter."""


@final
@dataclass(frozen=True)
class GaussianNoise(Noise):
    """Independent Gaussian noise on every number; ``bounds`` are the limits of the numbers."""

    scale: float
    bounds: Sequence[float] | None = None

    def __post_init__(self) -> None:
        positive("scale", self.scale)
        if self.bounds is not None:
            object.__setattr__(self, "bounds", tuple(self.bounds))

    def apply(self, inputs: Rows, generator: np.random.Generator) -> Rows:
        # In the records' own type where they are float32: half the memory.
        dtype = np.float32 if inputs.dtype == np.float32 else np.float64
        moved: Rows = inputs.astype(dtype) + (self.scale * generator.normal(size=inputs.shape[1:])).astype(
            dtype
        )
        if self.bounds is not None:
            moved = np.clip(moved, self.bounds[0], self.bounds[1])
        return moved


@final
@dataclass(frozen=True)
class BitFlips(Noise):
    """Flips each feature of a record of zeros and ones with this probability."""

    rate: float

    def __post_init__(self) -> None:
        open_fraction("rate", self.rate)

    def apply(self, inputs: Rows, generator: np.random.Generator) -> Rows:
        flips = generator.random(inputs.shape[1:]) < self.rate
        numbers = inputs.astype(np.float64)
        flipped: Rows = np.where(flips, 1.0 - numbers, numbers)
        return flipped


@final
@dataclass(frozen=True)
class NoiseRobustness(Attack[LabelOnly]):
    """The share of noisy copies that are still predicted correctly, over noises of several strengths.

    *Adversary*: sees the predicted class; knows the record and its label; wants its membership. It takes 1 +
    draws × noises queries for each record.

    A record that is predicted correctly itself comes before all others, and the share of correct copies
    orders each group. Ties are left only where all answers are the same; more draws break them.

    *Reference*: Choquette-Choo et al. 2021 (robustness to random noise), with Bernoulli noise for binary
    features.
    """

    noises: Sequence[Noise]
    draws: int = 50
    seed: int = 0

    name = "label-only, noise"
    sees = LabelOnly
    adversary = LABELS

    def __post_init__(self) -> None:
        whole("draws", self.draws)
        whole("seed", self.seed, least=0)
        object.__setattr__(self, "noises", tuple(self.noises))
        if not self.noises:
            raise InvalidArgument(
                "'noises' must hold at least one noise, got none. Give (GaussianNoise(0.1),)."
            )

    def score(self, view: LabelOnly, records: Records) -> Numbers:
        labels, generator = records.known_labels, experiment(self.seed)
        right = np.zeros(len(records))
        for noise in self.noises:
            for _ in range(self.draws):
                right += view.labels(noise.apply(records.inputs, generator)) == labels
        share = right / (self.draws * len(self.noises) + 1)  # below 1
        answer: Numbers = (view.labels(records.inputs) == labels) + share
        return answer


@final
@dataclass(frozen=True)
class AugmentationRobustness(Attack[LabelOnly]):
    """How many augmented copies are predicted correctly; ties are broken by noise.

    *Adversary*: sees the predicted class; knows the record, its label, and how the target's training data was
    augmented; wants its membership. A model that was trained with augmentation leaks more, not less.

    The score is the number of correct answers over the record and its copies; among equals, the one that is
    correct under more noise comes first, where noises are given.

    *Reference*: Choquette-Choo et al. 2021 (data augmentation attack). Deviation: a count, where the paper
    learns weights from a shadow model.
    """

    copies: Sequence[QueryTransform]
    noises: Sequence[Noise] = ()
    draws: int = 20
    seed: int = 0

    name = "label-only, augmentations"
    sees = LabelOnly
    adversary = LABELS

    def __post_init__(self) -> None:
        whole("draws", self.draws)
        whole("seed", self.seed, least=0)
        object.__setattr__(self, "copies", tuple(self.copies))
        object.__setattr__(self, "noises", tuple(self.noises))
        if not self.copies:
            raise InvalidArgument(
                "'copies' must hold at least one augmentation, got none. Give shift_transforms(1)."
            )

    def score(self, view: LabelOnly, records: Records) -> Numbers:
        labels = records.known_labels
        right: Numbers = (view.labels(records.inputs) == labels).astype(np.float64)
        for copy in self.copies:
            right += view.labels(copy(records.inputs)) == labels
        if self.noises:
            # Half of the noise score lies in [0, 1), so it never outweighs a copy.
            right += 0.5 * NoiseRobustness(self.noises, self.draws, self.seed).score(view, records)
        return right


def shift_transforms(pixels: int) -> tuple[QueryTransform, ...]:
    """Shifts of images by up to that many pixels in every direction (last two axes), with the border
    repeated.

    >>> len(shift_transforms(1))
    8
    """
    whole("pixels", pixels, most=1000)
    span = range(-pixels, pixels + 1)
    return tuple(_Shift(down, right) for down in span for right in span if (down, right) != (0, 0))


def mirror(inputs: Rows) -> Rows:
    """Mirror images left to right (last axis)."""
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
