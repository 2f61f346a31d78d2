"""Learning-rate schedules, as factors of the recipe's learning rate."""

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import final

from privet.arguments import fraction, open_fraction, whole
from privet.errors import InvalidArgument

__all__ = ["Constant", "Cosine", "Linear", "Schedule", "StepSchedule", "WarmUp"]


class Schedule(ABC):
    """A factor for each step. The number of steps depends on the model's number of members."""

    @abstractmethod
    def factor(self, step: int, steps: int) -> float:
        """The factor at ``step``, from 0, of ``steps``."""


@final
@dataclass(frozen=True)
class Constant(Schedule):
    """The same learning rate at every step."""

    def factor(self, step: int, steps: int) -> float:
        return 1.0


@final
@dataclass(frozen=True)
class Cosine(Schedule):
    """Half a cosine from 1 down to ``floor``.

    >>> [round(Cosine().factor(t, 4), 3) for t in range(4)]
    [1.0, 0.854, 0.5, 0.146]
    """

    floor: float = 0.0

    def __post_init__(self) -> None:
        if not 0 <= self.floor <= 1:
            raise InvalidArgument(f"'floor' must lie in [0, 1], got {self.floor!r}. Use 0.")

    def factor(self, step: int, steps: int) -> float:
        whole("steps", steps)
        return self.floor + (1 - self.floor) * 0.5 * (1 + math.cos(math.pi * step / steps))


@final
@dataclass(frozen=True)
class Linear(Schedule):
    """A straight line from 1 down to ``floor``.

    >>> [Linear().factor(t, 4) for t in range(4)]
    [1.0, 0.75, 0.5, 0.25]
    """

    floor: float = 0.0

    def __post_init__(self) -> None:
        if not 0 <= self.floor <= 1:
            raise InvalidArgument(f"'floor' must lie in [0, 1], got {self.floor!r}. Use 0.")

    def factor(self, step: int, steps: int) -> float:
        whole("steps", steps)
        return 1.0 - (1.0 - self.floor) * step / steps


@final
@dataclass(frozen=True)
class WarmUp(Schedule):
    """A straight line up to 1 over this share of the run, and then another schedule over the rest.

    >>> [round(WarmUp(0.5, Linear()).factor(t, 8), 2) for t in range(8)]
    [0.25, 0.5, 0.75, 1.0, 1.0, 0.75, 0.5, 0.25]
    """

    share: float = 0.1
    then: Schedule = Constant()

    def __post_init__(self) -> None:
        open_fraction("share", self.share)

    def factor(self, step: int, steps: int) -> float:
        rising = min(steps - 1, math.ceil(self.share * steps))
        return (step + 1) / rising if step < rising else self.then.factor(step - rising, steps - rising)


@final
@dataclass(frozen=True)
class StepSchedule(Schedule):
    """Multiplied by ``factor_each`` at each of these fractions of the run.

    >>> [StepSchedule((0.5, 0.75)).factor(t, 4) for t in range(4)]
    [1.0, 1.0, 0.1, 0.010000000000000002]
    """

    at: Sequence[float] = (0.5, 0.75)
    factor_each: float = 0.1

    def __post_init__(self) -> None:
        fraction("factor_each", self.factor_each)
        object.__setattr__(self, "at", tuple(self.at))
        for share in self.at:
            open_fraction("at", share)
        if any(later <= earlier for earlier, later in pairwise(self.at)):
            raise InvalidArgument(f"'at' must increase, got {self.at!r}. Sort the fractions.")

    def factor(self, step: int, steps: int) -> float:
        return float(self.factor_each ** sum(step >= share * steps for share in self.at))
