"""Matrices: gradients that are sums of outer products of what went in and the gradient of what came out."""

from typing import Any, final

import torch
from torch import Tensor

from privet.training.per_example.forms.products import Gradient, Product, compiled, squared_rows
from privet.training.per_example.scratch import Scratch
from privet.training.threads import choose_threads

__all__ = ["Outer", "gram", "gram_sums", "joined_matrices"]

GUARD = 2.0**-21
"""What of its diagonal a Gram sum is raised by.

The sum over s and t errs by about 2⁻²⁴·Σ_t ‖x_t‖²‖g_t‖², which is small beside it unless the tokens cancel; eight times
that is added, so that a norm is not below the true one for rounding. Where nothing cancels this is 5e-7.
"""

GRAM_PRICE = 0.6
"""What a product of the Gram form costs in a compiled loop, which makes half of them, of one of the written-out form."""

FEW = 12
"""Below so many tokens a tile of the compiled loop is mostly empty."""

CHUNK = 1 << 22
"""How many numbers a temporary may have: 16 MB, which stays in the cache of most machines."""


@final
class Outer(Product):
    """A matrix product: the gradient is g_bᵀ x_b, with g [examples, tokens, out] and x [examples, tokens, in].

    One token: ‖g‖²‖x‖². Several: either Σ_st (x_s·x_t)(g_s·g_t), at tokens²·(in + out) products for an
    example, or the gradient itself, at tokens·in·out; whichever is cheaper. The sum is one matrix product.
    """

    __slots__ = ("_dense", "_scratch", "gradient", "shape", "x")

    def __init__(
        self, x: Tensor, gradient: Gradient, shape: torch.Size, scratch: Scratch | None = None
    ) -> None:
        self._scratch = scratch
        self.x = x
        self.gradient = gradient
        self.shape = shape
        self._dense: Tensor | None = None

    def squared_norms(self) -> Tensor:
        _, tokens, width = self.x.shape
        height = self.gradient.rows.shape[2]
        if tokens == 1:
            return squared_rows(self.x).mul_(self.gradient.squares())
        loops = _gram_loops(self.x, self.gradient.rows)
        price = 1.0 if loops is None else GRAM_PRICE
        if width * height < price * tokens * (width + height):
            return squared_rows(self.dense())
        return gram(self.x, self.gradient) if loops is None else _looped_gram(self.x, self.gradient, loops)

    def add_sum(self, factors: Tensor, out: Tensor) -> None:
        if self._dense is not None:
            out.view(-1).addmv_(self._dense.view(self._dense.shape[0], -1).t(), factors)
            return
        self._multiply(factors, out, 1.0)

    def set_sum(self, factors: Tensor, out: Tensor) -> None:
        if self._dense is None:
            self._multiply(factors, out, 0.0)  # a large matrix is neither zeroed nor read before
        else:
            self.add_sum(factors, out.zero_())

    def _multiply(self, factors: Tensor, out: Tensor, kept: float) -> None:
        g, x, room = self.gradient.rows, self.x, None
        # The factors go to the narrower of the two.
        if (
            self._scratch is not None
            and x.shape[2] < g.shape[2]
            and self.gradient.untouched
            and x.is_contiguous()
        ):
            room = self._scratch.lend(x, *x.shape)
            x = torch.mul(x, factors.view(-1, 1, 1), out=room)
        else:
            g = self.gradient.scaled(factors)
        if g.stride(0) < g.stride(1):  # the tokens were first: in their order nothing is copied
            g, x = g.transpose(0, 1), x.transpose(0, 1)
        flat = g.flatten(0, 1)
        out.view(flat.shape[1], -1).addmm_(flat.t(), x.flatten(0, 1), beta=kept)
        if room is not None and self._scratch is not None:
            self._scratch.give_back(room)

    def dense(self) -> Tensor:
        if self._dense is None:
            self._dense = torch.bmm(self.gradient.rows.transpose(1, 2), self.x)
        return self._dense.view(-1, *self.shape)


def gram(x: Tensor, gradient: Gradient) -> Tensor:
    """‖g_bᵀ x_b‖² = Σ_st (x_bs·x_bt)(g_bs·g_bt) for each b, a few examples at a time."""
    batch, tokens, _ = x.shape
    step = max(1, CHUNK // (tokens * tokens))
    norms = torch.empty(batch, dtype=torch.float64, device=x.device)
    for start in range(0, batch, step):
        some = slice(start, start + step)
        products = torch.bmm(x[some], x[some].transpose(1, 2))
        products *= gradient.gram(some)
        norms[some] = gram_sums(products)
    return norms


def _gram_loops(x: Tensor, rows: Tensor) -> Any:  # noqa: ANN401 - a module, or None
    """The compiled loops of the Gram form, if they are for these tensors."""
    loops = compiled("gram_loops")
    if loops is None or not loops.has_registers() or x.shape[1] < FEW:
        return None
    plain = all(t.dtype is torch.float32 and t.is_cpu for t in (x, rows))
    if not plain or (x.shape[1] + loops.LANES) * max(*x.shape[1:], rows.shape[2]) > loops.ROOM:
        return None
    both = x.is_contiguous() and rows.is_contiguous()
    return loops if both or (_tokens_first(x) and _tokens_first(rows)) else None


def _tokens_first(rows: Tensor) -> bool:
    return rows.transpose(0, 1).is_contiguous()


def _looped_gram(x: Tensor, gradient: Gradient, loops: Any) -> Tensor:  # noqa: ANN401
    rows, first = gradient.rows, not x.is_contiguous()
    norms = torch.empty(x.shape[0], dtype=torch.float64)
    given = (t.transpose(0, 1) if first else t for t in (x.detach(), rows))
    loops.gram_squares(choose_threads(x.numel()), *(t.numpy() for t in given), first, GUARD, norms.numpy())
    return norms


def gram_sums(products: Tensor) -> Tensor:
    """The sum of each matrix of products in float64, raised by the guard against rounding."""
    diagonal = products.diagonal(dim1=-2, dim2=-1).double().sum(-1)
    return products.sum(-1).double().sum(-1).clamp_(min=0.0).add_(diagonal, alpha=GUARD)


def joined_matrices(parts: list[Outer]) -> Outer:
    """Several uses of a matrix are one use with more tokens."""
    if len(parts) == 1:
        return parts[0]
    rows = torch.cat([p.gradient.rows for p in parts], 1)
    return Outer(torch.cat([p.x for p in parts], 1), Gradient(rows, own=True), parts[0].shape)
