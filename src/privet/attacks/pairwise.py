"""How many of M numbers each of N numbers is above: by sorting, O((N + M) log M), never an N × M table."""

import math

import numpy as np

from privet.arguments import positive
from privet.errors import InvalidArgument
from privet.views import Numbers

__all__ = ["dominated", "refined"]

_BELOW_ONE = 1.0 - 1e-9  # a fraction that does not round up to the next count


def dominated(log_ratios: Numbers, population: Numbers, gamma: float = 1.0) -> Numbers:
    """How many z of the population have ratio(x)/ratio(z) ≥ γ, for each x; both given as logarithms.

    >>> dominated(np.array([0.0, 1.0, 2.0]), np.array([0.0, 1.0, 1.0])).tolist()
    [1.0, 3.0, 3.0]
    """
    ordered, shifted = _ready(log_ratios, population, gamma)
    return np.searchsorted(ordered, shifted, side="right").astype(np.float64)


def refined(log_ratios: Numbers, population: Numbers, gamma: float = 1.0) -> Numbers:
    """The same counts with their ties broken by the ratio itself, as a fraction in (0, 1).

    Between two neighbours of the population a record's place is interpolated; beyond the ends it tends to the next count
    and never reaches it. Times M + 1 and rounded down, it is the count again.

    >>> (4 * refined(np.array([0.5, 3.0]), np.array([0.0, 1.0, 2.0]))).round(2).tolist()
    [1.5, 3.5]
    """
    ordered, shifted = _ready(log_ratios, population, gamma)
    counts = np.searchsorted(ordered, shifted, side="right")
    below = ordered[np.maximum(counts - 1, 0)]
    above = ordered[np.minimum(counts, len(ordered) - 1)]
    with np.errstate(invalid="ignore", divide="ignore"):
        between = (shifted - below) / (above - below)
        before = 1.0 / (1.0 + (above - shifted))
        after = (shifted - below) / (1.0 + (shifted - below))
    place = np.where(counts == 0, before, np.where(counts == len(ordered), after, between))
    answer: Numbers = (counts + np.clip(place, 0.0, _BELOW_ONE)) / (len(ordered) + 1)
    return answer


def _ready(log_ratios: Numbers, population: Numbers, gamma: float) -> tuple[Numbers, Numbers]:
    if len(population) == 0:
        raise InvalidArgument("'population' must hold at least one record, got none. Give public records.")
    return np.sort(population), log_ratios - math.log(positive("gamma", gamma))
