"""What an adversary sees of a federated run: the rounds, and the door through which an active one acts.

A *server* sees every message that reaches it. A *participant* sees the global model of each round. What a
defence hides is not here: a masked or encrypted message has no update, only its size.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import final

from privet.views import Numbers

__all__ = ["ObservedMessage", "ObservedRound", "Observer", "RoundObserver", "Weights"]

Weights = Mapping[str, Numbers]  # by parameter name


@final
class Observer(StrEnum):
    """Where the adversary stands."""

    SERVER = "server"
    PARTICIPANT = "participant"


@final
@dataclass(frozen=True, eq=False, kw_only=True)
class ObservedMessage:
    """One client's message as its reader sees it.

    ``update`` is (weights after − weights before) of the client, as it was sent: clipped and noised where the
    client does that. It is None where the reader cannot open the message. ``payload`` is the bytes on the
    wire.
    """

    client: int
    update: Weights | None
    payload: bytes = b""


@final
@dataclass(frozen=True, eq=False, kw_only=True)
class ObservedRound:
    """One round: the model that was sent out, what came back, and the sum that the server learned.

    ``total`` is the sum of the updates over ``participants`` before the server adds noise of its own. It is
    None for an observer who does not learn it. ``messages`` is empty for a participant, and so is
    ``participants``: amplification by sampling holds only against those who do not see who was drawn.
    """

    number: int
    weights: Weights
    participants: tuple[int, ...]
    messages: tuple[ObservedMessage, ...] = ()
    total: Weights | None = None


class RoundObserver(ABC):
    """An adversary inside of a run. A passive one only looks; an active one also changes what is sent."""

    @property
    @abstractmethod
    def place(self) -> Observer:
        """Where the adversary stands, which decides what it is shown."""

    @abstractmethod
    def observe(self, seen: ObservedRound) -> None:
        """Called once a round, after the round, with what the adversary sees of it."""

    def alter(self, round_number: int, client: int, weights: Weights) -> Weights:
        """The weights that are sent to a client in place of ``weights``; asked of a server only."""
        return weights

    @property
    def controls(self) -> frozenset[int]:
        """The clients that the adversary controls: a participant sees the rounds that these are in.

        A participant that controls none sees the model of every round.
        """
        return frozenset()

    def replace_update(self, round_number: int, client: int, weights: Weights, update: Weights) -> Weights:
        """The update that a controlled client makes in place of ``update``, before its clip and noise.

        ``weights`` are those that the client was sent.
        """
        return update
