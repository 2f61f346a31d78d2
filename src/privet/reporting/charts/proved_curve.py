"""What a proof leaves to any attack, as a curve to draw and as numbers to read."""

import math
from contextlib import suppress
from functools import lru_cache

import numpy as np

from privet.adjacency import AddRemove
from privet.errors import PrivetError
from privet.guarantees import Guarantee, PairCurve
from privet.views import Numbers

__all__ = ["ceiling_curve", "most_found", "pair_ceiling"]

_LINES = 32


@lru_cache(
    maxsize=256
)  # a page asks the same of a claim in several places, and each answer takes a tenth of a second
def most_found(claim: Guarantee | None, fpr: float) -> float | None:
    """The highest true-positive rate that the proof leaves at this false-positive rate; None where nothing is proved."""
    if claim is None:
        return None
    try:
        return claim.tpr(fpr=fpr)
    except PrivetError:  # the accountant has no number here, and 1 says nothing
        return None


def ceiling_curve(claim: Guarantee, fpr: Numbers, *, delta: float) -> Numbers:
    """A ceiling on the true-positive rate at each of many false-positive rates.

    Every ε proves one, min(δ(ε) + exp(ε)·fpr, 1 − exp(−ε)(1 − δ(ε) − fpr)), at all rates at once, so the least over a few ε is a ceiling
    everywhere, and as good as the lowest one to the eye. A search at each rate would take a hundred times longer.

    Reference: Kairouz, Oh & Viswanath 2015, Theorem 2.1.
    """
    farthest = math.log(1 / float(fpr.min()))  # beyond it exp(ε)·fpr is above 1 everywhere
    grid = {float(value) for value in np.linspace(0.0, farthest, _LINES)}
    best = np.ones_like(fpr)
    with suppress(PrivetError):
        grid.add(min(claim.epsilon(delta=delta), farthest))
    for epsilon in sorted(grid):
        try:
            leaked = claim.delta(epsilon=epsilon)
        except PrivetError:  # this ε proves nothing; others do
            continue
        best = np.minimum(best, leaked + math.exp(epsilon) * fpr)
        best = np.minimum(best, 1 - math.exp(-epsilon) * (1 - leaked - fpr))
    return np.clip(best, fpr, 1.0)


def pair_ceiling(epsilon: float, delta: float, fpr: float) -> float:
    """What (ε, δ) alone leaves to any attack, whatever the mechanism is.

    >>> round(pair_ceiling(1.0, 0.0, 0.001), 6)
    0.002718
    """
    return Guarantee(PairCurve(epsilon, delta), AddRemove(), "claim").tpr(fpr=fpr)
