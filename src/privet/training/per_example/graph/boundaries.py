"""Where a shared tensor meets the examples: the edge whose gradient has them apart, and the way back."""

from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor
from torch.autograd.graph import GradientEdge, Node

from privet.torch_internals import get_output_shape
from privet.training.per_example.forms.gradient_form import DenseForm, GradientForm, OutputGradient
from privet.training.per_example.forms.linear_form import LinearForm
from privet.training.per_example.forms.rearranged_form import RearrangedForm
from privet.training.per_example.graph.parameter_uses import MatrixUse
from privet.training.per_example.graph.shared_steps import Shape, is_isometry, read_extent, read_step
from privet.training.per_example.graph.uses import ParameterUse
from privet.training.per_example.taps.tape import BatchAxis, RowOwners

__all__ = ["BatchBoundary", "StepBack"]

_CUTS = frozenset({"SliceBackward0", "SplitBackward0", "SplitWithSizesBackward0"})


@final
class StepBack:
    """An operation between a parameter and a boundary, with what it saved."""

    __slots__ = ("_run", "before", "cut", "name")

    def __init__(self, name: str, node: Node, position: int, before: Shape, output: int) -> None:
        self.name, self.before = name, before
        self.cut = read_extent(node, name, before, output) if name in _CUTS else None
        self._run = read_step(node, name, position, before, output)

    def run(self, value: Tensor) -> Tensor:
        """From [examples, *after] to [examples, *before]."""
        return self._run(value)


@final
@dataclass(slots=True)
class BatchBoundary:
    """An edge where the gradient of a shared tensor has the examples apart, and the way back from there."""

    edge: GradientEdge
    axis: BatchAxis
    shared: tuple[Node, int]  # the output that meets the examples here
    shape: Shape  # of that output
    use: ParameterUse
    steps: tuple[StepBack, ...]  # from the parameter to the boundary
    owners: RowOwners | None = None  # where the rows are in no order

    @classmethod
    def find(
        cls,
        use: ParameterUse | None,
        axis: BatchAxis,
        shared: tuple[Node, int],
        meeting: tuple[Node, int],
        batch: int,
    ) -> "BatchBoundary | None":
        """The boundary where ``shared`` goes into ``meeting``; None if no rule holds there."""
        shape, out = get_output_shape(*shared), get_output_shape(*meeting)
        if use is None or len(out) <= axis.dim or out[axis.dim] != axis.each * batch:
            return None
        if not use.accepts(axis, out, shape):
            return None
        return cls(GradientEdge(*meeting), axis, shared, shape, use, ())

    def build_shared_form(self, gradient: Tensor, batch: int) -> GradientForm:
        """The gradient of the shared tensor that meets the examples here."""
        use = self.use.widen(gradient.dtype)
        if self.owners is not None:
            return use.build_owned_form(gradient, self.owners, batch, self.shape)
        return use.build_form(gradient, self.axis, batch, self.shape)

    def build_form(self, gradient: Tensor, batch: int) -> GradientForm:
        """The gradient of the parameter, from the gradient at this boundary."""
        if isinstance(self.use, MatrixUse):
            return self._build_matrix_form(*self.use.widen(gradient.dtype).split(gradient, self.axis, batch))
        form = self.build_shared_form(gradient, batch)
        return form if not self.steps else _take_back(form, self.shape, self.steps)

    def _build_matrix_form(self, left: Tensor, right: Tensor) -> GradientForm:
        """The gradient leftᵀ·right of a matrix, taken back through transpositions and slices."""
        shape, steps = self.shape, tuple(s for s in self.steps if s.name != "ToCopyBackward0")
        while steps and len(steps[-1].before) == 2 and (steps[-1].name == "TBackward0" or steps[-1].cut):
            *rest, step = steps
            if step.cut is None:
                left, right = right, left
            else:
                dim, start, stop, stride = step.cut
                chosen = (left, right)[dim]
                whole = chosen.new_zeros(*chosen.shape[:2], step.before[dim])
                whole[:, :, start:stop:stride] = chosen
                left, right = (whole, right) if dim == 0 else (left, whole)
            shape, steps = step.before, tuple(rest)
        form = LinearForm(right, OutputGradient(left, own=False), torch.Size(shape))
        return form if not steps else _take_back(form, shape, steps)


def _take_back(form: GradientForm, shape: Shape, steps: tuple[StepBack, ...]) -> GradientForm:
    """The form of the parameter, from that of a tensor of this shape after the steps."""

    def back(value: Tensor) -> Tensor:
        for step in reversed(steps):
            value = step.run(value)
        return value

    if isinstance(form, DenseForm) or not all(is_isometry(step.name) for step in steps):
        return DenseForm(back(form.to_dense()))
    return RearrangedForm(form, shape, back)
