"""Numbers with a direction: an upper bound is rounded up, a lower bound down."""

from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple, final

from privet.arguments import at_least, finite, open_fraction
from privet.errors import ContradictoryBounds, InvalidArgument
from privet.public_calls import check_public_calls

__all__ = ["EpsilonBound", "Finding", "Interval", "Side", "Verdict", "enclosure"]

_ROUND_OFF = 1e-6  # relative; a lower bound above its upper bound by less counts as equal


class Interval(NamedTuple):
    """A certified enclosure: the true value is at least ``lower`` and at most ``upper``."""

    lower: float
    upper: float

    @property
    def relative_gap(self) -> float:
        """How loose the enclosure is, relative to its upper end (0 when both ends are 0)."""
        if self.upper == float("inf"):
            return 1.0
        return (self.upper - self.lower) / self.upper if self.upper > 0 else 0.0


def enclosure(lower: float, upper: float) -> Interval:
    """The interval between two certified bounds; an error where the lower one is above the upper one.

    The two come from different proofs. Where they contradict each other, one of them is wrong, and clipping
    the lower bound to the upper one would hide that.

    >>> enclosure(0.25, 0.5)
    Interval(lower=0.25, upper=0.5)
    """
    if lower > upper + _ROUND_OFF * abs(upper) + 1e-12:
        raise ContradictoryBounds(
            f"A certified lower bound is {lower!r} and the upper bound of the same number is {upper!r}, "
            f"which contradict each other. This is a bug in Privet: report the event, the adjacency and this "
            f"message, and use neither number."
        )
    return Interval(min(lower, upper), upper)


@final
class Side(StrEnum):
    """Whether a bound is below or above the true value."""

    LOWER = "lower"
    UPPER = "upper"


@final
@dataclass(frozen=True, kw_only=True)
class EpsilonBound:
    """ε is at most, or at least, ``value`` at this δ; a measured bound holds with ``confidence``.

    >>> EpsilonBound(value=2.4, delta=1e-5, side=Side.UPPER).confidence
    1.0
    """

    value: float
    delta: float
    side: Side
    confidence: float = 1.0

    def __post_init__(self) -> None:
        at_least("value", self.value, 0)
        if not 0 <= finite("delta", self.delta) < 1:
            raise InvalidArgument(
                f"'delta' must be at least 0 and below 1, got {self.delta!r}. Give a probability."
            )
        if self.confidence != 1.0:
            open_fraction("confidence", self.confidence)


@final
class Verdict(StrEnum):
    """Whether a measured lower bound contradicts a proved upper bound."""

    CONSISTENT = "consistent"
    VIOLATED = "violated"


@final
@dataclass(frozen=True, kw_only=True)
class Finding:
    """A measured lower bound and the claim that it tests.

    ``ceiling`` is the largest lower bound that a sample of this size can show. A measurement far below the
    claim and close to its ceiling does not show that the claim is loose.
    """

    measured: EpsilonBound
    ceiling: float
    claimed: EpsilonBound | None = None

    def __post_init__(self) -> None:
        at_least("ceiling", self.ceiling, 0)
        if self.measured.side is not Side.LOWER:
            raise InvalidArgument(
                "'measured' must be a lower bound, got an upper bound. Swap it with 'claimed'."
            )
        if self.claimed is None:
            return
        if self.claimed.side is not Side.UPPER:
            raise InvalidArgument(
                "'claimed' must be an upper bound, got a lower bound. Swap it with 'measured'."
            )
        if self.claimed.delta != self.measured.delta:
            raise InvalidArgument(
                f"'claimed' and 'measured' must be at one δ, got {self.claimed.delta!r} and "
                f"{self.measured.delta!r}. Ask the claim for ε at the δ that was measured."
            )

    @property
    def verdict(self) -> Verdict | None:
        """Whether the claim holds up; None where nothing was claimed."""
        if self.claimed is None:
            return None
        broken = self.measured.value > self.claimed.value
        return Verdict.VIOLATED if broken else Verdict.CONSISTENT


check_public_calls(__name__)
