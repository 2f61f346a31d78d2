"""How a server learns the sum of its clients' vectors: what every sum protocol does.

A protocol is a few exchanges of bytes within one round. The server's part is a generator: it yields one
message for each client, is sent the replies that arrived, and returns the sum. A client that did not answer
in time is missing from the replies. The client's part is a function of the message, the client's own state
(bytes, kept by the client and never sent) and its vector. So the same protocol runs in one process, on Ray,
and over sockets.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import final

from privet.caveats import Caveat
from privet.errors import PrivetError
from privet.events import Event
from privet.views import Numbers

__all__ = ["MessageRefused", "Messages", "SumFailed", "SumProtocol", "SumResult"]

Messages = Mapping[int, bytes]  # by client


class MessageRefused(PrivetError):
    """A client does not answer a message; a server treats a client with a wrong reply as dropped."""


class SumFailed(PrivetError):
    """A round ends without a sum: too few clients are left. Nothing was opened."""


@final
@dataclass(frozen=True, eq=False, kw_only=True)
class SumResult:
    """The sum over ``contributors``; ``dropped`` were asked and are not in it.

    ``refused`` says in one sentence for each client whose reply was refused why; these are among ``dropped``.
    ``opened`` holds single vectors that the server could read on the way: all of them for a plain sum, none
    for a secure one. It is what an adversary at the server sees. ``error_bound`` is how far a number of
    ``total`` may be from the true sum (and its noise) because numbers were encoded. ``event`` is what noise
    that the clients added proves for one client; None if they added none.
    """

    total: Numbers
    contributors: tuple[int, ...]
    dropped: tuple[int, ...] = ()
    refused: Mapping[int, str] = field(default_factory=dict)
    opened: Mapping[int, Numbers] | None = None
    error_bound: float = 0.0
    event: Event | None = None
    caveats: frozenset[Caveat] = frozenset()


class SumProtocol(ABC):
    """A way to sum vectors of ``length`` float64 numbers; protocols that need integers encode them."""

    @property
    @abstractmethod
    def threat_model(self) -> str:
        """Who may be curious or malicious, and how many may collude, in one sentence."""

    @abstractmethod
    def serve(
        self, *, round_number: int, clients: Sequence[int], length: int
    ) -> Generator[Messages, Messages, SumResult]:
        """The server's part of one round. Raises ``SumFailed`` where too few clients are left."""

    @abstractmethod
    def answer(
        self, *, client: int, message: bytes, state: bytes, vector: Callable[[], Numbers]
    ) -> tuple[bytes, bytes]:
        """The client's part: the reply, and its new state. Raises ``MessageRefused`` and changes nothing.

        ``state`` is what the last call returned, also across rounds, so that an old round is refused; it is
        empty at the very first message. ``vector`` is called at most once a round.
        """
