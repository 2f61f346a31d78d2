"""What the tests of federated training share: small clients, and a grid on which messages go wrong."""

from collections.abc import Callable, Iterable

import torch
from flwr.app import Message, RecordDict
from flwr.proto.node_pb2 import NodeInfo
from flwr.serverapp import Grid
from flwr.supercore.run import Run
from torch import Tensor, nn

from privet.observed_rounds import ObservedRound, Observer, RoundObserver, Weights

Reply = Callable[[Message], list[Message]]


def make_clients(count: int, *, rows: int = 12, seed: int = 0) -> list[tuple[Tensor, Tensor]]:
    """Clients whose labels follow a line through their three inputs."""
    generator = torch.Generator().manual_seed(seed)
    clients = []
    for _ in range(count):
        inputs = torch.randn(rows, 3, generator=generator)
        clients.append((inputs, (inputs.sum(dim=1) > 0).long()))
    return clients


def make_model() -> nn.Module:
    """A model with the same weights each time."""
    model = nn.Linear(3, 2)
    with torch.no_grad():
        model.weight.copy_(torch.arange(6.0).reshape(2, 3) / 10)
        model.bias.zero_()
    return model


class FaultyGrid(Grid):
    """A grid whose replies go through a function: it may drop, double, change or add messages.

    ``sent`` has every message that was sent, in order.
    """

    def __init__(
        self, grid: Grid, change: Reply, *, before: Callable[[list[Message]], None] | None = None
    ) -> None:
        self._grid, self._change, self._before = grid, change, before
        self.sent: list[Message] = []

    def set_run(self, run: Run) -> None:
        self._grid.set_run(run)

    @property
    def run(self) -> Run:
        return self._grid.run

    def create_message(
        self,
        content: RecordDict,
        message_type: str,
        dst_node_id: int,
        group_id: str,
        ttl: float | None = None,
    ) -> Message:
        return self._grid.create_message(content, message_type, dst_node_id, group_id, ttl)

    def get_node_ids(self) -> Iterable[int]:
        return self._grid.get_node_ids()

    def get_nodes(self) -> Iterable[NodeInfo]:
        return self._grid.get_nodes()

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        return self._grid.push_messages(messages)

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        return self._grid.pull_messages(message_ids)

    def send_and_receive(self, messages: Iterable[Message], *, timeout: float | None = None) -> list[Message]:
        outgoing = list(messages)
        self.sent += outgoing
        if self._before is not None:
            self._before(outgoing)
        replies: list[Message] = []
        for reply in self._grid.send_and_receive(outgoing, timeout=timeout):
            replies += self._change(reply)
        return replies


class Spy(RoundObserver):
    """Remembers what it was shown."""

    def __init__(self, place: Observer, controls: frozenset[int] = frozenset()) -> None:
        self._place, self._controls = place, controls
        self.seen: list[ObservedRound] = []

    @property
    def place(self) -> Observer:
        return self._place

    @property
    def controls(self) -> frozenset[int]:
        return self._controls

    def observe(self, seen: ObservedRound) -> None:
        self.seen.append(seen)


class AlteringServer(RoundObserver):
    """Sends one client other weights."""

    def __init__(self, client: int, shift: float) -> None:
        self._client, self._shift = client, shift

    @property
    def place(self) -> Observer:
        return Observer.SERVER

    def observe(self, seen: ObservedRound) -> None:
        pass

    def alter(self, round_number: int, client: int, weights: Weights) -> Weights:
        if client != self._client:
            return weights
        return {name: array + self._shift for name, array in weights.items()}


class ActiveParticipant(RoundObserver):
    """A client that sends what it likes."""

    def __init__(self, client: int, number: float) -> None:
        self._client, self._number = client, number

    @property
    def place(self) -> Observer:
        return Observer.PARTICIPANT

    @property
    def controls(self) -> frozenset[int]:
        return frozenset({self._client})

    def observe(self, seen: ObservedRound) -> None:
        pass

    def replace_update(self, round_number: int, client: int, weights: Weights, update: Weights) -> Weights:
        assert client == self._client
        changed = {name: array * 0 + self._number for name, array in update.items()}
        changed["bias"][0] *= 2
        return changed
