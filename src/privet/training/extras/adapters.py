"""Adapters: fine-tune only the last layer of a model, or low-rank changes to its linear layers (LoRA).

Noise is added to every trainable number, so a pretrained model loses least if few numbers are trained. Frozen
parameters have no gradient, no share of the clip bound and no noise.

*Guarantee*: that of training, for the parameters that are trained. *Leaks*: frozen weights are published as
they are. They must come from public data, or from a run whose ledger is added to this one.

Reference: Hu et al. 2022 (LoRA); Yu et al. 2022 and Li, Tramèr, Liang & Hashimoto 2022 for private
fine-tuning.
"""

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor, nn

from privet.arguments import format_value, positive, whole
from privet.errors import InvalidArgument
from privet.torch_internals import BatchNormBase

__all__ = ["LoRA", "LoRALinear", "last_layer", "merge_adapters"]


@final
class LoRALinear(nn.Module):
    """y = W x + b + scale · B A x: a frozen linear layer with a trainable low-rank change, zero at first.

    The change is float32 if the layer is in lower precision, because noise and updates need the digits.
    """

    def __init__(self, layer: nn.Linear, rank: int, scale: float) -> None:
        super().__init__()
        self.layer, self.scale = layer.requires_grad_(False), scale
        frozen = layer.weight
        precise = torch.promote_types(frozen.dtype, torch.float32)  # float64 stays
        options = {"device": frozen.device, "dtype": precise}
        self.down = nn.Linear(layer.in_features, rank, bias=False, **options)
        self.up = nn.Linear(rank, layer.out_features, bias=False, **options)
        nn.init.zeros_(self.up.weight)

    def forward(self, x: Tensor) -> Tensor:
        """Apply the layer and its change."""
        y = self.layer(x)
        change = self.up(self.down(x.to(self.down.weight.dtype))) * self.scale
        return y + change.to(y.dtype)  # type: ignore[no-any-return]

    def merge(self) -> nn.Linear:
        """Make one linear layer that computes the same."""
        layer = copy.deepcopy(self.layer)
        with torch.no_grad():
            layer.weight += self.scale * self.up.weight @ self.down.weight
        return layer.requires_grad_(True)


@final
@dataclass(frozen=True)
class LoRA:
    """Low-rank changes to linear layers; everything else is frozen.

    Subclasses of ``nn.Linear`` are left alone, because Privet does not know how they use their weight.

    Args:
        rank: the rank of every change.
        scale: multiplies every change: α/rank of the paper.
        layers: names of linear layers, or of submodules whose linear layers are all changed; None means all.
        also: names of submodules that are trained in full, such as a new head.

    >>> model = LoRA(rank=2, also=["1"]).apply_to(nn.Sequential(nn.Linear(30, 20), nn.Linear(20, 3)))
    >>> [name for name, p in model.named_parameters() if p.requires_grad]
    ['0.down.weight', '0.up.weight', '1.weight', '1.bias']
    """

    rank: int = 8
    scale: float = 1.0
    layers: Sequence[str] | str | None = None
    also: Sequence[str] | str = ()

    def __post_init__(self) -> None:
        whole("rank", self.rank)
        positive("scale", self.scale)
        if self.layers is not None:
            object.__setattr__(self, "layers", _as_names("layers", self.layers))
        object.__setattr__(self, "also", _as_names("also", self.also))

    def apply_to(self, model: nn.Module) -> nn.Module:
        """Make a copy of the model with these changes. Make the optimiser from the copy's parameters."""
        _require_shapes(model)
        adapted = copy.deepcopy(model)
        names = {name for name, _ in adapted.named_modules()}
        for name in (*(self.layers or ()), *self.also):
            if name not in names or not name:
                raise InvalidArgument(
                    f"'layers' and 'also' must be names of submodules, got {format_value(name)}. "
                    f"Take them from model.named_modules()."
                )
        chosen = {
            module
            for name, module in adapted.named_modules()
            if type(module) is nn.Linear
            and (self.layers is None or any(_is_within(name, part) for part in self.layers))
            and not any(_is_within(name, part) for part in self.also)
        }
        if not chosen:
            raise InvalidArgument(
                "'layers' must contain a linear layer that is not in 'also', got "
                f"{format_value(self.layers)}. Name an nn.Linear, or a submodule that has one."
            )
        _freeze(adapted)
        for part in self.also:
            adapted.get_submodule(part).requires_grad_(True)
        replacements: dict[nn.Module, LoRALinear] = {}
        for name, module in list(adapted.named_modules(remove_duplicate=False)):
            if isinstance(module, nn.Linear) and module in chosen:
                if module not in replacements:
                    replacements[module] = LoRALinear(module, self.rank, self.scale)
                adapted = _replace_module(adapted, name, replacements[module])
        return adapted


def merge_adapters(model: nn.Module) -> nn.Module:
    """Make a copy without adapters that computes the same. All of its parameters can be trained again."""
    _require_shapes(model)
    merged = copy.deepcopy(model)
    layers: dict[nn.Module, nn.Module] = {}
    for name, module in list(merged.named_modules(remove_duplicate=False)):
        if isinstance(module, LoRALinear):
            merged = _replace_module(merged, name, layers.setdefault(module, module.merge()))
    return merged.requires_grad_(True)


def last_layer(model: nn.Module) -> nn.Module:
    """Make a copy that trains only the last layer with parameters, in the order of ``named_modules``.

    >>> model = last_layer(nn.Sequential(nn.Linear(30, 20), nn.ReLU(), nn.Linear(20, 3)))
    >>> [name for name, p in model.named_parameters() if p.requires_grad]
    ['2.weight', '2.bias']
    """
    _require_shapes(model)
    frozen = copy.deepcopy(model)
    layers = [
        module for module in frozen.modules() if next(module.parameters(recurse=False), None) is not None
    ]
    if not layers:
        raise InvalidArgument("'model' must have a layer with parameters, got none. Give a model to tune.")
    _freeze(frozen)
    layers[-1].requires_grad_(True)
    return frozen


def _require_shapes(model: nn.Module) -> None:
    if any(nn.parameter.is_lazy(parameter) for parameter in model.parameters()):
        raise InvalidArgument("'model' must know its shapes, got lazy layers. Give it one batch first.")


def _freeze(model: nn.Module) -> None:
    """Freeze all parameters. Batch normalisation goes into evaluation mode, where it is a fixed map."""
    model.requires_grad_(False)
    for module in model.modules():
        if isinstance(module, BatchNormBase):
            module.eval()


def _as_names(argument: str, names: Sequence[str]) -> tuple[str, ...]:
    """Read one name, or a sequence of names."""
    if isinstance(names, str):
        return (names,)
    try:
        return tuple(names)
    except TypeError:
        raise InvalidArgument(
            f"'{argument}' must be names of submodules, got {format_value(names)}. Give ('head',), for "
            "example."
        ) from None


def _is_within(name: str, part: str) -> bool:
    return name == part or name.startswith(f"{part}.")


def _replace_module(model: nn.Module, name: str, module: nn.Module) -> nn.Module:
    """Put a module at this name and return the model; an empty name means the whole model."""
    if not name:
        return module
    parent, _, own = name.rpartition(".")
    setattr(model.get_submodule(parent), own, module)
    return model
