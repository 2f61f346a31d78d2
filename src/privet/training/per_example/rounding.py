"""How far a norm in float32 can be below the truth, whatever the order in which a device adds.

A norm that is too low means a clip factor that is too high. On the processor the order of torch's sums is
known, and its errors are measured. Another device may add in any order, and may treat numbers below 2⁻¹²⁶
as 0. There the norms are raised by the bounds below, so that ‖c_b v_b‖ ≤ C holds in exact arithmetic for
the vector v_b that the form sums. What is assumed of the device: float32 sums and products are rounded to
the nearest number (relative error u = 2⁻²⁴), roots are within 4u.

*A sum of n squares.* Each term passes through one product and at most n − 1 sums, so the result is at
least (1 − u)ⁿ S, for every order (Higham 2002, Section 4.2), and at least (1 − (n + 9)u) S after a root
and a square. An operation whose result is below 2⁻¹²⁶ loses at most 2⁻¹²⁶; there are 2n. A row is cut
into blocks of n = ``BLOCK`` numbers, and the blocks are added in float64 (``double_precision``). So its
sum is multiplied by 1 + (n + 16)u, and 2⁻¹²⁴ is added for each number. The clip of a long row becomes
lower by 3·10⁻⁵ of itself.

*A Gram sum* S = Σ_st P_st, with P_st a product of inner products of vectors a_s, a_t of n₁, …, n_K
numbers. With N = n₁ + … + n_K + K + T roundings on the way of each term, the error is at most γ (Σ_s
w_s)² ≤ γ T Σ_s w_s², with w_s the product of the norms of the vectors at s, T the tokens, and γ = Nu/(1 −
Nu). Σ_s w_s² is the sum of the diagonal D, whose terms are not negative, so it is at least (1 − γ) D in
float32. Hence S + T·γ/(1 − γ)·D is never too low. Small numbers: an inner product of n numbers is off by
at most 2n·2⁻¹²⁶. Each diagonal entry is so raised by n·2⁻¹⁰⁰ before they are multiplied, which covers
this in the same way, because T·N·u·2⁻¹⁰⁰ ≥ 2·T·2⁻¹²⁶.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from privet.training.double_precision import to_float64

__all__ = ["BLOCK", "GUARD", "raise_row_norms", "sum_gram", "unit_errors"]

BLOCK = 1024
"""Squares that are added in float32 before the sum continues in float64."""

GUARD = 2.0**-21
"""On the processor a Gram sum is raised by this fraction of its diagonal.

The rounding error of the sum over s and t is about 2⁻²⁴·Σ_t ‖x_t‖²‖g_t‖². It is small relative to the sum,
unless the tokens cancel. Eight times this error is added, so that rounding never makes a norm too small. If
nothing cancels, this raises the sum by 5e-7.
"""

UNIT = 2.0**-24
_LOST, _RAISED = 2.0**-124, 2.0**-100


def raise_row_norms(squares: Tensor, size: int) -> Tensor:
    """Squared norms of rows of ``size`` numbers, raised in place by what a device may have lost."""
    return squares.mul_(1 + (min(size, BLOCK) + 16) * UNIT).add_(size * _LOST)


def unit_errors(count: int, dtype: torch.dtype) -> float:
    """γ/(1 − γ) for ``count`` roundings; infinity if they may lose everything."""
    lost = count * (UNIT if dtype is torch.float32 else 2.0**-53)
    return lost / (1 - 2 * lost) if 2 * lost < 1 else float("inf")


def sum_gram(grams: Sequence[Tensor], inner: Sequence[int]) -> Tensor:
    """Σ_st Π_k G^k_st for each leading index, in float64 and never too low. Overwrites the first Gram matrix.

    ``grams`` are the inner products […, T, T] of vectors of ``inner`` numbers each. One may be a mask.
    """
    products = grams[0]
    if products.is_cpu:
        for gram in grams[1:]:
            products *= gram
        diagonal = products.diagonal(dim1=-2, dim2=-1).double().sum(-1)
        return products.sum(-1).double().sum(-1).clamp_(min=0.0).add_(diagonal, alpha=GUARD)
    tokens = products.shape[-1]
    weights = [
        to_float64(gram.diagonal(dim1=-2, dim2=-1)) + numbers * _RAISED
        for gram, numbers in zip(grams, inner, strict=True)
    ]
    diagonal = torch.stack(weights).prod(0).sum(-1)
    for gram in grams[1:]:
        products *= gram
    guard = tokens * unit_errors(sum(inner) + len(inner) + tokens, products.dtype)
    return to_float64(products.sum(-1)).sum(-1).clamp_(min=0.0).add_(diagonal, alpha=guard)
