"""The best of models that are already paid for, by a private choice among their scores.

Here every model may be published, because the ledger has all of their runs; only the choice looks at
validation data. *Guarantee*: the training ledgers, composed, and ε for the choice. *Reference*: McKenna &
Sheldon 2020 (permute and flip, which is report-noisy-max with exponential noise).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import final

import numpy as np

from privet.adjacency import Adjacency
from privet.errors import InvalidArgument
from privet.ledger import Ledger
from privet.mechanisms.grids import ONE, StepGrid
from privet.mechanisms.scores import Score, Steps
from privet.mechanisms.selection import PermuteAndFlip
from privet.randomness import NoiseSource, SecureNoise
from privet.training.loop.run import Trained
from privet.training.tuning.validation import ValidationSet, mark_right_answers

__all__ = ["ChosenModel", "choose_model"]


@final
@dataclass(frozen=True)
class RightAnswers(Score):
    """The number of right answers of each model: one record moves each by 0 or 1."""

    candidates: tuple[int, ...]

    @property
    def grid(self) -> StepGrid:
        return ONE

    def sensitivity(self, adjacency: Adjacency) -> float:
        return 1.0

    def swing_steps(self, adjacency: Adjacency) -> int:
        return adjacency.contribution_distance

    def evaluate(self, data: object) -> Steps:
        return np.asarray(np.asarray(data, dtype=np.int64).sum(axis=1), dtype=np.int64)


@final
@dataclass(frozen=True, eq=False)
class ChosenModel:
    """The chosen run, its place in the list, and a ledger with all runs and the choice."""

    trained: Trained
    place: int
    ledger: Ledger


def choose_model(
    trained: Sequence[Trained],
    validation: object,
    *,
    epsilon: float,
    noise: NoiseSource = SecureNoise(),  # noqa: B008 - frozen
) -> ChosenModel:
    """Choose the model with about the most right answers: ε-differentially private in ``validation``.

    *Guarantee*: the choice costs ``epsilon`` on top of all runs in the list, which are all in the ledger.
    Use ``tune`` where only the best model is shown; it is cheaper for many runs.

    Args:
        trained: what ``privet.train`` returned, at least two.
        validation: (inputs, labels) on which the models are compared.
        epsilon: the ε of the choice.
        noise: the source of the noise.
    """
    if len(trained) < 2 or not all(isinstance(each, Trained) for each in trained):
        raise InvalidArgument(
            f"'trained' must have at least two results of privet.train, got {len(trained)} objects. There is "
            f"nothing to choose."
        )
    held_out = ValidationSet.read(validation)
    ledger = reduce(lambda first, second: first + second, (each.ledger for each in trained))
    mechanism = PermuteAndFlip(RightAnswers(tuple(range(len(trained)))), epsilon, ledger.adjacency)
    try:
        right = [mark_right_answers(each.model, held_out) for each in trained]
    except (RuntimeError, TypeError, ValueError) as failed:
        raise InvalidArgument(
            f"'validation' must fit every model, and one failed with {type(failed).__name__}. Give inputs of "
            f"the training data's shape. Nothing was spent."
        ) from failed
    place = int(mechanism.release(right, noise))
    label = f"the choice among {len(trained)} models"
    return ChosenModel(trained[place], place, ledger.spend(label, mechanism.event, caveats=noise.caveats))
