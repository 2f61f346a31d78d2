"""Several matrices in one batched product: one for each head, expert or position."""

from typing import final

import torch
from torch import Tensor

from privet.training.per_example.forms.gradient_form import GradientForm, OutputGradient
from privet.training.per_example.forms.linear_form import LinearForm

__all__ = ["GroupedMatrixForm"]


@final
class GroupedMatrixForm(GradientForm):
    """Matrices W [groups, in, out] of y = x W: the gradient is xᵀ g in each group.

    x is [examples, groups, tokens, in], and g is [examples, groups, tokens, out]. The norms are those of a
    matrix for each example and group. The sum is one batched product over examples and tokens.
    """

    __slots__ = ("_g", "_x")

    description = "matrices: norms from inputs and output gradients"

    def __init__(self, x: Tensor, g: Tensor) -> None:
        self._x, self._g = x, g

    def squared_norms(self) -> Tensor:
        batch, groups = self._x.shape[:2]
        x, g = self._x.flatten(0, 1), self._g.flatten(0, 1)
        form = LinearForm(x, OutputGradient(g, own=False), torch.Size((g.shape[2], x.shape[2])))
        return form.squared_norms().view(batch, groups).sum(1)

    def add_sum(self, factors: Tensor, out: Tensor) -> None:
        scaled = self._g * factors.view(-1, 1, 1, 1)
        x, g = (t.transpose(0, 1).flatten(1, 2) for t in (self._x, scaled))
        out += torch.bmm(x.transpose(1, 2), g)

    def narrow(self, examples: slice) -> "GroupedMatrixForm":
        return GroupedMatrixForm(self._x[examples], self._g[examples])

    def to_dense(self) -> Tensor:
        return self._x.transpose(2, 3) @ self._g
