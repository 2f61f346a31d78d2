"""A grid of Flower in one process: a message is answered at once, by a function call. No Ray, no sockets."""

from collections.abc import Iterable
from logging import Logger, getLogger
from typing import final

from flwr.app import Context, Error, Message, RecordDict
from flwr.clientapp import ClientApp
from flwr.common.constant import SUPERLINK_NODE_ID
from flwr.proto.node_pb2 import NodeInfo
from flwr.serverapp import Grid
from flwr.supercore.run import Run
from flwr.supercore.task_identity import TaskIdentity

from privet.errors import InvalidArgument

__all__ = ["InProcessGrid"]

_LOGGER: Logger = getLogger(__name__)
_CLIENT_FAILED = 1
_FIRST_NODE = 1


@final
class InProcessGrid(Grid):
    """``population`` nodes, numbered from 1; node i + 1 has the client i, and its own context."""

    def __init__(self, client_app: ClientApp, population: int) -> None:
        self._client_app = client_app
        self._contexts = {
            node: Context(
                run_id=0,
                node_id=node,
                node_config={"partition-id": node - _FIRST_NODE, "num-partitions": population},
                state=RecordDict(),
                run_config={},
            )
            for node in range(_FIRST_NODE, _FIRST_NODE + population)
        }
        self._replies: dict[str, Message] = {}
        self._sent = 0
        self._run = Run.create_empty(run_id=0)
        _set_identity()

    def set_run(self, run: Run) -> None:
        self._run = run

    @property
    def run(self) -> Run:
        return self._run

    def create_message(
        self,
        content: RecordDict,
        message_type: str,
        dst_node_id: int,
        group_id: str,
        ttl: float | None = None,
    ) -> Message:
        return Message(content, dst_node_id, message_type, ttl=ttl, group_id=group_id)

    def get_node_ids(self) -> list[int]:
        return list(self._contexts)

    def get_nodes(self) -> list[NodeInfo]:
        return [NodeInfo(node_id=node) for node in self._contexts]

    def push_messages(self, messages: Iterable[Message]) -> list[str]:
        names = []
        for message in messages:
            self._sent += 1
            name = str(self._sent)
            message.metadata.__dict__["_message_id"] = name
            self._replies[name] = self._answer(message)
            names.append(name)
        return names

    def pull_messages(self, message_ids: Iterable[str]) -> list[Message]:
        return [self._replies.pop(name) for name in message_ids if name in self._replies]

    def send_and_receive(self, messages: Iterable[Message], *, timeout: float | None = None) -> list[Message]:
        del timeout
        return self.pull_messages(self.push_messages(messages))

    def _answer(self, message: Message) -> Message:
        node = message.metadata.dst_node_id
        if node not in self._contexts:
            raise InvalidArgument(
                f"'dst_node_id' must be a node of this grid, got {node}. See get_node_ids()."
            )
        try:
            return self._client_app(message, self._contexts[node])
        except Exception as failure:  # a client's own code: its failure is that of one client
            _LOGGER.warning("The client of node %d failed", node, exc_info=failure)
            return Message(Error(code=_CLIENT_FAILED, reason=type(failure).__name__), reply_to=message)


def _set_identity() -> None:
    """Give this process the identity of a server if it has none. Flower makes no message without one."""
    try:
        _ = TaskIdentity.run_id, TaskIdentity.node_id, TaskIdentity.task_id
    except RuntimeError:
        TaskIdentity.run_id, TaskIdentity.node_id, TaskIdentity.task_id = 0, SUPERLINK_NODE_ID, 1
