"""What a participant shares in collaborative training: gradients by parameter name, and how they were made.

This is the view of gradient inversion. The model is public, because every participant gets it. The number of
examples behind a gradient is public too: the protocol fixes it.
"""

from abc import ABC
from collections.abc import Mapping
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


@final
@dataclass(frozen=True)
class OneStep(Sharing):
    """The gradient of the mean loss over the batch (FedSGD)."""


@final
@dataclass(frozen=True, kw_only=True)
class LocalSteps(Sharing):
    """An update after several steps of plain SGD on one's own data (FedAvg).

    The data are passed through ``epochs`` times in batches of ``batch_size``, always in the same order. What is
    shared is (weights before − weights after) / ``learning_rate``: the sum of the gradients on the way.
    """

    learning_rate: float
    batch_size: int
    epochs: int = 1

    def __post_init__(self) -> None:
        positive("learning_rate", self.learning_rate)
        whole("batch_size", self.batch_size)
        whole("epochs", self.epochs)


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
                "'gradients' must hold one array for each parameter, got none. Give those of the shared message."
            )
        for name, values in self.gradients.items():
            if not np.isfinite(values).all():
                raise InvalidArgument(
                    f"'gradients' must be finite, got NaN or infinity for {name!r}. Lower the learning rate of "
                    f"whoever computed them, or leave this message out."
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
        sharing: Sharing = OneStep(),  # noqa: B008 - frozen
    ) -> "SharedGradient":
        """The message that two states of a model show, where the steps between them were plain SGD."""
        positive("learning_rate", learning_rate)
        if before.keys() != after.keys():
            raise InvalidArgument(
                "'after' must have the parameters of 'before', got other names. Give two states of one model."
            )
        return cls({name: (before[name] - after[name]) / learning_rate for name in before}, examples, sharing)

    @property
    def norm(self) -> float:
        """The norm of the whole gradient."""
        return float(np.sqrt(sum(float(np.square(values).sum()) for values in self.gradients.values())))


check_public_calls(__name__)
