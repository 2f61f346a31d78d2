"""Which node of a grid has which client: the server asks every node for the number of its client, once."""

import time
import warnings

from flwr.serverapp import Grid

from privet.callers import level_of_caller
from privet.errors import InvalidArgument, PrivetError
from privet.federated.messages import ask_number, read_number

__all__ = ["connect_clients"]

_BETWEEN_ASKS, _LONGEST_PAUSE = 0.5, 8.0  # seconds
_ASKS = 4  # how often a node that says nothing is asked within the time


def connect_clients(grid: Grid, population: int, wait: float) -> dict[int, int]:
    """The node of each client that is connected, after at most ``wait`` seconds.

    A node that failed, or that said nothing, is asked again. A client that two nodes claim is that of the
    node that answered first. So no client counts twice.
    """
    nodes: dict[int, int] = {}
    known: set[int] = set()
    end, pause, failed = time.monotonic() + wait, _BETWEEN_ASKS, 0
    while True:
        unknown = sorted(set(grid.get_node_ids()) - known)
        if unknown:
            left = max(1.0, min(wait / _ASKS, end - time.monotonic()))
            for reply in grid.send_and_receive([ask_number(node) for node in unknown], timeout=left):
                try:
                    client = read_number(reply)
                except PrivetError:
                    failed += 1
                    continue
                known.add(reply.metadata.src_node_id)
                if 0 <= client < population:
                    nodes.setdefault(client, reply.metadata.src_node_id)
        if len(nodes) == population:
            return dict(sorted(nodes.items()))
        if time.monotonic() >= end:
            break
        time.sleep(max(0.0, min(pause, end - time.monotonic())))
        pause = min(2 * pause, _LONGEST_PAUSE)
    if not nodes:
        raise InvalidArgument(
            f"At least one of the {population} clients must be connected, and none was after {wait:g} s "
            f"({failed} answers were failures). Start the nodes with --node-config 'partition-id=…', and see "
            "their logs."
        )
    warnings.warn(
        f"{population - len(nodes)} of {population} clients are not connected and count as dropped.",
        stacklevel=level_of_caller(),
    )
    return dict(sorted(nodes.items()))
