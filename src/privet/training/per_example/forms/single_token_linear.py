"""Linear layers with one row per example, all of them together.

In y = x Wᵀ + b the gradient of W is g xᵀ for each example, and that of b is g. So their squared norm is (‖x‖²
+ 1)‖g‖². On small networks the time of a step is the number of operations, not their size. With numba there
are two operations and one matrix product per layer. The results are those of ``LinearForm`` and ``BiasForm``.
"""

from typing import Any, final

import torch
from torch import Tensor

from privet.training.per_example.forms.gradient_form import load_kernels, squared_row_norms
from privet.training.threads import choose_threads

__all__ = ["SingleTokenLinear"]

_EMPTY = torch.empty(0)


@final
class SingleTokenLinear:
    """The linear layers of one pass that share no parameter with another call."""

    __slots__ = ("_biases", "_gradients", "_inputs", "_own", "_weights")

    def __init__(self) -> None:
        self._inputs: list[Tensor] = []
        self._gradients: list[Tensor] = []
        self._own: list[bool] = []
        self._weights: list[int | None] = []
        self._biases: list[int | None] = []

    def add_layer(self, x: Tensor, gradient: Tensor, indices: dict[str, int], own: bool) -> None:
        """Add one layer: its input, the gradient of its output, and the indices of its trainable parameters.

        ``own`` says that no other tensor shares the memory of the gradient, so it may be overwritten.
        """
        self._inputs.append(x)
        self._gradients.append(gradient)
        self._own.append(own)
        self._weights.append(indices.get("weight"))
        self._biases.append(indices.get("bias"))

    @property
    def parameter_indices(self) -> list[int]:
        """The indices of the parameters of these layers."""
        return [i for i in (*self._weights, *self._biases) if i is not None]

    def add_squared_norms(self, norms: Tensor) -> None:
        """norms += (‖x‖² + 1)‖g‖², without the terms of frozen parameters."""
        kernels = self._choose_kernels()
        if kernels is not None:
            norms_array = norms.numpy()
            for x, g, weight, bias in zip(
                self._inputs, self._gradients, self._weights, self._biases, strict=True
            ):
                with_weight, with_bias = float(weight is not None), float(bias is not None)
                arrays = x.detach().numpy(), g.numpy()
                threads = choose_threads(x.numel())
                kernels.add_linear_squared_norms(threads, *arrays, with_weight, with_bias, norms_array)
            return
        for x, g, weight, bias in zip(
            self._inputs, self._gradients, self._weights, self._biases, strict=True
        ):
            squares = squared_row_norms(g)
            if bias is not None:
                norms += squares
            if weight is not None:
                norms += squared_row_norms(x).mul_(squares)

    def write_sums(self, factors: Tensor, views: list[Tensor], overwrite: bool) -> None:
        """Add the clipped sums to the views of a buffer, or overwrite them."""
        column, beta = factors.unsqueeze(1), 0.0 if overwrite else 1.0
        kernels = self._choose_kernels()
        for x, g, own, weight, bias in zip(
            self._inputs, self._gradients, self._own, self._weights, self._biases, strict=True
        ):
            if kernels is not None and own:
                sums = _EMPTY if bias is None else views[bias]
                arrays = g.numpy(), factors.numpy(), sums.numpy()
                kernels.scale_and_sum(choose_threads(g.numel()), *arrays, overwrite)
                scaled = g
            else:
                if bias is not None:
                    views[bias].addmv_(g.t(), factors, beta=beta)
                scaled = g.mul_(column) if own else g * column
            if weight is not None:
                views[weight].addmm_(scaled.t(), x, beta=beta)

    def _choose_kernels(self) -> Any:  # noqa: ANN401 - a module, or None
        """The compiled loops, if they work on these tensors."""
        for tensor in (*self._inputs, *self._gradients):
            if tensor.dtype != torch.float32 or not tensor.is_contiguous() or tensor.device.type != "cpu":
                return None
        return load_kernels("mlp_loops")
