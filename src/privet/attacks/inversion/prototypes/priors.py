"""What an adversary expects of a picture: any pixels, or a combination of what public pictures of others
show.

A prior has *latents*, the numbers that a search changes. ``pictures`` draws them; ``pull_back`` turns a
gradient in pixels into one in latents.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import final

import numpy as np

from privet.arguments import at_least, whole
from privet.attacks.inversion.prototypes.pictures import read_pictures
from privet.errors import InvalidArgument
from privet.views import Numbers, Rows

__all__ = ["PCAPrior", "PicturePrior", "PixelPrior"]


class PicturePrior(ABC):
    """Latents, the pictures that they stand for, and the gradient of one in the other."""

    rate: float  # the step of a search, in units of its latents

    @abstractmethod
    def start(self, count: int) -> Numbers:
        """The latents that a search starts from."""

    @abstractmethod
    def pictures(self, latents: Numbers) -> Numbers:
        """The pictures of these latents, with values in [0, 1]."""

    @abstractmethod
    def pull_back(self, latents: Numbers, gradients: Numbers) -> Numbers:
        """The gradient in the latents, from the gradient in the pictures, minus that of the prior's
        penalty.
        """

    @abstractmethod
    def keep_inside(self, latents: Numbers) -> Numbers:
        """The nearest latents that are allowed."""


@final
@dataclass(frozen=True, eq=False)
class PixelPrior(PicturePrior):
    """Every pixel by itself, from one starting picture: a grey one, or the mean of public pictures."""

    first: Numbers
    rate: float = 0.02

    @classmethod
    def grey(cls, shape: tuple[int, ...]) -> "PixelPrior":
        """A search from an even grey."""
        return cls(np.full(shape, 0.5))

    @classmethod
    def mean(cls, public: Rows) -> "PixelPrior":
        """A search from the mean of public pictures."""
        return cls(read_pictures("public", public).mean(axis=0))

    def start(self, count: int) -> Numbers:
        return np.repeat(self.first[None], count, axis=0)

    def pictures(self, latents: Numbers) -> Numbers:
        return latents

    def pull_back(self, latents: Numbers, gradients: Numbers) -> Numbers:
        del latents
        return gradients

    def keep_inside(self, latents: Numbers) -> Numbers:
        inside: Numbers = np.clip(latents, 0.0, 1.0)
        return inside


@final
@dataclass(frozen=True, eq=False)
class PCAPrior(PicturePrior):
    """Principal components of public pictures, each in units of its standard deviation.

    ``penalty`` × ‖z‖²/2 draws the latents z to those of an average picture; it is the −ln density of a normal
    prior. Latents stay within four standard deviations.
    """

    mean: Numbers
    components: Numbers = field(repr=False)  # latents × pixels, scaled
    penalty: float = 0.0
    rate: float = 0.1

    @classmethod
    def learn(cls, public: Rows, components: int = 200, *, penalty: float = 0.0) -> "PCAPrior":
        """From public pictures of other people."""
        pictures = read_pictures("public", public)
        whole("components", components)
        at_least("penalty", penalty, 0)
        if len(pictures) < 3:
            raise InvalidArgument(
                f"'public' must hold at least three pictures, got {len(pictures)}. Give pictures of other "
                f"people."
            )
        mean = pictures.mean(axis=0)
        flat = (pictures - mean).reshape(len(pictures), -1)
        _, spreads, directions = np.linalg.svd(flat, full_matrices=False)
        keep = min(components, len(pictures) - 1)
        scaled = directions[:keep] * spreads[:keep, None] / np.sqrt(len(pictures) - 1)
        return cls(mean, scaled, penalty)

    def start(self, count: int) -> Numbers:
        return np.zeros((count, len(self.components)))

    def pictures(self, latents: Numbers) -> Numbers:
        flat = latents @ self.components
        drawn: Numbers = np.clip(self.mean + flat.reshape(-1, *self.mean.shape), 0.0, 1.0)
        return drawn

    def pull_back(self, latents: Numbers, gradients: Numbers) -> Numbers:
        pulled: Numbers = gradients.reshape(len(gradients), -1) @ self.components.T - self.penalty * latents
        return pulled

    def keep_inside(self, latents: Numbers) -> Numbers:
        inside: Numbers = np.clip(latents, -4.0, 4.0)
        return inside
