"""What ``privet federated demo`` trains: 50 clients with handwritten digits, and a small network."""

import numpy as np
import torch
from torch import nn

from privet.errors import MissingPackage
from privet.federated import FedAvg
from privet.pipeline.federated_attacks import FederatedAttackPlan
from privet.pipeline.federated_comparison import MessageSight
from privet.pipeline.federated_game import FederatedGame, draw_federated_game
from privet.scores import Records
from privet.views import Rows

__all__ = ["CLIENTS", "draw_digits_game", "make_digits_sight", "plan_digits_attacks"]

CLIENTS = 50
_OWN, _SLOTS = 6, 4
_SIDE, _HIDDEN, _CLASSES = 8, 48, 10
_ROUNDS, _LEARNING_RATE = 10, 1.0


def draw_digits_game(seed: int) -> FederatedGame:
    """The digits of scikit-learn, dealt to 50 clients.

    Source: E. Alpaydin and C. Kaynak, "Optical Recognition of Handwritten Digits", UCI Machine Learning
    Repository, 1998 (its test set: 1,797 digits of 8 × 8 pixels), as scikit-learn carries it. The property
    of a client is a scanner out of adjustment: its own pictures are one pixel too far to the left.
    """
    try:
        from sklearn.datasets import load_digits  # type: ignore[import-untyped]
    except ImportError:
        raise MissingPackage(
            "The demo needs the package 'scikit-learn', which is not installed. Run pip install "
            "'privet[federated,learn,report]'."
        ) from None
    inputs, labels = load_digits(return_X_y=True)
    records = Records((inputs / 16.0).astype(np.float32), labels.astype(np.int64))
    return draw_federated_game(records, clients=CLIENTS, own=_OWN, slots=_SLOTS, seed=seed, mark=_move_left)


def plan_digits_attacks(seed: int) -> FederatedAttackPlan:
    """Ten rounds of one step each, with every attack."""
    return FederatedAttackPlan(
        make_model=_make_model,
        rounds=_ROUNDS,
        training=FedAvg(epochs=1, batch_size=_OWN + _SLOTS, learning_rate=_LEARNING_RATE),
        watched=5,
        active_from=2,
        simulations=40,
        seed=seed,
    )


def make_digits_sight() -> MessageSight:
    """The rows of the first layer as digits."""
    return MessageSight("0", (_SIDE, _SIDE))


def _make_model() -> nn.Module:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return nn.Sequential(nn.Linear(_SIDE * _SIDE, _HIDDEN), nn.ReLU(), nn.Linear(_HIDDEN, _CLASSES))


def _move_left(inputs: Rows) -> Rows:
    pictures = inputs.reshape(-1, _SIDE, _SIDE)
    moved = np.concatenate([pictures[:, :, 1:], np.zeros_like(pictures[:, :, :1])], axis=2)
    return moved.reshape(inputs.shape)
