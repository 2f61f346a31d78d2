"""Taps of matrix products, tables and normalisations."""

from collections.abc import Iterator
from typing import final

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

from privet.training.per_example.forms.embedding_form import Lookup
from privet.training.per_example.forms.linear_form import Outer
from privet.training.per_example.forms.products import Direct, Gradient, Product, TokenSum, compiled
from privet.training.per_example.scratch import Scratch
from privet.training.per_example.taps.tape import Tap, Use, plain_parameters
from privet.training.threads import choose_threads

__all__ = ["BagTap", "EmbeddingTap", "GroupNormTap", "LayerNormTap", "LinearTap", "RMSNormTap"]


def matrix_products(
    x: Tensor,
    gradient: Gradient,
    weight: int | None,
    bias: int | None,
    shapes: tuple[torch.Size, torch.Size],
    scratch: Scratch | None = None,
) -> Iterator[tuple[int, Product]]:
    """The gradients of y = x Wᵀ + b."""
    if bias is not None:
        yield bias, TokenSum(gradient, shapes[1])
    if weight is not None:
        yield weight, Outer(x, gradient, shapes[0], scratch)


@final
class LinearTap(Tap):
    """y = x Wᵀ + b over any number of leading sizes."""

    __slots__ = ()

    shareable = True
    matrix = True

    @staticmethod
    def fits(module: nn.Module) -> bool:
        return plain_parameters(module, ("weight", "bias"))

    def forward(self, x: Tensor) -> Tensor:  # type: ignore[override]
        weight, bias = self.cut("weight"), self.cut("bias")
        assert weight is not None
        if x.dim() == 2:
            y = F.linear(x, weight, bias)
            self.tape.note(self, y, (x.shape[0],), (x,))
            return y
        # The edge is that of the flat product: a view of it could be re-made by an operation in place.
        leading = tuple(x.shape[:-1])
        y = F.linear(x.reshape(-1, x.shape[-1]), weight, bias)
        self.tape.note(self, y, leading, (x,))
        return y.view(*leading, -1)

    def products(
        self, use: Use, gradient: Gradient, saved: tuple[Tensor, ...]
    ) -> Iterator[tuple[int, Product]]:
        height, width = gradient.rows.shape[2], saved[0].shape[2]
        shapes = torch.Size((height, width)), torch.Size((height,))
        return matrix_products(
            saved[0],
            gradient,
            self.indices.get("weight"),
            self.indices.get("bias"),
            shapes,
            self.tape.scratch,
        )


@final
class EmbeddingTap(Tap):
    """Rows of a table by their numbers."""

    __slots__ = ()

    shareable = True

    @staticmethod
    def fits(module: nn.Module) -> bool:
        assert isinstance(module, nn.Embedding)
        return (
            plain_parameters(module, ("weight",))
            and module.max_norm is None
            and not module.scale_grad_by_freq
        )

    def forward(self, ids: Tensor) -> Tensor:  # type: ignore[override]
        weight = self.cut("weight")
        assert weight is not None
        y = F.embedding(ids, weight)
        self.tape.note(self, y, tuple(ids.shape), (ids,))
        return y

    def products(
        self, use: Use, gradient: Gradient, saved: tuple[Tensor, ...]
    ) -> Iterator[tuple[int, Product]]:
        assert isinstance(self.module, nn.Embedding)
        yield (
            self.indices["weight"],
            Lookup(saved[0], gradient, self.module.weight.shape, self.module.padding_idx),
        )


@final
class BagTap(Tap):
    """Sums or means of rows of a table, one bag of equal length for each row of a matrix of numbers."""

    __slots__ = ()

    @staticmethod
    def fits(module: nn.Module) -> bool:
        assert isinstance(module, nn.EmbeddingBag)
        return (
            plain_parameters(module, ("weight",))
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
        weight = self.cut("weight")
        assert weight is not None
        y = F.embedding_bag(
            ids,
            weight,
            mode=module.mode,
            per_sample_weights=per_sample_weights,
            padding_idx=module.padding_idx,
        )
        saved = (ids,) if per_sample_weights is None else (ids, per_sample_weights.detach())
        self.tape.note(self, y, (ids.shape[0],), saved)
        return y

    def products(
        self, use: Use, gradient: Gradient, saved: tuple[Tensor, ...]
    ) -> Iterator[tuple[int, Product]]:
        module = self.module
        assert isinstance(module, nn.EmbeddingBag)
        ids = saved[0]  # [examples, bags, length]
        share = saved[1] if len(saved) > 1 else torch.ones_like(ids, dtype=gradient.rows.dtype)
        if module.padding_idx is not None:
            share = share * (ids != module.padding_idx)
        if module.mode == "mean":
            share = share / share.sum(2, keepdim=True).clamp_(min=1.0)
        rows = (gradient.rows.unsqueeze(2) * share.unsqueeze(3)).flatten(1, 2)
        yield (
            self.indices["weight"],
            Lookup(ids.flatten(1), Gradient(rows, own=True), module.weight.shape, module.padding_idx),
        )


def affine_products(
    normed: Tensor, gradient: Tensor, weight: int | None, bias: int | None, shape: torch.Size
) -> Iterator[tuple[int, Product]]:
    """The gradients of y = w∘x̂ + b, from [examples, tokens, numbers]; ``normed`` may be written to."""
    batch = gradient.shape[0]
    if bias is not None:
        yield bias, Direct(gradient.sum(1).view(batch, *shape))
    if weight is not None:
        yield weight, Direct(normed.mul_(gradient).sum(1).view(batch, *shape))


@final
class LayerNormTap(Tap):
    """Layer normalisation."""

    __slots__ = ()

    @staticmethod
    def fits(module: nn.Module) -> bool:
        return plain_parameters(module, ("weight", "bias"))

    def forward(self, x: Tensor) -> Tensor:  # type: ignore[override]
        module = self.module
        assert isinstance(module, nn.LayerNorm)
        shape = module.normalized_shape
        y, mean, scale = torch.native_layer_norm(x, shape, self.cut("weight"), self.cut("bias"), module.eps)
        self.tape.note(self, y, tuple(x.shape[: x.dim() - len(shape)]), (x, mean, scale))
        return y

    def products(
        self, use: Use, gradient: Gradient, saved: tuple[Tensor, ...]
    ) -> Iterator[tuple[int, Product]]:
        assert isinstance(self.module, nn.LayerNorm)
        x, mean, scale = (t.detach().flatten(2) for t in saved)
        rows = gradient.rows.flatten(2)
        shape = torch.Size(self.module.normalized_shape)
        weight, bias = self.indices.get("weight"), self.indices.get("bias")
        loops = compiled()
        usual = all(
            t.dtype is torch.float32 and t.is_cpu and t.is_contiguous() for t in (x, mean, scale, rows)
        )
        if loops is None or not usual:
            yield from affine_products((x - mean).mul_(scale), rows, weight, bias, shape)
            return
        weights, biases = x.new_empty(len(x), x.shape[2]), x.new_empty(len(x), x.shape[2])
        each = x, mean.squeeze(2), scale.squeeze(2), rows, weights, biases
        loops.normed_sums(choose_threads(x.numel()), *(t.numpy() for t in each))
        for place, found in ((bias, biases), (weight, weights)):
            if place is not None:
                yield place, Direct(found.view(-1, *shape))


@final
class RMSNormTap(Tap):
    """Root-mean-square normalisation."""

    __slots__ = ()

    @staticmethod
    def fits(module: nn.Module) -> bool:
        return plain_parameters(module, ("weight",))

    def forward(self, x: Tensor) -> Tensor:  # type: ignore[override]
        module = self.module
        assert isinstance(module, nn.RMSNorm)
        shape = module.normalized_shape
        y = F.rms_norm(x, shape, self.cut("weight"), module.eps)
        self.tape.note(self, y, tuple(x.shape[: x.dim() - len(shape)]), (x,))
        return y

    def products(
        self, use: Use, gradient: Gradient, saved: tuple[Tensor, ...]
    ) -> Iterator[tuple[int, Product]]:
        assert isinstance(self.module, nn.RMSNorm)
        x = saved[0].detach()
        eps = torch.finfo(x.dtype).eps if self.module.eps is None else self.module.eps
        shape = torch.Size(self.module.normalized_shape)
        normed = F.rms_norm(x, shape, None, eps).flatten(2)
        return affine_products(normed, gradient.rows.flatten(2), self.indices.get("weight"), None, shape)


@final
class GroupNormTap(Tap):
    """Group normalisation, and instance normalisation without running statistics (a group for each channel)."""

    __slots__ = ()

    @staticmethod
    def fits(module: nn.Module) -> bool:
        if not plain_parameters(module, ("weight", "bias")):
            return False
        return isinstance(module, nn.GroupNorm) or bool(module.affine)

    @property
    def eps(self) -> float:
        """What is added to the variance."""
        module = self.module
        assert isinstance(module, nn.GroupNorm | nn.modules.instancenorm._InstanceNorm)
        return float(module.eps)

    def forward(self, x: Tensor) -> Tensor:  # type: ignore[override]
        module = self.module
        if isinstance(module, nn.GroupNorm):
            y = F.group_norm(x, module.num_groups, self.cut("weight"), self.cut("bias"), self.eps)
        else:
            y = F.instance_norm(x, None, None, self.cut("weight"), self.cut("bias"), True, 0.0, self.eps)
        if y._is_view():
            y = y.clone()
        self.tape.note(self, y, (x.shape[0],), (x,))
        return y

    def products(
        self, use: Use, gradient: Gradient, saved: tuple[Tensor, ...]
    ) -> Iterator[tuple[int, Product]]:
        x = saved[0].detach().flatten(0, 1)
        module = self.module
        groups = module.num_groups if isinstance(module, nn.GroupNorm) else x.shape[1]
        batch, channels = gradient.rows.shape[0], x.shape[1]
        normed = F.group_norm(x, groups, None, None, self.eps)
        by_channel = [t.reshape(batch, -1, channels, x[0, 0].numel()) for t in (normed, gradient.rows)]
        shape = torch.Size((channels,))
        if "bias" in self.indices:
            yield self.indices["bias"], Direct(by_channel[1].sum((1, 3)).view(batch, *shape))
        if "weight" in self.indices:
            yield (
                self.indices["weight"],
                Direct(by_channel[0].mul_(by_channel[1]).sum((1, 3)).view(batch, *shape)),
            )
