"""What a federated run gives: the model, what it cost, and what happened in each round."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import final

from torch import nn

from privet.accounting import account
from privet.errors import NotProved
from privet.federated.history import RoundRecord
from privet.federated.terms import Terms
from privet.guarantees import Guarantee
from privet.ledger import Ledger

__all__ = ["Federated"]


@final
@dataclass(frozen=True, eq=False)
class Federated:
    """A model that was trained over clients, with what is known about the run.

    ``model`` is the given model, now in evaluation mode. ``ledger`` covers the models of all rounds; under
    local noise, what the client that took part most often has sent; None if nobody added noise. ``history``
    has a record for each round. ``interrupted`` says that somebody ended the run early. ``client_ledgers``
    has what each client has spent under local noise. ``rounds_cut`` is the number of rounds that were not
    run, because rounds that a crash lost had used up their cost.
    """

    model: nn.Module
    ledger: Ledger | None
    history: tuple[RoundRecord, ...]
    terms: Terms
    interrupted: bool = False
    client_ledgers: Mapping[int, Ledger] = field(default_factory=dict)
    rounds_cut: int = 0

    def guarantee(self) -> Guarantee:
        """An upper bound on what the run leaks about a client."""
        if self.ledger is None:
            raise NotProved(
                "Nobody added noise in this run, so there is no guarantee. Use privacy=CentralNoise(), "
                "LocalNoise(clip=1.0) or DistributedNoise()."
            )
        return account(self.ledger)

    def epsilon(self, *, delta: float) -> float:
        """ε at this δ."""
        return self.guarantee().epsilon(delta=delta)

    def __repr__(self) -> str:
        ended = ", interrupted" if self.interrupted else ""
        spent = "no guarantee" if self.ledger is None else str(self.ledger.adjacency)
        return f"Federated({type(self.model).__name__}, {len(self.history)} rounds{ended}: {spent})"
