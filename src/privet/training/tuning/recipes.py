"""What a search may run: recipes, one by one or as a grid. All of them are public."""

import itertools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import final

import torch
from torch import nn

from privet.arguments import finite, positive, whole
from privet.errors import InvalidArgument

__all__ = ["TuningRecipe", "recipe_grid", "require_recipes"]

_MOST = 10_000


@final
@dataclass(frozen=True)
class TuningRecipe:
    """One setting of a search: a function that makes a fresh model, and how to train it.

    ``learning_rate`` is that of SGD with ``momentum``; without it, the default of ``privet.train`` is used.
    """

    model: Callable[[], nn.Module]
    epochs: float
    lot_size: int | None = None
    learning_rate: float | None = None
    momentum: float = 0.9
    clip: float | None = None

    def __post_init__(self) -> None:
        if not callable(self.model) or isinstance(self.model, nn.Module):
            raise InvalidArgument(
                f"'model' must be a function that makes a fresh model, got {type(self.model).__name__}. "
                f"Write lambda: nn.Sequential(…)."
            )
        positive("epochs", self.epochs)
        if self.lot_size is not None:
            whole("lot_size", self.lot_size)
        if self.learning_rate is not None:
            positive("learning_rate", self.learning_rate)
        if not 0 <= finite("momentum", self.momentum) < 1:
            raise InvalidArgument(f"'momentum' must be in [0, 1), got {self.momentum!r}. 0.9 is common.")
        if self.clip is not None:
            positive("clip", self.clip)

    @property
    def optimizer(self) -> Callable[[Iterable[torch.Tensor]], torch.optim.Optimizer] | None:
        """What makes the optimiser; None for the default of ``privet.train``."""
        if self.learning_rate is None:
            return None
        rate, momentum = self.learning_rate, self.momentum
        return lambda parameters: torch.optim.SGD(parameters, lr=rate, momentum=momentum)

    def __str__(self) -> str:
        parts = [f"{self.epochs:g} epochs"]
        parts += [] if self.lot_size is None else [f"lots of {self.lot_size}"]
        parts += [] if self.learning_rate is None else [f"learning rate {self.learning_rate:g}"]
        parts += [] if self.clip is None else [f"clip {self.clip:g}"]
        return ", ".join(parts)


def recipe_grid(
    model: Callable[[], nn.Module],
    *,
    epochs: Sequence[float],
    lot_size: Sequence[int | None] = (None,),
    learning_rate: Sequence[float | None] = (None,),
    clip: Sequence[float | None] = (None,),
) -> tuple[TuningRecipe, ...]:
    """Every combination of the given values.

    >>> len(recipe_grid(lambda: nn.Linear(2, 2), epochs=(5, 10), learning_rate=(0.5, 1.0, 2.0)))
    6
    """
    axes = {"epochs": epochs, "lot_size": lot_size, "learning_rate": learning_rate, "clip": clip}
    for name, values in axes.items():
        if isinstance(values, str) or len(values) == 0:
            raise InvalidArgument(f"'{name}' must have at least one value, got none. Give a list of values.")
    return tuple(
        TuningRecipe(model, passes, size, rate, clip=bound)
        for passes, size, rate, bound in itertools.product(epochs, lot_size, learning_rate, clip)
    )


def require_recipes(recipes: Iterable[TuningRecipe]) -> tuple[TuningRecipe, ...]:
    """A list of recipes that ends and is not empty."""
    found = tuple(itertools.islice(iter(recipes), _MOST + 1))
    if not found or len(found) > _MOST:
        raise InvalidArgument(
            f"'recipes' must have between 1 and {_MOST:,} recipes, got "
            f"{'none' if not found else 'more, or no end'}. Give a list, or use recipe_grid."
        )
    for recipe in found:
        if not isinstance(recipe, TuningRecipe):
            raise InvalidArgument(
                f"'recipes' must hold TuningRecipe objects, got {type(recipe).__name__}. Use recipe_grid."
            )
    return found
