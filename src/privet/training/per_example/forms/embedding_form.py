"""Tables: gradients that are sums of rows by their numbers; and a parameter that is used several times, or as table and matrix both."""

from typing import Any, final

import torch
from torch import Tensor

from privet.training.per_example.forms.linear_form import Outer, joined_matrices
from privet.training.per_example.forms.products import Direct, Gradient, Product, compiled, squared_rows
from privet.training.threads import choose_threads

__all__ = ["Lookup", "combined"]


@final
class Lookup(Product):
    """A table: row v of the gradient is the sum of g_bt over the tokens t that are v; never written out.

    The keys (example, row) are sorted once. A key that occurs once gives ‖g‖² as it is; only the tokens
    that share a key are gathered and added up before they are squared. Where numba is installed, both the norms and
    the sum are one compiled loop over the tokens instead, which needs neither the sort nor scaled rows.
    """

    __slots__ = ("gradient", "ids", "shape", "skip")

    def __init__(self, ids: Tensor, gradient: Gradient, shape: torch.Size, skip: int | None) -> None:
        self.ids = ids
        self.gradient = gradient
        self.shape = shape
        self.skip = skip

    def _loops(self) -> Any:  # noqa: ANN401 - a module, or None
        """The compiled loops, if they can be had for these tensors."""
        rows = self.gradient.rows
        if rows.dtype != torch.float32 or self.ids.dtype != torch.int64 or rows.device.type != "cpu":
            return None
        if not rows.is_contiguous():  # tokens before examples, as in recurrent layers
            if not self.gradient.untouched:
                return None
            self.gradient = Gradient(rows.contiguous(), own=True)
        self.ids = self.ids.contiguous()
        return compiled()

    def squared_norms(self) -> Tensor:
        batch, tokens = self.ids.shape
        loops = self._loops()
        if loops is not None:
            norms = torch.empty(batch, dtype=torch.float64)
            skip = -1 if self.skip is None else self.skip
            loops.squares_by_key(
                choose_threads(self.gradient.rows.numel()),
                self.ids.numpy(),
                self.gradient.rows.numpy(),
                skip,
                self.shape[0],
                norms.numpy(),
            )
            return norms
        rows = self.gradient.rows.flatten(0, 1)
        squares = squared_rows(rows)
        if self.skip is not None:
            squares.masked_fill_(self.ids.reshape(-1) == self.skip, 0.0)
        if tokens == 1:
            return squares
        ordered, order = torch.sort(self.ids, dim=1)
        again = ordered[:, 1:] == ordered[:, :-1]
        if self.skip is not None:
            again &= ordered[:, 1:] != self.skip
        if not bool(again.any()):
            return squares.view(batch, tokens).sum(1)
        edge = again.new_zeros(batch, 1)
        after, before = torch.cat([edge, again], 1), torch.cat([again, edge], 1)
        shared = (after | before).view(-1)
        starts = (before & ~after).view(-1)
        offsets = torch.arange(batch, device=order.device).mul_(tokens).unsqueeze(1)
        members = (order + offsets).view(-1)[shared]
        segment = torch.cumsum(starts[shared], 0) - 1
        owners = offsets.div(tokens, rounding_mode="floor").expand(batch, tokens).reshape(-1)
        sums = rows.new_zeros(int(segment[-1]) + 1, rows.shape[1])
        sums.index_add_(0, segment, rows[members])
        squares[members] = 0.0
        return squares.view(batch, tokens).sum(1).index_add_(0, owners[starts], squared_rows(sums))

    def add_sum(self, factors: Tensor, out: Tensor) -> None:
        loops = self._loops()
        if loops is not None and self.gradient.untouched and out.is_contiguous():
            skip = -1 if self.skip is None else self.skip
            rows = self.gradient.rows.numpy()
            scales, many = factors.contiguous().numpy(), choose_threads(rows.size)
            loops.add_rows(many, self.ids.numpy(), rows, scales, skip, out.numpy())
            return
        scaled = self.gradient.scaled(factors).flatten(0, 1)
        ids = self.ids.reshape(-1)
        if self.skip is not None:
            kept = ids != self.skip
            ids, scaled = ids[kept], scaled[kept]
        out.index_add_(0, ids, scaled)

    def dense(self) -> Tensor:
        batch = self.ids.shape[0]
        rows = self.gradient.rows
        if self.skip is not None:
            rows = rows.masked_fill((self.ids == self.skip).unsqueeze(2), 0.0)
        table = rows.new_zeros(batch, *self.shape)
        for example in range(batch):
            table[example].index_add_(0, self.ids[example], rows[example])
        return table


@final
class Tied(Product):
    """A table that is also a matrix (tied embeddings): the two norms and twice the product of the two gradients.

    ⟨Σ_s g_sᵀx_s, lookup⟩ = Σ_st g_s[id_t]·(x_s·e_t), where e_t is the table's gradient for token t.
    """

    __slots__ = ("matrix", "table")

    def __init__(self, matrix: Outer, table: Lookup) -> None:
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

    def dense(self) -> Tensor:
        return self.matrix.dense() + self.table.dense()


def combined(products: list[Product]) -> Product:
    """One product for a parameter that was used several times."""
    if len(products) == 1:
        return products[0]
    matrices = [p for p in products if isinstance(p, Outer)]
    tables = [p for p in products if isinstance(p, Lookup)]
    if len(matrices) + len(tables) == len(products) and len({t.skip for t in tables}) <= 1:
        matrix = joined_matrices(matrices) if matrices else None
        table = joined_tables(tables) if tables else None
        if matrix is not None and table is not None:
            return Tied(matrix, table)
        return matrix or table or products[0]
    return Direct(sum((p.dense() for p in products[1:]), start=products[0].dense()))


def joined_tables(parts: list[Lookup]) -> Lookup:
    """Several uses of a table are one use with more tokens."""
    if len(parts) == 1:
        return parts[0]
    rows = torch.cat([p.gradient.rows for p in parts], 1)
    ids = torch.cat([p.ids for p in parts], 1)
    return Lookup(ids, Gradient(rows, own=True), parts[0].shape, parts[0].skip)
