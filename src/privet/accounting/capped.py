"""Losses that are too rare to matter for δ are cut off, before the saddle of a composition is looked for."""

import numpy as np

from privet.accounting.contour import Saddle, saddle_for_delta
from privet.accounting.cumulant import Composition
from privet.errors import OutOfReach

__all__ = ["CAPPED", "capped_saddle", "likely_tilt", "out_of_reach"]

CAPPED = 1e-12  # losses with at most this share of δ are cut off


def likely_tilt(epsilon: float, delta: float) -> float:
    """Where the saddle of a Gaussian composition with this (ε, δ) would be."""
    return float(np.clip(-2 * np.log(delta) / epsilon, 1e-6, 1e6)) if epsilon > 0 else 1.0


def capped_saddle(
    composition: Composition, epsilon: float, likely: float | None
) -> tuple[Composition, Saddle]:
    """The composition without losses that are too rare to matter for δ(ε), and its saddle.

    How rare they must be depends on δ(ε), which the saddle bounds. A few rounds are enough.
    """
    capped, log_delta, start = composition, 0.0, 1.0
    if likely is not None:
        capped, log_delta = composition.cap(CAPPED * likely), float(np.log(likely))
        start = likely_tilt(epsilon, likely)
    for attempt in range(8):
        saddle = saddle_for_delta(capped, epsilon, start)
        if saddle is None:
            break
        start = saddle.point
        if attempt == 7 or (capped is not composition and saddle.log_delta > log_delta - 3.0):
            return capped, saddle
        log_delta = saddle.log_delta
        capped = composition.cap(CAPPED * float(np.exp(log_delta)))
    raise out_of_reach()


def out_of_reach() -> OutOfReach:
    """The error where no method finds a certified ε."""
    return OutOfReach(
        "The composition has no certified ε within float64, because its losses span too many scales. "
        "Ask at a larger δ, or account with privet.accounting.Renyi."
    )
