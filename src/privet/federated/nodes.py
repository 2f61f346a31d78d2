"""Which node of a grid has which client: the server asks every node for the number of its client, once."""

import time
import warnings

from flwr.serverapp import Grid

from privet.callers import level_of_caller
from privet.errors import InvalidArgument, PrivetError
from privet.federated.messages import ask_number, read_number

__all__ = ["connect_clients"]

_BETWEEN_ASKS = 0.5  # seconds


def connect_clients(grid: Grid, population: int, wait: float) -> dict[int, int]:
    """The node of each client that is connected, after at most ``wait`` seconds.

    A client that two nodes claim is that of the node that answered first. So no client counts twice.
    """
    nodes: dict[int, int] = {}
    asked: set[int] = set()
    end = time.monotonic() + wait
    while True:
        new = sorted(set(grid.get_node_ids()) - asked)
        asked.update(new)
        if new:
            left = max(1.0, end - time.monotonic())
            for reply in grid.send_and_receive([ask_number(node) for node in new], timeout=left):
                try:
                    client = read_number(reply)
                except PrivetError:
                    continue
                if 0 <= client < population:
                    nodes.setdefault(client, reply.metadata.src_node_id)
        if len(nodes) == population:
            return dict(sorted(nodes.items()))
        if time.monotonic() >= end:
            break
        time.sleep(_BETWEEN_ASKS)
    if not nodes:
        raise InvalidArgument(
            f"At least one of the {population} clients must be connected, and none was after {wait:g} s. "
            "Start the nodes with --node-config 'partition-id=…'."
        )
    warnings.warn(
        f"{population - len(nodes)} of {population} clients are not connected and count as dropped.",
        stacklevel=level_of_caller(),
    )
    return dict(sorted(nodes.items()))
