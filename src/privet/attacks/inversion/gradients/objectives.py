"""How far the gradient of a guess is from the gradient that was shared; and how rough a picture is."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import cast, final

import torch
from torch import Tensor
from torch.func import vmap

from privet.attacks.inversion.gradients.public_model import Gradients, PublicModel
from privet.errors import InvalidArgument
from privet.shared_gradients import SharedGradient

__all__ = ["CosineDistance", "GradientDistance", "Matching", "SquaredDistance", "total_variation"]

_TINY = 1e-30


class GradientDistance(ABC):
    """A distance between gradients: guesses × … and targets × … give one number for each guess."""

    @abstractmethod
    def measure(self, guessed: Gradients, shared: Gradients) -> Tensor:
        """One number for each guess, smaller = nearer."""


@final
class SquaredDistance(GradientDistance):
    """‖g − g*‖² / ‖g*‖² (Zhu et al. 2019, equation 4, made free of scale)."""

    def measure(self, guessed: Gradients, shared: Gradients) -> Tensor:
        gaps = sum(_sum((guessed[name] - shared[name]).square()) for name in shared)
        sizes = sum(_sum(value.square()) for value in shared.values())
        return cast(Tensor, gaps) / cast(Tensor, sizes).clamp_min(_TINY)


@final
class CosineDistance(GradientDistance):
    """1 − cos(g, g*) (Geiping et al. 2020, equation 4): blind to the size, which clipping hides anyway."""

    def measure(self, guessed: Gradients, shared: Gradients) -> Tensor:
        products = cast(Tensor, sum(_sum(guessed[name] * shared[name]) for name in shared))
        own = cast(Tensor, sum(_sum(value.square()) for value in guessed.values()))
        sizes = cast(Tensor, sum(_sum(value.square()) for value in shared.values()))
        return 1.0 - products / (own * sizes).clamp_min(_TINY).sqrt()


@final
class Matching:
    """The distance of many guesses at once, each to its own message.

    Guess i belongs to message i // ``restarts``. ``chosen`` restricts a call to some of the guesses.
    """

    def __init__(
        self,
        model: PublicModel,
        shared: Sequence[SharedGradient],
        labels: Tensor,
        distance: GradientDistance,
        *,
        restarts: int = 1,
        dtype: torch.dtype | None = None,
    ) -> None:
        self._shared = model.read(shared, dtype)
        self._labels, self._distance, self._restarts = labels, distance, restarts
        self._replay = vmap(model.replay(shared[0].sharing, dtype))
        self.guesses = len(shared) * restarts

    def __call__(self, inputs: Tensor, chosen: Tensor | None = None) -> Tensor:
        """One distance for each guess; inputs are guesses × examples × shape."""
        guesses = torch.arange(self.guesses) if chosen is None else chosen
        messages = guesses // self._restarts
        replayed = cast(Gradients, self._replay(inputs, self._labels[messages]))
        whole = chosen is None and self._restarts == 1
        target = self._shared if whole else {name: value[messages] for name, value in self._shared.items()}
        return self._distance.measure(replayed, target)

    def check_slope(self, inputs: Tensor) -> None:
        """Refuse a model through which no gradient reaches the input: nothing can then be matched."""
        guess = inputs.detach().clone().requires_grad_()
        total = self(guess).sum()
        slope = torch.autograd.grad(total, guess, allow_unused=True)[0] if total.requires_grad else None
        if slope is None or not bool((slope != 0).any()):
            raise InvalidArgument(
                "'model' must be differentiable in its input, got one through which no gradient passes "
                "(rounding, a cast to whole numbers or a detached part). Invert behind that preprocessing: "
                "give the module without it."
            )


def total_variation(pictures: Tensor) -> Tensor:
    """The mean absolute difference of neighbouring pixels: guesses × examples × channels × height × width."""
    down = (pictures[..., 1:, :] - pictures[..., :-1, :]).abs().flatten(1).mean(dim=1)
    across = (pictures[..., :, 1:] - pictures[..., :, :-1]).abs().flatten(1).mean(dim=1)
    return down + across


def _sum(values: Tensor) -> Tensor:
    return values.flatten(1).sum(dim=1)
