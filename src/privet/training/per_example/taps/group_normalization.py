"""Group normalisation with channels last, by loops of our own; torch's loops are for channels first."""

import math
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor
from torch.autograd.graph import Node

from privet.torch_internals import get_forward_class
from privet.training.per_example.forms.gradient_form import load_kernels
from privet.training.threads import choose_threads

__all__ = ["group_norm_sums", "is_own_normalization", "normalize_groups"]


def normalize_groups(
    x: Tensor, groups: int, weight: Tensor, bias: Tensor, eps: float
) -> tuple[Tensor, Tensor, Tensor]:
    """``F.group_norm``, with the mean and 1/√(variance + eps) of each image and group."""
    if _is_channels_last(x) and _is_supported(x, weight, bias) and load_kernels("norm_loops") is not None:
        y, mean, scale = _GroupNorm.apply(x, weight, bias, groups, eps)  # type: ignore[no-untyped-call]
        return y, mean, scale
    sizes = x.shape[0], x.shape[1], math.prod(x.shape[2:])
    return torch.native_group_norm(_as_dense(x), weight, bias, *sizes, groups, eps)


def group_norm_sums(x: Tensor, mean: Tensor, scale: Tensor, gradient: Tensor) -> tuple[Tensor, Tensor] | None:
    """The gradients of weight and bias [images, channels]; None if there is no loop for them."""
    kernels = load_kernels("norm_loops")
    if kernels is None or not _is_supported(x, mean, scale, gradient):
        return None
    weights, biases = x.new_empty(x.shape[:2]), x.new_empty(x.shape[:2])
    if _is_channels_last(x):
        pixels = [_pixels(t) for t in (x, gradient)]
        run = kernels.group_norm_sums
    elif x.is_contiguous():
        pixels = [t.reshape(*x.shape[:2], -1).contiguous() for t in (x, gradient)]
        run = kernels.group_norm_sums_channels_first
    else:
        return None
    arrays = pixels[0], mean.contiguous(), scale.contiguous(), pixels[1], weights, biases
    run(choose_threads(x.numel()), *[t.detach().numpy() for t in arrays])
    return weights, biases


def is_own_normalization(node: Node) -> bool:
    """Whether a node is a normalisation of this module, which keeps the images apart along the first axis."""
    return get_forward_class(node) is _GroupNorm


class _GroupNorm(torch.autograd.Function):
    """(x [images, channels, …] with channels last, weight, bias, groups, eps) → (y, means, scales)."""

    @staticmethod
    def forward(
        ctx: Any,  # noqa: ANN401
        x: Tensor,
        weight: Tensor,
        bias: Tensor,
        groups: int,
        eps: float,
    ) -> tuple[Tensor, Tensor, Tensor]:
        y, mean = torch.empty_like(x), x.new_empty(x.shape[0], groups)
        scale = torch.empty_like(mean)
        inputs = _pixels(x).numpy(), weight.detach().numpy(), bias.detach().numpy()
        outputs = _pixels(y).numpy(), mean.numpy(), scale.numpy()
        load_kernels("norm_loops").group_norm_forward(choose_threads(x.numel()), *inputs, eps, *outputs)
        ctx.save_for_backward(x, weight, bias, mean, scale)
        ctx.groups, ctx.eps = groups, eps
        ctx.mark_non_differentiable(mean, scale)
        return y, mean, scale

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:  # noqa: ANN401
        x, weight, bias, mean, scale = ctx.saved_tensors
        gradient = gradients[0]
        if not ctx.needs_input_grad[0]:
            return (None,) * 5
        if torch.is_grad_enabled():  # the model differentiates this gradient once more
            y = F.group_norm(x, ctx.groups, weight, bias, ctx.eps)
            return *torch.autograd.grad(y, x, gradient, create_graph=True), None, None, None, None
        dx = torch.empty_like(x)
        arrays = _pixels(x), weight.detach(), mean, scale, _pixels(gradient), _pixels(dx)
        kernels = load_kernels("norm_loops")
        kernels.group_norm_backward(choose_threads(x.numel()), *[t.numpy() for t in arrays])
        return dx, None, None, None, None


def _is_supported(*tensors: Tensor) -> bool:
    return all(t.dtype is torch.float32 and t.is_cpu for t in tensors)


def _is_channels_last(x: Tensor) -> bool:
    """Whether the memory is that of channels last only; what is in both orders goes to torch."""
    return x.dim() == 4 and not x.is_contiguous() and x.is_contiguous(memory_format=torch.channels_last)


def _pixels(x: Tensor) -> Tensor:
    """[images, pixels, channels]; the same memory if the channels are last."""
    return x.detach().permute(0, 2, 3, 1).contiguous().flatten(1, 2)


def _as_dense(x: Tensor) -> Tensor:
    """As ``F.group_norm`` does: other orders than the two of torch are copied."""
    return x if x.dim() == 4 and x.is_contiguous(memory_format=torch.channels_last) else x.contiguous()
