"""The models of ``privet demo``: one network, trained plainly or privately, each way a recipe that reference models follow too."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import final

import numpy as np
import torch
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]  # comes with scikit-learn
from torch import nn

from privet.attacks.shadows import Adam, Recipe, TorchRecipe
from privet.attacks.shadows.torch_recipe import seeded_weights
from privet.attacks.torch_views import TorchView
from privet.datasets.affairs import COLUMNS
from privet.scores import Records
from privet.training import Trained, train
from privet.views import BlackBox, Labels, Rows

__all__ = ["Private", "halves", "one_thread", "plain_recipe"]

_WIDTH = 128
_PLAIN_EPOCHS = 40  # enough to learn records by heart, as models do that nobody stops in time
_PRIVATE_EPOCHS = 30
_CANARIES = 4000


def halves(records: Records, seed: int) -> tuple[Records, Records]:
    """Those for whom a fair coin of their own says that they are trained on, and the others: what a bound from one run rests on."""
    coin = np.random.default_rng(seed).random(len(records)) < 0.5
    return records.take(coin), records.take(~coin)


@contextmanager
def one_thread() -> Iterator[None]:
    """So small a network gains nothing from several threads, and loses minutes where they have to share a core with others."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with threadpool_limits(1):
            yield
    finally:
        torch.set_num_threads(before)


def plain_recipe() -> TorchRecipe:
    """As most people train: Adam, small batches, many epochs, no noise."""
    return TorchRecipe(
        model=_network, epochs=_PLAIN_EPOCHS, batch_size=64, learning_rate=1e-3, optimizer=Adam()
    )


@final
@dataclass(frozen=True)
class Private(Recipe):
    """The same network by ``privet.train`` at (ε, δ): lots, clipping and rate are its defaults, which follow from public sizes.

    The numbers of epochs and canaries were chosen by trials on this very survey, of 20 to 40 epochs and 1,000 to 8,000 canaries. Test
    accuracies moved by about a point between them. The ledger covers one training, and not that choice.

    Canaries are planted in it, by which the run is audited too; in reference models as well, so that they are made alike.
    """

    epsilon: float
    delta: float

    def trained(self, inputs: Rows, labels: Labels, seed: int) -> Trained:
        """The model with its ledger and its canaries. The seed decides its first weights; the noise has no seed."""
        with seeded_weights(seed):
            model = _network()
        done = train(
            model,
            (np.array(inputs), np.array(labels)),
            epsilon=self.epsilon,
            delta=self.delta,
            epochs=_PRIVATE_EPOCHS,
            canaries=_CANARIES,
        )
        if done.interrupted:  # training ends well at Ctrl-C; the demo ends
            raise KeyboardInterrupt
        return done

    def fit(self, inputs: Rows, labels: Labels, seed: int) -> BlackBox:
        return TorchView(self.trained(inputs, labels, seed).model)

    def description(self) -> None:
        """Models with fresh noise each time are not kept."""


def _network() -> nn.Module:
    return nn.Sequential(
        nn.Linear(len(COLUMNS), _WIDTH), nn.ReLU(), nn.Linear(_WIDTH, _WIDTH), nn.ReLU(), nn.Linear(_WIDTH, 2)
    )
