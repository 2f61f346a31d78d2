"""Augmentations for recipes: a random change of every example of a batch, drawn from the model's own stream.

Any function of a batch and a generator will do; these are the usual ones for images, [examples, …, height,
width], and for numbers.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, final

import torch
from torch import Tensor

from privet.arguments import positive, whole
from privet.errors import InvalidArgument

__all__ = ["AllOf", "RandomMirror", "RandomNoise", "RandomShift"]


@final
@dataclass(frozen=True)
class RandomShift:
    """Shift each image by up to ``pixels`` in both directions; the border is filled with zeros, as by padding
    and a random crop.
    """

    pixels: int = 4

    def __post_init__(self) -> None:
        whole("pixels", self.pixels, most=1000)

    def __call__(self, batch: Tensor, generator: torch.Generator) -> Tensor:
        count, (height, width) = len(batch), batch.shape[-2:]
        edge = self.pixels
        padded = torch.nn.functional.pad(batch, (edge, edge, edge, edge))
        moves = torch.randint(0, 2 * edge + 1, (2, count), generator=generator)
        down = moves[0, :, None] + torch.arange(height)
        right = moves[1, :, None] + torch.arange(width)
        flat = padded.reshape(count, -1, height + 2 * edge, width + 2 * edge)
        examples, channels = (
            torch.arange(count)[:, None, None, None],
            torch.arange(flat.shape[1])[:, None, None],
        )
        moved = flat[examples, channels, down[:, None, :, None], right[:, None, None, :]]
        return moved.reshape(batch.shape)


@final
@dataclass(frozen=True)
class RandomMirror:
    """Mirror each image left to right with probability ½."""

    def __call__(self, batch: Tensor, generator: torch.Generator) -> Tensor:
        chosen = torch.rand(len(batch), generator=generator) < 0.5
        return torch.where(chosen.view(-1, *[1] * (batch.ndim - 1)), batch.flip(-1), batch)


@final
@dataclass(frozen=True)
class RandomNoise:
    """Add Gaussian noise with this standard deviation to every number."""

    scale: float

    def __post_init__(self) -> None:
        positive("scale", self.scale)

    def __call__(self, batch: Tensor, generator: torch.Generator) -> Tensor:
        return batch + self.scale * torch.randn(batch.shape, generator=generator, dtype=batch.dtype)


@final
@dataclass(frozen=True)
class AllOf:
    """Several augmentations, one after the other."""

    parts: Sequence[Callable[[Any, torch.Generator], Any]]

    def __post_init__(self) -> None:
        object.__setattr__(self, "parts", tuple(self.parts))
        if not self.parts:
            raise InvalidArgument(
                "'parts' must hold at least one augmentation, got none. Give RandomMirror()."
            )

    def __call__(self, batch: Tensor, generator: torch.Generator) -> Tensor:
        for part in self.parts:
            batch = part(batch, generator)
        return batch
