"""Taps of linear layers, embeddings and normalisations."""

from collections.abc import Iterator
from typing import final

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

from privet.torch_internals import InstanceNormBase, is_view
from privet.training.per_example.forms.bilinear_form import BilinearForm
from privet.training.per_example.forms.embedding_form import EmbeddingForm
from privet.training.per_example.forms.gradient_form import (
    BiasForm,
    DenseForm,
    GradientForm,
    OutputGradient,
    load_kernels,
)
from privet.training.per_example.forms.linear_form import LinearForm
from privet.training.per_example.scratch import Scratch
from privet.training.per_example.taps.group_normalization import group_norm_sums, normalize_groups
from privet.training.per_example.taps.tape import LayerCall, Tap, has_plain_parameters
from privet.training.threads import choose_threads

__all__ = [
    "BilinearTap",
    "EmbeddingBagTap",
    "EmbeddingTap",
    "GroupNormTap",
    "LayerNormTap",
    "LinearTap",
    "RMSNormTap",
    "build_linear_forms",
    "layer_norm_sums",
]


def build_linear_forms(
    x: Tensor,
    gradient: OutputGradient,
    weight: int | None,
    bias: int | None,
    shapes: tuple[torch.Size, torch.Size],
    scratch: Scratch | None = None,
) -> Iterator[tuple[int, GradientForm]]:
    """The gradient forms of y = x Wᵀ + b."""
    if bias is not None:
        yield bias, BiasForm(gradient, shapes[1])
    if weight is not None:
        yield weight, LinearForm(x, gradient, shapes[0], scratch)


@final
class LinearTap(Tap):
    """y = x Wᵀ + b over any number of leading sizes."""

    __slots__ = ()

    takes_shared_rows = True
    is_linear = True

    @staticmethod
    def supports(module: nn.Module) -> bool:
        return has_plain_parameters(module, ("weight", "bias"))

    def forward(self, x: Tensor) -> Tensor:  # type: ignore[override]
        weight, bias = self.detach_parameter("weight"), self.detach_parameter("bias")
        assert weight is not None
        if x.dim() == 2:
            y = F.linear(x, weight, bias)
            self.tape.record(self, y, (x.shape[0],), (x,))
            return y
        # The edge is that of the flat product: an in-place operation could replace the node of a view.
        leading = tuple(x.shape[:-1])
        y = F.linear(x.reshape(-1, x.shape[-1]), weight, bias)
        self.tape.record(self, y, leading, (x,))
        return y.view(*leading, -1)

    def build_forms(
        self, call: LayerCall, gradient: OutputGradient, saved: tuple[Tensor, ...]
    ) -> Iterator[tuple[int, GradientForm]]:
        height, width = gradient.rows.shape[2], saved[0].shape[2]
        shapes = torch.Size((height, width)), torch.Size((height,))
        return build_linear_forms(
            saved[0],
            gradient,
            self.indices.get("weight"),
            self.indices.get("bias"),
            shapes,
            self.tape.scratch,
        )


@final
class BilinearTap(Tap):
    """y_k = x₁ᵀ W_k x₂ + b_k over any number of leading sizes."""

    __slots__ = ()

    @staticmethod
    def supports(module: nn.Module) -> bool:
        return has_plain_parameters(module, ("weight", "bias"))

    def forward(self, x1: Tensor, x2: Tensor) -> Tensor:  # type: ignore[override]
        weight, bias = self.detach_parameter("weight"), self.detach_parameter("bias")
        assert weight is not None
        leading = tuple(x1.shape[:-1])
        y = F.bilinear(x1.reshape(-1, x1.shape[-1]), x2.reshape(-1, x2.shape[-1]), weight, bias)
        if is_view(y):
            y = y.clone()
        self.tape.record(self, y, leading, (x1, x2))
        return y.view(*leading, -1)

    def build_forms(
        self, call: LayerCall, gradient: OutputGradient, saved: tuple[Tensor, ...]
    ) -> Iterator[tuple[int, GradientForm]]:
        if "bias" in self.indices:
            yield self.indices["bias"], BiasForm(gradient, gradient.rows.shape[2:])
        if "weight" in self.indices:
            yield self.indices["weight"], BilinearForm(saved[0].detach(), saved[1].detach(), gradient)


@final
class EmbeddingTap(Tap):
    """Rows of a table by their indices."""

    __slots__ = ()

    takes_shared_rows = True

    @staticmethod
    def supports(module: nn.Module) -> bool:
        assert isinstance(module, nn.Embedding)
        return (
            has_plain_parameters(module, ("weight",))
            and module.max_norm is None
            and not module.scale_grad_by_freq
        )

    def forward(self, ids: Tensor) -> Tensor:  # type: ignore[override]
        weight = self.detach_parameter("weight")
        assert weight is not None
        y = F.embedding(ids, weight)
        self.tape.record(self, y, tuple(ids.shape), (ids,))
        return y

    def build_forms(
        self, call: LayerCall, gradient: OutputGradient, saved: tuple[Tensor, ...]
    ) -> Iterator[tuple[int, GradientForm]]:
        assert isinstance(self.module, nn.Embedding)
        yield (
            self.indices["weight"],
            EmbeddingForm(saved[0], gradient, self.module.weight.shape, self.module.padding_idx),
        )


@final
class EmbeddingBagTap(Tap):
    """Sums or means of rows of a table. Each row of a matrix of indices is one bag."""

    __slots__ = ()

    @staticmethod
    def supports(module: nn.Module) -> bool:
        assert isinstance(module, nn.EmbeddingBag)
        return (
            has_plain_parameters(module, ("weight",))
            and module.max_norm is None
            and not module.scale_grad_by_freq
            and module.mode in ("sum", "mean")
        )

    def forward(  # type: ignore[override]
        self, ids: Tensor, offsets: Tensor | None = None, per_sample_weights: Tensor | None = None
    ) -> Tensor:
        module = self.module
        assert isinstance(module, nn.EmbeddingBag)
        if ids.dim() != 2 or offsets is not None:
            return nn.EmbeddingBag.forward(module, ids, offsets, per_sample_weights)
        weight = self.detach_parameter("weight")
        assert weight is not None
        y = F.embedding_bag(
            ids,
            weight,
            mode=module.mode,
            per_sample_weights=per_sample_weights,
            padding_idx=module.padding_idx,
        )
        saved = (ids,) if per_sample_weights is None else (ids, per_sample_weights.detach())
        self.tape.record(self, y, (ids.shape[0],), saved)
        return y

    def build_forms(
        self, call: LayerCall, gradient: OutputGradient, saved: tuple[Tensor, ...]
    ) -> Iterator[tuple[int, GradientForm]]:
        module = self.module
        assert isinstance(module, nn.EmbeddingBag)
        ids = saved[0]  # [examples, bags, length]
        weights = saved[1] if len(saved) > 1 else torch.ones_like(ids, dtype=gradient.rows.dtype)
        if module.padding_idx is not None:
            weights = weights * (ids != module.padding_idx)
        if module.mode == "mean":
            weights = weights / weights.sum(2, keepdim=True).clamp_(min=1.0)
        rows = (gradient.rows.unsqueeze(2) * weights.unsqueeze(3)).flatten(1, 2)
        yield (
            self.indices["weight"],
            EmbeddingForm(
                ids.flatten(1), OutputGradient(rows, own=True), module.weight.shape, module.padding_idx
            ),
        )


def build_affine_forms(
    normalized: Tensor, gradient: Tensor, weight: int | None, bias: int | None, shape: torch.Size
) -> Iterator[tuple[int, GradientForm]]:
    """The gradient forms of y = w∘x̂ + b, from x̂ [examples, tokens, numbers], which is overwritten."""
    batch = gradient.shape[0]
    if bias is not None:
        yield bias, DenseForm(gradient.sum(1).view(batch, *shape))
    if weight is not None:
        yield weight, DenseForm(normalized.mul_(gradient).sum(1).view(batch, *shape))


def layer_norm_sums(x: Tensor, mean: Tensor, scale: Tensor, rows: Tensor) -> tuple[Tensor, Tensor] | None:
    """The gradients of weight and bias, from [examples, tokens, …]; None if there is no loop for them."""
    kernels = load_kernels()
    has_kernel = all(
        t.dtype is torch.float32 and t.is_cpu and t.is_contiguous() for t in (x, mean, scale, rows)
    )
    if kernels is None or not has_kernel:
        return None
    weights, biases = x.new_empty(len(x), x.shape[2]), x.new_empty(len(x), x.shape[2])
    arrays = x, mean.squeeze(2), scale.squeeze(2), rows, weights, biases
    kernels.layer_norm_sums(choose_threads(x.numel()), *(t.detach().numpy() for t in arrays))
    return weights, biases


@final
class LayerNormTap(Tap):
    """Layer normalisation."""

    __slots__ = ()

    takes_shared_rows = True

    @staticmethod
    def supports(module: nn.Module) -> bool:
        return has_plain_parameters(module, ("weight", "bias"))

    def forward(self, x: Tensor) -> Tensor:  # type: ignore[override]
        module = self.module
        assert isinstance(module, nn.LayerNorm)
        shape = module.normalized_shape
        y, mean, scale = torch.native_layer_norm(
            x, shape, self.detach_parameter("weight"), self.detach_parameter("bias"), module.eps
        )
        self.tape.record(self, y, tuple(x.shape[: x.dim() - len(shape)]), (x, mean, scale))
        return y

    def build_forms(
        self, call: LayerCall, gradient: OutputGradient, saved: tuple[Tensor, ...]
    ) -> Iterator[tuple[int, GradientForm]]:
        assert isinstance(self.module, nn.LayerNorm)
        x, mean, scale = (t.detach().flatten(2) for t in saved)
        rows = gradient.rows.flatten(2)
        shape = torch.Size(self.module.normalized_shape)
        weight, bias = self.indices.get("weight"), self.indices.get("bias")
        sums = layer_norm_sums(x, mean, scale, rows)
        if sums is None:
            yield from build_affine_forms((x - mean).mul_(scale), rows, weight, bias, shape)
            return
        for index, total in zip((weight, bias), sums, strict=True):
            if index is not None:
                yield index, DenseForm(total.view(-1, *shape))


@final
class RMSNormTap(Tap):
    """Root-mean-square normalisation."""

    __slots__ = ()

    takes_shared_rows = True

    @staticmethod
    def supports(module: nn.Module) -> bool:
        return has_plain_parameters(module, ("weight",))

    def forward(self, x: Tensor) -> Tensor:  # type: ignore[override]
        module = self.module
        assert isinstance(module, nn.RMSNorm)
        shape = module.normalized_shape
        y = F.rms_norm(x, shape, self.detach_parameter("weight"), module.eps)
        self.tape.record(self, y, tuple(x.shape[: x.dim() - len(shape)]), (x,))
        return y

    def build_forms(
        self, call: LayerCall, gradient: OutputGradient, saved: tuple[Tensor, ...]
    ) -> Iterator[tuple[int, GradientForm]]:
        assert isinstance(self.module, nn.RMSNorm)
        x = saved[0].detach()
        eps = torch.finfo(x.dtype).eps if self.module.eps is None else self.module.eps
        shape = torch.Size(self.module.normalized_shape)
        normalized = F.rms_norm(x, shape, None, eps).flatten(2)
        return build_affine_forms(
            normalized, gradient.rows.flatten(2), self.indices.get("weight"), None, shape
        )


@final
class GroupNormTap(Tap):
    """Group normalisation, and instance normalisation without running statistics (one group per channel)."""

    __slots__ = ()

    @staticmethod
    def supports(module: nn.Module) -> bool:
        if not has_plain_parameters(module, ("weight", "bias")):
            return False
        return isinstance(module, nn.GroupNorm) or bool(module.affine)

    @property
    def eps(self) -> float:
        """The constant that is added to the variance."""
        module = self.module
        assert isinstance(module, nn.GroupNorm | InstanceNormBase)
        return float(module.eps)

    def forward(self, x: Tensor) -> Tensor:  # type: ignore[override]
        module = self.module
        weight, bias = self.detach_parameter("weight"), self.detach_parameter("bias")
        if isinstance(module, nn.GroupNorm):
            assert weight is not None
            assert bias is not None
            y, mean, scale = normalize_groups(x, module.num_groups, weight, bias, self.eps)
            self.tape.record(self, y, (x.shape[0],), (x, mean, scale))
            return y
        y = F.instance_norm(x, None, None, weight, bias, True, 0.0, self.eps)
        if is_view(y):
            y = y.clone()
        self.tape.record(self, y, (x.shape[0],), (x,))
        return y

    def build_forms(
        self, call: LayerCall, gradient: OutputGradient, saved: tuple[Tensor, ...]
    ) -> Iterator[tuple[int, GradientForm]]:
        x = saved[0].detach().flatten(0, 1)
        module, g = self.module, gradient.rows
        if isinstance(module, nn.GroupNorm):
            mean, scale = (t.flatten(0, 1) for t in saved[1:])
            sums = group_norm_sums(x, mean, scale, g.flatten(0, 1))
            if sums is not None:
                for name, rows in zip(("weight", "bias"), sums, strict=True):
                    if name in self.indices:
                        yield (
                            self.indices[name],
                            DenseForm(rows if g.shape[1] == 1 else rows.view(*g.shape[:2], -1).sum(1)),
                        )
                return
        groups = module.num_groups if isinstance(module, nn.GroupNorm) else x.shape[1]
        batch, channels = g.shape[0], x.shape[1]
        normalized = F.group_norm(x, groups, None, None, self.eps)
        by_channel = [t.reshape(batch, -1, channels, x[0, 0].numel()) for t in (normalized, g)]
        shape = torch.Size((channels,))
        if "bias" in self.indices:
            yield self.indices["bias"], DenseForm(by_channel[1].sum((1, 3)).view(batch, *shape))
        if "weight" in self.indices:
            yield (
                self.indices["weight"],
                DenseForm(by_channel[0].mul_(by_channel[1]).sum((1, 3)).view(batch, *shape)),
            )
