"""The models of ``privet demo``, a random forest and a private network. Both are recipes for references."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import final

import numpy as np
import torch
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]  # comes with scikit-learn
from torch import nn

from privet.attacks.shadows import Recipe, ScikitRecipe
from privet.attacks.shadows.torch_recipe import seeded_weights
from privet.attacks.torch_views import TorchView
from privet.datasets.injuries import COLUMNS
from privet.scores import Records
from privet.training import Trained, train
from privet.views import BlackBox, Labels, Rows

__all__ = ["PrivateNetwork", "forest_recipe", "one_thread", "split_by_coin"]

_TREES = 100  # scikit-learn's default
_WIDTH = 128
_EPOCHS = 20
_CANARIES = 3000


def split_by_coin(records: Records, seed: int) -> tuple[Records, Records]:
    """Members and non-members: each record has a fair coin of its own, as a bound from one run assumes."""
    coin = np.random.default_rng(seed).random(len(records)) < 0.5
    return records.take(coin), records.take(~coin)


@contextmanager
def one_thread() -> Iterator[None]:
    """Limit numerical libraries to one thread: for so small a network more threads cost time."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with threadpool_limits(1):
            yield
    finally:
        torch.set_num_threads(before)


def forest_recipe() -> ScikitRecipe:
    """A random forest with scikit-learn's default settings."""
    from sklearn.ensemble import RandomForestClassifier  # type: ignore[import-untyped]

    return ScikitRecipe(RandomForestClassifier(n_estimators=_TREES))


@final
@dataclass(frozen=True)
class PrivateNetwork(Recipe):
    """One hidden layer, by ``privet.train`` at (ε, δ) with its default lots, clipping and learning rate.

    The number of epochs was chosen by trials of 10, 20 and 30 on these records. Test accuracies moved by less
    than a point between them. The ledger covers one training, and not that choice.

    Canaries audit the run too. Reference models have canaries as well, so that they are like the target.
    """

    epsilon: float
    delta: float

    def train(self, inputs: Rows, labels: Labels, seed: int) -> Trained:
        """The model with its ledger and its canaries. The seed decides its first weights; the noise has no
        seed.
        """
        with seeded_weights(seed):
            model = _network()
        trained = train(
            model,
            (np.array(inputs), np.array(labels)),
            epsilon=self.epsilon,
            delta=self.delta,
            epochs=_EPOCHS,
            canaries=_CANARIES,
        )
        if trained.interrupted:  # ``train`` returns normally after Ctrl-C; the demo stops
            raise KeyboardInterrupt
        return trained

    def fit(self, inputs: Rows, labels: Labels, seed: int) -> BlackBox:
        return TorchView(self.train(inputs, labels, seed).model)

    def description(self) -> None:
        """Not cached: every model has fresh noise."""


def _network() -> nn.Module:
    return nn.Sequential(nn.Linear(len(COLUMNS), _WIDTH), nn.Tanh(), nn.Linear(_WIDTH, 2))
