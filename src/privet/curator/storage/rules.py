"""Privacy filters in whole units: what an event costs, how far a cap goes, and what is left of it.

*Guarantee.* The filters are those of ``accounting.filtering``, with the proofs there: basic composition where
δ = 0, and otherwise "Rényi of one fixed order, or basic". They are valid for questions that are chosen in
view of earlier answers, and whenever the analysts stop. Here each cost is rounded up and each cap down, so
whatever these sums permit is permitted by the filter.

A cap is fixed before the first answer, when nobody knows what will be asked. So half of δ is set aside for
claims (events with a δ of their own, such as thresholds of keys), whatever comes. That costs the moments
ln 2 of about 20 nats, three per cent.
"""

import math
from collections.abc import Iterable
from functools import lru_cache

from privet.accounting.contour import chernoff_peak
from privet.accounting.filtering import Filtered, Used, renyi_filter
from privet.accounting.fold import fold
from privet.adjacency import AddRemove, Adjacency
from privet.curator.storage.units import (
    ATTO,
    FEMTO,
    NO_COST,
    WITHOUT_BOUND,
    WholeCaps,
    WholeCost,
    round_down,
    round_up,
)
from privet.errors import InvalidArgument
from privet.events import Event, Opaque
from privet.filters import BasicFilter, Filter, RenyiFilter
from privet.releasing.budget import Budget

__all__ = [
    "caps_of",
    "fix_filter",
    "price",
    "price_event",
    "proved_epsilon",
    "reached_epsilon",
    "remaining_epsilon",
]

_CLAIMS = 0.5  # the share of δ for claims
_DOWN = 1e-12  # far more than the round-off of three terms
_STEPS = 50
_ROUNDINGS = 1000
_LEAST, _MOST = 1e-9, 500.0  # of one answer: less is nothing, and no accountant prices more


def fix_filter(budget: Budget) -> BasicFilter | RenyiFilter:
    """The filter that keeps a cap, from its ε and δ alone."""
    if budget.delta == 0:
        return BasicFilter(epsilon=budget.epsilon, delta=0.0)
    return renyi_filter(epsilon=budget.epsilon, delta=budget.delta, claims=_CLAIMS * budget.delta)


def caps_of(rule: Filter) -> WholeCaps:
    """The sums that a filter permits, rounded down.

    Rényi: Σk ≤ c ε + ln(δ − d) + ln((1 + c)^(1+c)/c^c) at order 1 + c, or Σε ≤ ε; and Σd at most the share
    of δ for claims.

    Each cost was rounded up by less than a unit. So that ten questions of a tenth fit into one, Σε and Σd
    have room for a thousand such roundings: Σε stays within ε + 10⁻¹² (``proved_epsilon``); the δ of the
    moments gives what Σd gets.
    """
    epsilon = round_down(rule.epsilon, FEMTO) + _ROUNDINGS
    match rule:
        case BasicFilter():
            return WholeCaps(-1, round_down(rule.delta, ATTO), epsilon)
        case RenyiFilter(order=order):
            tilt = order - 1
            claims = round_down(rule.claims, ATTO)
            roundings = min(_ROUNDINGS, claims // 100)  # of claims; the rest of δ gives them
            rest = rule.delta - rule.claims - roundings / ATTO
            terms = (tilt * rule.epsilon, math.log(rest), -chernoff_peak(tilt))
            room = sum(terms) - _DOWN * sum(map(abs, terms))
            return WholeCaps(round_down(room, FEMTO), claims + roundings, epsilon)
    raise InvalidArgument(
        f"A curator keeps its caps by basic composition or the Rényi filter, got {rule.name!r}. Give a "
        f"Budget."
    )


def proved_epsilon(rule: Filter) -> float:
    """The ε that a cap proves, with the room for roundings."""
    return math.nextafter(rule.epsilon + _ROUNDINGS / FEMTO, math.inf)


def price(rule: Filter, events: Iterable[Event], adjacency: Adjacency) -> WholeCost:
    """What these events cost together, rounded up."""
    total = NO_COST
    for event in events:
        total += price_event(rule, event, adjacency)
    return total


@lru_cache(maxsize=1 << 14)
def price_event(rule: Filter, event: Event, adjacency: Adjacency) -> WholeCost:
    """What one event costs under a filter: for each number the worse of the two orders of neighbours."""
    first, second = fold(Filtered(rule), event, adjacency)
    return WholeCost(
        round_up(max(first.measure, second.measure), FEMTO),
        round_up(max(first.infinity, second.infinity), ATTO),
        round_up(max(first.largest, second.largest), FEMTO),
    )


def reached_epsilon(rule: Filter, spent: WholeCost) -> float:
    """How much of a cap's ε is used, rounded up; at most all of it, where the sums are permitted."""
    if spent == NO_COST:
        return 0.0
    used = _as_used(spent)
    reached = Filtered(rule).reached_epsilon((used, used)) * (1 + _DOWN)
    return min(reached, rule.epsilon) if caps_of(rule).permits(spent) else max(reached, rule.epsilon)


def remaining_epsilon(rule: Filter, spent: WholeCost) -> float:
    """The largest ε of one more ε-DP answer that would be permitted, rounded down."""
    caps = caps_of(rule)
    if spent.claimed > caps.claimed:
        return 0.0

    def permits(epsilon: float) -> bool:
        return epsilon < _LEAST or caps.permits(spent + _pure_cost(rule, epsilon))

    low, high = 0.0, min(rule.epsilon, _MOST)
    if permits(high):
        return high
    for _ in range(_STEPS):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if permits(middle) else (low, middle)
    return low if low >= _LEAST else 0.0


def _pure_cost(rule: Filter, epsilon: float) -> WholeCost:
    return price_event.__wrapped__(
        rule, Opaque(epsilon=epsilon), AddRemove()
    )  # the same under every adjacency


def _as_used(spent: WholeCost) -> Used:
    largest = math.inf if spent.largest >= WITHOUT_BOUND else spent.largest / FEMTO
    return Used(spent.measure / FEMTO, spent.claimed / ATTO, largest)
