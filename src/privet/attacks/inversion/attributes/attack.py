"""What an attribute attack is: a score for each target and each value of the secret.

The attack is shown targets without their secret and without the coin that decided who was trained on. ``run``
takes the value with the highest score, and joins the truth and the coin afterwards. A target who is a member
and one who is not are attacked in the same way, so the difference between them is what being in the data
adds. What the population alone tells about the secret is its *imputation*, the blind guess.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, final

import numpy as np
from numpy.typing import NDArray

from privet.attacks.inversion.attributes.answers import PredictedNumbers
from privet.attacks.inversion.attributes.knowledge import PublicPeople
from privet.attacks.inversion.attributes.secret import SecretAttribute
from privet.errors import InvalidArgument
from privet.recoveries import Criterion, Recoveries, RecoveryGame
from privet.scores import Bits
from privet.views import Adversary, LabelOnly, Labels, Numbers, Rows, narrow_view

__all__ = ["AttributeAttack", "AttributeGame", "AttributeRecovery", "AttributeTargets"]

_WANTS = "the value of a secret attribute"


@final
@dataclass(frozen=True, eq=False)
class AttributeTargets:
    """What the adversary knows of the targets: the record without the secret, and its label."""

    inputs: Rows
    labels: NDArray[Any]

    def __len__(self) -> int:
        return len(self.inputs)


@final
@dataclass(frozen=True, eq=False)
class AttributeGame:
    """Targets with their secret, the coin of each, and the people whose secret is public.

    ``labels`` are class numbers, or for a regression model the true numbers. ``members`` may not be known:
    then the imputation is the only baseline.
    """

    inputs: Rows
    labels: NDArray[Any]
    members: Bits | None
    public: PublicPeople
    groups: NDArray[np.str_] | None = None

    def __post_init__(self) -> None:
        inputs, labels = np.asarray(self.inputs), np.asarray(self.labels)
        if inputs.ndim != 2 or len(inputs) == 0 or labels.shape != (len(inputs),):
            raise InvalidArgument(
                f"'inputs' must be rows × columns and 'labels' one label for each row, got shapes "
                f"{inputs.shape} and {labels.shape}. Give the targets as the model takes them."
            )
        if inputs.shape[1] != self.public.inputs.shape[1]:
            raise InvalidArgument(
                f"'inputs' must have the {self.public.inputs.shape[1]} columns of the public people, got "
                f"{inputs.shape[1]}. Prepare both in the same way."
            )
        object.__setattr__(self, "inputs", inputs)
        object.__setattr__(self, "labels", labels)

    @property
    def secret(self) -> SecretAttribute:
        """The secret attribute."""
        return self.public.secret

    @cached_property
    def truths(self) -> Labels:
        """The number of each target's true value."""
        return self.secret.number(self.inputs)

    @cached_property
    def targets(self) -> AttributeTargets:
        """What the adversary knows of the targets."""
        return AttributeTargets(self.secret.hide(self.inputs), self.labels)

    @cached_property
    def log_imputations(self) -> Numbers:
        """What the population tells about each target's secret, targets × values."""
        return self.public.log_imputations(self.targets.inputs, self.targets.labels)

    @cached_property
    def recovery_game(self) -> RecoveryGame:
        """The same game for the frame of all attacks; the blind guess is the imputed value."""
        near = "falls into the right bin" if self.secret.is_numeric else "is exactly right"
        return RecoveryGame(
            secrets=self.truths,
            members=self.members,
            blind=np.argmax(self.log_imputations, axis=1),
            criterion=Criterion.exactly(f"the value of {self.secret.name} {near}"),
            groups=self.groups,
        )


@final
@dataclass(frozen=True, eq=False)
class AttributeRecovery:
    """What an attack recovered, and its score of each target and value, for rates by value."""

    recoveries: Recoveries
    chosen: Labels
    scores: Numbers
    truths: Labels
    log_imputations: Numbers
    names: tuple[str, ...]


class AttributeAttack(ABC):
    """One adversary who wants a secret attribute of each target."""

    takes_numbers: ClassVar[bool] = False  # whether it also attacks regression models

    @property
    @abstractmethod
    def name(self) -> str:
        """What a report calls it."""

    @property
    @abstractmethod
    def adversary(self) -> Adversary:
        """Who attacks: what they see, know and want."""

    @property
    @abstractmethod
    def sees(self) -> type[LabelOnly]:
        """The type of view that the adversary has."""

    @abstractmethod
    def score(self, view: Any, targets: AttributeTargets, public: PublicPeople) -> Numbers:  # noqa: ANN401
        """One score for each target and value, higher = more likely. Secrets and coins are not among the
        arguments.
        """

    @final
    def run(self, view: LabelOnly | PredictedNumbers, game: AttributeGame) -> AttributeRecovery:
        """Recover the secret of every target, and join the truth and the coin.

        Equal scores go to the value that more public people have.
        """
        narrow = self._narrow(view, game)
        scores = np.asarray(self.score(narrow, game.targets, game.public), dtype=np.float64)
        expected = (len(game.targets), game.secret.count)
        if scores.shape != expected or np.isnan(scores).any():
            raise InvalidArgument(
                f"'score' must give one number for each of {expected[0]} targets and {expected[1]} values, "
                f"got an array of shape {scores.shape} or NaN in it from {self.name}. Look for a model that "
                f"answers NaN."
            )
        chosen = break_ties(scores, game.public.log_marginals)
        recoveries = game.recovery_game.judge(
            chosen, self.name, confidence=_margins(scores), adversary=self.adversary
        )
        names = tuple(", ".join(str(part) for part in row) for row in game.secret.values.tolist())
        return AttributeRecovery(recoveries, chosen, scores, game.truths, game.log_imputations, names)

    def _narrow(
        self, view: LabelOnly | PredictedNumbers, game: AttributeGame
    ) -> LabelOnly | PredictedNumbers:
        if isinstance(view, PredictedNumbers):
            if not self.takes_numbers:
                raise InvalidArgument(
                    f"'view' must show classes for {self.name}, got a regression model. Take "
                    f"MarginalInversion or ImputedInversion."
                )
            return view
        if game.labels.dtype.kind not in "iub" or game.public.targets.dtype.kind not in "iub":
            raise InvalidArgument(
                "'labels' must be class numbers for a classifier, got something else. Number the classes as "
                "the model does; wrap a regression model in PredictedNumbers."
            )
        return narrow_view(view, self.sees)


def break_ties(scores: Numbers, log_marginals: Numbers) -> Labels:
    """The value with the highest score of each target; between equals, the one that more people have."""
    best = scores.max(axis=1, keepdims=True)
    tied = scores >= best  # infinite scores are equal to themselves
    chosen: Labels = np.argmax(np.where(tied, log_marginals, -np.inf), axis=1).astype(np.int64)
    return chosen


def _margins(scores: Numbers) -> Numbers:
    """How far the best score is above the second."""
    ordered = np.sort(np.clip(scores, -1e300, 1e300), axis=1)
    margin: Numbers = ordered[:, -1] - ordered[:, -2]
    return margin


def describe_adversary(sees: str, knows: str) -> Adversary:
    """An adversary who wants a secret attribute."""
    return Adversary(sees=sees, knows=knows, wants=_WANTS)
