"""What identifies a search, so that no other one is resumed in its place: recipes, models, data and loss.

The mark is secret like the folder it lies in, because it depends on the data. The budget and the law of the
number of runs are in the ledger, which is compared too.
"""

import hashlib
from collections.abc import Callable, Iterable

import torch
from torch import nn

from privet.record_hashes import combine_hashes, hash_records
from privet.training.loop.losses import TorchLoss
from privet.training.tuning.recipes import TuningRecipe
from privet.training.tuning.validation import ValidationSet

__all__ = ["mark_search"]


def mark_search(
    recipes: Iterable[TuningRecipe],
    data: Iterable[ValidationSet],
    loss: TorchLoss | None,
) -> str:
    """A hash of everything that the ledger does not say. Records count in any order."""
    digest = hashlib.sha256()
    models: dict[Callable[[], nn.Module], str] = {}
    for recipe in recipes:
        if recipe.model not in models:
            models[recipe.model] = _hash_model(recipe.model)
        settings = (recipe.epochs, recipe.lot_size, recipe.learning_rate, recipe.momentum, recipe.clip)
        digest.update(f"{settings!r} {models[recipe.model]}\n".encode())
    for part in data:
        records = hash_records(part.inputs.numpy(force=True), part.labels.numpy(force=True))
        digest.update(f"{combine_hashes(records)}\n".encode())
    digest.update(f"{getattr(loss, '__qualname__', type(loss).__name__)}\n".encode())
    return digest.hexdigest()


def _hash_model(make: Callable[[], nn.Module]) -> str:
    """The layers, and the first parameters at a fixed state of torch's generator, if they are the same twice.

    The state of the generator is put back.
    """
    first, second = (_make_at_fixed_state(make) for _ in range(2))
    digest = hashlib.sha256(str(first).encode())
    again = second.state_dict()
    for name, value in first.state_dict().items():
        digest.update(f"{name} {tuple(value.shape)} {value.dtype}".encode())
        if name in again and torch.equal(value, again[name]):
            digest.update(value.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()


def _make_at_fixed_state(make: Callable[[], nn.Module]) -> nn.Module:
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(0)
        return make()
