"""Embedding tables: gradients that are sums of rows by index. Also parameters that several layers share."""

from typing import Any, final

import torch
from torch import Tensor

from privet.training.per_example.forms.gradient_form import (
    GradientForm,
    OutputGradient,
    load_kernels,
    squared_row_norms,
)
from privet.training.per_example.forms.linear_form import LinearForm, join_linear_forms
from privet.training.per_example.forms.sum_form import SumForm
from privet.training.threads import choose_threads

__all__ = ["EmbeddingForm", "combine_forms"]


@final
class EmbeddingForm(GradientForm):
    """A table: row v of the gradient is the sum of g_bt over all tokens t with index v.

    The keys (example, row) are sorted once. A key that occurs once contributes ‖g‖². Only tokens that share a
    key are gathered and added before they are squared. With numba, the norms and the sum are one compiled
    loop over the tokens each, which needs neither the sort nor scaled rows.
    """

    __slots__ = ("gradient", "ids", "shape", "skip")

    description = "table: rows by index"

    def __init__(self, ids: Tensor, gradient: OutputGradient, shape: torch.Size, skip: int | None) -> None:
        self.ids = ids
        self.gradient = gradient
        self.shape = shape
        self.skip = skip

    def _choose_kernels(self) -> Any:  # noqa: ANN401 - a module, or None
        """The compiled loops, if they work on these tensors."""
        rows = self.gradient.rows
        if rows.dtype != torch.float32 or self.ids.dtype != torch.int64 or rows.device.type != "cpu":
            return None
        if not rows.is_contiguous():  # tokens first in memory, as in recurrent layers
            if not self.gradient.is_unscaled:
                return None
            self.gradient = OutputGradient(rows.contiguous(), own=True)
        self.ids = self.ids.contiguous()
        return load_kernels()

    def squared_norms(self) -> Tensor:
        batch, tokens = self.ids.shape
        kernels = None if tokens == 1 else self._choose_kernels()  # one token repeats nothing
        if kernels is not None:
            norms = torch.empty(batch, dtype=torch.float64)
            skip = -1 if self.skip is None else self.skip
            kernels.embedding_squared_norms(
                choose_threads(self.gradient.rows.numel()),
                self.ids.numpy(),
                self.gradient.rows.numpy(),
                skip,
                self.shape[0],
                norms.numpy(),
            )
            return norms
        rows = self.gradient.rows.flatten(0, 1)
        squares = squared_row_norms(rows)
        if self.skip is not None:
            squares.masked_fill_((self.ids.reshape(-1) == self.skip).to(squares.device), 0.0)
        if tokens == 1:
            return squares
        ordered, order = torch.sort(self.ids, dim=1)
        repeats = ordered[:, 1:] == ordered[:, :-1]
        if self.skip is not None:
            repeats &= ordered[:, 1:] != self.skip
        if not bool(repeats.any()):
            return squares.view(batch, tokens).sum(1)
        edge = repeats.new_zeros(batch, 1)
        after, before = torch.cat([edge, repeats], 1), torch.cat([repeats, edge], 1)
        shared = (after | before).view(-1)
        starts = (before & ~after).view(-1)
        offsets = torch.arange(batch, device=order.device).mul_(tokens).unsqueeze(1)
        members = (order + offsets).reshape(-1)[shared]
        segment = torch.cumsum(starts[shared], 0) - 1
        owners = offsets.div(tokens, rounding_mode="floor").expand(batch, tokens).reshape(-1)
        sums = rows.new_zeros(int(segment[-1]) + 1, rows.shape[1])
        sums.index_add_(0, segment, rows[members])
        squares[members.to(squares.device)] = 0.0
        first = owners[starts].to(squares.device)
        return squares.view(batch, tokens).sum(1).index_add_(0, first, squared_row_norms(sums))

    def add_sum(self, factors: Tensor, out: Tensor) -> None:
        kernels = self._choose_kernels()
        if kernels is not None and self.gradient.is_unscaled and out.is_contiguous():
            skip = -1 if self.skip is None else self.skip
            rows = self.gradient.rows.numpy()
            scales, threads = factors.contiguous().numpy(), choose_threads(rows.size)
            kernels.add_embedding_rows(threads, self.ids.numpy(), rows, scales, skip, out.numpy())
            return
        scaled = self.gradient.scale(factors).flatten(0, 1)
        ids = self.ids.reshape(-1)
        if self.skip is not None:
            mask = ids != self.skip
            ids, scaled = ids[mask], scaled[mask]
        out.index_add_(0, ids, scaled)

    def narrow(self, examples: slice) -> "EmbeddingForm":
        return EmbeddingForm(self.ids[examples], self.gradient.narrow(examples), self.shape, self.skip)

    def to_dense(self) -> Tensor:
        batch = self.ids.shape[0]
        rows = self.gradient.rows
        if self.skip is not None:
            rows = rows.masked_fill((self.ids == self.skip).unsqueeze(2), 0.0)
        table = rows.new_zeros(batch, *self.shape)
        for example in range(batch):
            table[example].index_add_(0, self.ids[example], rows[example])
        return table


@final
class TiedForm(GradientForm):
    """A table that is also a matrix (tied embeddings): two squared norms, and twice the inner product.

    ⟨Σ_s g_sᵀx_s, table gradient⟩ = Σ_st g_s[id_t]·(x_s·e_t), where e_t is the table's output gradient at
    token t.
    """

    __slots__ = ("matrix", "table")

    description = "table and matrix in one (tied)"

    def __init__(self, matrix: LinearForm, table: EmbeddingForm) -> None:
        self.matrix = matrix
        self.table = table

    def squared_norms(self) -> Tensor:
        x, g = self.matrix.x, self.matrix.gradient.rows
        ids, e = self.table.ids, self.table.gradient.rows
        products = torch.bmm(x, e.transpose(1, 2))
        products *= g.gather(2, ids.unsqueeze(1).expand(-1, g.shape[1], -1))
        if self.table.skip is not None:
            products.masked_fill_((ids == self.table.skip).unsqueeze(1), 0.0)
        cross = products.sum(2).double().sum(1)
        return (
            (self.matrix.squared_norms() + self.table.squared_norms()).add_(cross, alpha=2.0).clamp_(min=0.0)
        )

    def add_sum(self, factors: Tensor, out: Tensor) -> None:
        self.matrix.add_sum(factors, out)
        self.table.add_sum(factors, out)

    def narrow(self, examples: slice) -> "TiedForm":
        return TiedForm(self.matrix.narrow(examples), self.table.narrow(examples))

    def to_dense(self) -> Tensor:
        return self.matrix.to_dense() + self.table.to_dense()


def combine_forms(forms: list[GradientForm], batch: int, size: int) -> GradientForm:
    """Combine the forms of a parameter of ``size`` numbers that several calls used."""
    if len(forms) == 1:
        return forms[0]
    matrices = [p for p in forms if isinstance(p, LinearForm)]
    tables = [p for p in forms if isinstance(p, EmbeddingForm)]
    if len(matrices) + len(tables) == len(forms) and len({t.skip for t in tables}) <= 1:
        matrix = join_linear_forms(matrices) if matrices else None
        table = join_embedding_forms(tables) if tables else None
        if matrix is not None and table is not None:
            return TiedForm(matrix, table)
        return matrix or table or forms[0]
    return SumForm(forms, batch, size)


def join_embedding_forms(parts: list[EmbeddingForm]) -> EmbeddingForm:
    """Join several calls with the same table into one call with more tokens."""
    if len(parts) == 1:
        return parts[0]
    rows = torch.cat([p.gradient.rows for p in parts], 1)
    ids = torch.cat([p.ids for p in parts], 1)
    return EmbeddingForm(ids, OutputGradient(rows, own=True), parts[0].shape, parts[0].skip)
