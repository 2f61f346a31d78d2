"""The ceiling that a proof sets for any attack, as a curve to draw and as numbers."""

import math
from contextlib import suppress
from functools import lru_cache

import numpy as np

from privet.adjacency import AddRemove
from privet.errors import PrivetError
from privet.guarantees import Guarantee, PairCurve
from privet.views import Numbers

__all__ = ["ceiling_curve", "ceiling_of_pair", "highest_tpr"]

_LINES = 32


# A page needs the same number in several places, and each takes a tenth of a second.
@lru_cache(maxsize=256)
def highest_tpr(claim: Guarantee | None, fpr: float) -> float | None:
    """The highest true-positive rate that the proof allows at this false-positive rate.

    None where nothing is proved.
    """
    if claim is None:
        return None
    try:
        return claim.tpr(fpr=fpr)
    except PrivetError:  # the accountant has no number here
        return None


def ceiling_curve(claim: Guarantee, fpr: Numbers, *, delta: float) -> Numbers:
    """A ceiling on the true-positive rate at each of many false-positive rates.

    Every ε proves a ceiling at all rates at once, min(δ(ε) + exp(ε)·fpr, 1 − exp(−ε)(1 − δ(ε) − fpr)). So the
    lowest over a few values of ε is a ceiling everywhere, and looks like the lowest possible one. A search at
    each rate takes a hundred times longer.

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


def ceiling_of_pair(epsilon: float, delta: float, fpr: float) -> float:
    """The ceiling that (ε, δ) alone sets for any attack, whatever the mechanism is.

    >>> round(ceiling_of_pair(1.0, 0.0, 0.001), 6)
    0.002718
    """
    return Guarantee(PairCurve(epsilon, delta), AddRemove(), "claim").tpr(fpr=fpr)
