"""All parties of a sum in one process: for examples, tests and measurements."""

from collections.abc import Collection, Mapping, MutableMapping

import numpy as np
from numpy.typing import ArrayLike

from privet.federated.sum_protocols import MessageRefused, SumProtocol, SumResult
from privet.views import Numbers

__all__ = ["sum_in_process"]


def sum_in_process(
    protocol: SumProtocol,
    vectors: Mapping[int, ArrayLike],
    *,
    round_number: int = 1,
    leaving: Mapping[int, Collection[int]] | None = None,
    states: MutableMapping[int, bytes] | None = None,
) -> SumResult:
    """The sum of ``vectors``, by client.

    ``leaving`` says which clients are gone from which exchange on, counted from 0. ``states`` keeps what the
    clients remember from round to round. A client that refuses a message is gone for the round.

    >>> from privet.federated.plain_sum import PlainSum
    >>> sum_in_process(PlainSum(), {0: [1.0, 2.0], 1: [3.0, 4.0]}).total
    array([4., 6.])
    """
    numbers: dict[int, Numbers] = {client: np.asarray(vector, float) for client, vector in vectors.items()}
    kept = {} if states is None else states
    gone: set[int] = set()
    served = protocol.serve(
        round_number=round_number, clients=sorted(numbers), length=next(iter(numbers.values())).size
    )
    messages, exchange = next(served), 0
    while True:
        gone |= set((leaving or {}).get(exchange, ()))
        replies = {}
        for client, message in messages.items():
            if client in gone:
                continue
            try:
                replies[client], kept[client] = protocol.answer(
                    client=client,
                    message=message,
                    state=kept.get(client, b""),
                    vector=lambda client=client: numbers[client],  # type: ignore[misc]
                )
            except MessageRefused:
                gone.add(client)
        exchange += 1
        try:
            messages = served.send(replies)
        except StopIteration as done:
            result: SumResult = done.value
            return result
