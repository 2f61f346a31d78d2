"""Tails of draws without replacement, as logarithms: how often a client's neighbours turn out badly.

X ~ H(population, marked, draws) is the number of marked ones among ``draws`` of ``population``, drawn without
replacement. The sums are over all terms of the tail in logarithms, with ``ROUND_OFF`` added, so that a bound
stays a bound.
"""

import numpy as np
from scipy.special import gammaln, logsumexp

__all__ = ["log_at_least", "log_below", "log_choose"]

ROUND_OFF = 1e-6  # nats; gammaln is right to about 1e-15 of numbers up to 1e8


def log_choose(size: int, chosen: int) -> float:
    """ln of the number of subsets; −∞ where there is none."""
    if not 0 <= chosen <= size:
        return -np.inf
    return float(gammaln(size + 1) - gammaln(chosen + 1) - gammaln(size - chosen + 1))


def log_at_least(least: int, *, population: int, marked: int, draws: int) -> float:
    """ln P[X ≥ least], rounded up.

    >>> round(float(np.exp(log_at_least(2, population=4, marked=2, draws=2))), 5)  # 1/6
    0.16667
    """
    return _log_range(max(least, 0), draws, population, marked, draws)


def log_below(most: int, *, population: int, marked: int, draws: int) -> float:
    """ln P[X < most], rounded up."""
    return _log_range(0, most - 1, population, marked, draws)


def _log_range(first: int, last: int, population: int, marked: int, draws: int) -> float:
    """ln P[first ≤ X ≤ last]."""
    low, high = max(first, draws - (population - marked)), min(last, marked, draws)
    if low > high:
        return -np.inf
    k = np.arange(low, high + 1, dtype=float)
    others = population - marked
    terms = (
        gammaln(marked + 1)
        - gammaln(k + 1)
        - gammaln(marked - k + 1)
        + gammaln(others + 1)
        - gammaln(draws - k + 1)
        - gammaln(others - draws + k + 1)
    )
    return min(float(logsumexp(terms)) - log_choose(population, draws) + ROUND_OFF, 0.0)
