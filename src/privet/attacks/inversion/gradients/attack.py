"""What a gradient inversion is: from a public model and shared gradients to the examples behind each
gradient.

``recover`` gets the public model and the messages. ``run`` joins the truth afterwards. A batch has no order,
so the recovered examples of each message are first brought into the order that fits the truth best.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np
from scipy.optimize import linear_sum_assignment

from privet.attacks.inversion.gradients.public_model import PublicModel
from privet.errors import InvalidArgument
from privet.exhibits import Shown
from privet.recoveries import Recoveries, RecoveryGame
from privet.shared_gradients import SharedGradient
from privet.views import Adversary, Labels, Numbers, Rows

__all__ = ["GradientInversion", "Reconstructions", "align_batches"]


@final
@dataclass(frozen=True, eq=False)
class Reconstructions:
    """What an inversion recovered: messages × examples × shape, labels, and how sure it is of each
    example."""

    inputs: Numbers
    labels: Labels
    confidence: Numbers

    def __post_init__(self) -> None:
        if self.labels.shape != self.inputs.shape[:2] or self.confidence.shape != self.labels.shape:
            raise InvalidArgument(
                f"'labels' and 'confidence' must have one entry for each of the {self.inputs.shape[:2]} "
                f"examples, got {self.labels.shape} and {self.confidence.shape}. Give messages × examples."
            )

    @property
    def rows(self) -> Numbers:
        """The inputs of all messages, one after the other."""
        return self.inputs.reshape(-1, *self.inputs.shape[2:])


class GradientInversion(ABC):
    """One adversary who turns gradients into examples."""

    @property
    @abstractmethod
    def name(self) -> str:
        """What a report calls it."""

    @property
    @abstractmethod
    def adversary(self) -> Adversary:
        """Who attacks: what they see, know and want."""

    @abstractmethod
    def recover(self, model: PublicModel, shared: Sequence[SharedGradient]) -> Reconstructions:
        """The examples behind each message. All messages have the same number of examples."""

    @final
    def run(
        self,
        model: PublicModel,
        shared: Sequence[SharedGradient],
        game: RecoveryGame,
        *,
        draw: Callable[[Any], Shown] | None = None,
    ) -> Recoveries:
        """Recover, bring each batch into the order that fits best, and let the game judge.

        The game's secrets are the inputs of all messages, one message after the other. Choosing the best
        order helps the attack a little in batches above 1; the criterion should be strict enough not to feel
        it.
        """
        found = self.recover(model, check_messages(shared))
        if len(game) != found.labels.size:
            raise InvalidArgument(
                f"'game' must have {found.labels.size} targets, the examples of all messages, got "
                f"{len(game)}. Give the inputs behind each message, one message after the other."
            )
        order = align_batches(found.rows, game.secrets, batch=found.labels.shape[1])
        return game.judge(
            found.rows[order],
            self.name,
            adversary=self.adversary,
            confidence=found.confidence.ravel()[order],
            draw=draw,
        )


def check_messages(shared: Sequence[SharedGradient]) -> Sequence[SharedGradient]:
    """At least one message, and all made in the same way of equally many examples."""
    if not shared:
        raise InvalidArgument(
            "'shared' must hold at least one message, got none. Give the gradients to invert."
        )
    if len({(message.examples, message.sharing) for message in shared}) > 1:
        raise InvalidArgument(
            "'shared' must be messages of one kind and size, got several. Call the attack once for each kind."
        )
    return shared


def align_batches(recovered: Rows, truths: Rows, *, batch: int) -> np.ndarray:
    """For each truth, the place of the recovered row that belongs to it: the cheapest assignment in each
    batch.

    The cost is the squared distance; a row that was not recovered (NaN) fits every truth equally badly.

    >>> align_batches(np.array([[5.0], [1.0]]), np.array([[1.0], [4.0]]), batch=2).tolist()
    [1, 0]
    """
    found = np.asarray(recovered, dtype=np.float64).reshape(len(recovered), -1)
    true = np.asarray(truths, dtype=np.float64).reshape(len(truths), -1)
    if found.shape != true.shape or len(found) % batch:
        raise InvalidArgument(
            f"'recovered' must have the {true.shape} numbers of the truths in whole batches of {batch}, got "
            f"{found.shape}. Give one recovered row for each truth."
        )
    order = np.arange(len(true))
    for start in range(0, len(true), batch):
        part = slice(start, start + batch)
        lengths = np.square(found[part]).sum(axis=1)[None] + np.square(true[part]).sum(axis=1)[:, None]
        gaps = lengths - 2.0 * true[part] @ found[part].T
        worst = np.nanmax(gaps) if np.isfinite(gaps).any() else 0.0
        _, chosen = linear_sum_assignment(np.where(np.isfinite(gaps), gaps, 2.0 * worst + 1.0))
        order[part] = start + chosen
    return order
