"""Regularisation, which was there before privacy: label smoothing, weight decay, dropout, early stopping,
mixup.

None of them has a proof. Each closes the gap between training and test, so attacks on averages find less.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import final

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from privet.arguments import at_least, format_value, open_fraction, positive, whole
from privet.attacks.shadows.optimizers import SGD, Adam, AdamW
from privet.attacks.shadows.recipe import Recipe
from privet.attacks.shadows.stopping import EarlyStopping
from privet.defending.defence import TrainingDefence
from privet.defending.loss_defences import BatchLoss, LossBatch, LossDefence, LossRun, require_torch_recipe
from privet.errors import InvalidArgument

__all__ = ["Dropout", "EarlyStop", "LabelSmoothing", "Mixup", "WeightDecay"]


@final
@dataclass(frozen=True)
class LabelSmoothing(LossDefence):
    """The label is 1 − s for its class, and s spread over all classes.

    *Reference*: Szegedy et al. 2016, section 7.
    """

    smoothing: float = 0.1

    def __post_init__(self) -> None:
        if not 0 <= self.smoothing < 1:
            raise InvalidArgument(
                f"'smoothing' must lie in [0, 1), got {format_value(self.smoothing)}. Use 0.1."
            )

    @property
    def name(self) -> str:
        return f"label smoothing {self.smoothing:g}"

    def begin(self, run: LossRun) -> BatchLoss:
        def loss(module: nn.Module, batch: LossBatch) -> Tensor:
            return cross_entropy(module(batch.inputs), batch.labels, label_smoothing=self.smoothing)

        return loss


@final
@dataclass(frozen=True)
class Mixup(LossDefence):
    """Each batch is mixed with a permutation of itself, inputs and labels alike, by a share λ ~ Beta(α, α).

    At α = 0 nothing is mixed, and the model is the plain one.

    *Reference*: Zhang, Cisse, Dauphin & Lopez-Paz 2018, section 2; one λ for a batch, as in their code.
    """

    alpha: float = 1.0

    def __post_init__(self) -> None:
        at_least("alpha", self.alpha, 0)

    @property
    def name(self) -> str:
        return f"mixup {self.alpha:g}"

    def begin(self, run: LossRun) -> BatchLoss:
        generator = np.random.default_rng([run.seed, 31])

        def loss(module: nn.Module, batch: LossBatch) -> Tensor:
            share = float(generator.beta(self.alpha, self.alpha)) if self.alpha > 0 else 1.0
            other = torch.from_numpy(generator.permutation(len(batch.labels)))
            if share == 1.0:
                return cross_entropy(module(batch.inputs), batch.labels)
            output = module(share * batch.inputs + (1 - share) * batch.inputs[other])
            mixed: Tensor = share * cross_entropy(output, batch.labels)
            return mixed + (1 - share) * cross_entropy(output, batch.labels[other])

        return loss


@final
@dataclass(frozen=True)
class WeightDecay(TrainingDefence):
    """The optimizer pulls all weights towards 0.

    *Reference*: Krogh & Hertz 1991; against membership inference Shokri et al. 2017, section VIII.
    """

    strength: float = 5e-3

    def __post_init__(self) -> None:
        positive("strength", self.strength)

    @property
    def name(self) -> str:
        return f"weight decay {self.strength:g}"

    def protect(self, recipe: Recipe) -> Recipe:
        found = require_torch_recipe(recipe, self.name)
        if not isinstance(found.optimizer, SGD | Adam | AdamW):
            raise InvalidArgument(
                f"'recipe' must use SGD, Adam or AdamW for weight decay, got "
                f"{type(found.optimizer).__name__}. Take one of them."
            )
        return replace(found, optimizer=replace(found.optimizer, weight_decay=self.strength))


@final
@dataclass(frozen=True)
class Dropout(TrainingDefence):
    """Inputs of every linear layer but the first are dropped at random during training.

    A module with one linear layer gets dropout before it.

    *Reference*: Srivastava et al. 2014; against membership inference Salem et al. 2019, section VI-A.
    """

    rate: float = 0.5

    def __post_init__(self) -> None:
        open_fraction("rate", self.rate)

    @property
    def name(self) -> str:
        return f"dropout {self.rate:g}"

    def protect(self, recipe: Recipe) -> Recipe:
        found = require_torch_recipe(recipe, self.name)
        return replace(found, model=_DroppingModel(found.model, self.rate))


@final
@dataclass(frozen=True, eq=False)
class _DroppingModel:
    """Makes the module with dropout before its linear layers."""

    model: Callable[[], nn.Module]
    rate: float

    def __call__(self) -> nn.Module:
        module = self.model()
        linear = [
            (owner, name, layer)
            for owner in module.modules()
            for name, layer in owner.named_children()
            if type(layer) is nn.Linear
        ]
        if not linear:
            raise InvalidArgument(
                "'model' must have a linear layer for dropout, got none. Add dropout yourself."
            )
        for owner, name, layer in linear[1:] or linear:
            setattr(owner, name, nn.Sequential(nn.Dropout(self.rate), layer))
        return module


@final
@dataclass(frozen=True)
class EarlyStop(TrainingDefence):
    """Training ends when the loss on a held-out part of the model's own records stops falling.

    *Reference*: Prechelt 1998; against membership inference Song & Mittal 2021, section 3. The held-out part
    is a tenth of the members, who stay members.
    """

    patience: int = 3

    def __post_init__(self) -> None:
        whole("patience", self.patience)

    @property
    def name(self) -> str:
        return "early stopping"

    def protect(self, recipe: Recipe) -> Recipe:
        found = require_torch_recipe(recipe, self.name)
        return replace(found, stopping=EarlyStopping(patience=self.patience))
