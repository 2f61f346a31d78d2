"""Records out of the messages of a run: gradient inversion, played with the coin of each target.

Every step that may hold a target's client is inverted. The target is hit if any of the recovered rows is
near it. For a target that the coin left out this only happens by chance, or because someone else's record is
like it: that is the baseline.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np
from torch import nn

from privet.arguments import positive, whole
from privet.attacks.federated.signals import load_weights
from privet.attacks.federated.steps import ClientRecords, ObservedStep
from privet.attacks.inversion.gradients.attack import GradientInversion
from privet.attacks.inversion.gradients.public_model import PublicModel
from privet.errors import InvalidArgument
from privet.exhibits import Shown
from privet.recoveries import Criterion, Recoveries, RecoveryGame
from privet.scores import Bits
from privet.shared_gradients import LocalSteps, OneStep, SharedGradient, Sharing
from privet.views import Adversary, Numbers, Rows

__all__ = ["MessageInversion"]


@final
@dataclass(frozen=True, eq=False, kw_only=True)
class MessageInversion:
    """Inverts what clients sent, and looks for the targets among the recovered rows.

    *Adversary*: a server or a participant; sees the models, and updates or sums as far as the defence leaves
    them open; knows how clients train and how many records each has; wants the records.

    ``tolerance`` is the largest root-mean-square error of a hit, in units of the input. ``clients`` is how
    many clients are in a step whose cohort the adversary does not see. A message that was scaled by clipping
    no longer says how large the gradient was: if nothing can be verified, it is inverted by what does not
    depend on the scale.

    *Leaks*: which of the recovered rows is a target's is decided by the target's truth, so a hit says *the
    message shows it*, not that the adversary can tell which row is real.
    """

    inversion: GradientInversion
    learning_rate: float
    examples: int
    clients: int
    sharing: Sharing = OneStep()  # noqa: RUF009 - frozen
    tolerance: float = 0.1

    def __post_init__(self) -> None:
        positive("learning_rate", self.learning_rate)
        positive("tolerance", self.tolerance)
        whole("examples", self.examples)
        whole("clients", self.clients)

    @property
    def name(self) -> str:
        """What a report calls it."""
        return f"inversion of messages ({self.inversion.name})"

    @property
    def adversary(self) -> Adversary:
        """Who attacks: what they see, know and want."""
        return Adversary(
            sees="the model of each round, and the updates or sums that the defence leaves open",
            knows="how clients train, and how many records each has",
            wants="the records behind a message",
        )

    def recover(self, module: nn.Module, step: ObservedStep, shape: Sequence[int]) -> Rows:
        """The rows that one step shows; those that were not found are left out."""
        model = load_weights(module, step.before, shape)
        missing = [name for name in model.weights if name not in step.update]
        if missing:
            raise InvalidArgument(
                f"'steps' must have an update of each parameter, got none of {missing[0]!r}. Give the "
                f"architecture that the run trained."
            )
        gradients = {name: -np.asarray(step.update[name]) / self.learning_rate for name in model.weights}
        count = self.examples * (self.clients if step.clients is None else len(step.clients))
        rows = self._invert(model, SharedGradient(gradients, count, self.sharing))
        if not len(rows) and isinstance(self.sharing, OneStep):
            unscaled = LocalSteps(learning_rate=self.learning_rate, batch_size=count)
            rows = self._invert(model, SharedGradient(gradients, count, unscaled))
        return rows

    def run(
        self,
        module: nn.Module,
        steps: Sequence[ObservedStep],
        targets: ClientRecords,
        members: Bits,
        *,
        draw: Callable[[Any], Shown] | None = None,
    ) -> Recoveries:
        """Invert the steps, give each target the nearest recovered row, and let the game judge."""
        truths = np.asarray(targets.records.inputs, dtype=np.float64)
        flat = truths.reshape(len(truths), -1)
        nearest, gaps = np.full(flat.shape, np.nan), np.full(len(flat), np.inf)
        for step in steps:
            own = np.flatnonzero([step.may_hold(int(home)) for home in targets.homes])
            if not len(own):
                continue
            rows = self.recover(module, step, truths.shape[1:]).reshape(-1, flat.shape[1]).astype(np.float64)
            if not len(rows):
                continue
            distances = np.stack([_distances(rows, target) for target in flat[own]])
            best = distances.argmin(axis=1)
            least = distances[np.arange(len(own)), best]
            better = least < gaps[own]
            gaps[own[better]] = least[better]
            nearest[own[better]] = rows[best[better]]
        game = RecoveryGame(
            truths,
            members,
            criterion=Criterion(
                f"recovered with a root-mean-square error of at most {self.tolerance:g}",
                _root_mean_square,
                self.tolerance,
            ),
        )
        return game.judge(
            nearest.reshape(truths.shape),
            self.name,
            adversary=self.adversary,
            confidence=-np.minimum(gaps, 1e300),
            draw=draw,
        )

    def _invert(self, model: PublicModel, message: SharedGradient) -> Rows:
        rows = self.inversion.recover(model, [message]).rows
        return rows[np.isfinite(rows.reshape(len(rows), -1)).all(axis=1)]


def _distances(rows: Numbers, target: Numbers) -> Numbers:
    answer: Numbers = np.sqrt(np.square(rows - target).mean(axis=1))
    return answer


def _root_mean_square(recovered: Rows, truths: Rows) -> Numbers:
    gaps = np.asarray(recovered, dtype=np.float64) - np.asarray(truths, dtype=np.float64)
    answer: Numbers = np.sqrt(np.square(gaps.reshape(len(gaps), -1)).mean(axis=1))
    return answer
