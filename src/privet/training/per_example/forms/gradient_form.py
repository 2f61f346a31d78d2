"""Per-example gradients that are never written out: their norms, and their weighted sums.

A layer's gradient for example b is a function of the layer's input and of the gradient of its output. A
gradient form holds these two for one parameter and all examples of a micro-batch. It computes
``squared_norms``, ‖∂loss_b/∂W‖² for each b, and ``add_sum``, out += Σ_b c_b ∂loss_b/∂W.

Norms are summed in float64: a float32 accumulator loses 4 % over 2²⁶ equal squares, and with a norm that is
too low the clip bound does not hold. Torch sums rows of at most ``BLOCK`` numbers in float32 (error below
1e-6 of the sum on the processor; ``rounding`` has the bound for other devices); the rest of the sum is in
float64.

Reference: Goodfellow 2015, "Efficient per-example gradient computations" (the norm of an outer product); Li
et al. 2022, "Large language models can be strong differentially private learners" (the Gram form for
sequences); Bu et al. 2023, "Differentially private optimization on large model at small cost" (book-keeping:
the clipped sum from the saved output gradients, with no second backward pass).
"""

from abc import ABC, abstractmethod
from typing import Any, final

import torch
from torch import Tensor

from privet.training.double_precision import to_float64
from privet.training.loops import load_loops
from privet.training.per_example.rounding import BLOCK, raise_row_norms

__all__ = [
    "WRITTEN_AT_A_TIME",
    "BiasForm",
    "DenseForm",
    "GradientForm",
    "InnerProducts",
    "OutputGradient",
    "load_kernels",
    "squared_row_norms",
]

WRITTEN_AT_A_TIME = 1 << 23
"""Numbers of gradients that are written out at a time: 32 MB. More examples follow in further slices."""


def load_kernels(name: str = "layer_loops") -> Any:  # noqa: ANN401 - a module, or None
    """A module of compiled loops; None if numba is not installed, or as long as they are compiled."""
    return load_loops(f"privet.training.per_example.kernels.{name}")


def squared_row_norms(rows: Tensor) -> Tensor:
    """‖row‖² for each leading index, as float64. On another device than the processor it is never too low."""
    flat = rows.reshape(rows.shape[0], -1)
    size = flat.shape[1]
    total: Tensor
    if size <= BLOCK or flat.dtype == torch.float64:
        total = to_float64(torch.linalg.vector_norm(flat, dim=1)).square_()
    else:
        whole = size - size % BLOCK
        blocks = torch.linalg.vector_norm(flat[:, :whole].reshape(-1, whole // BLOCK, BLOCK), dim=2)
        total = to_float64(blocks).square_().sum(1)
        if whole < size:
            total += to_float64(torch.linalg.vector_norm(flat[:, whole:], dim=1)).square_()
    return total if flat.is_cpu or flat.dtype is torch.float64 else raise_row_norms(total, size)


@final
class InnerProducts:
    """The inner products of the tokens of each example, which several matrices may need."""

    __slots__ = ("_kept", "is_known")

    def __init__(self) -> None:
        self._kept: Tensor | None = None
        self.is_known = False

    def reserve(self, like: Tensor, shape: tuple[int, int, int]) -> Tensor:
        """Where they are, or will be written."""
        if self._kept is None:
            self._kept = like.new_empty(shape)
        return self._kept


@final
class OutputGradient:
    """The gradient of one tapped output as [examples, tokens, …]. The clip factors scale it once, in place.

    ``own`` says that no other tensor shares its memory, so it may be overwritten.
    """

    __slots__ = ("_factors", "_gram", "_scaled", "_squares", "own", "products", "rows")

    def __init__(self, rows: Tensor, own: bool) -> None:
        self.rows = rows
        self.own = own
        self._squares: Tensor | None = None
        self._gram: Tensor | None = None
        self._factors: Tensor | None = None
        self._scaled: Tensor | None = None
        self.products = InnerProducts()

    @property
    def is_unscaled(self) -> bool:
        """Whether the rows are not scaled yet."""
        return self._factors is None or not self.own

    def squared_norms(self) -> Tensor:
        """‖g_b‖² for each example."""
        if self._squares is None:
            self._squares = squared_row_norms(self.rows)
        return self._squares

    def gram(self, examples: slice) -> Tensor:
        """The products g_s·g_t of these examples. Cached if these are all, for another weight."""
        if self._gram is not None:
            return self._gram
        rows = self.rows[examples]
        products = torch.bmm(rows, rows.transpose(1, 2))
        if rows.shape[0] == self.rows.shape[0]:
            self._gram = products
        return products

    def narrow(self, examples: slice) -> "OutputGradient":
        """The rows of these examples, which must not be scaled yet. They are read only."""
        return OutputGradient(self.rows[examples], own=False)

    def scale(self, factors: Tensor) -> Tensor:
        """c_b·g_b. If ``own``, this overwrites the unscaled rows."""
        if self._factors is factors and self._scaled is not None:
            return self._scaled
        column = factors.view(-1, *[1] * (self.rows.dim() - 1))
        if self.own and self._factors is None:
            self._scaled = self.rows.mul_(column)
        elif self._factors is None or not self.own:
            self._scaled = self.rows * column
        else:
            raise AssertionError("a gradient that was scaled in place cannot be scaled by other factors")
        self._factors = factors
        return self._scaled


class GradientForm(ABC):
    """The gradients of one parameter for all examples of a micro-batch, not written out."""

    __slots__ = ()

    description = "norms and sums by the rule of its layer"
    """How the form computes norms and sums, in words, for ``explain``."""

    @abstractmethod
    def squared_norms(self) -> Tensor:
        """The squared norm of each example's gradient, float64."""

    @abstractmethod
    def add_sum(self, factors: Tensor, out: Tensor) -> None:
        """out += Σ_b factors_b · gradient_b."""

    def set_sum(self, factors: Tensor, out: Tensor) -> None:
        """out = Σ_b factors_b · gradient_b."""
        self.add_sum(factors, out.zero_())

    def narrow(self, examples: slice) -> "GradientForm":
        """The gradients of these examples only."""
        return DenseForm(self.to_dense()[examples])

    @abstractmethod
    def to_dense(self) -> Tensor:
        """The written-out gradients, [examples, *shape of the parameter]. For sums of different forms."""


@final
class DenseForm(GradientForm):
    """Written-out gradients, because they are small or because no other form is known."""

    __slots__ = ("rows",)

    description = "written out, from the same pass"

    def __init__(self, rows: Tensor) -> None:
        self.rows = rows

    def squared_norms(self) -> Tensor:
        return squared_row_norms(self.rows)

    def add_sum(self, factors: Tensor, out: Tensor) -> None:
        out.view(-1).addmv_(self.rows.reshape(self.rows.shape[0], -1).t(), factors)

    def narrow(self, examples: slice) -> "DenseForm":
        return DenseForm(self.rows[examples])

    def to_dense(self) -> Tensor:
        return self.rows


@final
class BiasForm(GradientForm):
    """A bias: the gradient is Σ_t g_bt."""

    __slots__ = ("_sums", "gradient", "shape")

    description = "bias: output gradients added up"

    def __init__(self, gradient: OutputGradient, shape: torch.Size) -> None:
        self.gradient = gradient
        self.shape = shape
        rows = gradient.rows
        # The sums are taken now, while the rows are unscaled. One token is its own sum.
        self._sums = None if rows.shape[1] == 1 else rows.sum(1)

    def squared_norms(self) -> Tensor:
        return self.gradient.squared_norms() if self._sums is None else squared_row_norms(self._sums)

    def add_sum(self, factors: Tensor, out: Tensor) -> None:
        if self._sums is not None:
            out.view(-1).addmv_(self._sums.t(), factors)
        elif self.gradient.is_unscaled:
            out.view(-1).addmv_(self.gradient.rows[:, 0].t(), factors)
        else:
            out.view(-1).add_(self.gradient.scale(factors).sum((0, 1)))

    def narrow(self, examples: slice) -> "BiasForm":
        return BiasForm(self.gradient.narrow(examples), self.shape)

    def to_dense(self) -> Tensor:
        sums = self.gradient.rows[:, 0] if self._sums is None else self._sums
        return sums.reshape(-1, *self.shape)
