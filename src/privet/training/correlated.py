"""Noise that is correlated between steps: later noise cancels a part of what earlier noise did to the model.

Training looks at running sums of gradients, so noise whose running sum stays small hurts less. The noise of T steps is
C⁻¹z with independent z: it is post-processing of C G + z, whose cost ``privet.accounting`` knows by the events
``BandedNoise`` and ``TreeNoise``. The scale must stay the same in all steps, so a clip bound that adapts is refused.

The state is a few buffers of the size of the model. *Leaks*: it is noise that was already used. Whoever sees it can take
noise off what was released, so a checkpoint that holds it is as secret as the data.
"""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor

from privet.arguments import positive, whole
from privet.errors import InvalidArgument, Unreadable
from privet.events import BandedNoise
from privet.randomness import NoiseSource
from privet.training.noise import gaussian_, grid

__all__ = ["Banded", "Correlation", "Independent", "NoiseStream", "Tree", "square_root_coefficients"]


class NoiseStream(ABC):
    """The noise of one step after the other, for buffers of one size."""

    def __init__(self, size: int, standard_deviation: float, source: NoiseSource) -> None:
        self.size = whole("size", size)
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
        return self._add_(buffer)

    @abstractmethod
    def _add_(self, buffer: Tensor) -> Tensor: ...

    @abstractmethod
    def buffers(self) -> list[Tensor]:
        """All that later noise depends on, beside ``step``."""

    def state(self) -> dict[str, int | list[Tensor]]:
        """What ``resume`` needs; keep it as secret as the data."""
        return {"step": self.step, "buffers": self.buffers()}

    def resume(self, state: dict[str, int | list[Tensor]]) -> None:
        """Go on where ``state`` was taken."""
        step, found, mine = state.get("step"), state.get("buffers"), self.buffers()
        if (
            not isinstance(step, int)
            or not isinstance(found, list)
            or [item.shape for item in found] != [item.shape for item in mine]
        ):
            raise Unreadable(
                "The state must be that of a stream of the same kind and size. Resume with the plan of the first run."
            )
        self.step = step
        for target, item in zip(mine, found, strict=True):
            target.copy_(item)

    def _drawn(self, out: Tensor) -> Tensor:
        return gaussian_(out.zero_(), self.standard_deviation, self._source)

    def _rounded_sum(self, buffer: Tensor, noise: Tensor) -> Tensor:
        cell = grid(self.standard_deviation)
        return buffer.add_(noise.view_as(buffer)).mul_(1 / cell).round_().mul_(cell)


class Correlation(ABC):
    """How the noise of the steps hangs together."""

    @abstractmethod
    def stream(self, size: int, standard_deviation: float, source: NoiseSource) -> NoiseStream:
        """The noise itself; the deviation is that of the independent z."""


@final
@dataclass(frozen=True)
class Independent(Correlation):
    """Fresh noise in every step: DP-SGD."""

    def stream(self, size: int, standard_deviation: float, source: NoiseSource) -> NoiseStream:
        return _IndependentStream(size, standard_deviation, source)


@final
@dataclass(frozen=True)
class Tree(Correlation):
    """Running sums by a binary tree with noise on every node (DP-FTRL).

    The sum of the first t gradients gets the noise of the nodes that t is made of in binary. ``efficient`` also uses the
    nodes below: a node's sum is estimated from its own noisy value and from its two children's, weighted by their
    variances, which lowers the noise of a node at height h from σ² to σ²/(2 − 2⁻ʰ). Both variants are
    post-processing of the same noisy nodes, and cost the same.

    Reference: Kairouz et al. 2021, Section 3 and Appendix B; Honaker 2015 for the efficient variant, bottom-up.
    """

    efficient: bool = True

    def stream(self, size: int, standard_deviation: float, source: NoiseSource) -> NoiseStream:
        return _TreeStream(size, standard_deviation, source, self.efficient)


@final
@dataclass(frozen=True)
class Banded(Correlation):
    """C⁻¹z, with C lower-triangular Toeplitz; ``coefficients`` is its first column without its zeros.

    Step t's noise is x_t = (z_t − Σ_j c_j x_{t−j})/c_0, so b − 1 earlier ones are kept for b coefficients.

    Reference: Choquette-Choo et al. 2023, Algorithm 8.
    """

    coefficients: tuple[float, ...]

    def __post_init__(self) -> None:
        BandedNoise(1.0, self.coefficients, max(1, len(self.coefficients)))  # which checks them

    def stream(self, size: int, standard_deviation: float, source: NoiseSource) -> NoiseStream:
        return _BandedStream(size, standard_deviation, source, self.coefficients)


def square_root_coefficients(bands: int) -> tuple[float, ...]:
    """The first coefficients of 1/√(1 − x): the square root of the matrix of running sums, cut off after ``bands``.

    Reference: Fichtenberger, Henzinger & Upadhyay 2023; Kalinin & Lampert 2024, Section 3.

    >>> square_root_coefficients(4)
    (1.0, 0.5, 0.375, 0.3125)
    """
    return tuple(math.comb(2 * k, k) / 4**k for k in range(whole("bands", bands, most=10**4)))


@final
class _IndependentStream(NoiseStream):
    def _add_(self, buffer: Tensor) -> Tensor:
        return gaussian_(buffer, self.standard_deviation, self._source)

    def buffers(self) -> list[Tensor]:
        return []


@final
class _BandedStream(NoiseStream):
    def __init__(
        self, size: int, standard_deviation: float, source: NoiseSource, column: tuple[float, ...]
    ) -> None:
        super().__init__(size, standard_deviation, source)
        self._column = column
        # One more than is needed: the next noise is made in the place of the oldest.
        self._past = [torch.zeros(size) for _ in column]

    def buffers(self) -> list[Tensor]:
        return self._past

    def _add_(self, buffer: Tensor) -> Tensor:
        places = len(self._past)
        noise = self._drawn(self._past[self.step % places])
        for back in range(1, places):
            noise.sub_(self._past[(self.step - back) % places], alpha=self._column[back])
        noise.div_(self._column[0])
        return self._rounded_sum(buffer, noise)


@final
class _TreeStream(NoiseStream):
    def __init__(self, size: int, standard_deviation: float, source: NoiseSource, efficient: bool) -> None:
        super().__init__(size, standard_deviation, source)
        self._efficient = efficient
        self._nodes: list[Tensor] = []  # the noise of the last complete node of every height
        self._new, self._own = torch.zeros(size), torch.zeros(size)

    def buffers(self) -> list[Tensor]:
        return self._nodes

    def resume(self, state: dict[str, int | list[Tensor]]) -> None:
        step = state.get("step")
        heights = step.bit_length() if isinstance(step, int) else 0
        self._nodes = [torch.zeros(self.size) for _ in range(heights)]
        super().resume(state)

    def _add_(self, buffer: Tensor) -> Tensor:
        height = (self.step & -self.step).bit_length() - 1  # of the largest node that step t completes
        node = self._drawn(self._new)
        if self._efficient:
            variance = 1.0
            for below in range(height):
                weight = 2 * variance / (1 + 2 * variance)
                node.add_(self._nodes[below]).mul_(1 - weight).add_(self._drawn(self._own), alpha=weight)
                variance = weight
        if height == len(self._nodes):
            self._nodes.append(torch.zeros(self.size))
        change = self._own.copy_(node)
        for below in range(height):  # the running sum swaps these nodes for the new one
            change.sub_(self._nodes[below])
        self._nodes[height].copy_(node)
        return self._rounded_sum(buffer, change)
