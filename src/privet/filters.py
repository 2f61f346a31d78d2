"""How far a ledger may go when each question is chosen in view of earlier answers: privacy filters, as data.

A *filter* is a rule, fixed before the first answer, that says of each next event whether it may run. It is
valid if whatever an analyst asks within it, and whenever they stop, all answers together are (ε, δ)-DP. The
theorems for fixed parameters are no filters: an analyst who goes on where the answers told much, and stops
where they told little, leaks more than the noise that was used on the way would if it had been fixed.
``accounting.filtering`` has the arithmetic and the proofs.

Each filter adds up what an event *can* cost, never what its answer has told.
"""

import math
from abc import ABC
from dataclasses import dataclass, fields
from typing import Any, ClassVar, final

from privet.arguments import finite, positive
from privet.documents import only
from privet.errors import InvalidArgument, Unreadable
from privet.public_calls import check_public_calls

__all__ = [
    "BasicFilter",
    "Filter",
    "GaussianFilter",
    "OneRequestFilter",
    "RenyiFilter",
    "filter_from_plain",
    "filter_to_plain",
]


@dataclass(frozen=True, kw_only=True)
class Filter(ABC):
    """A rule under which everything together is (ε, δ)-DP, for analysts who choose as they go."""

    name: ClassVar[str]

    epsilon: float
    delta: float

    def __post_init__(self) -> None:
        if not hasattr(self, "name"):
            raise InvalidArgument(
                "A filter must be of one of the kinds, got the class of all of them. Write BasicFilter(…), "
                "for instance."
            )
        positive("epsilon", self.epsilon)
        if not 0 <= finite("delta", self.delta) < 1:
            raise InvalidArgument(
                f"'delta' must be at least 0 and below 1, got {self.delta!r}. Give a probability far below "
                "1/n."
            )

    @property
    def claimable(self) -> float:
        """How much of δ may go to losses without a bound, such as the δ of a claim or of a threshold for
        keys.
        """
        return self.delta


@final
@dataclass(frozen=True, kw_only=True)
class BasicFilter(Filter):
    """Σε and Σδ stay within the budget (Rogers, Roth, Ullman & Vadhan 2016: basic composition is a
    filter).
    """

    name: ClassVar[str] = "basic composition"


@final
@dataclass(frozen=True, kw_only=True)
class RenyiFilter(Filter):
    """The moments of one fixed order add up to no more than (ε, δ) allows, or Σε does.

    ``order`` is the Rényi order α > 1. ``claims`` is the part of δ that is set aside for losses without a
    bound; the rest pays for the moments.
    """

    name: ClassVar[str] = "Rényi"

    order: float
    claims: float

    def __post_init__(self) -> None:
        super().__post_init__()
        if finite("order", self.order) <= 1:
            raise InvalidArgument(
                f"'order' must be above 1, got {self.order!r}. Orders of 5 to 100 are usual."
            )
        _check_claims(self.claims, self.delta)

    @property
    def claimable(self) -> float:
        return self.claims


@final
@dataclass(frozen=True, kw_only=True)
class GaussianFilter(Filter):
    """Σμ² stays within that of one Gaussian with this (ε, δ), or Σε within ε. Exact for Gaussian noise.

    An ε-DP event counts as the Gaussian that dominates it, which is 1.57 times what the Rényi filter counts
    at small ε.
    """

    name: ClassVar[str] = "Gaussian DP"

    claims: float

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_claims(self.claims, self.delta)

    @property
    def claimable(self) -> float:
        return self.claims


@final
@dataclass(frozen=True, kw_only=True)
class OneRequestFilter(Filter):
    """All of the budget goes to the first request, of which nothing depends on an answer; nothing may follow
    it.

    A composition whose noise is fixed beforehand is what accountants are made for, so the request is priced
    by them. It is for a first request that uses up more than a filter which leaves room for others could give
    it.
    """

    name: ClassVar[str] = "one request"


_KINDS: dict[str, type[BasicFilter] | type[RenyiFilter] | type[GaussianFilter] | type[OneRequestFilter]] = {
    "basic": BasicFilter,
    "renyi": RenyiFilter,
    "gaussian": GaussianFilter,
    "one-request": OneRequestFilter,
}


def filter_to_plain(rule: Filter) -> dict[str, Any]:
    """A filter as JSON can hold it.

    >>> filter_to_plain(BasicFilter(epsilon=1.0, delta=1e-6))
    {'kind': 'basic', 'epsilon': 1.0, 'delta': 1e-06}
    """
    kind = next(name for name, known in _KINDS.items() if isinstance(rule, known))
    return {"kind": kind, **{field.name: getattr(rule, field.name) for field in fields(rule)}}


def filter_from_plain(node: object) -> Filter:
    """The filter that ``filter_to_plain`` wrote."""
    kind = node.get("kind") if isinstance(node, dict) else None
    if not isinstance(node, dict) or not isinstance(kind, str) or kind not in _KINDS:
        raise Unreadable(
            f"'filter' must be an object whose 'kind' is one of {', '.join(_KINDS)}, got a value of type "
            f"{type(node).__name__}. Read the document with the version of Privet that wrote it."
        )
    known = _KINDS[kind]
    names = tuple(field.name for field in fields(known))
    only(node, "A filter", ("kind", *names))
    values = {name: node.get(name) for name in names}
    if not all(isinstance(value, (int, float)) and not isinstance(value, bool) for value in values.values()):
        raise Unreadable(f"A filter must have the numbers {', '.join(names)}. Check the file.")
    try:
        return known(**{name: float(value) for name, value in values.items()})  # type: ignore[arg-type]
    except (InvalidArgument, OverflowError) as broken:
        raise Unreadable(f"A filter must have numbers in their range: {broken} Check the file.") from broken


def _check_claims(claims: float, delta: float) -> None:
    if not 0 <= finite("claims", claims) < delta or math.isclose(claims, delta, rel_tol=1e-9):
        raise InvalidArgument(
            f"'claims' must be at least 0 and below 'delta' = {delta!r}, got {claims!r}. Half of it is a "
            f"fair share; where nothing has a δ of its own, 0 is."
        )


check_public_calls(__name__)
