"""Find layers that mix the examples of a batch, and replace them."""

import copy
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import final

from torch import nn

from privet.arguments import whole
from privet.callers import level_of_caller
from privet.errors import InvalidArgument
from privet.torch_internals import BatchNormBase, InstanceNormBase
from privet.training.per_example.refusals import CrossExample, require_uncoupled_modules

__all__ = [
    "FixReport",
    "LayerChange",
    "add_fix_hint",
    "enter_training_mode",
    "fix",
    "require_training_mode",
    "validate_model",
]


@final
@dataclass(frozen=True)
class LayerChange:
    """One layer that was replaced, and why."""

    name: str
    before: str
    after: str
    reason: str

    def __str__(self) -> str:
        return f"{self.name}: {self.before} → {self.after}, because it {self.reason}"


@final
@dataclass(frozen=True, eq=False)
class FixReport:
    """A model that private training accepts, and the layers that were replaced."""

    model: nn.Module
    changes: tuple[LayerChange, ...]

    def __repr__(self) -> str:
        return f"FixReport({type(self.model).__name__}, {len(self.changes)} changes)"

    def __str__(self) -> str:
        return "\n".join(str(change) for change in self.changes) or "No layer had to be replaced."


def validate_model(model: nn.Module) -> None:
    """Refuse non-modules, layers that mix examples, and wrappers that average gradients themselves."""
    if not isinstance(model, nn.Module):
        raise InvalidArgument(
            f"'model' must be a torch.nn.Module, got {type(model).__name__}. Give an instance of one."
        )
    if isinstance(model, nn.parallel.DistributedDataParallel | nn.DataParallel):
        raise InvalidArgument(
            f"'model' must be the model itself, got {type(model).__name__} around it, which would add "
            "gradients without a clip. Give model.module: private training divides each lot among the "
            "processes."
        )
    if "_original_forward" in vars(model):
        raise InvalidArgument(
            "'model' must compute in its own precision, got one that Accelerate has prepared for mixed "
            "precision. Call accelerator.unwrap_model(model, keep_fp32_wrapper=False), and train inside of "
            "accelerator.autocast()."
        )
    try:
        require_uncoupled_modules(model)
        _require_fixed_rows(model)
    except CrossExample as refusal:
        raise add_fix_hint(refusal) from None


def require_training_mode(model: nn.Module) -> None:
    """Refuse a model in evaluation mode."""
    if not model.training:
        raise InvalidArgument(
            "'model' must be in training mode, got a model in evaluation mode. "
            "Call model.train(), and then .eval() on the submodules that are frozen."
        )


def enter_training_mode(model: nn.Module) -> None:
    """Put a model that is in evaluation mode into training mode, with a note.

    Batch normalisation whose parameters are frozen stays in evaluation mode, where it is a fixed map.
    """
    if not isinstance(model, nn.Module) or model.training:
        return
    model.train()
    for module in model.modules():
        if isinstance(module, BatchNormBase) and not any(p.requires_grad for p in module.parameters()):
            module.eval()
    warnings.warn(
        "The model was in evaluation mode and is put into training mode, so that dropout is on. Call "
        "model.train() before training, and .eval() on the submodules that are frozen.",
        stacklevel=level_of_caller(),
    )


def _require_fixed_rows(model: nn.Module) -> None:
    for name, module in model.named_modules():
        if isinstance(module, nn.Embedding | nn.EmbeddingBag) and module.max_norm is not None:
            raise CrossExample(
                f"'model' has {type(module).__name__} at '{name}' with max_norm, which shortens only the "
                "rows that are looked up, so the weights show which rows these are. Build it with "
                "max_norm=None."
            )


def add_fix_hint(refusal: CrossExample) -> CrossExample:
    """Add to a refusal how to replace the layer."""
    return CrossExample(f"{refusal} privet.training.fix(model) replaces such layers.")


def fix(model: nn.Module, *, groups: int = 32) -> FixReport:
    """Make a copy of the model without layers that mix examples. The model itself does not change.

    Batch normalisation becomes group normalisation over at most ``groups`` groups, with the same learnt scale
    and shift. It computes something else, so the copy must be trained, or trained again. Make the optimiser
    from the copy's parameters.

    >>> print(fix(nn.Sequential(nn.Conv2d(3, 48, 3), nn.BatchNorm2d(48))))
    1: BatchNorm2d(48) → GroupNorm(12, 48), because it mixes the examples of a batch
    """
    whole("groups", groups)
    fixed = copy.deepcopy(model)
    changes: list[LayerChange] = []
    replaced: dict[nn.Module, nn.Module] = {}
    for name, module in list(fixed.named_modules(remove_duplicate=False)):
        if module not in replaced:
            replacement = _replace_layer(name, module, groups)
            if replacement is None:
                continue
            change, replaced[module] = replacement
            changes.append(change)
        new = replaced[module]
        if new is module:
            continue
        if not name:
            fixed = new
        else:
            parent, _, child = name.rpartition(".")
            setattr(fixed.get_submodule(parent), child, new)
    return FixReport(fixed, tuple(changes))


def _replace_layer(name: str, module: nn.Module, groups: int) -> tuple[LayerChange, nn.Module] | None:
    for kind, rule in _RULES:
        if isinstance(module, kind):
            return rule(name or "the model", module, groups)
    return None


def _replace_batch_norm(name: str, module: nn.Module, groups: int) -> tuple[LayerChange, nn.Module] | None:
    assert isinstance(module, BatchNormBase)
    if isinstance(module, nn.modules.lazy.LazyModuleMixin):
        return None  # it has no size yet; the engine refuses it
    count = module.num_features
    # Two numbers in a group would be normalised to ±1. The group of an image also has its pixels.
    group_size = 16 if isinstance(module, nn.BatchNorm1d) else 4
    new = nn.GroupNorm(_count_groups(count, groups, group_size), count, eps=module.eps, affine=module.affine)
    if module.affine:
        new.weight, new.bias = module.weight, module.bias
        new.to(module.weight.device, module.weight.dtype)
    new.train(module.training)
    before, after = f"{type(module).__name__}({count})", f"GroupNorm({new.num_groups}, {count})"
    return LayerChange(name, before, after, "mixes the examples of a batch"), new


def _replace_instance_norm(name: str, module: nn.Module, groups: int) -> tuple[LayerChange, nn.Module] | None:
    del groups
    assert isinstance(module, InstanceNormBase)
    if not module.track_running_stats:
        return None
    module.track_running_stats = False
    module.running_mean = module.running_var = module.num_batches_tracked = None
    before = f"{type(module).__name__} with track_running_stats=True"
    return LayerChange(
        name, before, "the same without", "keeps statistics of the examples without noise"
    ), module


def _replace_embedding(name: str, module: nn.Module, groups: int) -> tuple[LayerChange, nn.Module] | None:
    del groups
    assert isinstance(module, nn.Embedding | nn.EmbeddingBag)
    wrong = {
        "scale_grad_by_freq=True": (module.scale_grad_by_freq, "divides by counts over the batch"),
        "max_norm": (module.max_norm is not None, "shows which rows were looked up"),
    }
    reasons = {setting: reason for setting, (is_wrong, reason) in wrong.items() if is_wrong}
    if not reasons:
        return None
    module.scale_grad_by_freq, module.max_norm = False, None
    before = f"{type(module).__name__} with {' and '.join(reasons)}"
    return LayerChange(name, before, "the same without", " and ".join(reasons.values())), module


def _count_groups(channels: int, most: int, group_size: int) -> int:
    """The largest number of groups, at most ``most``, with ``group_size`` channels or more in each."""
    wanted = max(1, min(most, channels // group_size))
    return next(g for g in range(wanted, 0, -1) if channels % g == 0)


_Rule = Callable[[str, nn.Module, int], tuple[LayerChange, nn.Module] | None]
_RULES: tuple[tuple[type | tuple[type, ...], _Rule], ...] = (
    (BatchNormBase, _replace_batch_norm),
    (InstanceNormBase, _replace_instance_norm),
    ((nn.Embedding, nn.EmbeddingBag), _replace_embedding),
)
