"""How much may be spent, and whether a ledger still keeps to it."""

from contextlib import suppress
from dataclasses import dataclass
from typing import final

from privet.accounting import PrivacyLoss, Renyi, account
from privet.arguments import finite, positive
from privet.errors import BudgetExceeded, InvalidArgument, NotProved, OutOfReach
from privet.ledger import Ledger

__all__ = ["Budget", "Cost", "keep_within"]


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
                f"'delta' must be at least 0 and below 1, got {self.delta!r}. Give a probability far below 1/n."
            )


@final
@dataclass(frozen=True, kw_only=True)
class Cost:
    """What one answer costs by itself. Costs with δ = 0 add up; others add up in the ledger only."""

    epsilon: float
    delta: float


def keep_within(ledger: Ledger, budget: Budget) -> None:
    """Raise ``BudgetExceeded`` where the ledger, with all that is about to be spent, is beyond the budget."""
    try:
        if budget.delta > 0 and _clearly_within(ledger, budget):
            return
        spent = account(ledger).epsilon(delta=budget.delta)
    except (NotProved, OutOfReach) as unknown:
        raise BudgetExceeded(
            f"What the ledger would hold is not proved to keep to ε = {budget.epsilon:g} at δ = {budget.delta:g}: "
            f"{unknown} Nothing was spent."
        ) from unknown
    if spent > budget.epsilon:
        raise BudgetExceeded(
            f"The ledger would reach ε = {spent:.6g} at δ = {budget.delta:g}, and the budget is "
            f"ε = {budget.epsilon:g}; nothing was spent. Ask for less, or at a smaller ε."
        )


def _clearly_within(ledger: Ledger, budget: Budget) -> bool:
    """By moments, or by a sketch of the curve: upper bounds too, and they come sooner in a long ledger."""
    with suppress(NotProved, OutOfReach):
        if account(ledger, accountant=Renyi()).epsilon(delta=budget.delta) <= budget.epsilon:
            return True
    with suppress(NotProved, OutOfReach):
        return account(ledger, accountant=PrivacyLoss()).curve.sketch(budget.epsilon).upper <= budget.delta
    return False
