"""One round on the wire: a sum protocol's messages out, replies in, and what cannot be used is refused.

A reply is used if it comes from a node that was asked, answers this run, round and exchange, and is the first
one. Every other reply is refused with one sentence. A refusal never ends a round.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import final

import numpy as np
from flwr.app import Message
from flwr.serverapp import Grid

from privet.errors import PrivetError
from privet.federated.messages import Instruction, WeightsRecord, read_reply, write_instruction
from privet.federated.sum_protocols import SumProtocol, SumResult
from privet.views import Numbers

__all__ = ["Collected", "Collector", "VectorLimits"]

_SLACK = 1 + 1e-9  # of float64: a client clips to a little below the bound
_LARGEST = 1e6  # of an update without a clip: weights of a model that is of use do not move so far


@final
@dataclass(frozen=True, kw_only=True)
class VectorLimits:
    """What a single vector must keep to: a norm for the update, and ±½ for the number after it.

    ``norm`` is the clip bound; None where there is none, and then the limit is one million. ``size`` is the
    length of the update. ``weights`` are the public weights of the clients.
    """

    size: int
    norm: float | None = None
    weights: Sequence[float] | None = None

    def find_fault(self, client: int, vector: Numbers) -> str | None:
        """Why the server does not add this vector to the sum."""
        update, rest = vector[: self.size], vector[self.size :]
        most = _LARGEST if self.norm is None else self.norm
        if self.weights is not None:
            most *= self.weights[client]
        if not float(np.linalg.norm(update)) <= most * _SLACK:  # nor NaN
            return f"The update must have a norm of at most {most:g}, and has a larger one. Clip it."
        if update.size > 1 and update[0] != 0 and np.all(update == update[0]):
            return (
                "The update must come from training, and is one number everywhere. Send what training gives."
            )
        if np.any(np.abs(rest) != 0.5):
            return "The count of the adaptive clip must be ½ or −½, and is not. Run the same app."
        return None


@final
@dataclass(frozen=True, eq=False, kw_only=True)
class Collected:
    """The sum of a round, with why replies were refused, and the longest payload of each client.

    ``result`` is None if there is no sum, and ``failure`` says why.
    """

    result: SumResult | None
    refused: Mapping[int, str]
    payloads: Mapping[int, bytes]
    failure: str = ""


@final
class Collector:
    """Runs the server's part of a sum protocol over a grid.

    Args:
        grid: the grid of Flower.
        nodes: the node of each client that is connected.
        protocol: how the sum is made.
        run: the number of this run, which replies must repeat.
        timeout: how many seconds to wait for the replies of one exchange; None waits for all.
    """

    def __init__(
        self,
        grid: Grid,
        nodes: Mapping[int, int],
        protocol: SumProtocol,
        run: str,
        timeout: float | None,
    ) -> None:
        self._grid, self._nodes, self._protocol = grid, nodes, protocol
        self._run, self._timeout = run, timeout

    def collect(
        self,
        round_number: int,
        cohort: Sequence[int],
        length: int,
        bound: float,
        weights: Mapping[int, WeightsRecord],
        limits: VectorLimits,
    ) -> Collected:
        """Ask the cohort, and sum what they answer. ``weights`` are what each client is sent."""
        refused: dict[int, str] = {}
        payloads: dict[int, bytes] = {}
        serving = self._protocol.serve(round_number=round_number, clients=cohort, length=length)
        exchange = 0
        try:
            outgoing = next(serving)
            while True:
                instruction = Instruction(
                    run=self._run, round=round_number, exchange=exchange, bound=bound, message=b""
                )
                messages = [
                    write_instruction(
                        replace(instruction, message=content),
                        self._nodes[client],
                        weights[client] if exchange == 0 else None,
                    )
                    for client, content in outgoing.items()
                    if client in self._nodes
                ]
                replies = self._read(
                    self._grid.send_and_receive(messages, timeout=self._timeout) if messages else (),
                    instruction,
                    set(outgoing),
                    refused,
                )
                for client, content in replies.items():
                    if len(content) > len(payloads.get(client, b"")):
                        payloads[client] = content
                exchange += 1
                outgoing = serving.send(replies)
        except StopIteration as end:
            result: SumResult = end.value
        except PrivetError as failure:  # too few clients stayed
            return Collected(result=None, refused=refused, payloads=payloads, failure=str(failure))
        finally:
            serving.close()
        result, faults = _drop_faulty(result, limits)
        return Collected(
            result=result,
            refused={**refused, **result.refused, **faults},
            payloads=payloads,
        )

    def _read(
        self,
        messages: Iterable[Message],
        instruction: Instruction,
        asked: set[int],
        refused: dict[int, str],
    ) -> dict[int, bytes]:
        clients = {node: client for client, node in self._nodes.items()}
        replies: dict[int, bytes] = {}
        for message in messages:
            client = clients.get(message.metadata.src_node_id)
            if client is None or client not in asked:
                refused.setdefault(
                    -1 if client is None else client,
                    "A reply must come from a client that was asked, and came from another. Check the nodes.",
                )
                continue
            fault = self._find_fault(message, client, instruction)
            if fault is None and client in replies:
                fault = "A client must answer once, and answered again. The first answer counts."
            if fault is not None:
                refused[client] = fault
                continue
            replies[client] = read_reply(message).message
        return replies

    def _find_fault(self, message: Message, client: int, instruction: Instruction) -> str | None:
        if message.has_error():
            return f"The client failed (code {message.error.code}). Its own log says why."
        try:
            reply = read_reply(message)
        except PrivetError as fault:
            return str(fault)
        if reply.client != client:
            return "The reply must name the client of its node, and names another. Check the nodes."
        if (reply.run, reply.round, reply.exchange) != (
            instruction.run,
            instruction.round,
            instruction.exchange,
        ):
            return (
                f"The reply must be to exchange {instruction.exchange} of round {instruction.round}, and is "
                "to another. It is stale or was replayed."
            )
        return reply.refusal or None


def _drop_faulty(result: SumResult, limits: VectorLimits) -> tuple[SumResult, dict[int, str]]:
    """Sum the vectors again without those that break a limit, where the server could read them all."""
    opened = result.opened
    if opened is None or set(opened) != set(result.contributors):
        return result, {}
    faults = {
        client: fault
        for client, vector in opened.items()
        if (fault := limits.find_fault(client, vector)) is not None
    }
    if not faults:
        return result, {}
    kept = {client: vector for client, vector in opened.items() if client not in faults}
    total = np.zeros_like(result.total)
    for client in sorted(kept):
        total += kept[client]
    return (
        replace(
            result,
            total=total,
            contributors=tuple(client for client in result.contributors if client in kept),
            dropped=(*result.dropped, *sorted(faults)),
            opened=kept,
        ),
        faults,
    )
