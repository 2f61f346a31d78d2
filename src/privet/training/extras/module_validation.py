"""Layers that mix the examples of a batch, replaced by such that do not."""

import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import final

from torch import nn

from privet.arguments import whole
from privet.errors import InvalidArgument
from privet.torch_internals import BatchNormBase, InstanceNormBase
from privet.training.per_example.refusals import CrossExample, require_uncoupled_modules

__all__ = ["Change", "Fixed", "fix", "fixable", "require_separate"]


@final
@dataclass(frozen=True)
class Change:
    """One layer that was replaced, and why."""

    name: str
    before: str
    after: str
    reason: str

    def __str__(self) -> str:
        return f"{self.name}: {self.before} → {self.after}, because it {self.reason}"


@final
@dataclass(frozen=True, eq=False)
class Fixed:
    """A model that private training takes, and what was changed for it."""

    model: nn.Module
    changes: tuple[Change, ...]

    def __str__(self) -> str:
        return "\n".join(str(change) for change in self.changes) or "Nothing had to be changed."


def require_separate(model: nn.Module) -> None:
    """Refuses what is no module, layers that mix examples, and wrappers that average gradients by themselves."""
    if not isinstance(model, nn.Module):
        raise InvalidArgument(
            f"'model' must be a torch.nn.Module, got {type(model).__name__}. Give an instance of one."
        )
    if isinstance(model, nn.parallel.DistributedDataParallel | nn.DataParallel):
        raise InvalidArgument(
            f"'model' must be the model itself, got {type(model).__name__} around it, which would add up gradients without a "
            f"clip. Give model.module: private training divides the lots among the processes."
        )
    try:
        require_uncoupled_modules(model)
        _require_fixed_rows(model)
    except CrossExample as refused:
        raise fixable(refused) from None


def _require_fixed_rows(model: nn.Module) -> None:
    for name, module in model.named_modules():
        if isinstance(module, nn.Embedding | nn.EmbeddingBag) and module.max_norm is not None:
            raise CrossExample(
                f"'model' has {type(module).__name__} at '{name}' with max_norm, which shortens the rows that are looked up and no "
                f"others, so that the weights show which were. Build it with max_norm=None."
            )


def fixable(refused: CrossExample) -> CrossExample:
    """The refusal with its remedy."""
    return CrossExample(f"{refused} privet.training.fix(model) replaces such layers.")


def fix(model: nn.Module, *, groups: int = 32) -> Fixed:
    """A copy of the model without layers that mix examples; the model itself stays as it is.

    Batch normalisation becomes group normalisation over at most ``groups`` groups, with the same learnt scale and shift. It
    computes something else, so train it, or train it again. Make the optimiser from the copy's parameters.

    >>> print(fix(nn.Sequential(nn.Conv2d(3, 48, 3), nn.BatchNorm2d(48))))
    1: BatchNorm2d(48) → GroupNorm(12, 48), because it mixes the examples of a batch
    """
    whole("groups", groups)
    found = copy.deepcopy(model)
    changes: list[Change] = []
    replaced: dict[nn.Module, nn.Module] = {}
    for name, module in list(found.named_modules(remove_duplicate=False)):
        if module not in replaced:
            change = _change(name, module, groups)
            if change is None:
                continue
            replaced[module] = change[1]
            changes.append(change[0])
        new = replaced[module]
        if new is module:
            continue
        if not name:
            found = new
        else:
            parent, _, child = name.rpartition(".")
            setattr(found.get_submodule(parent), child, new)
    return Fixed(found, tuple(changes))


def _change(name: str, module: nn.Module, groups: int) -> tuple[Change, nn.Module] | None:
    for kind, rule in _RULES:
        if isinstance(module, kind):
            return rule(name or "the model", module, groups)
    return None


def _batch_norm(name: str, module: nn.Module, groups: int) -> tuple[Change, nn.Module] | None:
    assert isinstance(module, BatchNormBase)
    if isinstance(module, nn.modules.lazy.LazyModuleMixin):
        return None  # it has no size yet; the engine says what is wrong
    count = module.num_features
    # Two numbers to a group would be normalised to ±1; an image has its pixels in the group as well.
    each = 16 if isinstance(module, nn.BatchNorm1d) else 4
    new = nn.GroupNorm(_groups(count, groups, each), count, eps=module.eps, affine=module.affine)
    if module.affine:
        new.weight, new.bias = module.weight, module.bias
        new.to(module.weight.device, module.weight.dtype)
    new.train(module.training)
    before, after = f"{type(module).__name__}({count})", f"GroupNorm({new.num_groups}, {count})"
    return Change(name, before, after, "mixes the examples of a batch"), new


def _instance_norm(name: str, module: nn.Module, groups: int) -> tuple[Change, nn.Module] | None:
    del groups
    assert isinstance(module, InstanceNormBase)
    if not module.track_running_stats:
        return None
    module.track_running_stats = False
    module.running_mean = module.running_var = module.num_batches_tracked = None
    before = f"{type(module).__name__} with track_running_stats=True"
    return Change(name, before, "the same without", "keeps statistics of the examples without noise"), module


def _embedding(name: str, module: nn.Module, groups: int) -> tuple[Change, nn.Module] | None:
    del groups
    assert isinstance(module, nn.Embedding | nn.EmbeddingBag)
    wrong = {
        "scale_grad_by_freq=True": (module.scale_grad_by_freq, "divides by counts over the batch"),
        "max_norm": (module.max_norm is not None, "shows which rows were looked up"),
    }
    found = {setting: reason for setting, (is_wrong, reason) in wrong.items() if is_wrong}
    if not found:
        return None
    module.scale_grad_by_freq, module.max_norm = False, None
    before = f"{type(module).__name__} with {' and '.join(found)}"
    return Change(name, before, "the same without", " and ".join(found.values())), module


def _groups(channels: int, most: int, each: int) -> int:
    """The largest number of groups that divides the channels, at most ``most``, with at least ``each`` to a group."""
    wanted = max(1, min(most, channels // each))
    return next(g for g in range(wanted, 0, -1) if channels % g == 0)


_Rule = Callable[[str, nn.Module, int], tuple[Change, nn.Module] | None]
_RULES: tuple[tuple[type | tuple[type, ...], _Rule], ...] = (
    (BatchNormBase, _batch_norm),
    (InstanceNormBase, _instance_norm),
    ((nn.Embedding, nn.EmbeddingBag), _embedding),
)
