"""The plain sum: every client sends its vector, and the server reads all of them."""

from collections.abc import Callable, Generator, Sequence
from typing import final

import numpy as np

from privet.arguments import whole
from privet.federated.sum_protocols import Messages, SumProtocol, SumResult
from privet.views import Numbers

__all__ = ["PlainSum"]

_NUMBERS = np.dtype("<f8")
_LONGEST = 2**40  # numbers; no model has as many parameters


@final
class PlainSum(SumProtocol):
    """Vectors as they are. The server sees each one, and can refuse each one.

    *Leaks*: every vector, to the server. Noise that the server adds protects the model, not the vectors.
    """

    @property
    def threat_model(self) -> str:
        return "The server reads every vector, so it must be trusted; clients see nothing of each other."

    def serve(
        self, *, round_number: int, clients: Sequence[int], length: int
    ) -> Generator[Messages, Messages, SumResult]:
        del round_number
        whole("length", length, most=_LONGEST)
        replies = (yield dict.fromkeys(clients, b"")) or {}
        opened: dict[int, Numbers] = {}
        refused: dict[int, str] = {}
        for client in sorted(set(clients) & set(replies)):
            reply = replies[client]
            if len(reply) != length * _NUMBERS.itemsize:
                refused[client] = (
                    f"The vector must have {length} numbers, got {len(reply)} bytes. Train the model of the "
                    "server."
                )
                continue
            vector = np.frombuffer(reply, dtype=_NUMBERS).astype(np.float64)
            if np.isfinite(vector).all():
                opened[client] = vector
            else:
                refused[client] = (
                    "The vector must have finite numbers, and has others. Lower the client's learning rate."
                )
        total = np.zeros(length)
        for vector in opened.values():
            total += vector
        return SumResult(
            total=total,
            contributors=tuple(opened),
            dropped=tuple(client for client in clients if client not in opened),
            opened=opened,
            refused=refused,
        )

    def answer(
        self, *, client: int, message: bytes, state: bytes, vector: Callable[[], Numbers]
    ) -> tuple[bytes, bytes]:
        del client, message, state
        return np.asarray(vector(), dtype=_NUMBERS).tobytes(), b""
