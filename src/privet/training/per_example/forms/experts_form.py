"""Matrices of experts: each row of an example goes through the matrix of its own expert."""

from typing import final

import torch
from torch import Tensor

from privet.training.double_precision import zeros_float64
from privet.training.per_example.forms.gradient_form import GradientForm
from privet.training.per_example.forms.linear_form import CHUNK
from privet.training.per_example.rounding import sum_gram

__all__ = ["ExpertsForm"]


@final
class ExpertsForm(GradientForm):
    """Matrices W [experts, in, out] of y_t = x_t W_e(t): the gradient is Σ_t x_t ⊗ g_t in the place of e(t).

    The squared norm is Σ_st (x_s·x_t)(g_s·g_t) over pairs of rows with the same expert. The sum is one matrix
    product for each expert.
    """

    __slots__ = ("_experts", "_g", "_shape", "_x")

    description = "matrices of experts: norms from inputs and output gradients"

    def __init__(self, x: Tensor, g: Tensor, experts: Tensor, shape: tuple[int, ...]) -> None:
        self._x, self._g = x, g  # [examples, rows, …]
        self._experts = experts  # [examples, rows]
        self._shape = shape

    def squared_norms(self) -> Tensor:
        batch, rows, _ = self._x.shape
        norms = zeros_float64(batch, self._x.device)
        inner = self._x.shape[2], self._g.shape[2], 0
        step = max(1, CHUNK // (rows * rows))
        for start in range(0, batch, step):
            chunk = slice(start, start + step)
            x, g, experts = self._x[chunk], self._g[chunk], self._experts[chunk]
            products = torch.bmm(x, x.transpose(1, 2))
            gradients, same = torch.bmm(g, g.transpose(1, 2)), experts.unsqueeze(1) == experts.unsqueeze(2)
            norms[chunk] = sum_gram((products, gradients, same), inner)
        return norms

    def add_sum(self, factors: Tensor, out: Tensor) -> None:
        x, g = self._x.flatten(0, 1), (self._g * factors.view(-1, 1, 1)).flatten(0, 1)
        experts = self._experts.reshape(-1)
        for expert in range(self._shape[0]):
            rows = (experts == expert).nonzero().squeeze(1)
            out[expert].addmm_(x[rows].t(), g[rows])

    def narrow(self, examples: slice) -> "ExpertsForm":
        return ExpertsForm(self._x[examples], self._g[examples], self._experts[examples], self._shape)

    def to_dense(self) -> Tensor:
        chosen = torch.nn.functional.one_hot(self._experts, self._shape[0]).to(self._x.dtype)
        return torch.einsum("bte,bti,bto->beio", chosen, self._x, self._g)
