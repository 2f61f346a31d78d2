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

    The leakage must be monotone in the value ``between`` the limits. Noise makes it fall; a rate or a number
    of steps makes it rise. ``whole`` asks for a whole number, such as steps.

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
        raise InvalidArgument(f"'between' must be a rising pair of limits, got {between!r}. Swap them.")
    search = _ParameterSearch(event_of, target, adjacency, whole=whole)
    inside, outside = search.bracket(low, high)
    value = search.narrow(inside, outside)
    return search.check_target(value, inside[0] > outside[0])


class _ParameterSearch:
    """Root finding for ln(leak/target) over ln(value), from the private side."""

    def __init__(
        self, event_of: Callable[[float], Event], target: Target, adjacency: Adjacency, *, whole: bool
    ) -> None:
        self._event_of, self._target, self._adjacency, self._whole = event_of, target, adjacency, whole
        self._hint: float | None = None

    def excess(self, value: float) -> float:
        event = self._event_of(int(value) if self._whole else value)
        try:
            found = self._target.excess(account(event, adjacency=self._adjacency), self._hint)
        except OutOfReach:
            return math.inf  # losses too large for float64: certainly not private enough
        if found.hint is not None:
            self._hint = found.hint
        return found.value

    def check_target(self, value: float, rising: bool) -> "Calibration":
        """The result. The guarantee itself must reach the target, and not only the search's estimate."""
        step = 1.0 if self._whole else self._target.tolerance * value
        for _ in range(25):
            event = self._event_of(int(value) if self._whole else value)
            guarantee = account(event, adjacency=self._adjacency)
            if self._target.is_reached(guarantee):
                return Calibration(value, event, guarantee, self._target)
            value, step = value + (step if rising else -step), 2 * step
        raise OutOfReach("No value next to the root could be certified. Ask for a slightly weaker target.")

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
        outward = falls == (here[1] > 0)  # whether larger values lead across the target
        # If the leak is the same at both points, the target may be in either direction.
        ways = (outward, not outward) if here[1] == there[1] else (outward,)
        for way in ways:
            crossed = self._walk(max(here, there) if way else min(here, there), way, low, high)
            if crossed is not None:
                return crossed
        if here[1] <= 0:
            # Every value reaches the target: the end that is closest to it wastes the least.
            ends = [(end, self.excess(end)) for end in (low, high)]
            end = (max(ends, key=lambda point: point[1])[0], 0.0)
            return end, end
        raise NotProved(
            f"No value between {low:g} and {high:g} reaches the target. Widen 'between', or ask for less."
        )

    def _walk(
        self, last: tuple[float, float], outward: bool, low: float, high: float
    ) -> tuple[tuple[float, float], tuple[float, float]] | None:
        """Step away from ``last``, each step larger, until the target is crossed or a limit is reached."""
        factor = 1.25
        while (last[0] < high) if outward else (last[0] > low):
            factor = min(factor * factor, 100.0)
            value = min(last[0] * factor, high) if outward else max(last[0] / factor, low)
            value = float(round(value)) if self._whole else value
            if value == last[0]:
                value = value + 1 if outward else value - 1
            found = (value, self.excess(value))
            if (found[1] <= 0) != (last[1] <= 0):
                return (found, last) if found[1] <= 0 else (last, found)
            last = found
        return None

    def narrow(self, inside: tuple[float, float], outside: tuple[float, float]) -> float:
        """A value that reaches the target, next to the root: secants in logarithms, guarded by the
        bracket.
        """
        a, fa, b = math.log(inside[0]), inside[1], math.log(outside[0])
        before, last = sorted(
            ((a, max(fa, -20.0)), (b, min(outside[1], 20.0))), key=lambda point: -abs(point[1])
        )
        slow = 0
        while not self._close(math.exp(a), math.exp(b)):
            slope = (last[1] - before[1]) / (last[0] - before[0])
            if not self._whole and slope and -fa <= abs(slope) * self._target.tolerance:
                break
            # aim just inside of the root that the last two points show
            point = (
                last[0] - last[1] / slope + math.copysign(0.4 * self._target.tolerance, a - b)
                if slope
                else math.inf
            )
            if slow >= 4 or not min(a, b) < point < max(a, b):
                point, slow = 0.5 * (a + b), 0
            value = math.exp(point)
            if self._whole:
                value = float(min(max(round(value), round(math.exp(min(a, b))) + 1), math.exp(max(a, b)) - 1))
            excess, width = self.excess(value), abs(b - a)
            before, last = last, (math.log(value), min(max(excess, -20.0), 20.0))
            if excess <= 0:
                a, fa = last[0], excess
            else:
                b = last[0]
            slow = 0 if abs(b - a) < 0.5 * width else slow + 1
        return float(round(math.exp(a))) if self._whole else math.exp(a)

    def _close(self, inside: float, outside: float) -> bool:
        return abs(inside - outside) <= (
            1.0 + 1e-9 * inside if self._whole else self._target.tolerance * inside
        )
