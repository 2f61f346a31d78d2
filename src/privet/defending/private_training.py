"""DP-SGD as a defence: the only one with a proof."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, final

import torch
from torch import Tensor

from privet.accounting import account
from privet.arguments import open_fraction, positive, whole
from privet.attacks.shadows.fingerprints import fingerprint
from privet.attacks.shadows.recipe import Recipe
from privet.attacks.shadows.torch_recipe import TorchRecipe, initialize_model
from privet.attacks.torch_inputs import to_model_inputs
from privet.defending.defence import DefenceProof, TrainingDefence
from privet.defending.loss_defences import hash_own_code, require_torch_recipe
from privet.errors import InvalidArgument
from privet.ledger import Ledger
from privet.training import train
from privet.views import BlackBox, Labels, Numbers, Rows

__all__ = ["PrivateTraining"]


@final
@dataclass(frozen=True, kw_only=True)
class PrivateTraining(TrainingDefence):
    """The model of the recipe, trained by ``privet.train``.

    *Guarantee*: each model is (ε, δ)-differentially private under add-remove of one record; its number of
    records is taken as public. A near-duplicate pair is two records: for it ε holds as that of a group.

    Epochs, lot size and learning rate are those of ``privet.train`` unless they are given: those of plain
    training are rarely good here. Hyperparameters that were chosen on the data are not covered;
    ``privet.tune`` covers them.
    """

    epsilon: float
    delta: float
    epochs: int = 20
    lot_size: int | None = None
    learning_rate: float | None = None

    def __post_init__(self) -> None:
        positive("epsilon", self.epsilon)
        open_fraction("delta", self.delta)
        whole("epochs", self.epochs)
        if self.lot_size is not None:
            whole("lot_size", self.lot_size)
        if self.learning_rate is not None:
            positive("learning_rate", self.learning_rate)

    @property
    def name(self) -> str:
        return f"DP-SGD, ε = {self.epsilon:g}"

    def protect(self, recipe: Recipe) -> Recipe:
        return _PrivateRecipe(require_torch_recipe(recipe, self.name), self)

    def read_proof(self, view: BlackBox) -> DefenceProof | None:
        if not isinstance(view, _ProvedView):
            raise InvalidArgument(
                "'view' must be that of a model that was trained privately, got another. "
                "Give what the protected recipe fitted."
            )
        return DefenceProof(account(view.ledger).epsilon(delta=self.delta), self.delta)


@final
@dataclass(frozen=True, eq=False)
class _PrivateRecipe(Recipe):
    """A torch recipe, trained with noise."""

    inner: TorchRecipe
    defence: PrivateTraining

    def fit(self, inputs: Rows, labels: Labels, seed: int) -> BlackBox:
        module = initialize_model(self.inner, seed).module
        rows = to_model_inputs(module, inputs)
        rate = self.defence.learning_rate
        optimizer: Callable[[Any], torch.optim.Optimizer] | None = None
        if rate is not None:

            def optimizer(parameters: Any) -> torch.optim.Optimizer:  # noqa: ANN401
                return torch.optim.SGD(parameters, lr=rate, momentum=0.9)

        lot = None if self.defence.lot_size is None else min(self.defence.lot_size, len(inputs))
        trained = train(
            module,
            (rows if isinstance(rows, Tensor) else dict(rows), torch.as_tensor(labels)),
            epsilon=self.defence.epsilon,
            delta=self.defence.delta,
            epochs=self.defence.epochs,
            lot_size=lot,
            optimizer=optimizer,
        )
        return _ProvedView(self.inner.view(trained.model), trained.ledger)

    def description(self) -> str | None:
        return fingerprint((self.inner.description(), repr(self.defence), hash_own_code()))


@final
class _ProvedView(BlackBox):
    """The view of a model, with the ledger of its training."""

    def __init__(self, view: BlackBox, ledger: Ledger) -> None:
        self._view, self.ledger = view, ledger

    def log_confidences(self, inputs: Rows) -> Numbers:
        return self._view.log_confidences(inputs)
