"""Matrix products that see one row of each example, all of them at once.

The gradient of W in y = x Wᵀ + b is g xᵀ for each example, and that of b is g. So the squared norm of both is
(‖x‖² + 1)‖g‖². On small networks a step is a matter of how many operations there are, not of how large they are:
here all layers share theirs. What is computed is what ``Outer`` and ``TokenSum`` compute.
"""

from typing import final

import torch
from torch import Tensor

from privet.training.gradients.products import BLOCK, squared_rows

__all__ = ["Straight"]


@final
class Straight:
    """The layers of one pass that no other call shares a parameter with."""

    __slots__ = ("_biases", "_gradients", "_inputs", "_own", "_weights")

    def __init__(self) -> None:
        self._inputs: list[Tensor] = []
        self._gradients: list[Tensor] = []
        self._own: list[bool] = []
        self._weights: list[int | None] = []
        self._biases: list[int | None] = []

    def take(self, x: Tensor, gradient: Tensor, indices: dict[str, int], own: bool) -> None:
        """One layer: what went in, the gradient of what came out, and the places of its trainable parameters.

        ``own`` says that no other tensor shares the memory of the gradient, so that it may be written to.
        """
        self._inputs.append(x)
        self._gradients.append(gradient)
        self._own.append(own)
        self._weights.append(indices.get("weight"))
        self._biases.append(indices.get("bias"))

    @property
    def places(self) -> list[int]:
        """The parameters that are dealt with here."""
        return [i for i in (*self._weights, *self._biases) if i is not None]

    def add_squared_norms(self, norms: Tensor) -> None:
        """norms += (‖x‖² + 1)‖g‖², with the part of what is frozen left out."""
        inputs, gradients, layers = self._inputs, self._gradients, len(self._inputs)
        if all(t.shape[1] <= BLOCK for t in (*inputs, *gradients)):
            lengths = [torch.linalg.vector_norm(t, dim=1) for t in (*inputs, *gradients)]
            squares = torch.stack(lengths).double().square_()
        else:
            squares = torch.stack([squared_rows(t) for t in (*inputs, *gradients)])
        of_inputs = squares[:layers]
        if None not in self._weights and None not in self._biases:
            of_inputs += 1.0
        else:
            for row, weight, bias in zip(of_inputs, self._weights, self._biases, strict=True):
                row.mul_(weight is not None).add_(bias is not None)
        norms += of_inputs.mul_(squares[layers:]).sum(0)

    def put_sums(self, factors: Tensor, views: list[Tensor], fresh: bool) -> None:
        """The clipped sums into the views of a buffer: added, or, if it is ``fresh``, in place of what is there."""
        column = factors.unsqueeze(1)
        kept = 0.0 if fresh else 1.0
        for x, g, own, weight, bias in zip(
            self._inputs, self._gradients, self._own, self._weights, self._biases, strict=True
        ):
            if bias is not None:
                views[bias].addmv_(g.t(), factors, beta=kept)
            if weight is not None:
                scaled = g.mul_(column) if own else g * column
                views[weight].addmm_(scaled.t(), x, beta=kept)
