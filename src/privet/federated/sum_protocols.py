"""How a server learns the sum of its clients' vectors: what every sum protocol does.

A protocol is a few exchanges of bytes within one round. The server's part is a generator: it yields one
message for each client, is sent the replies that arrived, and returns the sum. A client that did not answer
in time is missing from the replies. The client's part is a function of the message, the client's own state
(bytes, kept by the client and never sent) and its vector. So the same protocol runs in one process, on Ray,
and over sockets.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import final

from privet.caveats import Caveat
from privet.errors import PrivetError
from privet.events import Event
from privet.views import Numbers

__all__ = ["MessageRefused", "Messages", "NoisySumProtocol", "SumFailed", "SumProtocol", "SumResult"]

Messages = Mapping[int, bytes]  # by client


class MessageRefused(PrivetError):
    """A client does not answer a message; a server treats a client with a wrong reply as dropped."""


class SumFailed(PrivetError):
    """A round ends without a sum: too few clients are left, or too few of them help to open it."""


@final
@dataclass(frozen=True, eq=False, kw_only=True)
class SumResult:
    """The sum over ``contributors``; ``dropped`` were asked and are not in it.

    ``refused`` are those whose reply could not be used, each with one sentence that says why and does not
    depend on private data. A bad reply is refused and never raises: the round goes on. Whoever was refused
    before its vector arrived is among the dropped.
    ``opened`` holds single vectors that the server could read on the way: all of them for a plain sum, none
    for a secure one. It is what an adversary at the server sees. ``error_bound`` is how far a number of
    ``total`` may be from the true sum (and its noise) because numbers were encoded. ``event`` is what noise
    that the clients added proves for one client; None if they added none.
    """

    total: Numbers
    contributors: tuple[int, ...]
    dropped: tuple[int, ...] = ()
    opened: Mapping[int, Numbers] | None = None
    refused: Mapping[int, str] = field(default_factory=dict)
    error_bound: float = 0.0
    event: Event | None = None
    caveats: frozenset[Caveat] = frozenset()


class SumProtocol(ABC):
    """A way to sum vectors of ``length`` float64 numbers; protocols that need integers encode them."""

    @property
    @abstractmethod
    def threat_model(self) -> str:
        """Who may be curious or malicious, and how many may collude, in one sentence."""

    def bound_growth(self, length: int) -> float:
        """How much further than the norm of a vector its part of the sum may reach, because it is encoded.

        Noise that a server adds to the sum must hide that, too: clients leave room for it below the clip
        bound.
        """
        del length
        return 0.0

    @property
    def largest_number(self) -> float:
        """The largest absolute value that a number may have; a vector with a larger one is refused.

        Whether a client refuses must not depend on its data where a server's noise hides these, so clients
        keep their norm below it.
        """
        return math.inf

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

        ``state`` is what the last call returned. A caller that keeps it across rounds has old rounds refused;
        one that refuses them itself may begin each round with an empty state. ``vector`` is called at most
        once a round.
        """


class NoisySumProtocol(SumProtocol):
    """A sum whose noise the clients add together. The server must not add any of its own."""

    @property
    @abstractmethod
    def clip_bound(self) -> float:
        """The largest norm of a vector that the noise hides."""

    @abstractmethod
    def with_noise(self, noise_multiplier: float) -> "NoisySumProtocol":
        """The same protocol with another standard deviation of the whole noise over the clip bound."""

    @abstractmethod
    def event(self, *, length: int, contributors: int) -> Event:
        """What one round releases of a contributor if this number of clients, or more, are in the sum."""
