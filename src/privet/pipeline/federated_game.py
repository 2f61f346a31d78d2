"""The game on a federated run: which client has which records, and the coins that attacks have to guess.

Every client has equally many records, whatever the coins say: where a target is left out, a substitute of the
same kind takes its place. So the number of records of a client tells nothing. There are two kinds of coins.
One for each target says whether its home holds it; one for each client says whether its other records have a
property, such as pictures of a scanner that is out of adjustment.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import final

import numpy as np

from privet.arguments import whole
from privet.attacks.federated import ClientExamples, ClientRecords
from privet.errors import InvalidArgument
from privet.public_calls import check_public_calls
from privet.scores import Bits, Records
from privet.views import Rows

__all__ = ["FederatedGame", "draw_federated_game"]

_LEAST_PUBLIC = 40  # records, for the adversary and for the test accuracy together


@final
@dataclass(frozen=True, eq=False, kw_only=True)
class FederatedGame:
    """Clients with their records, targets with their coins, and what is public.

    ``with_property`` is the coin of each client, None if there is no property to guess. ``examples`` are the
    records from which an adversary makes up clients. ``test`` is for the accuracy.
    """

    clients: tuple[Records, ...]
    targets: ClientRecords
    coins: Bits
    test: Records
    with_property: Bits | None = None
    examples: ClientExamples | None = None

    @property
    def records_each(self) -> int:
        """How many records every client has."""
        return len(self.clients[0])


def draw_federated_game(
    records: Records,
    *,
    clients: int,
    own: int,
    slots: int,
    seed: int,
    mark: Callable[[Rows], Rows] | None = None,
    test: Records | None = None,
) -> FederatedGame:
    """Deal labelled records to clients.

    Args:
        records: labelled records; ``clients`` × (``own`` + 2 · ``slots``) of them are dealt, the rest
            is public.
        clients: how many clients.
        own: records that a client has in any case.
        slots: targets of each client. A fair coin for each says whether the client holds it or a substitute.
        seed: the seed of the deal and of the coins.
        mark: what the property does to the inputs of a client's own records; None for no property.
        test: records for the accuracy; by default half of what is public.
    """
    for name, value, least in (("clients", clients, 2), ("own", own, 1), ("slots", slots, 1)):
        whole(name, value, least=least)
    needed = clients * (own + 2 * slots)
    if len(records) < needed + _LEAST_PUBLIC:
        raise InvalidArgument(
            f"'records' must be at least {needed + _LEAST_PUBLIC} for {clients} clients with {own} records "
            f"and {slots} slots, got {len(records)}. Take fewer clients, or fewer records for each."
        )
    generator = np.random.default_rng([seed, 7])
    order = generator.permutation(len(records))
    dealt = order[:needed].reshape(clients, own + 2 * slots)
    rest = order[needed:]
    coins = generator.random((clients, slots)) < 0.5
    properties = generator.random(clients) < 0.5
    held = []
    for client in range(clients):
        of_its_own = records.take(dealt[client, :own])
        if mark is not None and properties[client]:
            of_its_own = _mark(of_its_own, mark)
        chosen = np.where(coins[client], dealt[client, own : own + slots], dealt[client, own + slots :])
        held.append(of_its_own.followed_by(records.take(chosen)))
    half = len(rest) // 2 if test is None else 0
    public = records.take(rest[half:])
    targets = records.take(dealt[:, own : own + slots].ravel())
    return FederatedGame(
        clients=tuple(held),
        targets=ClientRecords(targets, np.repeat(np.arange(clients), slots)),
        coins=coins.ravel(),
        test=records.take(rest[:half]) if test is None else test,
        with_property=None if mark is None else properties,
        examples=None
        if mark is None
        else ClientExamples(
            having=_mark(public, mark), lacking=public, examples=own + slots, share=own / (own + slots)
        ),
    )


def _mark(records: Records, mark: Callable[[Rows], Rows]) -> Records:
    return Records(mark(records.inputs), records.labels)


check_public_calls(__name__)
