"""Per-example gradients that are never written out: their norms, and their weighted sums.

A layer's gradient for example b is a function of what went in and of the gradient of what came out. Each
class holds these two for all examples of a micro-batch and one parameter, and answers two questions:
``squared_norms``, ‖∂loss_b/∂W‖² for each b, and ``add_sum``, out += Σ_b c_b ∂loss_b/∂W.

Norms are summed in float64: a float32 accumulator loses 4 % over 2²⁶ equal squares, and a norm that is too
low is a clip that does not clip. Rows of at most ``BLOCK`` numbers are summed in float32 by torch (error
below 1e-6 of the sum), and the rest of the sum is done in float64.

Reference: Goodfellow 2015, "Efficient per-example gradient computations" (the norm of an outer product); Li et
al. 2022, "Large language models can be strong differentially private learners" (the Gram form for sequences);
Bu et al. 2023, "Differentially private optimization on large model at small cost" (book-keeping: the clipped
sum from the saved output gradients, with no second backward pass).
"""

from abc import ABC, abstractmethod
from functools import lru_cache
from importlib import import_module
from importlib.util import find_spec
from typing import Any, final

import torch
from torch import Tensor

from privet.training.gradients.scratch import Scratch
from privet.training.threads import threads_for

__all__ = [
    "BLOCK",
    "Direct",
    "Gradient",
    "Lookup",
    "Outer",
    "Product",
    "combined",
    "gram_sums",
    "squared_rows",
]

BLOCK = 1024
"""How many squares are added in float32 before the sum goes on in float64."""

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


@lru_cache(maxsize=4)
def compiled(loops: str = "loops") -> Any:  # noqa: ANN401 - a module, or None
    """The compiled loops, or those of another module beside them; None where numba is not installed."""
    return import_module(f"privet.training.gradients.{loops}") if find_spec("numba") is not None else None


def squared_rows(rows: Tensor) -> Tensor:
    """‖row‖² for each leading index, as float64."""
    flat = rows.reshape(rows.shape[0], -1)
    size = flat.shape[1]
    total: Tensor
    if size <= BLOCK or flat.dtype == torch.float64:
        total = torch.linalg.vector_norm(flat, dim=1).double().square_()
        return total
    whole = size - size % BLOCK
    blocks = torch.linalg.vector_norm(flat[:, :whole].reshape(-1, whole // BLOCK, BLOCK), dim=2)
    total = blocks.double().square_().sum(1)
    if whole < size:
        total += torch.linalg.vector_norm(flat[:, whole:], dim=1).double().square_()
    return total


@final
class Gradient:
    """The gradient of one tapped output as [examples, tokens, …]; scaled by the clip factors once, in place.

    ``own`` says that no other tensor shares its memory, so that it may be written to.
    """

    __slots__ = ("_by", "_gram", "_scaled", "_squares", "own", "rows")

    def __init__(self, rows: Tensor, own: bool) -> None:
        self.rows = rows
        self.own = own
        self._squares: Tensor | None = None
        self._gram: Tensor | None = None
        self._by: Tensor | None = None
        self._scaled: Tensor | None = None

    @property
    def untouched(self) -> bool:
        """Whether the rows are as they came."""
        return self._by is None or not self.own

    def squares(self) -> Tensor:
        """‖g_b‖² for each example."""
        if self._squares is None:
            self._squares = squared_rows(self.rows)
        return self._squares

    def gram(self, some: slice) -> Tensor:
        """The products g_s·g_t of these examples; kept if they are all, since another weight may share them."""
        if self._gram is not None:
            return self._gram
        rows = self.rows[some]
        products = torch.bmm(rows, rows.transpose(1, 2))
        if rows.shape[0] == self.rows.shape[0]:
            self._gram = products
        return products

    def scaled(self, factors: Tensor) -> Tensor:
        """c_b·g_b. After this the unscaled rows are gone, unless several groups of factors need them."""
        if self._by is factors and self._scaled is not None:
            return self._scaled
        column = factors.view(-1, *[1] * (self.rows.dim() - 1))
        if self.own and self._by is None:
            self._scaled = self.rows.mul_(column)
        elif self._by is None or not self.own:
            self._scaled = self.rows * column
        else:
            raise AssertionError("a gradient that was scaled in place cannot be scaled by other factors")
        self._by = factors
        return self._scaled


class Product(ABC):
    """The gradients of one parameter for all examples of a micro-batch."""

    __slots__ = ()

    @abstractmethod
    def squared_norms(self) -> Tensor:
        """The squared norm of each example's gradient, float64."""

    @abstractmethod
    def add_sum(self, factors: Tensor, out: Tensor) -> None:
        """out += Σ_b factors_b · gradient_b."""

    def set_sum(self, factors: Tensor, out: Tensor) -> None:
        """out = Σ_b factors_b · gradient_b."""
        self.add_sum(factors, out.zero_())

    @abstractmethod
    def dense(self) -> Tensor:
        """The gradients written out, [examples, *shape of the parameter]: for rare mixtures only."""


@final
class Direct(Product):
    """Gradients that are written out, because they are small or because nothing else is known of them."""

    __slots__ = ("rows",)

    def __init__(self, rows: Tensor) -> None:
        self.rows = rows

    def squared_norms(self) -> Tensor:
        return squared_rows(self.rows)

    def add_sum(self, factors: Tensor, out: Tensor) -> None:
        out.view(-1).addmv_(self.rows.reshape(self.rows.shape[0], -1).t(), factors)

    def dense(self) -> Tensor:
        return self.rows


@final
class TokenSum(Product):
    """A bias: the gradient is Σ_t g_bt."""

    __slots__ = ("_sums", "gradient", "shape")

    def __init__(self, gradient: Gradient, shape: torch.Size) -> None:
        self.gradient = gradient
        self.shape = shape
        rows = gradient.rows
        # The sums are taken now, while the rows are unscaled; one token is its own sum.
        self._sums = None if rows.shape[1] == 1 else rows.sum(1)

    def squared_norms(self) -> Tensor:
        return self.gradient.squares() if self._sums is None else squared_rows(self._sums)

    def add_sum(self, factors: Tensor, out: Tensor) -> None:
        if self._sums is not None:
            out.view(-1).addmv_(self._sums.t(), factors)
        elif self.gradient.untouched:
            out.view(-1).addmv_(self.gradient.rows[:, 0].t(), factors)
        else:
            out.view(-1).add_(self.gradient.scaled(factors).sum((0, 1)))

    def dense(self) -> Tensor:
        sums = self.gradient.rows[:, 0] if self._sums is None else self._sums
        return sums.reshape(-1, *self.shape)


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
    loops.gram_squares(threads_for(x.numel()), *(t.numpy() for t in given), first, GUARD, norms.numpy())
    return norms


def gram_sums(products: Tensor) -> Tensor:
    """The sum of each matrix of products in float64, raised by the guard against rounding."""
    diagonal = products.diagonal(dim1=-2, dim2=-1).double().sum(-1)
    return products.sum(-1).double().sum(-1).clamp_(min=0.0).add_(diagonal, alpha=GUARD)


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
                threads_for(self.gradient.rows.numel()),
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
            scales, many = factors.contiguous().numpy(), threads_for(rows.size)
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


def joined_matrices(parts: list[Outer]) -> Outer:
    """Several uses of a matrix are one use with more tokens."""
    if len(parts) == 1:
        return parts[0]
    rows = torch.cat([p.gradient.rows for p in parts], 1)
    return Outer(torch.cat([p.x for p in parts], 1), Gradient(rows, own=True), parts[0].shape)


def joined_tables(parts: list[Lookup]) -> Lookup:
    """Several uses of a table are one use with more tokens."""
    if len(parts) == 1:
        return parts[0]
    rows = torch.cat([p.gradient.rows for p in parts], 1)
    ids = torch.cat([p.ids for p in parts], 1)
    return Lookup(ids, Gradient(rows, own=True), parts[0].shape, parts[0].skip)
