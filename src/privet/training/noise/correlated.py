"""Noise that is correlated between steps: later noise cancels a part of earlier noise.

A model depends on running sums of gradients, so noise with a small running sum does less harm. The noise of T
steps is C⁻¹z with independent z. It is post-processing of C G + z, and ``privet.accounting`` knows its cost
through the events ``events.BandedNoise`` and ``events.TreeNoise``. The noise scale must be the same in all
steps, so an adaptive clip bound is refused.

The state is a few buffers of the size of the model. *Leaks*: the state is noise that was already used. Anyone
who sees it can subtract noise from what was released, so a checkpoint with this state is as secret as the
data.
"""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor

from privet import events
from privet.arguments import positive, whole
from privet.errors import InvalidArgument, Unreadable
from privet.randomness import NoiseSource
from privet.training.noise.gradient_noise import add_gaussian_, grid_spacing

__all__ = [
    "BandedNoise",
    "Correlation",
    "IndependentNoise",
    "NoiseStream",
    "TreeNoise",
    "square_root_coefficients",
]


class NoiseStream(ABC):
    """The noise of consecutive steps, for buffers of one size."""

    def __init__(self, size: int, standard_deviation: float, source: NoiseSource) -> None:
        self.size = whole("size", size, most=10**12)
        self.standard_deviation = float(positive("standard_deviation", standard_deviation))
        self._source = source
        self.step = 0

    def add_(self, buffer: Tensor) -> Tensor:
        """Add the noise of the next step, in place."""
        if buffer.numel() != self.size:
            raise InvalidArgument(
                f"'buffer' must have {self.size} numbers, got {buffer.numel()}. Use one stream for one model."
            )
        self.step += 1
        if not buffer.is_cpu:  # the state is on the processor, and so is the rounding
            return buffer.copy_(self._add_(buffer.cpu()))
        return self._add_(buffer)

    @abstractmethod
    def _add_(self, buffer: Tensor) -> Tensor: ...

    @abstractmethod
    def buffers(self) -> list[Tensor]:
        """The tensors that later noise depends on, apart from ``step``."""

    def state(self) -> dict[str, int | list[Tensor]]:
        """The state for ``resume``. Keep it as secret as the data."""
        return {"step": self.step, "buffers": self.buffers()}

    def resume(self, state: dict[str, int | list[Tensor]]) -> None:
        """Continue from ``state``."""
        step, stored, own = state.get("step"), state.get("buffers"), self.buffers()
        if (
            not isinstance(step, int)
            or not isinstance(stored, list)
            or [item.shape for item in stored] != [item.shape for item in own]
        ):
            raise Unreadable(
                "The state must be that of a stream of the same kind and size. "
                "Resume with the plan of the first run."
            )
        self.step = step
        for target, item in zip(own, stored, strict=True):
            target.copy_(item)

    def _draw_noise(self, out: Tensor) -> Tensor:
        return add_gaussian_(out.zero_(), self.standard_deviation, self._source)

    def _add_rounded_(self, buffer: Tensor, noise: Tensor) -> Tensor:
        cell = grid_spacing(self.standard_deviation)
        return buffer.add_(noise.view_as(buffer)).mul_(1 / cell).round_().mul_(cell)


class Correlation(ABC):
    """How the noise of different steps is correlated."""

    @abstractmethod
    def stream(self, size: int, standard_deviation: float, source: NoiseSource) -> NoiseStream:
        """The noise of a run. ``standard_deviation`` is that of the independent z."""


@final
@dataclass(frozen=True)
class IndependentNoise(Correlation):
    """Fresh noise in every step: DP-SGD."""

    def stream(self, size: int, standard_deviation: float, source: NoiseSource) -> NoiseStream:
        return _IndependentStream(size, standard_deviation, source)


@final
@dataclass(frozen=True)
class TreeNoise(Correlation):
    """Running sums from a binary tree with noise on every node (DP-FTRL, tree aggregation).

    The sum of the first t gradients has the noise of the nodes in the binary decomposition of t. With
    ``efficient``, a node's sum is estimated from its own noisy value and from those of its two children,
    weighted by their variances. This lowers the variance of a node at height h from σ² to σ²/(2 − 2⁻ʰ). Both
    variants are post-processing of the same noisy nodes, so they cost the same.

    Reference: Kairouz et al. 2021, Section 3 and Appendix B; Honaker 2015 for the efficient variant,
    bottom-up.
    """

    efficient: bool = True

    def stream(self, size: int, standard_deviation: float, source: NoiseSource) -> NoiseStream:
        return _TreeStream(size, standard_deviation, source, self.efficient)


@final
@dataclass(frozen=True)
class BandedNoise(Correlation):
    """C⁻¹z, with C lower-triangular Toeplitz; ``coefficients`` is its first column without its zeros.

    The noise of step t is x_t = (z_t − Σ_j c_j x_{t−j})/c_0, so b coefficients need the noise of b − 1
    earlier steps.

    Reference: Choquette-Choo et al. 2023, Algorithm 8.
    """

    coefficients: tuple[float, ...]

    def __post_init__(self) -> None:
        events.BandedNoise(1.0, self.coefficients, max(1, len(self.coefficients)))  # checks the coefficients

    def stream(self, size: int, standard_deviation: float, source: NoiseSource) -> NoiseStream:
        return _BandedStream(size, standard_deviation, source, self.coefficients)


def square_root_coefficients(bands: int) -> tuple[float, ...]:
    """The first ``bands`` coefficients of 1/√(1 − x): the truncated square root of the prefix-sum matrix.

    Reference: Fichtenberger, Henzinger & Upadhyay 2023; Kalinin & Lampert 2024, Section 3.

    >>> square_root_coefficients(4)
    (1.0, 0.5, 0.375, 0.3125)
    """
    return tuple(math.comb(2 * k, k) / 4**k for k in range(whole("bands", bands, most=10**4)))


@final
class _IndependentStream(NoiseStream):
    def _add_(self, buffer: Tensor) -> Tensor:
        return add_gaussian_(buffer, self.standard_deviation, self._source)

    def buffers(self) -> list[Tensor]:
        return []


@final
class _BandedStream(NoiseStream):
    def __init__(
        self, size: int, standard_deviation: float, source: NoiseSource, column: tuple[float, ...]
    ) -> None:
        super().__init__(size, standard_deviation, source)
        self._column = column
        # One buffer more than the recursion reads: the next noise overwrites the oldest.
        self._past = [torch.zeros(size) for _ in column]

    def buffers(self) -> list[Tensor]:
        return self._past

    def _add_(self, buffer: Tensor) -> Tensor:
        count = len(self._past)
        noise = self._draw_noise(self._past[self.step % count])
        for lag in range(1, count):
            noise.sub_(self._past[(self.step - lag) % count], alpha=self._column[lag])
        noise.div_(self._column[0])
        return self._add_rounded_(buffer, noise)


@final
class _TreeStream(NoiseStream):
    def __init__(self, size: int, standard_deviation: float, source: NoiseSource, efficient: bool) -> None:
        super().__init__(size, standard_deviation, source)
        self._efficient = efficient
        self._nodes: list[Tensor] = []  # the noise of the last complete node of every height
        self._node, self._workspace = torch.zeros(size), torch.zeros(size)

    def buffers(self) -> list[Tensor]:
        return self._nodes

    def resume(self, state: dict[str, int | list[Tensor]]) -> None:
        step = state.get("step")
        heights = step.bit_length() if isinstance(step, int) else 0
        self._nodes = [torch.zeros(self.size) for _ in range(heights)]
        super().resume(state)

    def _add_(self, buffer: Tensor) -> Tensor:
        height = (self.step & -self.step).bit_length() - 1  # of the largest node that step t completes
        node = self._draw_noise(self._node)
        if self._efficient:
            variance = 1.0
            for below in range(height):
                weight = 2 * variance / (1 + 2 * variance)
                node.add_(self._nodes[below]).mul_(1 - weight)
                node.add_(self._draw_noise(self._workspace), alpha=weight)
                variance = weight
        if height == len(self._nodes):
            self._nodes.append(torch.zeros(self.size))
        change = self._workspace.copy_(node)
        for below in range(height):  # the running sum replaces these nodes by the new one
            change.sub_(self._nodes[below])
        self._nodes[height].copy_(node)
        return self._add_rounded_(buffer, change)
