"""A public grid: values become whole steps before anything is added up, and noise is a whole number of steps.

Floating-point sums depend on the order of the records and leak through their last bits, and so does
floating-point noise (Mironov 2012; Casacuberta et al. 2022). So each person's clamped value is rounded to a
whole number of *fine* steps, 2⁻²⁰ of a step; these are added up exactly; and the total is rounded once to
whole steps.

*What the rounding does to the sensitivity*. Rounding is monotone and commutes with whole steps. Two totals at
most m whole steps apart are still at most m steps apart after rounding, so nothing is lost if the distance is
a multiple of the step. Otherwise the distance is rounded up to whole steps, and the event has this larger
one.

*What it does to the answer*. It moves by at most half a step, once, and by 2⁻²¹ of a step for each record.
"""

import math
from dataclasses import dataclass
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from privet.arguments import positive
from privet.errors import InvalidArgument
from privet.mechanisms.records import Floats

__all__ = ["BLOCK", "ONE", "StepGrid", "grid_below"]

_FINE = 1 << 20
BLOCK = 1 << 15  # rows that are added in int64 at once; blocks are added as Python's integers
_MOST_FINE_STEPS = 1 << 47  # of one record, so that a block stays below 2⁶³
_SMALLEST, _LARGEST = 2.0**-900, 2.0**900


@final
@dataclass(frozen=True)
class StepGrid:
    """The multiples of ``granularity``, a power of two.

    >>> StepGrid(0.5).total_steps(np.array([0.3, 0.3, 0.3]), 0.0, 1.0)
    2
    """

    granularity: float

    def __post_init__(self) -> None:
        positive("granularity", self.granularity)
        if math.frexp(self.granularity)[0] != 0.5 or not _SMALLEST <= self.granularity <= _LARGEST:
            raise InvalidArgument(
                f"'granularity' must be a power of two between 2^-900 and 2^900, got {self.granularity!r}, "
                f"because steps must be exact in float64. Use a number such as 1.0 or 0.0625."
            )

    @property
    def fine(self) -> float:
        """The length of a fine step."""
        return self.granularity / _FINE

    def fine_floor(self, value: float) -> int:
        """Fine steps, rounded down."""
        return math.floor(value / self.fine)

    def fine_ceil(self, value: float) -> int:
        """Fine steps, rounded up."""
        return math.ceil(value / self.fine)

    def fine_steps(self, values: Floats, lower: float, upper: float) -> NDArray[np.int64]:
        """Each value, clamped, as fine steps; a missing one is the allowed number nearest to 0."""
        nothing = min(max(0.0, lower), upper)
        clamped = np.clip(np.where(np.isnan(values), nothing, values), lower, upper)
        return np.rint(clamped / self.fine).astype(np.int64)

    def total(self, values: Floats, lower: float, upper: float) -> int:
        """The exact sum of fine steps."""
        self.check(lower, upper)
        return sum(
            int(self.fine_steps(values[start : start + BLOCK], lower, upper).sum())
            for start in range(0, len(values), BLOCK)
        )

    def total_steps(self, values: Floats, lower: float, upper: float) -> int:
        """The sum in whole steps."""
        return self.coarse(self.total(values, lower, upper))

    def check(self, lower: float, upper: float) -> None:
        """Refuse bounds that are too far from 0 for their distance."""
        if max(abs(lower), abs(upper)) / self.fine > _MOST_FINE_STEPS:
            raise InvalidArgument(
                f"'lower' and 'upper' must not be so close together and so far from 0, got {lower!r} and "
                f"{upper!r}, because whole steps between them leave 64 bits. Subtract a public constant "
                f"from the values."
            )

    def distance(self, lower: float, upper: float) -> int:
        """How many whole steps apart two roundings of values between the bounds can be."""
        return -(-(self.fine_ceil(upper) - self.fine_floor(lower)) // _FINE)

    def span(self, lower: int, upper: int) -> int:
        """How many whole steps apart two roundings can move if these fine steps are added to both."""
        return -(-upper // _FINE) - lower // _FINE

    def coarse(self, total: int) -> int:
        """Fine steps, rounded to whole ones."""
        return (total + _FINE // 2) // _FINE

    def coarse_all(self, totals: NDArray[Any]) -> NDArray[np.int64]:
        """Fine steps, rounded to whole ones, for each total; totals may be Python's integers."""
        return np.asarray((totals + _FINE // 2) // _FINE).astype(np.int64)

    def values(self, steps: list[int]) -> Floats:
        """Steps as numbers."""
        return np.array([float(step) * self.granularity for step in steps])


ONE = StepGrid(1.0)


def grid_below(length: float, bits: int) -> StepGrid:
    """The grid that cuts ``length`` into at least 2^bits steps, and into fewer than twice as many.

    >>> grid_below(100.0, 10).granularity
    0.0625
    """
    exponent = math.frexp(length)[1] - 1 - bits
    if not -880 <= exponent <= 880:
        raise InvalidArgument(
            f"Bounds and noise must have sizes between 1e-250 and 1e250, got {length!r}. Measure in another "
            f"unit."
        )
    return StepGrid(math.ldexp(1.0, exponent))
