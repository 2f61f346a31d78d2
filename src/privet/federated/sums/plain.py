"""The plain sum: every client sends its vector, and the server reads all of them."""

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from typing import final

import numpy as np

from privet.arguments import whole
from privet.errors import InvalidArgument
from privet.federated.sum_protocols import MessageRefused, Messages, SumFailed, SumProtocol, SumResult
from privet.federated.sums.encoding import check_vector
from privet.federated.sums.wire import read_message, write_message
from privet.views import Numbers

__all__ = ["PlainSum"]


@final
@dataclass(frozen=True)
class PlainSum(SumProtocol):
    """Each vector as it is, for a server that is trusted with every one of them.

    Leaks: everything. ``opened`` of the result holds each vector.
    """

    @property
    def threat_model(self) -> str:
        return "The server is trusted: it reads every client's vector; nobody else does if the line is encrypted."

    def serve(
        self, *, round_number: int, clients: Sequence[int], length: int
    ) -> Generator[Messages, Messages, SumResult]:
        whole("round_number", round_number)
        whole("length", length)
        if not clients or len(set(clients)) < len(clients):
            raise InvalidArgument("'clients' must be different clients, at least one. Name every client once.")
        invitation = write_message("send", {"round": round_number, "length": length})
        replies = yield {client: invitation for client in clients}
        opened: dict[int, Numbers] = {}
        refused: dict[int, str] = {}
        for client, reply in replies.items():
            try:
                opened[client] = self._read(client, reply, round_number, clients, length)
            except MessageRefused as wrong:
                refused[client] = str(wrong)
        if not opened:
            raise SumFailed(f"Round {round_number} has no sum: no client answered. Begin a new round.")
        return SumResult(
            total=np.sum([opened[client] for client in sorted(opened)], axis=0),
            contributors=tuple(sorted(opened)),
            dropped=tuple(client for client in clients if client not in opened),
            refused=refused,
            opened=opened,
        )

    @staticmethod
    def _read(client: int, reply: bytes, round_number: int, clients: Sequence[int], length: int) -> Numbers:
        if client not in clients:
            raise MessageRefused(f"Client {client} was not asked in this round. Invite it.")
        fields = read_message(reply, "vector")
        if fields.whole("round") != round_number:
            raise MessageRefused(
                f"A reply must be of round {round_number}, and is of another. Answer each message once."
            )
        if len(fields.tail) % 8:
            raise MessageRefused("A vector must be float64 numbers, and is cut off. Send all of it.")
        return check_vector(np.frombuffer(fields.tail, dtype="<f8"), length)

    def answer(
        self, *, client: int, message: bytes, state: bytes, vector: Callable[[], Numbers]
    ) -> tuple[bytes, bytes]:
        asked = read_message(message, "send")
        last = read_message(state).whole("round") if state else 0
        if asked.whole("round") <= last:
            raise MessageRefused(
                f"A round must be after round {last}, and is round {asked.whole('round')}. Number rounds upwards."
            )
        numbers = check_vector(vector(), asked.whole("length"))
        state = write_message("over", {"round": asked.whole("round")})
        return write_message("vector", {"round": asked.whole("round")}, numbers.astype("<f8").tobytes()), state
