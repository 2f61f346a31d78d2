"""Rows that a model gathers by value, as those of an expert: the example of each row, found in every lot.

``proofs`` compares rows with the example that a row order gives them to. Where no order fits, the weighted
passes show the example itself: a row that only the loss of example b depends on is r_b times the plain row,
and the weights r_b are different powers of two. A row that several examples share fits none, except by an
exact coincidence: their gradients at that row are multiples of each other, by a factor that fits the weights.
The weights are given to the examples at random in each lot, so no model can aim at this. A row that is zero
in all passes belongs to nobody, and adds nothing.
"""

import math
from typing import final

import torch
from torch import Tensor
from torch.autograd.graph import GradientEdge

from privet.training.double_precision import to_float64
from privet.training.per_example.taps.tape import RowOwners

__all__ = ["OwnerSearch"]

TOLERANCE = 1e-4
"""The largest relative difference of a row from its weight times the plain row, as in ``proofs``."""

TINY = 1e-30
"""Smaller rows count as zero."""


@final
class OwnerSearch:
    """The search for the owners of the rows at one edge, over the weighted passes of a lot."""

    __slots__ = ("_fits", "_height", "_largest", "_number", "_place", "_rows", "_unit", "edge")

    def __init__(self, edge: GradientEdge, leading: tuple[int, ...], plain: Tensor) -> None:
        self.edge = edge
        self._height = math.prod(leading)
        self._rows = self._flatten(plain)
        sizes = self._rows.abs()
        self._largest, place = sizes.max(1) if sizes.numel() else (sizes.sum(1), sizes.sum(1).long())
        self._place = place.unsqueeze(1)
        self._number = torch.zeros(len(self._rows), dtype=torch.int64, device=plain.device)
        self._unit = 1
        self._fits = True

    def _flatten(self, gradient: Tensor) -> Tensor:
        return gradient.reshape(self._height, -1) if self._height else gradient.reshape(0, 1)

    def add_pass(self, gradient: Tensor | None, base: int) -> None:
        """Read one digit of each owner's number from the gradient of a weighted pass."""
        if gradient is None or not self._fits:
            self._fits = False
            return
        rows = self._flatten(gradient)
        is_zero = self._largest <= TINY
        if rows.numel():
            ratio = rows.gather(1, self._place).squeeze(1) / self._rows.gather(1, self._place).squeeze(1)
            exponent = to_float64(ratio).clamp(min=TINY).log2().round()
            exponent.masked_fill_(is_zero.to(exponent.device), 0.0)
            digits = exponent.to(ratio.device, torch.int64) + base // 2
            scale = torch.ldexp(torch.ones_like(exponent), exponent).to(ratio)
            difference = (rows - self._rows * scale.unsqueeze(1)).abs().amax(1)
            fits = difference <= torch.where(is_zero, TINY * 2.0**base, TOLERANCE * scale * self._largest)
            self._fits = bool((fits & (digits >= 0) & (digits < base)).all())
            self._number += digits * self._unit
        self._unit *= base

    def find_owners(self, examples: Tensor) -> RowOwners | None:
        """The owners, where ``examples`` has the example of each number; None if a row has not one owner."""
        is_zero = self._largest <= TINY
        number = self._number.masked_fill(is_zero, 0)
        if not self._fits or bool((number >= len(examples)).any()):
            return None
        return RowOwners.of(examples[number].masked_fill(is_zero, -1), len(examples))
