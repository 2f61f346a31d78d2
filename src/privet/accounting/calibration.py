"""``calibrate``: the value of one free parameter that just reaches a target."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import final

from privet.accounting.choice import account
from privet.accounting.targets import Target
from privet.adjacency import Adjacency
from privet.arguments import positive
from privet.errors import InvalidArgument, NotProved, OutOfReach
from privet.events import Event
from privet.guarantees import Guarantee

__all__ = ["Calibration", "calibrate"]

_TOLERANCE = 1e-7  # relative, of the parameter


@final
@dataclass(frozen=True)
class Calibration:
    """The parameter, on the private side of the target, and the guarantee that holds with it."""

    value: float
    event: Event
    guarantee: Guarantee
    target: Target


def calibrate(
    event_of: Callable[[float], Event],
    target: Target,
    *,
    adjacency: Adjacency,
    between: tuple[float, float] = (1e-3, 1e8),
    whole: bool = False,
) -> Calibration:
    """The value for which ``event_of(value)`` just reaches the target.

    The leakage may rise or fall with the value (noise makes it fall; a rate or a number of steps makes it rise),
    but must do so all the way ``between`` the limits. ``whole`` asks for a whole number, such as steps.

    >>> from privet.adjacency import AddRemove
    >>> from privet.accounting.targets import EpsilonTarget
    >>> from privet.events import dp_sgd
    >>> found = calibrate(
    ...     lambda sigma: dp_sgd(noise_multiplier=sigma, sampling_rate=256 / 60_000, steps=14_062),
    ...     EpsilonTarget(epsilon=2, delta=1e-5),
    ...     adjacency=AddRemove(),
    ... )
    >>> f"{found.value:.5f}"
    '1.22415'
    """
    low, high = positive("between[0]", between[0]), positive("between[1]", between[1])
    if low >= high:
        raise InvalidArgument(
            f"'between' must be a rising pair of limits, got {between!r}. Swap them."
        )
    search = _Search(event_of, target, adjacency, whole=whole)
    inside, outside = search.bracket(low, high)
    value = search.narrow(inside, outside)
    event = event_of(int(value) if whole else value)
    return Calibration(value, event, account(event, adjacency=adjacency), target)


class _Search:
    """Root finding for ln(leak/target) over ln(value), from the private side."""

    def __init__(
        self, event_of: Callable[[float], Event], target: Target, adjacency: Adjacency, *, whole: bool
    ) -> None:
        self._event_of, self._target, self._adjacency, self._whole = event_of, target, adjacency, whole
        self._hint: float | None = None

    def excess(self, value: float) -> float:
        guarantee = account(
            self._event_of(int(value) if self._whole else value), adjacency=self._adjacency
        )
        try:
            found = self._target.excess(guarantee, self._hint)
        except OutOfReach:
            return math.inf  # losses too large for float64: certainly not private enough
        if found.hint is not None:
            self._hint = found.hint
        return found.value

    def bracket(self, low: float, high: float) -> tuple[tuple[float, float], tuple[float, float]]:
        """Neighbouring points (value, excess), one that reaches the target and one that does not."""
        start = min(max(1.0 if low < 1 < high else math.sqrt(low * high), low), high)
        if self._whole:
            start = float(round(start))
        here = (start, self.excess(start))
        probe = min(start * 2, high) if start < high else start / 2
        there = (probe, self.excess(probe))
        if (here[1] <= 0) != (there[1] <= 0):
            return (here, there) if here[1] <= 0 else (there, here)
        falls = (there[1] < here[1]) == (probe > start)
        outward = falls == (here[1] > 0)  # whether larger values lead to the target
        last, factor = (max if outward else min)((here, there)), 2.0
        while low < last[0] < high:
            factor = min(factor * 1.5, 100.0)
            value = min(last[0] * factor, high) if outward else max(last[0] / factor, low)
            value = float(round(value)) if self._whole else value
            found = (value, self.excess(value))
            if (found[1] <= 0) != (last[1] <= 0):
                return (found, last) if found[1] <= 0 else (last, found)
            last = found
        if last[1] <= 0:
            return last, last
        raise NotProved(
            f"No value between {low:g} and {high:g} reaches the target. Widen 'between', or ask for less."
        )

    def narrow(self, inside: tuple[float, float], outside: tuple[float, float]) -> float:
        """The value next to the root that reaches the target: the Illinois method in logarithms, guarded."""
        (a, fa), (b, fb) = (math.log(inside[0]), inside[1]), (math.log(outside[0]), outside[1])
        weight_a, weight_b, slow = fa, min(fb, 1e3), 0
        while not self._close(math.exp(a), math.exp(b)):
            share = weight_a / (weight_a - weight_b) if weight_a < weight_b else 0.5
            share = 0.5 if slow >= 3 else share
            # never closer to an end than a little less than the tolerance, so that the bracket closes
            margin = min(0.4 * _TOLERANCE / abs(b - a), 0.5)
            point = a + min(max(share, margin), 1 - margin) * (b - a)
            value = self._rounded(math.exp(point), math.exp(a), math.exp(b))
            point, excess, width = math.log(value), self.excess(value), abs(b - a)
            if excess <= 0:
                a, weight_a, weight_b = point, excess, 0.5 * weight_b
            else:
                b, weight_b, weight_a = point, min(excess, 1e3), 0.5 * weight_a
            slow = 0 if abs(b - a) < 0.5 * width else slow + 1
        return float(round(math.exp(a))) if self._whole else math.exp(a)

    def _rounded(self, value: float, one: float, other: float) -> float:
        if not self._whole:
            return value
        return float(min(max(round(value), round(min(one, other)) + 1), max(one, other) - 1))

    def _close(self, inside: float, outside: float) -> bool:
        return abs(inside - outside) <= (1.0 + 1e-9 * inside if self._whole else _TOLERANCE * inside)
