"""A proportion with confidence limits that hold for every number of trials.

Clopper & Pearson 1934: at the lower limit, so many hits or more have the probability that the failure allows;
at the upper limit, so many or fewer have it. There is no approximation, so the limits hold even for one
trial.
"""

from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaincc, betaincinv

__all__ = ["CountArray", "Rate", "at_least", "at_most", "few_errors", "most_below", "rate"]

CountArray: TypeAlias = NDArray[Any]  # of int64 or float64; scipy's functions do not say which


class Rate(NamedTuple):
    """An estimate and the ends of its confidence interval."""

    value: float
    lower: float
    upper: float

    def __str__(self) -> str:
        return f"{self.value:.4g} [{self.lower:.4g}, {self.upper:.4g}]"


def at_least(hits: CountArray | int, trials: CountArray | int, failure: CountArray | float) -> CountArray:
    """The one-sided lower limit of the share; it is above the truth with probability ``failure`` at most."""
    hits, trials = np.asarray(hits, dtype=np.float64), np.asarray(trials, dtype=np.float64)
    some = hits > 0
    limit = betaincinv(np.where(some, hits, 1.0), np.where(some, trials - hits + 1, 1.0), failure)
    return np.where(some, limit, 0.0)


def at_most(hits: CountArray | int, trials: CountArray | int, failure: CountArray | float) -> CountArray:
    """The one-sided upper limit of the share; it is below the truth with probability ``failure`` at most."""
    hits, trials = np.asarray(hits, dtype=np.float64), np.asarray(trials, dtype=np.float64)
    return 1.0 - at_least(trials - hits, trials, failure)


def rate(hits: int, trials: int, confidence: float) -> Rate:
    """The observed share, with its two-sided interval.

    >>> str(rate(0, 20, 0.95))
    '0 [0, 0.1684]'
    """
    failure = (1 - confidence) / 2
    lower, upper = float(at_least(hits, trials, failure)), float(at_most(hits, trials, failure))
    return Rate(hits / trials, lower, upper)


def few_errors(
    errors: CountArray | int, trials: CountArray | int, error_rate: CountArray | float
) -> CountArray:
    """P[Binomial(trials, error_rate) ≤ errors], also accurate where the error rate is tiny."""
    errors, trials = np.asarray(errors, dtype=np.float64), np.asarray(trials, dtype=np.float64)
    inside = (errors >= 0) & (errors < trials)
    tail = betaincc(np.where(inside, errors + 1, 1.0), np.where(inside, trials - errors, 1.0), error_rate)
    return np.where(errors < 0, 0.0, np.where(inside, tail, 1.0))


def most_below(trials: int, share: float, failure: float) -> int:
    """The largest k with P[Binomial(trials, share) ≤ k] ≤ failure: so few hits refute the share.

    −1 where none do.
    """
    low, high = -1, trials
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if float(few_errors(middle, trials, share)) <= failure else (low, middle)
    return low
