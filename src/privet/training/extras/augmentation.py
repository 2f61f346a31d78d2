"""Augmentation multiplicity: average the gradients of several variants of an example before the clip.

An example still adds one clipped vector to a sum, so variants cost no privacy. They cost time: one forward
and backward pass each.

Reference: De, Berrada, Hayes, Smith & Balle 2022, Section 3.3.
"""

from collections.abc import Callable
from typing import final

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

from privet.arguments import whole
from privet.errors import InvalidArgument
from privet.training.loop.losses import PerExampleLoss

__all__ = ["Augmentation", "FlattenVariants", "average_over_variants", "crops_and_flips"]

Transform = Callable[[Tensor, torch.Generator], Tensor]


@final
class Augmentation:
    """``copies`` variants of every example.

    ``transform(first input, generator)`` makes them, and must transform each row by itself. The randomness
    comes from ``seed``. It is no privacy noise, and may be known.
    """

    def __init__(self, transform: Transform, *, copies: int, seed: int = 0) -> None:
        self._transform = transform
        self.copies = whole("copies", copies)
        self._generator = torch.Generator().manual_seed(whole("seed", seed, least=0))

    def variants(self, inputs: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        """Each input as [examples, copies, …]: the first one transformed, the others repeated."""
        count = len(inputs[0])
        transformed = self._transform(inputs[0].repeat_interleave(self.copies, 0), self._generator)
        if len(transformed) != count * self.copies:
            raise InvalidArgument(
                f"'transform' must return one row for each row, got {len(transformed)} for "
                f"{count * self.copies}. Transform the rows; 'copies' sets how many there are."
            )
        rest = [x.unsqueeze(1).expand(-1, self.copies, *x.shape[1:]) for x in inputs[1:]]
        return (transformed.view(count, self.copies, *transformed.shape[1:]), *rest)

    def state(self) -> Tensor:
        """The state of the generator."""
        return self._generator.get_state()

    def resume(self, state: Tensor) -> None:
        """Continue from ``state``."""
        self._generator.set_state(state)


@final
class FlattenVariants(nn.Module):
    """Runs a model on inputs [examples, copies, …] as one batch."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model
        self.training = model.training

    def forward(self, *inputs: Tensor) -> Tensor:
        """Outputs of every variant; the variants of an example are adjacent."""
        return self.model(*(x.flatten(0, 1) for x in inputs))  # type: ignore[no-any-return]


def average_over_variants(loss: PerExampleLoss, copies: int) -> PerExampleLoss:
    """Average the loss over an example's variants; its gradient is the mean of their gradients."""

    def mean(outputs: Tensor, targets: Tensor) -> Tensor:
        losses = loss(outputs, targets.repeat_interleave(copies, 0))
        if losses.shape != (len(targets) * copies,):
            return losses  # the engine refuses this shape, with the reason
        return losses.view(-1, copies).mean(1)

    return mean


def crops_and_flips(pixels: int, *, flip: bool = True) -> Transform:
    """Random crops and horizontal flips of images [rows, channels, height, width].

    An image is shifted by up to ``pixels`` with reflected borders, and flipped with probability ½.

    >>> crops_and_flips(2)(torch.zeros(3, 1, 8, 8), torch.Generator()).shape
    torch.Size([3, 1, 8, 8])
    """
    shift = whole("pixels", pixels, least=0)

    def transform(images: Tensor, generator: torch.Generator) -> Tensor:
        rows, channels, height, width = images.shape
        wide = F.pad(images, (shift,) * 4, mode="reflect") if shift else images
        down = torch.randint(0, 2 * shift + 1, (rows, 1), generator=generator) + torch.arange(height)
        right = torch.randint(0, 2 * shift + 1, (rows, 1), generator=generator) + torch.arange(width)
        if flip:
            flipped = torch.rand(rows, 1, generator=generator) < 0.5
            right = torch.where(flipped, right.flip(1), right)
        pixels_of_crop = (down[:, :, None] * wide.shape[3] + right[:, None, :]).view(rows, 1, -1)
        pixels_of_crop = pixels_of_crop.to(images.device)
        crops = wide.flatten(2).gather(2, pixels_of_crop.expand(rows, channels, -1))
        return crops.view(rows, channels, height, width)

    return transform
