"""Augmentation multiplicity: the gradients of several variants of an example are averaged before the clip.

An example still adds one clipped vector to a sum, so variants cost no privacy. They cost time: one forward and backward pass each.

Reference: De, Berrada, Hayes, Smith & Balle 2022, Section 3.3.
"""

from collections.abc import Callable
from typing import final

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

from privet.arguments import whole
from privet.errors import InvalidArgument
from privet.training.loop.losses import Loss

__all__ = ["Augmentation", "Variants", "averaged", "crops_and_flips"]

Change = Callable[[Tensor, torch.Generator], Tensor]


@final
class Augmentation:
    """``copies`` variants of every example, made by ``change(first input, generator)``, each row by itself.

    The randomness is that of an experiment, from ``seed``: it protects nobody, and may be known.
    """

    def __init__(self, change: Change, *, copies: int, seed: int = 0) -> None:
        self._change = change
        self.copies = whole("copies", copies)
        self._generator = torch.Generator().manual_seed(whole("seed", seed, least=0))

    def variants(self, inputs: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        """Each input as [examples, copies, …]; the first one changed, the others repeated."""
        count = len(inputs[0])
        changed = self._change(inputs[0].repeat_interleave(self.copies, 0), self._generator)
        if len(changed) != count * self.copies:
            raise InvalidArgument(
                f"'change' must give one row for each row, got {len(changed)} for {count * self.copies}. "
                f"Change the rows, and let 'copies' make more of them."
            )
        rest = [x.unsqueeze(1).expand(-1, self.copies, *x.shape[1:]) for x in inputs[1:]]
        return (changed.view(count, self.copies, *changed.shape[1:]), *rest)

    def state(self) -> Tensor:
        """Where the generator stands."""
        return self._generator.get_state()

    def resume(self, state: Tensor) -> None:
        """Go on from there."""
        self._generator.set_state(state)


@final
class Variants(nn.Module):
    """A model over inputs [examples, copies, …], by way of one long batch."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model
        self.training = model.training

    def forward(self, *inputs: Tensor) -> Tensor:
        """Outputs for every variant, those of an example together."""
        return self.model(*(x.flatten(0, 1) for x in inputs))  # type: ignore[no-any-return]


def averaged(loss: Loss, copies: int) -> Loss:
    """The mean loss of an example's variants, whose gradient is the mean of their gradients."""

    def mean(outputs: Tensor, targets: Tensor) -> Tensor:
        losses = loss(outputs, targets.repeat_interleave(copies, 0))
        if losses.shape != (len(targets) * copies,):
            return losses  # which the engine refuses, with the reason
        return losses.view(-1, copies).mean(1)

    return mean


def crops_and_flips(pixels: int, *, flip: bool = True) -> Change:
    """Images [rows, channels, height, width], moved by up to ``pixels`` with reflected borders, and flipped half of the time.

    >>> crops_and_flips(2)(torch.zeros(3, 1, 8, 8), torch.Generator()).shape
    torch.Size([3, 1, 8, 8])
    """
    reach = whole("pixels", pixels, least=0)

    def change(images: Tensor, generator: torch.Generator) -> Tensor:
        rows, channels, height, width = images.shape
        wide = F.pad(images, (reach,) * 4, mode="reflect") if reach else images
        down = torch.randint(0, 2 * reach + 1, (rows, 1), generator=generator) + torch.arange(height)
        right = torch.randint(0, 2 * reach + 1, (rows, 1), generator=generator) + torch.arange(width)
        if flip:
            turned = torch.rand(rows, 1, generator=generator) < 0.5
            right = torch.where(turned, right.flip(1), right)
        places = (down[:, :, None] * wide.shape[3] + right[:, None, :]).view(rows, 1, -1)
        found = wide.flatten(2).gather(2, places.expand(rows, channels, -1))
        return found.view(rows, channels, height, width)

    return change
