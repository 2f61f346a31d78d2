"""What a participant shares in collaborative training: gradients by parameter name, and how they were made.

This is the view of gradient inversion. The model is public, because every participant gets it. The number of
examples behind a gradient is public too: the protocol fixes it.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import final

import numpy as np

from privet.arguments import at_least, positive, whole
from privet.errors import InvalidArgument
from privet.public_calls import check_public_calls
from privet.views import Numbers

__all__ = ["LocalSteps", "NoisyStep", "OneStep", "SharedGradient", "Sharing"]


class Sharing(ABC):
    """How a shared gradient was made of the examples."""

    @property
    @abstractmethod
    def words(self) -> str:
        """What a report calls it."""


@final
@dataclass(frozen=True)
class OneStep(Sharing):
    """The gradient of the mean loss over the batch (FedSGD)."""

    @property
    def words(self) -> str:
        return "the gradient of one step"


@final
@dataclass(frozen=True, kw_only=True)
class LocalSteps(Sharing):
    """An update after several steps of plain SGD on one's own data (FedAvg).

    The data are passed through ``epochs`` times in batches of ``batch_size``, always in the same order. What
    is shared is (weights before − weights after) / ``learning_rate``: the sum of the gradients on the way.
    """

    learning_rate: float
    batch_size: int
    epochs: int = 1

    def __post_init__(self) -> None:
        positive("learning_rate", self.learning_rate)
        whole("batch_size", self.batch_size)
        whole("epochs", self.epochs)

    @property
    def words(self) -> str:
        return f"the update of {self.epochs} local epochs in batches of {self.batch_size}"


@final
@dataclass(frozen=True, kw_only=True)
class NoisyStep(Sharing):
    """What DP-SGD publishes: each example's gradient clipped, summed, noised, and divided by the batch size.

    The noise on the sum has standard deviation ``clip`` × ``noise_multiplier`` in each coordinate.
    """

    clip: float
    noise_multiplier: float

    def __post_init__(self) -> None:
        positive("clip", self.clip)
        at_least("noise_multiplier", self.noise_multiplier, 0.0)

    @property
    def words(self) -> str:
        return f"a gradient clipped to {self.clip:g} with a noise multiplier of {self.noise_multiplier:g}"


@final
@dataclass(frozen=True, eq=False)
class SharedGradient:
    """One participant's message: a gradient for each parameter, of ``examples`` examples.

    >>> message = SharedGradient({"weight": np.ones((2, 3)), "bias": np.ones(2)}, examples=4)
    >>> message.norm
    2.8284271247461903
    """

    gradients: Mapping[str, Numbers]
    examples: int
    sharing: Sharing = OneStep()

    def __post_init__(self) -> None:
        whole("examples", self.examples)
        if not self.gradients:
            raise InvalidArgument(
                "'gradients' must hold one array for each parameter, got none. Give those of the shared "
                "message."
            )
        for name, values in self.gradients.items():
            if not np.isfinite(values).all():
                raise InvalidArgument(
                    f"'gradients' must be finite, got NaN or infinity for {name!r}. Lower the learning rate "
                    f"of whoever computed them, or leave this message out."
                )
        if isinstance(self.sharing, LocalSteps) and self.examples % self.sharing.batch_size:
            raise InvalidArgument(
                f"'examples' must be a multiple of the local batch size {self.sharing.batch_size}, got "
                f"{self.examples}. Give the number of examples that the participant holds."
            )

    @classmethod
    def between(
        cls,
        before: Mapping[str, Numbers],
        after: Mapping[str, Numbers],
        *,
        learning_rate: float,
        examples: int,
        sharing: Sharing = OneStep(),
    ) -> "SharedGradient":
        """The message that two states of a model show, where the steps between them were plain SGD."""
        positive("learning_rate", learning_rate)
        if before.keys() != after.keys():
            raise InvalidArgument(
                "'after' must have the parameters of 'before', got other names. Give two states of one model."
            )
        return cls({name: (before[name] - after[name]) / learning_rate for name in before}, examples, sharing)

    @classmethod
    def mean_of(cls, messages: Sequence["SharedGradient"]) -> "SharedGradient":
        """What secure aggregation shows of several one-step messages: their mean, as of one large batch."""
        if not messages or any(message.sharing != OneStep() for message in messages):
            raise InvalidArgument(
                "'messages' must be at least one message of one step each, got none or others. Give what "
                "each client sent."
            )
        total = sum(message.examples for message in messages)
        names = messages[0].gradients
        if any(message.gradients.keys() != names.keys() for message in messages):
            raise InvalidArgument(
                "'messages' must have the parameters of one model, got several. Give messages of one round."
            )
        return cls(
            {
                name: np.sum([m.gradients[name] * (m.examples / total) for m in messages], axis=0)
                for name in names
            },
            total,
        )

    @property
    def norm(self) -> float:
        """The norm of the whole gradient."""
        return float(np.sqrt(sum(float(np.square(values).sum()) for values in self.gradients.values())))


check_public_calls(__name__)
