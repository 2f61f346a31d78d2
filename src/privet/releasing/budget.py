"""How much may be spent, and whether a ledger still keeps to it.

People who have seen the answers of a ledger extend it. So a *privacy filter* (``filters``) keeps its budget,
which is valid for questions and noise that are chosen in view of earlier answers. An accountant gives the
price of the same ledger if all had been fixed beforehand. That price is smaller. It is shown beside the
filter, and it permits nothing.
"""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import final

from privet.accounting import PrivacyLoss, account
from privet.accounting.filtering import Filtered, Spending, choose_filter
from privet.accounting.tallying import spending_of, tally_entries
from privet.arguments import finite, positive
from privet.budget_changes import BudgetChange
from privet.caveats import Caveat
from privet.errors import BudgetExceeded, InvalidArgument, NotProved, OutOfReach
from privet.filters import Filter, OneRequestFilter
from privet.ledger import Entry, Ledger

__all__ = ["Budget", "FilterState", "PrivacyCost", "change_budget", "extend_ledger", "filter_state"]


@final
@dataclass(frozen=True, kw_only=True)
class Budget:
    """At most ``epsilon`` at ``delta``; with ``delta`` = 0 the guarantee is pure.

    >>> Budget(epsilon=1.0)
    Budget(epsilon=1.0, delta=0.0)
    """

    epsilon: float
    delta: float = 0.0

    def __post_init__(self) -> None:
        positive("epsilon", self.epsilon)
        if not 0 <= finite("delta", self.delta) < 1:
            raise InvalidArgument(
                f"'delta' must be at least 0 and below 1, got {self.delta!r}. Give a probability far below "
                f"1/n."
            )


@final
@dataclass(frozen=True, kw_only=True)
class PrivacyCost:
    """What one answer costs by itself. Costs with δ = 0 add up; others add up in the ledger only."""

    epsilon: float
    delta: float


@final
@dataclass(frozen=True, kw_only=True)
class FilterState:
    """Where a ledger's filter stands: ``reached_epsilon`` of its ε, and the largest pure ε that is left."""

    filter: Filter
    reached: float
    remaining: float


def extend_ledger(
    ledger: Ledger, entries: Sequence[Entry], caveats: frozenset[Caveat], budget: Budget | Filter | None
) -> Ledger:
    """The ledger with these entries; ``BudgetExceeded`` where its filter does not permit them.

    The filter is chosen at the first entries and stays in the ledger; another budget is refused. A first
    budget that comes after answers was not fixed beforehand, and no filter is valid for that. So the ledger
    records it and carries a caveat.
    """
    rule = ledger.filter
    after = ledger.extend(tuple(entries), caveats=caveats)
    if not entries:
        return after
    if budget is not None and rule is not None and _differs(rule, budget):
        raise InvalidArgument(
            f"The ledger has the budget {_limit_text(rule)} already, and {_limit_text(budget)} was given "
            f"now. Leave the budget out, or change it with a reason: 'privet ledger FILE --change-budget', "
            f"or change_budget of a held ledger."
        )
    try:
        if budget is not None and rule is None:
            rule = _choose_rule(budget, ledger.entries[:1] or entries, ledger)
            if ledger.entries:
                after = _record_change(after, None, rule, "given after the first answer", len(ledger))
        if rule is None:
            return after
        if isinstance(rule, OneRequestFilter):
            raise BudgetExceeded(
                f"The first request used up the whole budget, ε = {rule.epsilon:g} at δ = {rule.delta:g}; "
                f"nothing was spent. Ask for what was answered already, which costs nothing."
            )
        meter = Filtered(rule)
        tally = tally_entries(rule, after)
        spent = spending_of(tally)
    except (NotProved, OutOfReach) as unknown:
        limit = budget if rule is None else rule
        assert limit is not None
        raise BudgetExceeded(
            f"What the ledger would hold is not proved to keep to ε = {limit.epsilon:g} at δ = "
            f"{limit.delta:g}: {unknown} Nothing was spent."
        ) from unknown
    if meter.permits(spent):
        return after.with_tally(tally)
    if isinstance(budget, Budget) and not ledger.entries and _fits_at_once(after, budget):
        return replace(after, filter=OneRequestFilter(epsilon=budget.epsilon, delta=budget.delta))
    raise BudgetExceeded(_refusal(meter, spent, spending_of(tally_entries(rule, ledger))))


def change_budget(ledger: Ledger, budget: Budget | Filter, *, reason: str) -> Ledger:
    """The ledger with another budget, and a record of the change.

    The budget must have room for what was spent. No filter is valid for a budget that somebody changed in
    view of answers, so the ledger carries ``LATE_BUDGET`` from then on.
    """
    if not isinstance(budget, (Budget, Filter)):
        raise InvalidArgument(
            f"'budget' must be a Budget or a filter, got {type(budget).__name__}. Write Budget(epsilon=2.0)."
        )
    if not ledger.entries:
        raise InvalidArgument(
            "A ledger must have an entry before its budget can be changed, and has none. Give the budget "
            "with the first release."
        )
    if ledger.filter is not None and not _differs(ledger.filter, budget):
        raise InvalidArgument(
            f"The ledger has the budget {_limit_text(ledger.filter)} already. Give another one."
        )
    try:
        rule = _choose_rule(budget, ledger.entries[:1], ledger)
        meter = Filtered(rule)
        tally = tally_entries(rule, ledger)
        spent = spending_of(tally)
    except (NotProved, OutOfReach) as unknown:
        raise BudgetExceeded(
            f"What was spent is not proved to be within {_limit_text(budget)}: {unknown} Nothing was changed."
        ) from unknown
    if isinstance(rule, OneRequestFilter) or not meter.permits(spent):
        raise BudgetExceeded(
            f"What was spent reaches ε = {meter.reached_epsilon(spent):.6g} at δ = {rule.delta:g}, which "
            f"is above the budget {_limit_text(budget)}; nothing was changed. Give at least that: what was "
            f"answered cannot be taken back."
        )
    return replace(_record_change(ledger, ledger.filter, rule, reason, len(ledger)), filter=rule, tally=tally)


def _record_change(ledger: Ledger, before: Filter | None, after: Filter, reason: str, entries: int) -> Ledger:
    change = BudgetChange(
        place=entries,
        before=before,
        after=after,
        reason=reason,
        time=datetime.now(UTC).isoformat(timespec="seconds"),
    )
    return replace(ledger, changes=(*ledger.changes, change), caveats=ledger.caveats | {Caveat.LATE_BUDGET})


def _limit_text(limit: Budget | Filter) -> str:
    return f"ε = {limit.epsilon:g} at δ = {limit.delta:g}"


def filter_state(ledger: Ledger) -> FilterState | None:
    """Where the filter of a ledger stands, or None where it has none."""
    if ledger.filter is None:
        return None
    if isinstance(ledger.filter, OneRequestFilter):
        return FilterState(filter=ledger.filter, reached=ledger.filter.epsilon, remaining=0.0)
    meter = Filtered(ledger.filter)
    spent = spending_of(tally_entries(ledger.filter, ledger))
    return FilterState(
        filter=ledger.filter, reached=meter.reached_epsilon(spent), remaining=meter.remaining(spent)
    )


def _fits_at_once(ledger: Ledger, budget: Budget) -> bool:
    """Whether the ledger is within the budget if all noise was fixed beforehand, as in one request."""
    if budget.delta == 0:
        return False  # then the filter allows as much as the sum does
    with suppress(NotProved, OutOfReach):
        # A sketch of the curve is an upper bound too, and is quick.
        if account(ledger, accountant=PrivacyLoss()).curve.sketch(budget.epsilon).upper <= budget.delta:
            return True
    with suppress(NotProved, OutOfReach):
        return account(ledger).epsilon(delta=budget.delta) <= budget.epsilon
    return False


def _choose_rule(budget: Budget | Filter, first: Sequence[Entry], ledger: Ledger) -> Filter:
    if isinstance(budget, Filter):
        return budget
    return choose_filter(
        epsilon=budget.epsilon,
        delta=budget.delta,
        asked=[entry.event for entry in first],
        adjacency=ledger.adjacency,
    )


def _differs(rule: Filter, budget: Budget | Filter) -> bool:
    if isinstance(budget, Filter):
        return rule != budget
    return (rule.epsilon, rule.delta) != (budget.epsilon, budget.delta)


def _refusal(meter: Filtered, after: Spending, before: Spending) -> str:
    rule = meter.rule
    claimed = max(used.infinity for used in after)
    if claimed > rule.claimable:
        return (
            f"Claims and thresholds for keys would use δ = {claimed:.6g} of the budget's δ = "
            f"{rule.delta:g}, and its filter has {rule.claimable:.6g} for them; nothing was spent. List the "
            f"keys, or ask at a smaller δ."
        )
    left = meter.remaining(before)
    fix = f"One answer of up to ε = {left:.4g} is left." if left > 0 else "Nothing is left."
    return (
        f"The ledger would reach ε = {meter.reached_epsilon(after):.6g} at δ = {rule.delta:g} by its filter "
        f"({rule.name}), and the budget is ε = {rule.epsilon:g}; nothing was spent. Ask for less, or at a "
        f"smaller ε. {fix}"
    )
