"""Laws of what is written down: documents keep ε to the bit, and a ledger is a value."""

from typing import cast

from privet.accounting import account
from privet.adjacency import Adjacency
from privet.documents import event_from_json, event_to_json
from privet.errors import InvalidArgument
from privet.events import Compose, Event
from privet.guarantees import Guarantee
from privet.ledger import Ledger
from privet.testing.broken import LawBroken, at_delta, require

__all__ = ["check_documents", "check_ledger"]

_DELTAS = (1e-3, 1e-6)


def check_documents(event: Event, adjacency: Adjacency) -> None:
    """An event or a ledger that was written and read back is the same, with the same ε to the bit."""
    read = event_from_json(event_to_json(event))
    require(read == event, f"an event survives its document: {read} is not {event}")
    ledger = Ledger(adjacency).spend("first", event).spend("second", event)
    back = Ledger.from_json(ledger.to_json())
    require(back == ledger, f"a ledger survives its document: {back} is not {ledger}")
    _require_identical(account(ledger), account(back), f"a document keeps ε of {event}")


def check_ledger(event: Event, adjacency: Adjacency) -> None:
    """Ledgers add up like events, and a spend that fails leaves the ledger as it was."""
    first, second = Ledger(adjacency).spend("a", event), Ledger(adjacency).spend("b", event)
    both = account(Compose((event, event)), adjacency=adjacency)
    _require_identical(account(first + second), both, f"ledger + ledger = compose, {event}")
    before, entries = first.to_json(), first.entries
    try:
        first.spend("broken", cast(Event, "not an event"))
    except InvalidArgument:
        require(first.to_json() == before and first.entries is entries, "a failing spend changes nothing")
    else:
        raise LawBroken("a spend of something that is no event is refused")


def _require_identical(first: Guarantee, second: Guarantee, law: str) -> None:
    for delta in _DELTAS:
        one, other = at_delta(first, delta), at_delta(second, delta)
        require(one == other, f"{law} at δ = {delta:g}: {one} is not {other}")
    require(first.caveats == second.caveats, f"{law}: the caveats are the same")
