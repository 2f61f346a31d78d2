"""Privacy in whole numbers: what is added up in a database has no rounding, so no order of sums matters.

ε and moments are counted in femto-nats (10⁻¹⁵), probabilities in atto (10⁻¹⁸). Costs are rounded up and caps
down, each once, from the float64 that the accountant proved, as an exact fraction. A sum that would leave 63
bits, or a loss without a bound, stands at ``WITHOUT_BOUND`` and stays there; no cap is that large.
"""

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import final

from privet.errors import InvalidArgument

__all__ = ["ATTO", "FEMTO", "NO_COST", "WITHOUT_BOUND", "WholeCaps", "WholeCost", "round_down", "round_up"]

FEMTO = 10**15  # units in one nat
ATTO = 10**18  # units in probability 1
WITHOUT_BOUND = 2**62


def round_up(number: float, units: int) -> int:
    """The smallest whole number of units that is no less than this.

    >>> round_up(0.1, FEMTO)  # 0.1 is a little above one tenth in float64
    100000000000001
    """
    if math.isnan(number) or number < 0:
        raise InvalidArgument(f"A cost must be at least 0, got {number!r}. Give what an accountant proved.")
    if math.isinf(number):
        return WITHOUT_BOUND
    return min(math.ceil(Fraction(number) * units), WITHOUT_BOUND)


def round_down(number: float, units: int) -> int:
    """The largest whole number of units that is no more than this; −1 where the number is below 0."""
    if math.isnan(number) or math.isinf(number):
        raise InvalidArgument(f"A cap must be a finite number, got {number!r}. Give a finite budget.")
    return max(min(math.floor(Fraction(number) * units), WITHOUT_BOUND - 1), -1)


@final
@dataclass(frozen=True)
class WholeCost:
    """What a filter adds up: its measure, P[loss = ∞], and the largest finite loss, in whole units.

    For each event the worse of the two orders of neighbours counts, so a sum of costs is at least that of
    either order.

    >>> WholeCost(1, 2, 3) + WholeCost(10, 0, WITHOUT_BOUND) == WholeCost(11, 2, WITHOUT_BOUND)
    True
    """

    measure: int
    claimed: int
    largest: int

    def __add__(self, other: "WholeCost") -> "WholeCost":
        return WholeCost(
            min(self.measure + other.measure, WITHOUT_BOUND),
            min(self.claimed + other.claimed, WITHOUT_BOUND),
            min(self.largest + other.largest, WITHOUT_BOUND),
        )


NO_COST = WholeCost(0, 0, 0)


@final
@dataclass(frozen=True)
class WholeCaps:
    """How far the sums may go. A cap of −1 permits nothing, not even 0."""

    measure: int
    claimed: int
    largest: int

    def permits(self, spent: WholeCost) -> bool:
        """Whether a filter permits these sums: claims within their share, and moments or Σε within theirs.

        It is the CHECK that stands in the database.
        """
        within = spent.measure <= self.measure or spent.largest <= self.largest
        return spent.claimed <= self.claimed and within
