"""Laws of adding up: repeating is composing, order does not matter, and doing more never costs less."""

from collections.abc import Sequence
from typing import Any

from privet.accounting import Accountant, account
from privet.adjacency import Adjacency
from privet.arguments import whole
from privet.events import Compose, Event, Repeat
from privet.guarantees import Guarantee
from privet.testing.broken import at_delta, require, require_at_most, require_same

__all__ = ["check_nesting", "check_order", "check_repeat_is_compose", "check_repetition_costs"]

_DELTAS = (1e-2, 1e-5, 1e-9)


def check_repeat_is_compose(
    accountant: Accountant[Any], event: Event, adjacency: Adjacency, *, times: int
) -> None:
    """``Repeat(e, n)`` costs what ``Compose((e, …, e))`` costs."""
    whole("times", times, most=10**6)
    repeated = account(Repeat(event, times), adjacency=adjacency, accountant=accountant)
    composed = account(Compose((event,) * times), adjacency=adjacency, accountant=accountant)
    _check_same(repeated, composed, f"repeat = compose, {times} x {event} under {adjacency}")


def check_nesting(
    accountant: Accountant[Any], event: Event, adjacency: Adjacency, *, inner: int, outer: int
) -> None:
    """``Repeat(Repeat(e, a), b)`` costs what ``Repeat(e, a·b)`` costs."""
    nested = account(Repeat(Repeat(event, inner), outer), adjacency=adjacency, accountant=accountant)
    flat = account(Repeat(event, inner * outer), adjacency=adjacency, accountant=accountant)
    _check_same(nested, flat, f"nested repeats multiply, {inner} x {outer} of {event} under {adjacency}")


def check_order(accountant: Accountant[Any], parts: Sequence[Event], adjacency: Adjacency) -> None:
    """Neither the order nor the bracketing of a composition matters."""
    forward = account(Compose(tuple(parts)), adjacency=adjacency, accountant=accountant)
    backward = account(Compose(tuple(reversed(parts))), adjacency=adjacency, accountant=accountant)
    _check_same(forward, backward, f"composition is order-free, {parts} under {adjacency}")
    head, tail = Compose(tuple(parts[:1])), Compose(tuple(parts[1:]))
    bracketed = account(Compose((head, tail)), adjacency=adjacency, accountant=accountant)
    _check_same(forward, bracketed, f"composition is associative, {parts} under {adjacency}")


def check_repetition_costs(
    accountant: Accountant[Any], event: Event, adjacency: Adjacency, *, times: int = 4
) -> None:
    """Doing the same thing again is never free, and never cheaper than doing it once.

    This is the law that an accountant breaks when a count is dropped on the way: in dp-accounting for
    repeated randomised response (privacy-loss distribution) and for the repeated exponential mechanism
    (Rényi).
    """
    once = account(event, adjacency=adjacency, accountant=accountant)
    often = account(Repeat(event, times), adjacency=adjacency, accountant=accountant)
    where = f"{times} x {event} under {adjacency}"
    for delta in _DELTAS:
        one, many = at_delta(once, delta), at_delta(often, delta)
        if one is None or many is None:
            require(many is None, f"what is refused once is refused often, δ = {delta:g}, {where}")
            continue
        require_at_most(one.upper, many.upper, f"repeating never lowers ε, {where}", slack=1e-9)
        if one.lower > 1e-6:
            require(
                many.upper > one.upper * (1 + 1e-6),
                f"repeating raises ε, {where}: {many.upper!r} after {one.upper!r}",
            )


def _check_same(first: Guarantee, second: Guarantee, law: str) -> None:
    if first.curve == second.curve:
        return
    for delta in _DELTAS:
        one, other = at_delta(first, delta), at_delta(second, delta)
        if one is None or other is None:
            require(one is other, f"{law}: only one of them is refused at δ = {delta:g}")
            continue
        require_same(one.upper, other.upper, f"{law}, ε at δ = {delta:g}")
    for epsilon in (0.0, 0.5):
        require_same(
            first.delta(epsilon=epsilon), second.delta(epsilon=epsilon), f"{law}, δ at ε = {epsilon:g}"
        )
