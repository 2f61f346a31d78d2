"""Denoising: weight each update by its estimated signal-to-noise ratio.

The updates were released, and the size of the noise is public. So this is post-processing, and costs nothing.

*Deviation*. Nasr, Shokri & Houmansadr 2020 denoise whole updates. Here each parameter tensor has its own
weight, estimated over the steps like that of a Wiener filter.
"""

from collections.abc import Sequence
from typing import Any, final

from torch import Tensor, nn

from privet.arguments import fraction, open_fraction
from privet.errors import InvalidArgument

__all__ = ["Denoising"]


@final
class Denoising:
    """Multiply the noisy gradient of each parameter by w = max(least, 1 − v/m).

    m is the mean square of the gradient, averaged over the steps with ``decay``. v is the variance of the
    noise. So w estimates signal/(signal + noise). A gradient that is all noise is multiplied by ``least``.
    """

    def __init__(self, *, decay: float = 0.9, least: float = 0.05) -> None:
        self.decay = open_fraction("decay", decay)
        self.least = fraction("least", least)
        self._squares: list[float] = []
        self._variance = self._seen = 0.0

    @property
    def weights(self) -> list[float]:
        """The weight of every trainable parameter in the last step."""
        if not self._seen:
            return []
        return [max(self.least, 1 - self._variance / square) if square else 1.0 for square in self._squares]

    def begin(self, model: nn.Module) -> None:
        """Forget earlier steps."""
        self._squares = [0.0] * sum(p.requires_grad for p in model.parameters())
        self._variance = self._seen = 0.0

    def apply(self, gradients: Sequence[Tensor], deviation: float) -> None:
        """Weight the released gradients, in place. ``deviation`` is the standard deviation of their noise."""
        if len(gradients) != len(self._squares):
            raise InvalidArgument(
                f"'gradients' must be one for each of the {len(self._squares)} parameters of the first "
                f"model, got {len(gradients)}. Use one Denoising for one run."
            )
        new = 1 - self.decay
        self._seen = self.decay * self._seen + new
        self._variance = self.decay * self._variance + new * deviation**2
        for number, gradient in enumerate(gradients):
            square = float(gradient.square().mean())
            self._squares[number] = self.decay * self._squares[number] + new * square
        for gradient, weight in zip(gradients, self.weights, strict=True):
            gradient.mul_(weight)

    def state(self) -> dict[str, Any]:
        """What ``resume`` needs."""
        return {"squares": self._squares, "variance": self._variance, "seen": self._seen}

    def resume(self, state: dict[str, Any]) -> None:
        """Continue from ``state``."""
        try:
            squares = [float(value) for value in state["squares"]]
            variance, seen = float(state["variance"]), float(state["seen"])
        except (KeyError, TypeError, ValueError, RuntimeError):
            raise InvalidArgument(
                "'state' must be what 'state' gave for the same model, and is not. Give it unchanged."
            ) from None
        self._squares, self._variance, self._seen = squares, variance, seen
