"""What privacy removes, at equal quality: leaks are compared between models of the same cross-entropy.

A private model is a worse model, and so is one that was stopped early. Neither remembers much. "Nothing is
extracted under differential privacy" says something about privacy only beside a plain model that is no
better: the plain run is followed along its training, and read off where its cross-entropy on held-out text is
that of the private model.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import numpy as np

from privet.errors import InvalidArgument
from privet.views import Numbers

__all__ = ["EqualLossPoint", "LeakCurve", "compare_at_equal_loss"]


@final
@dataclass(frozen=True, eq=False)
class LeakCurve:
    """One training run at its checkpoints, in order: the cross-entropy on held-out text, and a leak (an
    exposure in bits, a share of extracted passages, an AUC).
    """

    losses: Numbers
    leaks: Numbers

    def __post_init__(self) -> None:
        losses, leaks = (np.asarray(part, dtype=np.float64) for part in (self.losses, self.leaks))
        if losses.ndim != 1 or losses.shape != leaks.shape or len(losses) == 0:
            raise InvalidArgument(
                f"'losses' and 'leaks' must have one number for each checkpoint, got shapes {losses.shape} "
                f"and {leaks.shape}. Measure both at every checkpoint."
            )
        if not (np.isfinite(losses).all() and np.isfinite(leaks).all()):
            raise InvalidArgument(
                "'losses' and 'leaks' must be finite, got others. Leave out the checkpoints of a run that "
                "diverged."
            )
        object.__setattr__(self, "losses", losses)
        object.__setattr__(self, "leaks", leaks)

    def at_loss(self, loss: float) -> float | None:
        """The leak where the run first reached this cross-entropy, by a straight line between checkpoints.

        None where it never had it: a run that starts below, or never comes so low, is no comparison.

        >>> LeakCurve(np.array([4.0, 3.0, 2.0]), np.array([1.4, 1.6, 9.0])).at_loss(2.75)
        3.45
        """
        for place, (before, after) in enumerate(zip(self.losses[:-1], self.losses[1:], strict=True)):
            if after <= loss <= before:
                share = 1.0 if before == after else (before - loss) / (before - after)
                return float(self.leaks[place] + share * (self.leaks[place + 1] - self.leaks[place]))
        return float(self.leaks[0]) if loss == self.losses[0] else None


@final
@dataclass(frozen=True)
class EqualLossPoint:
    """Two models of one cross-entropy; ``plain`` is None where the plain run never had it."""

    loss: float
    private: float
    plain: float | None

    @property
    def removed(self) -> float | None:
        """What privacy removed of the leak, beyond what a worse model removes anyway."""
        return None if self.plain is None else self.plain - self.private


def compare_at_equal_loss(private: LeakCurve, plain: LeakCurve) -> Sequence[EqualLossPoint]:
    """The leak at every checkpoint of the private run, beside that of the plain run at equal cross-entropy.

    >>> plain = LeakCurve(np.array([4.0, 3.0, 2.0]), np.array([1.4, 1.6, 9.0]))
    >>> point = compare_at_equal_loss(LeakCurve(np.array([3.0]), np.array([1.5])), plain)[0]
    >>> round(point.removed, 2)  # a plain model that was stopped early shows nothing, either
    0.1
    """
    return tuple(
        EqualLossPoint(float(loss), float(leak), plain.at_loss(float(loss)))
        for loss, leak in zip(private.losses, private.leaks, strict=True)
    )
