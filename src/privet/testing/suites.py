"""Whole suites: everything that must hold for an accountant, and for an event."""

from collections.abc import Sequence
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
from privet.adjacency import AddRemove, Adjacency, ReplaceOne
from privet.errors import NotProved
from privet.events import Event, Repeat
from privet.testing.agreement import check_agreement, check_tightness, collect_guarantees
from privet.testing.broken import at_delta, require, require_at_most
from privet.testing.composition import (
    check_nesting,
    check_order,
    check_repeat_is_compose,
    check_repetition_costs,
)
from privet.testing.curves import check_guarantee
from privet.testing.ledgers import check_documents, check_ledger
from privet.testing.truths import TRUTHS, check_truth

__all__ = ["ACCOUNTANTS", "check_accountant", "check_event"]

ACCOUNTANTS: tuple[Accountant[Any], ...] = (
    PrivacyLoss(),
    Renyi(),
    Concentrated(),
    GaussianDP(),
    Pure(),
    Basic(),
    Advanced(),
    Optimal(),
)


def check_accountant(accountant: Accountant[Any]) -> None:
    """The accountant never contradicts a known truth, and adds up as composition does.

    An event that it refuses with ``NotProved`` is passed over; an accountant that takes nothing fails.
    """
    used = 0
    for truth in TRUTHS:
        try:
            accountant.atom(_innermost(truth.event), truth.adjacency)
        except NotProved:
            continue
        used += 1
        check_truth(accountant, truth)
        check_repetition_costs(accountant, truth.event, truth.adjacency)
        check_repeat_is_compose(accountant, truth.event, truth.adjacency, times=3)
    require(used > 0, f"the accountant {accountant.name} takes at least one of the known events")


def check_event(
    event: Event, adjacency: Adjacency, *, accountants: Sequence[Accountant[Any]] = ACCOUNTANTS
) -> None:
    """Everything that must hold for an event, by each accountant that takes it, and between them.

    >>> from privet.events import Gaussian
    >>> check_event(Gaussian(2.0), AddRemove())
    """
    guarantees = collect_guarantees(accountants, event, adjacency)
    require(len(guarantees) > 0, f"some accountant takes {event} under {adjacency}")
    for accountant, guarantee in guarantees.items():
        check_guarantee(guarantee)
        check_repetition_costs(accountant, event, adjacency)
        check_repeat_is_compose(accountant, event, adjacency, times=3)
        check_nesting(accountant, event, adjacency, inner=2, outer=3)
        check_order(accountant, (event, event, event), adjacency)
    check_agreement(guarantees, f"{event} under {adjacency}")
    check_tightness(guarantees, f"{event} under {adjacency}", event)
    check_documents(event, adjacency)
    check_ledger(event, adjacency)
    if isinstance(adjacency, AddRemove):
        _check_replacement(event, adjacency)


def _check_replacement(event: Event, adjacency: AddRemove) -> None:
    """Exchanging a unit is removing one and adding one: it never costs less than either alone."""
    try:
        replaced = account(event, adjacency=ReplaceOne(adjacency.unit))
    except NotProved:
        return
    removed = account(event, adjacency=adjacency)
    for delta in (1e-2, 1e-6):
        small, large = at_delta(removed, delta), at_delta(replaced, delta)
        if small is not None and large is not None:
            law = f"add-remove ≤ replace-one at δ = {delta:g}, {event}"
            require_at_most(small.lower, large.upper, law, slack=1e-9)
            require_at_most(small.upper, large.upper, law, slack=1e-9 + small.relative_gap)


def _innermost(event: Event) -> Event:
    return _innermost(event.inner) if isinstance(event, Repeat) else event
