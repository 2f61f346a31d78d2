"""What is publicly known of a secret number: its bounds or its possible values, and how near counts as
recovered.
"""

from dataclasses import dataclass
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from privet.arguments import at_least
from privet.errors import InvalidArgument
from privet.public_calls import check_public_calls
from privet.recoveries import Criterion
from privet.views import Numbers

__all__ = ["SecretNumber"]


@final
@dataclass(frozen=True)
class SecretNumber:
    """A number between ``lower`` and ``upper``, or one of ``values``.

    An estimate is brought into the bounds, or to the nearest of the values. A hit is within ``tolerance`` of
    the truth; one of ``values`` must be exactly right.

    >>> SecretNumber(values=(0, 1)).fit(np.array([-3.0, 0.4, 0.6])).tolist()
    [0.0, 0.0, 1.0]
    >>> SecretNumber(lower=0, upper=10_000, tolerance=100).criterion.words
    'within 100 of the truth'
    """

    lower: float = -np.inf
    upper: float = np.inf
    values: tuple[float, ...] | None = None
    tolerance: float = 0.5

    def __post_init__(self) -> None:
        if not self.lower < self.upper:
            raise InvalidArgument(
                f"'lower' must be below 'upper', got {self.lower!r} and {self.upper!r}. Exchange them."
            )
        at_least("tolerance", self.tolerance, 0)
        if self.values is not None and (len(set(self.values)) < 2 or not np.isfinite(self.values).all()):
            raise InvalidArgument(
                f"'values' must be at least two different finite numbers, got {self.values!r}. Leave them "
                "out for a number within bounds."
            )

    @property
    def criterion(self) -> Criterion:
        """What counts as a hit."""
        return Criterion.within(self.tolerance) if self.values is None else Criterion.exactly()

    def fit(self, estimates: NDArray[Any]) -> Numbers:
        """The possible number that is nearest to each estimate."""
        numbers = np.asarray(estimates, dtype=np.float64)
        if self.values is None:
            return np.clip(numbers, self.lower, self.upper)
        possible = np.sort(np.asarray(self.values, dtype=np.float64))
        nearest = np.abs(numbers[..., None] - possible).argmin(axis=-1)
        fitted: Numbers = possible[nearest]
        return fitted


def check_numbers(name: str, values: NDArray[Any], shape: tuple[int | None, ...]) -> Numbers:
    """Finite numbers of this shape; None stands for any length above 0."""
    array = np.asarray(values)
    fits = array.ndim == len(shape) and all(
        have == want if want is not None else have > 0 for have, want in zip(array.shape, shape, strict=True)
    )
    if array.dtype.kind not in "biuf" or not fits or not np.isfinite(array).all():
        words = " × ".join("any" if want is None else str(want) for want in shape)
        raise InvalidArgument(
            f"'{name}' must be finite numbers of shape {words}, got an array of type {array.dtype} and shape "
            f"{array.shape}. Give one for each "
            f"target."
        )
    return array.astype(np.float64)


check_public_calls(__name__)
