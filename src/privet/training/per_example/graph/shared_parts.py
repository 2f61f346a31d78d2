"""The part of a graph that all examples share: parametrisations, standardised weights, prompt encoders.

A parameter may go through any operations before it meets the examples, as in a weight w = g·v/‖v‖. The
gradient of example b at w is known in some form. The gradient at g and v is the transposed derivative of
w(g, v), applied to it. Autograd does that for many examples at once, on the graph of the forward pass itself.
For the clipped sum it is applied once: it is linear, so the sum over the examples comes first.
"""

from collections.abc import Sequence
from typing import Any, final

import torch
from torch import Tensor, nn
from torch.autograd.graph import GradientEdge, Node

from privet.torch_internals import get_output_dtype
from privet.training.per_example.forms.embedding_form import combine_forms
from privet.training.per_example.forms.gradient_form import WRITTEN_AT_A_TIME, GradientForm, squared_row_norms
from privet.training.per_example.graph.boundaries import BatchBoundary

__all__ = ["SharedPartForm", "build_followed_forms"]

Output = tuple[Node, int]


@final
class SharedPartForm(GradientForm):
    """The gradient of a parameter, from those of the shared tensors that meet the examples."""

    __slots__ = ("_at_root", "_batch", "_forms", "_outputs", "_rows", "_shapes", "_size", "_target")

    description = "parametrised: norms written out in slices, through what the model makes of it"

    def __init__(
        self,
        forms: dict[Output, GradientForm],
        shapes: dict[Output, tuple[int, ...]],
        root: Output,
        target: nn.Parameter | GradientEdge,
        batch: int,
    ) -> None:
        self._at_root = forms.pop(root, None)  # the parameter meets the examples as it is, too
        self._outputs, self._forms = list(forms), list(forms.values())
        self._shapes = [shapes[output] for output in self._outputs]
        self._target, self._batch = target, batch
        self._size = sum(torch.Size(shape).numel() for shape in shapes.values())
        self._rows: Tensor | None = None

    def squared_norms(self) -> Tensor:
        chunks = self._list_chunks()
        if len(chunks) == 1:
            self._rows = self.to_dense()
            return squared_row_norms(self._rows)
        return torch.cat([squared_row_norms(self.narrow(chunk).to_dense()) for chunk in chunks])

    def _list_chunks(self) -> list[slice]:
        """Slices of examples whose gradients are written out at a time."""
        step = max(1, WRITTEN_AT_A_TIME // self._size)
        return [slice(start, start + step) for start in range(0, self._batch, step)]

    def add_sum(self, factors: Tensor, out: Tensor) -> None:
        if self._rows is not None:
            out.view(-1).addmv_(self._rows.reshape(self._batch, -1).t(), factors)
            return
        if any(get_output_dtype(*output) is not out.dtype for output in self._outputs):
            # In a lower precision the sum of what is pulled back is not what is pulled back of the sum.
            for chunk in self._list_chunks():
                rows = self.narrow(chunk).to_dense()
                out.view(-1).addmv_(rows.reshape(len(rows), -1).t(), factors[chunk])
            return
        totals = [torch.zeros(shape, dtype=out.dtype, device=out.device) for shape in self._shapes]
        for form, total in zip(self._forms, totals, strict=True):
            form.add_sum(factors, total)
        out += self._pull_back(totals, batched=False)
        if self._at_root is not None:
            self._at_root.add_sum(factors, out)

    def narrow(self, examples: slice) -> "SharedPartForm":
        root = (_NOWHERE, 0)
        forms = {o: f.narrow(examples) for o, f in zip(self._outputs, self._forms, strict=True)}
        shapes = dict(zip(self._outputs, self._shapes, strict=True))
        batch = len(range(self._batch)[examples])
        narrowed = SharedPartForm(forms, shapes, root, self._target, batch)
        if self._at_root is not None:
            narrowed._at_root = self._at_root.narrow(examples)
        return narrowed

    def to_dense(self) -> Tensor:
        rows = self._pull_back([form.to_dense() for form in self._forms], batched=True)
        return rows if self._at_root is None else rows + self._at_root.to_dense()

    def _pull_back(self, values: list[Tensor], batched: bool) -> Tensor:
        edges = [GradientEdge(*output) for output in self._outputs]
        if not batched:
            return _differentiate(edges, values, self._target, batched=False)
        try:
            return _differentiate(edges, values, self._target, batched=True)
        except RuntimeError:  # an operation that cannot run for many examples at once
            rows = [_differentiate(edges, [v[i] for v in values], self._target) for i in range(self._batch)]
            return torch.stack(rows)


_NOWHERE: Any = None


def _differentiate(
    edges: list[GradientEdge],
    values: Sequence[Tensor],
    target: nn.Parameter | GradientEdge,
    batched: bool = False,
) -> Tensor:
    inputs: Any = [target]
    result: Tensor
    (result,) = torch.autograd.grad(
        edges, inputs, grad_outputs=values, retain_graph=True, is_grads_batched=batched
    )
    return result


def build_followed_forms(
    root: Output,
    pairs: Sequence[tuple[BatchBoundary, Tensor]],
    any_step: bool,
    target: nn.Parameter | GradientEdge,
    batch: int,
) -> list[GradientForm]:
    """The forms of a parameter or of a call's output (``target``), from the gradients at its boundaries."""
    if not any_step:
        return [boundary.build_form(gradient, batch) for boundary, gradient in pairs]
    collected: dict[Output, list[GradientForm]] = {}
    shapes: dict[Output, tuple[int, ...]] = {}
    for boundary, gradient in pairs:
        collected.setdefault(boundary.shared, []).append(boundary.build_shared_form(gradient, batch))
        shapes[boundary.shared] = boundary.shape
    forms = {
        output: combine_forms(parts, batch, torch.Size(shapes[output]).numel())
        for output, parts in collected.items()
    }
    return [SharedPartForm(forms, shapes, root, target, batch)]
