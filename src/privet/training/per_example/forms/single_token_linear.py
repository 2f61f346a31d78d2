"""Matrix products that see one row of each example, all of them at once.

The gradient of W in y = x Wᵀ + b is g xᵀ for each example, and that of b is g. So the squared norm of both is
(‖x‖² + 1)‖g‖². On small networks a step is a matter of how many operations there are, not of how large they are: so
where numba is installed there are two for each layer and a matrix product. What is computed is what ``Outer`` and
``TokenSum`` compute.
"""

from typing import Any, final

import torch
from torch import Tensor

from privet.training.per_example.forms.products import compiled, squared_rows
from privet.training.threads import choose_threads

__all__ = ["Straight"]

_NOTHING = torch.empty(0)


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
        loops = self._loops()
        if loops is not None:
            found = norms.numpy()
            for x, g, weight, bias in zip(
                self._inputs, self._gradients, self._weights, self._biases, strict=True
            ):
                with_weight, with_bias = float(weight is not None), float(bias is not None)
                loops.add_outer_squares(
                    choose_threads(x.numel()), x.detach().numpy(), g.numpy(), with_weight, with_bias, found
                )
            return
        for x, g, weight, bias in zip(
            self._inputs, self._gradients, self._weights, self._biases, strict=True
        ):
            squares = squared_rows(g)
            if bias is not None:
                norms += squares
            if weight is not None:
                norms += squared_rows(x).mul_(squares)

    def put_sums(self, factors: Tensor, views: list[Tensor], fresh: bool) -> None:
        """The clipped sums into the views of a buffer: added, or, if it is ``fresh``, in place of what is there."""
        column, kept = factors.unsqueeze(1), 0.0 if fresh else 1.0
        loops = self._loops()
        for x, g, own, weight, bias in zip(
            self._inputs, self._gradients, self._own, self._weights, self._biases, strict=True
        ):
            if loops is not None and own:
                sums = _NOTHING if bias is None else views[bias]
                loops.scale_and_sum(
                    choose_threads(g.numel()), g.numpy(), factors.numpy(), sums.numpy(), fresh
                )
                scaled = g
            else:
                if bias is not None:
                    views[bias].addmv_(g.t(), factors, beta=kept)
                scaled = g.mul_(column) if own else g * column
            if weight is not None:
                views[weight].addmm_(scaled.t(), x, beta=kept)

    def _loops(self) -> Any:  # noqa: ANN401 - a module, or None
        """The compiled loops, if they can be had for these tensors."""
        for tensor in (*self._inputs, *self._gradients):
            if tensor.dtype != torch.float32 or not tensor.is_contiguous() or tensor.device.type != "cpu":
                return None
        return compiled("mlp_loops")
