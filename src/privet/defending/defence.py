"""What a defence is: a wrapper of a training recipe, or of a model's answers.

A wrapper, because an attack must know the defence: reference models are trained by the wrapped recipe, so
they leak in the way the target leaks. A defence that is only measured by attacks on plain models looks better
than it is (Aerni, Zhang & Tramèr 2024).

No defence here has a proof, except ``PrivateTraining``. What was measured is no upper bound: a better attack
may find more.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import NamedTuple, final

import numpy as np

from privet.attacks.shadows.recipe import Recipe
from privet.errors import InvalidArgument
from privet.views import BlackBox, Labels, Numbers, Rows

__all__ = [
    "NO_PROOF",
    "AnswerDefence",
    "AnswerMask",
    "Defence",
    "DefenceProof",
    "MaskedView",
    "NoDefence",
    "TrainingDefence",
]

NO_PROOF = "no proof"
_LEAST = -745.0  # the natural logarithm of the least number above 0


class DefenceProof(NamedTuple):
    """What is proved about one trained model: it is (ε, δ)-differentially private."""

    epsilon: float
    delta: float


class Defence(ABC):
    """Something that should make a model leak less."""

    @property
    @abstractmethod
    def name(self) -> str:
        """What a table calls it, with its strength."""

    @abstractmethod
    def protect(self, recipe: Recipe) -> Recipe:
        """The recipe with the defence."""

    def read_proof(self, view: BlackBox) -> DefenceProof | None:
        """What is proved about a model that was trained with the defence; None where nothing is."""
        del view
        return None


class TrainingDefence(Defence):
    """A defence that changes the training."""


@final
@dataclass(frozen=True)
class NoDefence(TrainingDefence):
    """The recipe as it is: what every defence is compared with."""

    name = "none"

    def protect(self, recipe: Recipe) -> Recipe:
        return recipe


class AnswerMask(ABC):
    """The answers of one model, changed before anybody sees them."""

    @abstractmethod
    def mask(self, log_confidences: Numbers, generator: np.random.Generator) -> Numbers:
        """The changed answers, rows × classes, as natural logarithms."""


class AnswerDefence(Defence):
    """A defence that changes the answers. The training stays as it is."""

    is_random = False  # whether the same question gets another answer each time, so that averaging helps
    hides_confidences = False  # whether labels are all that is left

    @abstractmethod
    def learn(self, members: Numbers, others: Numbers, seed: int) -> AnswerMask:
        """The mask of one model.

        The defender knows what the model answers to its own members and to other records: log confidences,
        rows × classes. Most masks use neither.
        """

    def protect(self, recipe: Recipe) -> Recipe:
        return _MaskedRecipe(recipe, self)


@final
@dataclass(frozen=True, eq=False)
class _MaskedRecipe(Recipe):
    """A recipe whose models answer through a mask.

    A tenth of a model's records is kept out of its training where the mask has to know others.
    """

    inner: Recipe
    defence: AnswerDefence

    def fit(self, inputs: Rows, labels: Labels, seed: int) -> BlackBox:
        order = np.random.default_rng([seed, 11]).permutation(len(inputs))
        apart = order[: max(1, len(inputs) // 10)]
        kept = np.sort(order[len(apart) :])
        if len(kept) == 0:
            raise InvalidArgument("'inputs' must hold at least two records, got fewer. Give more records.")
        view = self.inner.fit(inputs[kept], labels[kept], seed)
        mask = self.defence.learn(
            view.log_confidences(inputs[kept]), view.log_confidences(inputs[apart]), seed
        )
        return MaskedView(view, mask, seed)

    def description(self) -> str | None:
        inner = self.inner.description()
        return None if inner is None else f"{inner} answered by {self.defence!r}"


@final
class MaskedView(BlackBox):
    """A model's answers through a mask."""

    def __init__(self, view: BlackBox, mask: AnswerMask, seed: int = 0) -> None:
        self._view, self._mask = view, mask
        self._generator = np.random.default_rng([seed, 12])

    def log_confidences(self, inputs: Rows) -> Numbers:
        found = np.maximum(self._view.log_confidences(inputs), _LEAST)
        return self._mask.mask(found, self._generator)
