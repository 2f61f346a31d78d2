"""What an audit is: a lower bound on ε from scores, its ceiling, and the claim that it tests.

An audit knows nothing about the accountant whose claim it tests. A choice that depends on the scores (a
threshold, the number of guesses) is paid for: it is made on other records, or the level is divided over a
plan that was fixed beforehand.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import final

from privet.bounds import EpsilonBound, Finding, Side
from privet.errors import InvalidArgument
from privet.guarantees import Guarantee
from privet.scores import Scores

__all__ = ["Audit", "check_delta", "find_largest_refuted"]

_LARGEST = 200.0  # the search for ε ends here; no number of guesses can show more in float64
_STEPS = 60


class Audit(ABC):
    """A lower bound on ε that holds with ``confidence``.

    Each is frozen, and says what it assumes and where it is proved.
    """

    confidence: float

    @property
    @abstractmethod
    def title(self) -> str:
        """What a report calls the bound."""

    @property
    @abstractmethod
    def reference(self) -> str:
        """The authors and the year of the paper that proves the bound."""

    @property
    @abstractmethod
    def assumes(self) -> str:
        """What must be true of the scores, and of the process that made them, for the bound to hold."""

    @final
    @property
    def method(self) -> str:
        """The bound in words for a report: its title, reference, confidence and assumptions."""
        return f"{self.title} ({self.reference}), at {100 * self.confidence:.4g} % confidence. {self.assumes}"

    @abstractmethod
    def epsilon(self, scores: Scores, *, delta: float) -> float:
        """The bound as a number; 0 where the scores show nothing."""

    @abstractmethod
    def ceiling(self, members: int, others: int, *, delta: float) -> float:
        """The largest bound that so many records can give, which a perfect attack would reach."""

    @final
    def bound(self, scores: Scores, *, delta: float) -> EpsilonBound:
        """The lower bound on ε at this δ, with its confidence."""
        value = self.epsilon(scores, delta=check_delta(delta))
        return EpsilonBound(value=value, delta=delta, side=Side.LOWER, confidence=self.confidence)

    @final
    def test(self, scores: Scores, claim: Guarantee | None, *, delta: float) -> Finding:
        """The bound and the claim that it tests; a claim below the bound is violated."""
        members = int(scores.members.sum())
        return Finding(
            measured=self.bound(scores, delta=delta),
            ceiling=self.ceiling(members, len(scores) - members, delta=delta),
            claimed=None if claim is None else claim.bound(delta=delta),
        )


def check_delta(delta: float) -> float:
    """The δ, checked to be at least 0 and below 1."""
    if not 0 <= delta < 1:
        raise InvalidArgument(f"'delta' must be at least 0 and below 1, got {delta!r}. Give a probability.")
    return delta


def find_largest_refuted(refuted: Callable[[float], bool], least: float = 0.0) -> float:
    """The largest parameter from ``least`` up that the data refute, rounded down.

    ``least`` itself where it is not refuted.

    ``refuted`` is true up to some parameter and false above it.
    """
    if not refuted(least):
        return least
    low, high = least, max(1.0, 2 * least)
    while refuted(high):
        low, high = high, 2 * high
        if high > _LARGEST:
            return low
    for _ in range(_STEPS):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if refuted(middle) else (low, middle)
        if high - low <= 1e-7 * high:
            break
    return low
