"""Gradients of one parameter that come from different uses, and are added."""

from typing import final

import torch
from torch import Tensor

from privet.training.per_example.forms.gradient_form import WRITTEN_AT_A_TIME, GradientForm, squared_row_norms

__all__ = ["SumForm"]


@final
class SumForm(GradientForm):
    """The sum of several forms. For its norms the gradients are written out, a slice of examples at a time.

    If all examples fit into one slice, the clipped sum uses what was written out. Otherwise it is the sum of
    the parts' sums.
    """

    __slots__ = ("_batch", "_parts", "_rows", "_size")

    description = "several uses: norms written out in slices"

    def __init__(self, parts: list[GradientForm], batch: int, size: int) -> None:
        self._parts = parts
        self._batch, self._size = batch, size  # examples, and numbers of the parameter
        self._rows: Tensor | None = None

    def squared_norms(self) -> Tensor:
        step = max(1, WRITTEN_AT_A_TIME // max(1, self._size))
        if step >= self._batch:
            self._rows = self.to_dense()
            return squared_row_norms(self._rows)
        chunks = [slice(start, start + step) for start in range(0, self._batch, step)]
        return torch.cat([squared_row_norms(self.narrow(chunk).to_dense()) for chunk in chunks])

    def add_sum(self, factors: Tensor, out: Tensor) -> None:
        if self._rows is not None:
            out.view(-1).addmv_(self._rows.reshape(self._batch, -1).t(), factors)
            return
        for part in self._parts:
            part.add_sum(factors, out)

    def narrow(self, examples: slice) -> "SumForm":
        parts = [part.narrow(examples) for part in self._parts]
        return SumForm(parts, len(range(self._batch)[examples]), self._size)

    def to_dense(self) -> Tensor:
        return sum((part.to_dense() for part in self._parts[1:]), start=self._parts[0].to_dense())
