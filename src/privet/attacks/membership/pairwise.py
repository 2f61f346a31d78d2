"""How many of M numbers each of N numbers exceeds, by sorting: O((N + M) log M), and N log N for ties,
without an N × M table.
"""

import math

import numpy as np

from privet.arguments import positive
from privet.errors import InvalidArgument
from privet.views import Numbers

__all__ = ["break_ties", "count_dominated"]


def count_dominated(log_ratios: Numbers, population: Numbers, gamma: float = 1.0) -> Numbers:
    """How many z of the population have ratio(x)/ratio(z) ≥ γ, for each x; both given as logarithms.

    >>> count_dominated(np.array([0.0, 1.0, 2.0]), np.array([0.0, 1.0, 1.0])).tolist()
    [1.0, 3.0, 3.0]
    """
    ordered, shifted = _prepare(log_ratios, population, gamma)
    return np.searchsorted(ordered, shifted, side="right").astype(np.float64)


def break_ties(log_ratios: Numbers, population: Numbers, gamma: float = 1.0) -> Numbers:
    """The counts of ``count_dominated`` with ties broken by the ratio itself, scaled to (0, 1).

    The rank of the ratio among all, scaled below 1, is added to the count, so records with equal counts are
    in the order of their ratios. The score times M + 1, rounded down, is the count again. Equal ratios stay
    tied.

    >>> (4 * break_ties(np.array([0.5, 0.7, 3.0]), np.array([0.0, 1.0, 2.0]))).tolist()
    [1.25, 1.5, 3.75]
    """
    counts = count_dominated(log_ratios, population, gamma)
    distinct, rank = np.unique(log_ratios, return_inverse=True)
    answer: Numbers = (counts + (rank + 1.0) / (len(distinct) + 1.0)) / (len(population) + 1)
    return answer


def _prepare(log_ratios: Numbers, population: Numbers, gamma: float) -> tuple[Numbers, Numbers]:
    if len(population) == 0:
        raise InvalidArgument("'population' must hold at least one record, got none. Give public records.")
    return np.sort(population), log_ratios - math.log(positive("gamma", gamma))
