"""Matrices: gradients that are sums of outer products of inputs and output gradients."""

from collections.abc import Iterable
from typing import Any, final

import torch
from torch import Tensor

from privet.training.double_precision import zeros_float64
from privet.training.per_example.forms.gradient_form import (
    GradientForm,
    InnerProducts,
    OutputGradient,
    load_kernels,
    squared_row_norms,
)
from privet.training.per_example.rounding import GUARD, sum_gram
from privet.training.per_example.scratch import Scratch
from privet.training.threads import choose_threads

__all__ = ["CHUNK", "LinearForm", "gram_squared_norms", "join_linear_forms", "share_inputs"]

GRAM_PRICE = 0.6
"""The cost of a product of the Gram form, in products of the written-out form; the loop makes half."""

FEWEST_TOKENS = 12
"""With fewer tokens a tile of the compiled loop is mostly empty."""

KEPT_PRODUCTS = 1 << 14
"""The most inner products of an example that are kept for another matrix: 64 kB, of 128 tokens."""

CHUNK = 1 << 22
"""The largest number of elements of a temporary tensor: 16 MB, which fits the cache of most machines."""


@final
class LinearForm(GradientForm):
    """A matrix: the gradient is g_bᵀ x_b, with g [examples, tokens, out] and x [examples, tokens, in].

    With one token the squared norm is ‖g‖²‖x‖². With several it is the cheaper of two: Σ_st
    (x_s·x_t)(g_s·g_t), at tokens²·(in + out) products per example, or the norm of the written-out gradient,
    at tokens·in·out products. The sum is one matrix product.
    """

    __slots__ = ("_dense", "_scratch", "gradient", "input_products", "shape", "x")

    description = "matrix: norms from inputs and output gradients"

    def __init__(
        self, x: Tensor, gradient: OutputGradient, shape: torch.Size, scratch: Scratch | None = None
    ) -> None:
        self._scratch = scratch
        self.x = x
        self.gradient = gradient
        self.shape = shape
        self._dense: Tensor | None = None
        self.input_products = InnerProducts()

    def squared_norms(self) -> Tensor:
        _, tokens, width = self.x.shape
        height = self.gradient.rows.shape[2]
        if tokens == 1:
            return squared_row_norms(self.x).mul_(self.gradient.squared_norms())
        kernels = _choose_gram_kernels(self.x, self.gradient.rows)
        price = 1.0 if kernels is None else GRAM_PRICE
        if width * height < price * tokens * (width + height):
            return squared_row_norms(self.to_dense())
        if kernels is None:
            return gram_squared_norms(self.x, self.gradient)
        return _run_gram_kernel(self, kernels)

    def add_sum(self, factors: Tensor, out: Tensor) -> None:
        if self._dense is not None:
            out.view(-1).addmv_(self._dense.view(self._dense.shape[0], -1).t(), factors)
            return
        self._multiply(factors, out, 1.0)

    def set_sum(self, factors: Tensor, out: Tensor) -> None:
        if self._dense is None:
            self._multiply(factors, out, 0.0)  # a large matrix is neither zeroed nor read first
        else:
            self.add_sum(factors, out.zero_())

    def _multiply(self, factors: Tensor, out: Tensor, beta: float) -> None:
        g, x, borrowed = self.gradient.rows, self.x, None
        # The factors scale the narrower of the two.
        if (
            self._scratch is not None
            and x.shape[2] < g.shape[2]
            and self.gradient.is_unscaled
            and x.is_contiguous()
        ):
            borrowed = self._scratch.borrow(x, *x.shape)
            x = torch.mul(x, factors.view(-1, 1, 1), out=borrowed)
        else:
            g = self.gradient.scale(factors)
        if g.stride(0) < g.stride(1):  # tokens first in memory: in this order nothing is copied
            g, x = g.transpose(0, 1), x.transpose(0, 1)
        flat = g.flatten(0, 1)
        out.view(flat.shape[1], -1).addmm_(flat.t(), x.flatten(0, 1), beta=beta)
        if borrowed is not None and self._scratch is not None:
            self._scratch.release(borrowed)

    def narrow(self, examples: slice) -> "LinearForm":
        return LinearForm(self.x[examples], self.gradient.narrow(examples), self.shape)

    def to_dense(self) -> Tensor:
        if self._dense is None:
            self._dense = torch.bmm(self.gradient.rows.transpose(1, 2), self.x)
        return self._dense.view(-1, *self.shape)


def gram_squared_norms(x: Tensor, gradient: OutputGradient) -> Tensor:
    """‖g_bᵀ x_b‖² = Σ_st (x_bs·x_bt)(g_bs·g_bt) for each b, a few examples at a time."""
    batch, tokens, _ = x.shape
    step = max(1, CHUNK // (tokens * tokens))
    norms = zeros_float64(batch, x.device)
    inner = x.shape[2], gradient.rows.shape[2]
    for start in range(0, batch, step):
        chunk = slice(start, start + step)
        products = torch.bmm(x[chunk], x[chunk].transpose(1, 2))
        norms[chunk] = sum_gram((products, gradient.gram(chunk)), inner)
    return norms


def _choose_gram_kernels(x: Tensor, rows: Tensor) -> Any:  # noqa: ANN401 - a module, or None
    """The compiled loops of the Gram form, if they work on these tensors."""
    kernels = load_kernels("gram_loops")
    if kernels is None or not kernels.has_wide_registers() or x.shape[1] < FEWEST_TOKENS:
        return None
    is_supported = all(t.dtype is torch.float32 and t.is_cpu for t in (x, rows))
    largest = (x.shape[1] + kernels.LANES) * max(*x.shape[1:], rows.shape[2])
    if not is_supported or largest > kernels.LARGEST_EXAMPLE:
        return None
    return kernels if all(t.is_contiguous() or _has_tokens_first(t) for t in (x, rows)) else None


def _has_tokens_first(rows: Tensor) -> bool:
    return rows.transpose(0, 1).is_contiguous()


def _run_gram_kernel(form: LinearForm, kernels: Any) -> Tensor:  # noqa: ANN401
    x, rows = form.x.detach(), form.gradient.rows
    batch, tokens, _ = x.shape
    turned = not x.is_contiguous(), not rows.is_contiguous()  # recurrent layers have the tokens first
    norms = torch.empty(batch, dtype=torch.float64)
    across = -(-tokens // kernels.LANES) * kernels.LANES
    is_small = across * across <= KEPT_PRODUCTS
    shares = form.input_products, form.gradient.products
    kept = [s.reserve(x, (batch, across, across) if is_small else (0, 0, 0)) for s in shares]
    known = shares[0].is_known, shares[1].is_known
    kernels.gram_squared_norms(
        choose_threads(x.numel()),
        *(
            t.transpose(0, 1).numpy() if turn else t.numpy()
            for t, turn in zip((x, rows), turned, strict=True)
        ),
        turned,
        *(t.numpy() for t in kept),
        known,
        GUARD,
        norms.numpy(),
    )
    for share in shares:
        share.is_known = is_small
    return norms


def share_inputs(forms: Iterable[GradientForm]) -> None:
    """Let the forms that have the same input, as those of query, key and value, share its inner products.

    All forms are alive and hold their inputs, so the same memory with the same strides is the same input.
    """
    found: dict[tuple[object, ...], InnerProducts] = {}
    for form in forms:
        if isinstance(form, LinearForm) and form.x.is_cpu:  # elsewhere no compiled loop reads them
            x = form.x
            form.input_products = found.setdefault(
                (x.data_ptr(), x.shape, x.stride(), x.dtype), form.input_products
            )


def join_linear_forms(parts: list[LinearForm]) -> LinearForm:
    """Join several calls with the same matrix into one call with more tokens."""
    if len(parts) == 1:
        return parts[0]
    rows = torch.cat([p.gradient.rows for p in parts], 1)
    return LinearForm(torch.cat([p.x for p in parts], 1), OutputGradient(rows, own=True), parts[0].shape)
