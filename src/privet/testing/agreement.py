"""Laws between accountants: they speak of one truth, and a tight one never reports more than a loose one."""

from collections.abc import Mapping, Sequence
from itertools import permutations
from typing import Any

from privet.accounting import (
    Accountant,
    Advanced,
    Basic,
    Concentrated,
    GaussianDP,
    Optimal,
    PrivacyLoss,
    Pure,
    Renyi,
    account,
)
from privet.adjacency import Adjacency
from privet.caveats import Caveat
from privet.errors import NotProved
from privet.events import Compose, DiscreteGaussianShares, Event, ExponentialMechanism, Parallel, Repeat
from privet.guarantees import Guarantee
from privet.testing.broken import at_delta, require_at_most

__all__ = ["check_agreement", "check_tightness", "collect_guarantees"]

_DELTAS = (1e-2, 1e-5, 1e-9)
_CLAIMS = (Pure, Basic, Advanced, Optimal)
_TIGHTER: tuple[tuple[type[Accountant[Any]], type[Accountant[Any]]], ...] = (
    (PrivacyLoss, Renyi),
    (PrivacyLoss, GaussianDP),
    (GaussianDP, Renyi),
    (Renyi, Concentrated),
    (PrivacyLoss, Optimal),
    (Optimal, Advanced),
    (Optimal, Basic),
    (Basic, Pure),
)


def collect_guarantees(
    accountants: Sequence[Accountant[Any]], event: Event, adjacency: Adjacency
) -> dict[Accountant[Any], Guarantee]:
    """The guarantees of the accountants that take the event; the others refuse it."""
    found: dict[Accountant[Any], Guarantee] = {}
    for accountant in accountants:
        try:
            found[accountant] = account(event, adjacency=adjacency, accountant=accountant)
        except NotProved:
            continue
    return found


def check_agreement(guarantees: Mapping[Accountant[Any], Guarantee], what: str) -> None:
    """No certified lower bound is above another accountant's upper bound.

    A lower bound with the caveat ``WORST_OF_CLASS`` speaks of the worst mechanism with the same parameters,
    and is held only against upper bounds that speak of it too.
    """
    for (one, first), (other, second) in permutations(guarantees.items(), 2):
        if Caveat.WORST_OF_CLASS in first.caveats and not _of_one_class(one, second, other):
            continue
        for delta in _DELTAS:
            low, high = at_delta(first, delta), at_delta(second, delta)
            if low is None or high is None:
                continue
            law = f"ε({delta:g}) of {what}: the lower bound by {one.name} is below the upper by {other.name}"
            require_at_most(low.lower, high.upper, law, slack=1e-9)


def _of_one_class(one: Accountant[Any], second: Guarantee, other: Accountant[Any]) -> bool:
    """A theorem that knows claims only has a worse mechanism in mind than an accountant that knows the
    noise.
    """
    return Caveat.WORST_OF_CLASS in second.caveats and (
        isinstance(other, _CLAIMS) or not isinstance(one, _CLAIMS)
    )


def check_tightness(guarantees: Mapping[Accountant[Any], Guarantee], what: str, event: Event) -> None:
    """Privacy loss ≤ Rényi ≤ concentrated; privacy loss ≤ optimal ≤ advanced, basic; up to gaps.

    Rényi and concentrated DP know the bounded range of an exponential mechanism, and a theorem of their own
    about noise in shares; the privacy-loss distribution does not. They are left out where there is one.
    """
    by_type = {type(accountant): guarantee for accountant, guarantee in guarantees.items()}
    for tight, loose in _TIGHTER:
        if tight not in by_type or loose not in by_type:
            continue
        if loose in (Renyi, Concentrated) and _has_own_moments(event):
            continue
        for delta in _DELTAS:
            low, high = at_delta(by_type[tight], delta), at_delta(by_type[loose], delta)
            if low is None or high is None:
                continue
            law = f"ε({delta:g}) of {what}: {tight.name} is not above {loose.name}"
            require_at_most(low.upper, high.upper, law, slack=1e-9 + min(low.relative_gap, 1e-3))


def _has_own_moments(event: Event) -> bool:
    match event:
        case ExponentialMechanism() | DiscreteGaussianShares():
            return True
        case Compose(parts) | Parallel(parts):
            return any(_has_own_moments(part) for part in parts)
        case Repeat(inner, _):
            return _has_own_moments(inner)
    return False
