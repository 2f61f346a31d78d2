"""What an audit is: a lower bound on ε from scores, its ceiling, and the claim that it tests.

An audit knows nothing of the accountant whose claim it tests. Whatever is chosen in view of the scores (a threshold, how many
guesses) is paid for: it is chosen on other records, or the level is shared out over a plan that was fixed beforehand.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import final

from privet.bounds import EpsilonBound, Finding, Side
from privet.errors import InvalidArgument
from privet.guarantees import Guarantee
from privet.scores import Scores

__all__ = ["Audit", "largest_refuted", "small_delta"]

_MOST = 200.0  # an ε beyond which nothing is looked for: no count of guesses in a float64 gets there
_STEPS = 60


class Audit(ABC):
    """A lower bound on ε that holds with ``confidence``; each is frozen, and says what it assumes."""

    confidence: float

    @property
    @abstractmethod
    def assumes(self) -> str:
        """What must be true of the scores, and of what made them, for the bound to hold."""

    @abstractmethod
    def epsilon(self, scores: Scores, *, delta: float) -> float:
        """The bound as a number, 0 where nothing was shown."""

    @abstractmethod
    def ceiling(self, members: int, others: int, *, delta: float) -> float:
        """The largest bound that so many records can give: what a perfect attack would show."""

    @final
    def bound(self, scores: Scores, *, delta: float) -> EpsilonBound:
        """ε is at least this, at this δ, with this confidence."""
        value = self.epsilon(scores, delta=small_delta(delta))
        return EpsilonBound(value=value, delta=delta, side=Side.LOWER, confidence=self.confidence)

    @final
    def test(self, scores: Scores, claim: Guarantee | None, *, delta: float) -> Finding:
        """The bound beside the claim; a claim that is below the bound is violated."""
        members = int(scores.members.sum())
        return Finding(
            measured=self.bound(scores, delta=delta),
            ceiling=self.ceiling(members, len(scores) - members, delta=delta),
            claimed=None if claim is None else claim.bound(delta=delta),
        )


def small_delta(delta: float) -> float:
    """A δ that can be audited: at least 0 and below 1."""
    if not 0 <= delta < 1:
        raise InvalidArgument(f"'delta' must be at least 0 and below 1, got {delta!r}. Give a probability.")
    return delta


def largest_refuted(refuted: Callable[[float], bool], least: float = 0.0) -> float:
    """The largest parameter that the data refute, from ``least`` up, rounded down; ``least`` where it is not refuted.

    ``refuted`` is true up to some point and false from there on.
    """
    if not refuted(least):
        return least
    low, high = least, max(1.0, 2 * least)
    while refuted(high):
        low, high = high, 2 * high
        if high > _MOST:
            return low
    for _ in range(_STEPS):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if refuted(middle) else (low, middle)
        if high - low <= 1e-7 * high:
            break
    return low
