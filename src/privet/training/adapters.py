"""Fine-tuning a part of a model: its last layer, or low-rank changes to its linear layers.

Noise is added to every trainable number, so a model that was trained before loses least where few numbers are trained. Frozen
parameters have no gradient, no share of the clip bound and no noise.

*Guarantee*: that of training, for what is trained. *Leaks*: frozen weights are published as they are; so they must come from public
data, or from a run whose ledger is added to this one's.

Reference: Hu et al. 2022 (LoRA); Yu et al. 2022 and Li, Tramèr, Liang & Hashimoto 2022 for private fine-tuning.
"""

import copy
from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor, nn

from privet.arguments import positive, shown, whole
from privet.errors import InvalidArgument

__all__ = ["Adapted", "LoRA", "last_layer", "merged"]


@final
class Adapted(nn.Module):
    """y = W x + b + scale · B A x: a frozen linear layer with a trainable change of low rank, which begins at zero."""

    def __init__(self, layer: nn.Linear, rank: int, scale: float) -> None:
        super().__init__()
        self.layer, self.scale = layer.requires_grad_(False), scale
        place = {"device": layer.weight.device, "dtype": layer.weight.dtype}
        self.down = nn.Linear(layer.in_features, rank, bias=False, **place)
        self.up = nn.Linear(rank, layer.out_features, bias=False, **place)
        nn.init.zeros_(self.up.weight)

    def forward(self, x: Tensor) -> Tensor:
        """The layer and its change."""
        return self.layer(x) + self.up(self.down(x)) * self.scale  # type: ignore[no-any-return]

    def merged(self) -> nn.Linear:
        """The one layer that computes the same."""
        found = copy.deepcopy(self.layer)
        with torch.no_grad():
            found.weight += self.scale * self.up.weight @ self.down.weight
        return found.requires_grad_(True)


@final
@dataclass(frozen=True)
class LoRA:
    """Changes of rank ``rank`` to linear layers, and nothing else that trains.

    ``layers`` are names of linear layers, or of parts of the model whose linear layers are all meant; None means all. ``also``
    are parts that are trained in full, such as a new head. ``scale`` multiplies every change: α/rank of the paper.
    Subclasses of ``nn.Linear`` are left alone: what they do with their weight is their own affair.

    >>> model = LoRA(rank=2, also=("1",)).into(nn.Sequential(nn.Linear(30, 20), nn.Linear(20, 3)))
    >>> [name for name, p in model.named_parameters() if p.requires_grad]
    ['0.down.weight', '0.up.weight', '1.weight', '1.bias']
    """

    rank: int = 8
    scale: float = 1.0
    layers: tuple[str, ...] | None = None
    also: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        whole("rank", self.rank)
        positive("scale", self.scale)

    def into(self, model: nn.Module) -> nn.Module:
        """A copy of the model with these changes; the model itself stays as it is. Make the optimiser from the copy."""
        found = copy.deepcopy(model)
        names = {name for name, _ in found.named_modules()}
        for name in (*(self.layers or ()), *self.also):
            if name not in names or not name:
                raise InvalidArgument(
                    f"'layers' and 'also' must be names of the model's parts, got {shown(name)}. "
                    f"Take them from model.named_modules()."
                )
        chosen = {
            module
            for name, module in found.named_modules()
            if type(module) is nn.Linear
            and (self.layers is None or any(_within(name, part) for part in self.layers))
            and not any(_within(name, part) for part in self.also)
        }
        if not chosen:
            raise InvalidArgument(
                f"'layers' must hold a linear layer that is not in 'also', got {shown(self.layers)}, which holds none. "
                f"Name an nn.Linear, or a part that has some."
            )
        _freeze(found)
        for part in self.also:
            _thaw(found.get_submodule(part))
        adapted: dict[nn.Module, Adapted] = {}
        for name, module in list(found.named_modules(remove_duplicate=False)):
            if isinstance(module, nn.Linear) and module in chosen:
                if module not in adapted:
                    adapted[module] = Adapted(module, self.rank, self.scale)
                found = _replaced(found, name, adapted[module])
        return found


def merged(model: nn.Module) -> nn.Module:
    """A copy without adapters that computes the same; everything in it can be trained again."""
    found = copy.deepcopy(model)
    done: dict[nn.Module, nn.Module] = {}
    for name, module in list(found.named_modules(remove_duplicate=False)):
        if isinstance(module, Adapted):
            found = _replaced(found, name, done.setdefault(module, module.merged()))
    return found.requires_grad_(True)


def last_layer(model: nn.Module) -> nn.Module:
    """A copy of which only the last layer with parameters, in the order of ``named_modules``, is trained.

    >>> model = last_layer(nn.Sequential(nn.Linear(30, 20), nn.ReLU(), nn.Linear(20, 3)))
    >>> [name for name, p in model.named_parameters() if p.requires_grad]
    ['2.weight', '2.bias']
    """
    if any(nn.parameter.is_lazy(parameter) for parameter in model.parameters()):
        raise InvalidArgument("'model' must know its shapes, got lazy layers. Give it one batch first.")
    found = copy.deepcopy(model)
    layers = [
        module for module in found.modules() if next(module.parameters(recurse=False), None) is not None
    ]
    if not layers:
        raise InvalidArgument("'model' must have a layer with parameters, got none. Give a model to tune.")
    _freeze(found)
    _thaw(layers[-1])
    return found


def _freeze(model: nn.Module) -> None:
    """Nothing is trained, and batch normalisation, which then is a fixed map, stays as it is."""
    model.requires_grad_(False)
    for module in model.modules():
        if isinstance(module, nn.modules.batchnorm._BatchNorm):
            module.eval()


def _thaw(part: nn.Module) -> None:
    part.requires_grad_(True)


def _within(name: str, part: str) -> bool:
    return name == part or name.startswith(f"{part}.")


def _replaced(model: nn.Module, name: str, module: nn.Module) -> nn.Module:
    """The model with another module at this name; the module itself where the name is that of the whole."""
    if not name:
        return module
    parent, _, own = name.rpartition(".")
    setattr(model.get_submodule(parent), own, module)
    return model
