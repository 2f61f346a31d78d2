"""Refusals: layers that mix examples, coupled losses, and gradients that are not finite."""

import math

import torch
from torch import Tensor, nn

from privet.errors import InvalidArgument, PrivetError
from privet.torch_internals import BatchNormBase, InstanceNormBase

__all__ = [
    "CrossExample",
    "NotFinite",
    "RowsMoved",
    "require_finite",
    "require_losses",
    "require_rows",
    "require_uncoupled_modules",
]


class CrossExample(InvalidArgument):
    """One example's loss depends on other examples, so no clip bounds the effect of one example."""


class RowsMoved(InvalidArgument):
    """The rows of a layer moved to other examples, so earlier lots may have clipped wrong rows."""


class NotFinite(PrivetError, ArithmeticError):
    """A gradient is NaN or infinite; nothing was added and nothing is spent."""


def require_uncoupled_modules(model: nn.Module) -> list[nn.Module]:
    """Refuse modules that mix examples. Returns the frozen batch normalisations, which must stay frozen.

    In training mode batch normalisation mixes the examples of a batch, so the gradient of an example depends
    on others. In evaluation mode it is a fixed affine map, and allowed.
    """
    frozen: list[nn.Module] = []
    for name, module in model.named_modules():
        if isinstance(module, torch.jit.ScriptModule):
            raise InvalidArgument(
                f"'model' must be made of Python modules, got a TorchScript module at '{name}', whose layers "
                f"are hidden. Give the module that was scripted or traced, and script the trained one."
            )
        if isinstance(module, BatchNormBase):
            if module.training or not module.track_running_stats:
                raise CrossExample(
                    f"'model' has {type(module).__name__} at '{name}', which mixes the examples of a batch. "
                    f"Replace it by nn.GroupNorm, or freeze it with .eval() and requires_grad_(False)."
                )
            frozen.append(module)
        elif isinstance(module, InstanceNormBase) and module.track_running_stats:
            raise CrossExample(
                f"'model' has {type(module).__name__} at '{name}' with track_running_stats=True, which "
                f"stores statistics of the examples without noise. Build it with track_running_stats=False."
            )
        elif isinstance(module, nn.Embedding | nn.EmbeddingBag) and module.scale_grad_by_freq:
            raise CrossExample(
                f"'model' has {type(module).__name__} at '{name}' with scale_grad_by_freq=True, which "
                f"divides by counts over the batch. Build it with scale_grad_by_freq=False."
            )
    return frozen


def require_rows(inputs: tuple[Tensor, ...], targets: Tensor) -> int:
    """The number of examples. Each input and the targets must have one leading row for each."""
    if (
        not isinstance(inputs, tuple)
        or not inputs
        or not all(isinstance(x, Tensor) for x in (*inputs, targets))
    ):
        raise InvalidArgument(
            "'inputs' must be a tuple of tensors and 'targets' a tensor, got something else. "
            "Give (x,) for a model of one argument."
        )
    sizes = {x.shape[0] if x.dim() else -1 for x in (*inputs, targets)}
    if len(sizes) > 1 or -1 in sizes:
        raise InvalidArgument(
            "'inputs' and 'targets' must have one leading row for each example, got different numbers of "
            "rows. Put masks and other constants into the model, or repeat them for each example."
        )
    return int(targets.shape[0])


def require_losses(losses: Tensor, batch: int) -> Tensor:
    """Require one loss for each example."""
    if not isinstance(losses, Tensor) or losses.shape != (batch,):
        shape = tuple(losses.shape) if isinstance(losses, Tensor) else type(losses).__name__
        raise InvalidArgument(
            f"'loss' must give one number for each of the {batch} examples, got {shape}. "
            f'Use reduction="none", and per_example_loss(...) where an example has several outputs.'
        )
    if not losses.requires_grad:
        raise InvalidArgument(
            "'loss' must depend on the trainable parameters, got losses without a gradient. "
            "Compute the outputs without torch.no_grad() and without detach()."
        )
    return losses


def require_finite(squared_norms: Tensor) -> None:
    """Refuse NaN and infinity before anything is added."""
    total = squared_norms.numpy().sum() if squared_norms.is_cpu else squared_norms.sum()
    if not math.isfinite(float(total)):
        raise NotFinite(
            "A per-example gradient is NaN or infinite, so it cannot be clipped, and nothing was added. "
            "Lower the learning rate, scale the inputs, or drop such records by a public rule."
        )
