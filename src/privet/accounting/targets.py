"""The targets of a calibration: an (ε, δ), or directly the risk that an attack succeeds."""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import NamedTuple, final

from privet.arguments import open_fraction, positive
from privet.ceilings import lowest_ceiling
from privet.errors import InvalidArgument, NotProved
from privet.guarantees import Guarantee

__all__ = ["AdvantageTarget", "EpsilonTarget", "Excess", "PosteriorTarget", "Target", "TprTarget"]


class Excess(NamedTuple):
    """How far a guarantee is above a target, on a logarithmic scale, and a hint for the next question."""

    value: float
    hint: float | None = None


class Target(ABC):
    """A condition on a guarantee."""

    @property
    def tolerance(self) -> float:
        """How closely, relative to its value, a parameter is found."""
        return 1e-7

    @abstractmethod
    def excess(self, guarantee: Guarantee, hint: float | None) -> Excess:
        """About how far above the target the guarantee is; at most 0 when it seems to reach it."""

    @abstractmethod
    def is_reached(self, guarantee: Guarantee) -> bool:
        """Whether the guarantee itself reaches the target."""


@final
@dataclass(frozen=True, kw_only=True)
class EpsilonTarget(Target):
    """At most this ε at this δ."""

    epsilon: float
    delta: float

    def __post_init__(self) -> None:
        positive("epsilon", self.epsilon)
        if self.delta != 0:
            open_fraction("delta", self.delta)

    def excess(self, guarantee: Guarantee, hint: float | None) -> Excess:
        if self.delta == 0:
            return Excess(math.log(max(guarantee.epsilon(delta=0.0), 1e-300) / self.epsilon))
        found = guarantee.curve.steer(self.epsilon, self.delta)
        return Excess(math.log(max(found, 1e-300)) - math.log(self.delta))

    def is_reached(self, guarantee: Guarantee) -> bool:
        if self.delta == 0:
            return guarantee.epsilon(delta=0.0) <= self.epsilon
        return guarantee.delta(epsilon=self.epsilon) <= self.delta


@final
@dataclass(frozen=True, kw_only=True)
class TprTarget(Target):
    """No attack finds more than ``tpr`` of the members at a false-positive rate of ``fpr``."""

    tpr: float
    fpr: float

    def __post_init__(self) -> None:
        open_fraction("tpr", self.tpr)
        open_fraction("fpr", self.fpr)
        if self.tpr <= self.fpr:
            raise InvalidArgument(
                f"'tpr' must be above 'fpr' = {self.fpr!r}, got {self.tpr!r}, because guessing reaches that. "
                f"Allow a higher true-positive rate."
            )

    @property
    def tolerance(self) -> float:
        return 1e-6  # each ceiling needs a search of its own

    def excess(self, guarantee: Guarantee, hint: float | None) -> Excess:
        found = lowest_ceiling(guarantee.curve.sketch, self.fpr, near=hint)
        if hint is not None and found.tpr.relative_gap > 3e-6:  # the hint was off
            found = lowest_ceiling(guarantee.curve.sketch, self.fpr)
        return Excess(math.log(found.tpr.upper / self.tpr), found.epsilon)

    def is_reached(self, guarantee: Guarantee) -> bool:
        return guarantee.tpr(fpr=self.fpr) <= self.tpr


@final
@dataclass(frozen=True, kw_only=True)
class AdvantageTarget(Target):
    """No attack's true-positive rate exceeds its false-positive rate by more than ``advantage``."""

    advantage: float

    def __post_init__(self) -> None:
        open_fraction("advantage", self.advantage)

    def excess(self, guarantee: Guarantee, hint: float | None) -> Excess:
        found = guarantee.curve.steer(0.0, self.advantage)
        return Excess(math.log(max(found, 1e-300)) - math.log(self.advantage))

    def is_reached(self, guarantee: Guarantee) -> bool:
        return guarantee.advantage() <= self.advantage


@final
@dataclass(frozen=True, kw_only=True)
class PosteriorTarget(Target):
    """A reader with this prior comes to believe no more than ``posterior``, except with probability δ."""

    prior: float
    posterior: float
    delta: float

    def __post_init__(self) -> None:
        open_fraction("prior", self.prior)
        open_fraction("posterior", self.posterior)
        if self.delta != 0:
            open_fraction("delta", self.delta)
        if self.posterior <= self.prior:
            raise InvalidArgument(
                f"'posterior' must be above 'prior' = {self.prior!r}, got {self.posterior!r}, because "
                f"nothing useful teaches nothing. Allow a higher posterior."
            )

    @property
    def loss(self) -> float:
        """The privacy loss that this target allows: the gain in log-odds."""
        return math.log(self.posterior / (1 - self.posterior)) - math.log(self.prior / (1 - self.prior))

    @property
    def tolerance(self) -> float:
        return 1e-6  # each belief needs a search of its own

    def excess(self, guarantee: Guarantee, hint: float | None) -> Excess:
        try:
            found = guarantee.loss_bound(delta=self.delta)
        except NotProved:
            return Excess(math.inf)  # with probability δ an output may reveal everything
        return Excess(math.log(max(found, 1e-300) / self.loss))

    def is_reached(self, guarantee: Guarantee) -> bool:
        return guarantee.posterior(prior=self.prior, delta=self.delta).upper <= self.posterior
