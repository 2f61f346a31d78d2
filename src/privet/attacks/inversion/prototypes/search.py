"""A class prototype: the picture of which a model is surest that it shows a given class.

All classes are searched together: each step is one query for all of them.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast, final

import numpy as np

from privet.arguments import at_least, positive, whole
from privet.attacks.inversion.prototypes.pictures import denoise, smoothness_gradient
from privet.attacks.inversion.prototypes.priors import PicturePrior
from privet.errors import InvalidArgument
from privet.views import Adversary, BlackBox, LabelOnly, Labels, Numbers, WhiteBox, narrow_view

__all__ = ["ConfidencePrototype", "GradientPrototype", "PrototypeAttack"]

_WANTS = "what the people of a class look like"
_KNOWS = "the names of the classes, and public pictures of other people where the prior needs them"


class PrototypeAttack(ABC):
    """One adversary who draws a picture for each class."""

    prior: PicturePrior

    @property
    @abstractmethod
    def name(self) -> str:
        """What a report calls it."""

    @property
    @abstractmethod
    def adversary(self) -> Adversary:
        """Who attacks: what they see, know and want."""

    @property
    @abstractmethod
    def sees(self) -> type[LabelOnly]:
        """The type of view that the adversary has."""

    @abstractmethod
    def draw(self, view: Any, classes: Labels) -> Numbers:  # noqa: ANN401
        """A picture for each of these classes."""

    @final
    def run(self, view: LabelOnly, classes: Labels) -> Numbers:
        """A picture for each of these classes, from what the adversary sees."""
        numbers = np.asarray(classes)
        if numbers.ndim != 1 or len(numbers) == 0 or numbers.dtype.kind not in "iu" or numbers.min() < 0:
            raise InvalidArgument(
                "'classes' must be class numbers from 0, got something else. Give the numbers of the "
                "classes to draw."
            )
        narrow = cast(Any, narrow_view(view, self.sees))
        if isinstance(view, BlackBox):
            known = view.log_confidences(self.prior.pictures(self.prior.start(1))).shape[1]
            if numbers.max() >= known:
                raise InvalidArgument(
                    f"'classes' must be below the model's {known} classes, got a larger one. Leave out "
                    f"classes that it does not know."
                )
        pictures = self.draw(narrow, numbers.astype(np.int64))
        if not np.isfinite(pictures).all():
            raise InvalidArgument(
                f"'model' must answer with numbers, got NaN while {self.name} searched. Look for a training "
                f"run that diverged."
            )
        return pictures


@final
@dataclass(frozen=True, eq=False)
class GradientPrototype(PrototypeAttack):
    """Ascent of ln p(class | picture) by its gradient, with a picture that stays smooth.

    *Adversary*: sees the parameters; knows the classes, and public pictures of other people where the prior
    needs them; wants what the people of a class look like.

    *Reference*: Fredrikson, Jha & Ristenpart 2015, algorithm 1 (MI-Face), with denoising between steps; Zhang
    et al. 2020 for a search in the latents of a generative prior. Deviations: the gradient of ln p instead of
    1 − p, which does not vanish while p is near 0; Adam instead of plain steps; total variation as a penalty;
    a fixed number of steps.
    """

    prior: PicturePrior
    steps: int = 100
    smoothness: float = 0.0  # weight of total variation; it blurs what tells people apart
    denoising: float = 0.1  # weight of the denoised picture, for a prior of pixels

    name = "class prototype by gradient"
    sees = WhiteBox
    adversary = Adversary(sees="the parameters", knows=_KNOWS, wants=_WANTS)

    def __post_init__(self) -> None:
        whole("steps", self.steps)
        at_least("smoothness", self.smoothness, 0)
        at_least("denoising", self.denoising, 0)

    def draw(self, view: WhiteBox, classes: Labels) -> Numbers:
        def gradient(latents: Numbers) -> Numbers:
            pictures = self.prior.pictures(latents)
            _, slopes = view.input_gradients(pictures, classes)
            slopes = slopes - self.smoothness * smoothness_gradient(pictures)
            return self.prior.pull_back(latents, slopes)

        latents = _climb(self.prior, len(classes), gradient, self.steps, self.denoising)
        return self.prior.pictures(latents)


@final
@dataclass(frozen=True, eq=False)
class ConfidencePrototype(PrototypeAttack):
    """The same ascent by confidences alone: slopes are estimated from pairs of opposite random steps.

    *Adversary*: sees the confidence in every class; knows and wants the same as that of
    ``GradientPrototype``. It asks 2 × ``directions`` × ``steps`` questions for each class.

    *Reference*: the estimate is that of natural evolution strategies (Wierstra et al. 2014) with antithetic
    pairs and ranks, as An et al. 2022 (MIRROR) and Han et al. 2023 (RLB-MI) search in latents with other
    optimisers.
    """

    prior: PicturePrior
    steps: int = 60
    directions: int = 24
    width: float = 0.3  # of a random step, in units of the latents
    seed: int = 0

    name = "class prototype by confidences"
    sees = BlackBox
    adversary = Adversary(sees="the confidence in every class", knows=_KNOWS, wants=_WANTS)

    def __post_init__(self) -> None:
        whole("steps", self.steps)
        whole("directions", self.directions)
        positive("width", self.width)
        whole("seed", self.seed, least=0)

    def draw(self, view: BlackBox, classes: Labels) -> Numbers:
        generator = np.random.default_rng(self.seed)
        asked = np.repeat(classes, 2 * self.directions)

        def gradient(latents: Numbers) -> Numbers:
            steps = generator.normal(size=(len(latents), self.directions, *latents.shape[1:]))
            moved = latents[:, None] + self.width * np.concatenate([steps, -steps], axis=1)
            rows = self.prior.pictures(self.prior.keep_inside(moved.reshape(-1, *latents.shape[1:])))
            told = view.log_confidences(rows)[np.arange(len(rows)), asked].reshape(len(latents), 2, -1)
            gain = np.maximum(told, -745.0)
            difference = gain[:, 0] - gain[:, 1]
            scale = np.maximum(np.abs(difference).max(axis=1, keepdims=True), 1e-12)
            slopes = np.einsum("cd,cd...->c...", difference / scale, steps) / self.directions
            shown = np.zeros((len(latents), *rows.shape[1:]))
            total: Numbers = slopes + self.prior.pull_back(latents, shown)
            return total

        return self.prior.pictures(_climb(self.prior, len(classes), gradient, self.steps, 0.0))


def _climb(
    prior: PicturePrior,
    count: int,
    gradient: Callable[[Numbers], Numbers],
    steps: int,
    denoising: float,
) -> Numbers:
    """Adam (Kingma & Ba 2015) upwards, with a rate that falls to 0; each class by itself."""
    latents = prior.start(count)
    mean, square = np.zeros_like(latents), np.zeros_like(latents)
    for step in range(1, steps + 1):
        slope = gradient(latents)
        mean, square = 0.9 * mean + 0.1 * slope, 0.99 * square + 0.01 * slope**2
        move = (mean / (1 - 0.9**step)) / (np.sqrt(square / (1 - 0.99**step)) + 1e-12)
        latents = prior.keep_inside(latents + prior.rate * (1 - (step - 1) / steps) * move)
        if latents.ndim >= 3:  # pixels
            latents = denoise(latents, denoising)
    return latents
