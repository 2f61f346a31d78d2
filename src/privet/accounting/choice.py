"""``account``: the tightest guarantee that can be proved for a ledger, and by which accountant."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, final

from privet.accounting.filtering import Filtered, Spending
from privet.accounting.fold import Accountant, fold
from privet.accounting.privacy_loss import PrivacyLoss
from privet.accounting.renyi import Concentrated, Renyi
from privet.accounting.tallying import spending_of, tally_entries
from privet.accounting.theorems import Basic, Pure
from privet.adjacency import Adjacency
from privet.bounds import Interval, enclosure
from privet.caveats import Caveat
from privet.ceilings import Ceiling
from privet.errors import InvalidArgument, NotProved, OutOfReach
from privet.events import (
    Compose,
    DiscreteGaussian,
    DiscreteGaussianShares,
    Event,
    ExponentialMechanism,
    FixedSize,
    Parallel,
    Poisson,
    Repeat,
)
from privet.filters import OneRequestFilter
from privet.guarantees import Curve, Guarantee, LossHistogram
from privet.ledger import Ledger

__all__ = ["account", "fixed_price"]


def account(
    spent: Ledger | Event,
    *,
    adjacency: Adjacency | None = None,
    accountant: Accountant[Any] | None = None,
) -> Guarantee:
    """An upper bound on what everything in the ledger leaks: a curve, with the accountant that proved it.

    An event alone needs an ``adjacency``; a ledger has its own. Without an ``accountant``, the tightest one
    that takes the ledger is chosen. That is the privacy-loss distribution. If there is an exponential
    mechanism, Rényi DP is computed too, because its bounded range can give a smaller ε. A ledger with a
    filter may depend on its own answers, so its guarantee is that of the filter; ``fixed_price`` is the cost
    of the same events if they were fixed beforehand.

    >>> from privet.adjacency import AddRemove
    >>> from privet.events import Gaussian, Repeat
    >>> claim = account(Repeat(Gaussian(10.0), 100), adjacency=AddRemove())
    >>> f"{claim.epsilon(delta=1e-6):.6f}", claim.accountant
    ('4.886554', 'privacy-loss distribution')
    """
    try:
        return _account_with(spent, adjacency, accountant)
    except RecursionError:
        raise InvalidArgument(
            "'spent' must not nest events hundreds deep, and does. Join the parts in one Compose."
        ) from None


def _account_with(
    spent: Ledger | Event, adjacency: Adjacency | None, accountant: Accountant[Any] | None
) -> Guarantee:
    event, relation, caveats = _unwrap(spent, adjacency)
    kept = None if accountant is not None else _kept_by(spent)
    if kept is not None:
        keeper, held = kept
        return Guarantee(keeper.curve(held), relation, keeper.name, caveats | keeper.caveats(held))
    if Caveat.ADAPTIVE_PARAMETERS in caveats:
        accountant = _adaptive(event, relation, accountant)
    if accountant is not None:
        cost = fold(accountant, event, relation)
        found = caveats | accountant.caveats(cost)
        return Guarantee(accountant.curve(cost), relation, accountant.name, found)
    if _largest_discrete(event) > 1e5:
        return account(spent, adjacency=adjacency, accountant=Concentrated())
    exact = account(spent, adjacency=adjacency, accountant=PrivacyLoss())
    if not _has_own_moments(event):
        return exact
    try:
        moments = account(spent, adjacency=adjacency, accountant=Renyi())
    except (NotProved, OutOfReach):
        return exact
    return Guarantee(
        SmallerCurve(exact.curve, moments.curve),
        relation,
        f"{exact.accountant} or {moments.accountant}, the smaller",
        exact.caveats | moments.caveats,
    )


def fixed_price(ledger: Ledger, accountant: Accountant[Any] | None = None) -> Guarantee:
    """The cost of a ledger's entries if all of them were fixed beforehand. The ledger's filter is ignored."""
    return account(replace(ledger, filter=None), accountant=accountant)


def _kept_by(spent: Ledger | Event) -> tuple[Filtered, Spending] | None:
    """The filter that proves the guarantee of a ledger: it was fixed before the answers, and the ledger stays
    within it. None without such a filter.

    None at δ = 0 too: there the sum of the ε so far is valid for adaptive questions, and smaller. None for a
    single request, which was fixed beforehand.
    """
    if not isinstance(spent, Ledger) or spent.filter is None or Caveat.LATE_BUDGET in spent.caveats:
        return None
    rule = spent.filter
    if rule.delta == 0 or isinstance(rule, OneRequestFilter):
        return None
    kept = Filtered(rule)
    held = spending_of(tally_entries(rule, spent))
    return (kept, held) if kept.permits(held) else None


def _adaptive(event: Event, adjacency: Adjacency, chosen: Accountant[Any] | None) -> Accountant[Any]:
    """An accountant that lets each part's noise depend on earlier answers, within a budget fixed in advance.

    Rényi DP is not among them: the theorem needs one order that was fixed in advance, and the accountant
    takes the best order afterwards.

    Reference: Feldman & Zrnic 2021, Theorem 3.1 (Rényi at one order, of which concentrated DP is every order
    at once); Rogers et al. 2016 (basic composition, and pure DP with it); ``filtering`` for filters.
    """
    if chosen is None:
        try:
            fold(Concentrated(), event, adjacency)
        except NotProved:
            return Basic()
        return Concentrated()
    if not isinstance(chosen, (Concentrated, Pure, Basic, Filtered)):
        raise NotProved(
            "The ledger's noise was chosen in view of earlier answers, which the accountant "
            f"'{chosen.name}' does not cover. Leave 'accountant' out, or use Concentrated, Pure, Basic or "
            "Filtered."
        )
    return chosen


@final
@dataclass(frozen=True)
class SmallerCurve(Curve):
    """Two proofs for the same events: the smaller upper bound and the larger lower bound hold."""

    first: Curve
    second: Curve

    def delta(self, epsilon: float) -> Interval:
        return _intersect(self.first.delta(epsilon), self.second.delta(epsilon))

    def epsilon(self, delta: float) -> Interval:
        if delta == 0:
            return self.first.epsilon(delta)
        return _intersect(self.first.epsilon(delta), self.second.epsilon(delta))

    def ceiling(self, fpr: float, near: float | None = None) -> Ceiling:
        first, second = self.first.ceiling(fpr, near), self.second.ceiling(fpr, near)
        best = first if first.tpr.upper <= second.tpr.upper else second
        return Ceiling(_intersect(first.tpr, second.tpr), best.epsilon)

    def histogram(self, bins: int) -> LossHistogram:
        return self.first.histogram(bins)


def _intersect(first: Interval, second: Interval) -> Interval:
    return enclosure(max(first.lower, second.lower), min(first.upper, second.upper))


def _unwrap(spent: Ledger | Event, adjacency: Adjacency | None) -> tuple[Event, Adjacency, frozenset[Caveat]]:
    if isinstance(spent, Ledger):
        if adjacency not in (None, spent.adjacency):
            raise NotProved(
                f"The ledger was kept under {spent.adjacency}, and a guarantee under {adjacency} does not "
                f"follow. Leave 'adjacency' out."
            )
        return spent.event, spent.adjacency, spent.caveats
    if not isinstance(spent, Event):
        raise InvalidArgument(
            f"'spent' must be a ledger or an event, got {type(spent).__name__}. Describe what ran as an "
            "event."
        )
    if not isinstance(adjacency, Adjacency):
        raise InvalidArgument(
            "'adjacency' must be given with an event, because ε means something else under each one. "
            "Use AddRemove(), ReplaceOne() or ZeroOut()."
        )
    return spent, adjacency, frozenset()


def _leaves(event: Event) -> Iterator[Event]:
    """The unsampled looks at the data, each object once."""
    todo, seen = [event], {id(event)}
    while todo:
        inside: tuple[Event, ...] = ()
        match todo.pop():
            case Compose(parts) | Parallel(parts):
                inside = parts
            case Repeat(inner, _):
                inside = (inner,)
            case Poisson() | FixedSize():
                pass  # the Rényi accountant cannot use the bounded range of a sampled exponential mechanism
            case leaf:
                yield leaf
        for part in inside:
            if id(part) not in seen:
                seen.add(id(part))
                todo.append(part)


def _has_own_moments(event: Event) -> bool:
    return any(isinstance(leaf, ExponentialMechanism | DiscreteGaussianShares) for leaf in _leaves(event))


def _largest_discrete(event: Event) -> float:
    return max((leaf.scale for leaf in _leaves(event) if isinstance(leaf, DiscreteGaussian)), default=0.0)
