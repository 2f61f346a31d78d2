"""The ledger's budget in the output of ``privet release``: the state of its filter, and the price."""

import math

from privet.caveats import Caveat
from privet.cli.output import rounded_down, rounded_up
from privet.ledger import Ledger
from privet.releasing import FilterState

__all__ = ["filter_document", "ledger_caveats", "ledger_rows", "quote_rows"]


def filter_document(state: FilterState) -> dict[str, object]:
    """The filter in JSON: ``reached`` of its ε, and the ε of the largest ε-DP answer that is left."""
    return {
        "name": state.filter.name,
        "epsilon": state.filter.epsilon,
        "delta": state.filter.delta,
        "reached": state.reached if math.isfinite(state.reached) else None,
        "remaining": state.remaining,
    }


def ledger_rows(
    name: str, price: float | None, delta: float, state: FilterState | None
) -> list[tuple[str, str]]:
    """The ledger after a release. At δ = 0 the filter is the sum, and there is no other price."""
    paid = "no finite ε" if price is None else f"ε ≤ {rounded_up(price)}"
    if state is None:
        return [("ledger", f"{name}, at {paid} for δ = {delta:g}; no --budget was given")]
    rows = [("ledger", name), ("budget", _stands(state))]
    if state.filter.delta:
        rows.append(("price", f"{paid} at δ = {delta:g}, if every question had been fixed beforehand"))
    return rows


def quote_rows(name: str, state: FilterState | None, refused: str | None) -> list[tuple[str, str]]:
    """The ledger after the quoted request, if it were run."""
    if refused is not None:
        return [("ledger", f"{name} would refuse it: {refused}")]
    if state is None:
        return [("ledger", f"{name} has no budget, and none was given")]
    return [("ledger", f"{name} would permit it"), ("budget after it", _stands(state))]


def ledger_caveats(ledger: Ledger, delta: float) -> frozenset[Caveat]:
    """The bound that holds for adaptive questions. At δ = 0 this is the sum, at every moment."""
    late = ledger.caveats & {Caveat.LATE_BUDGET}
    if ledger.filter is None:
        return frozenset({Caveat.RUNNING_TOTAL}) if delta else frozenset()
    return late or (frozenset({Caveat.ADAPTIVE_PARAMETERS}) if delta else frozenset())


def _stands(state: FilterState) -> str:
    rule = state.filter
    limit = f"ε = {rule.epsilon:g} at δ = {rule.delta:g}"
    if state.remaining <= 0:
        return f"{limit}, used up"
    return (
        f"{limit}, kept by a filter ({rule.name}) that stands at ε = {rounded_up(state.reached)}; one "
        f"answer of up to ε = {rounded_down(state.remaining)} is left"
    )
