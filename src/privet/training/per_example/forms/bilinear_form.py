"""The weight of a bilinear layer: gradients that are sums of products of three vectors."""

from typing import final

import torch
from torch import Tensor

from privet.training.double_precision import zeros_float64
from privet.training.per_example.forms.gradient_form import GradientForm, OutputGradient, squared_row_norms
from privet.training.per_example.forms.linear_form import CHUNK
from privet.training.per_example.rounding import sum_gram

__all__ = ["BilinearForm"]


@final
class BilinearForm(GradientForm):
    """The weight of y_k = x₁ᵀ W_k x₂: the gradient is Σ_t g_t ⊗ x₁_t ⊗ x₂_t.

    With one token the squared norm is ‖g‖²‖x₁‖²‖x₂‖². With several it is Σ_st
    (g_s·g_t)(x₁_s·x₁_t)(x₂_s·x₂_t). The sum over the examples is one matrix product per output, x₁ᵀ diag(c
    g_k) x₂, for a few outputs at a time.
    """

    __slots__ = ("gradient", "x1", "x2")

    description = "bilinear: norms from both inputs and output gradients"

    def __init__(self, x1: Tensor, x2: Tensor, gradient: OutputGradient) -> None:
        self.x1, self.x2 = x1, x2  # [examples, tokens, in]
        self.gradient = gradient

    def squared_norms(self) -> Tensor:
        batch, tokens, _ = self.x1.shape
        if tokens == 1:
            return (
                squared_row_norms(self.x1)
                .mul_(squared_row_norms(self.x2))
                .mul_(self.gradient.squared_norms())
            )
        norms = zeros_float64(batch, self.x1.device)
        inner = self.x1.shape[2], self.x2.shape[2], self.gradient.rows.shape[2]
        step = max(1, CHUNK // (tokens * tokens))
        for start in range(0, batch, step):
            chunk = slice(start, start + step)
            products = torch.bmm(self.x1[chunk], self.x1[chunk].transpose(1, 2))
            others = torch.bmm(self.x2[chunk], self.x2[chunk].transpose(1, 2))
            norms[chunk] = sum_gram((products, others, self.gradient.gram(chunk)), inner)
        return norms

    def add_sum(self, factors: Tensor, out: Tensor) -> None:
        rows = self.gradient.scale(factors).flatten(0, 1)
        x1, x2 = self.x1.flatten(0, 1), self.x2.flatten(0, 1)
        step = max(1, CHUNK // max(1, x1.numel()))
        for start in range(0, rows.shape[1], step):
            some_rows = rows[:, start : start + step]
            weighted = some_rows.t().unsqueeze(2) * x1  # [outputs, rows, in₁]
            out[start : start + step] += weighted.transpose(1, 2) @ x2

    def narrow(self, examples: slice) -> "BilinearForm":
        return BilinearForm(self.x1[examples], self.x2[examples], self.gradient.narrow(examples))

    def to_dense(self) -> Tensor:
        return torch.einsum("btk,bti,btj->bkij", self.gradient.rows, self.x1, self.x2)
