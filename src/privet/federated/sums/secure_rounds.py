"""What both ends of secure aggregation know of a round: its numbers, and the forms of its messages.

The five exchanges, in order: ``invite`` (who is asked; a client answers with fresh, signed keys), ``deal``
(the keys of the neighbours; answered by sealed shares of both secrets), ``mask`` (whose shares arrived;
answered by the masked vector, and a word to each holder of shares that their common mask is in it),
``confirm`` (whose vectors arrived, with these words; answered by a confirmation for each of them),
``open`` (the confirmations; answered by one share for each neighbour: of its own mask if its vector
arrived, of its mask key if not).
"""

import hashlib
import secrets
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import final

from privet.federated.sums.identities import KEY_BYTES, SIGNATURE_BYTES, Identities
from privet.federated.sums.threats import GraphPlan, ServerThreat

__all__ = ["RoundKeys", "bind_round", "draw_neighbours", "plan_graph", "seat_clients"]

SHARE_BYTES = 33  # an element of the field of KEY_PRIME
SECRET_BYTES = 32


@final
@dataclass(frozen=True)
class RoundKeys:
    """What a client says of itself in one round: two public keys, and a commitment to its own mask."""

    sealing: bytes
    masking: bytes
    commitment: bytes
    signature: bytes = b""

    def statement(self, client: int, binding: bytes) -> bytes:
        """What is signed."""
        words = struct.pack(">Q", client) + self.sealing + self.masking + self.commitment
        return b"privet round keys" + binding + words

    def sign(self, client: int, binding: bytes, identities: Identities) -> "RoundKeys":
        """The same with the client's signature."""
        signature = identities.sign(client, self.statement(client, binding))
        return RoundKeys(self.sealing, self.masking, self.commitment, signature)

    def check(self, client: int, binding: bytes, identities: Identities) -> None:
        """Refuse keys that the client did not sign for this round."""
        identities.check(client, self.statement(client, binding), self.signature)

    def to_bytes(self) -> bytes:
        """All four, one after the other."""
        return self.sealing + self.masking + self.commitment + self.signature

    @staticmethod
    def from_bytes(octets: bytes) -> "RoundKeys":
        """What ``to_bytes`` wrote; exactly ``SIZE`` bytes."""
        ends = (KEY_BYTES, 2 * KEY_BYTES, 2 * KEY_BYTES + SECRET_BYTES)
        return RoundKeys(
            octets[: ends[0]], octets[ends[0] : ends[1]], octets[ends[1] : ends[2]], octets[ends[2] :]
        )


ROUND_KEYS_BYTES = 2 * KEY_BYTES + SECRET_BYTES + SIGNATURE_BYTES


def bind_round(
    *, round_number: int, length: int, bits: int, cohort: Sequence[int], identities: Identities
) -> bytes:
    """A hash of all that a round is about; what is signed or derived in another round does not fit."""
    digest = hashlib.sha256(b"privet secure sum 1" + identities.digest)
    digest.update(struct.pack(">QQQQ", round_number, length, bits, len(cohort)))
    for client in sorted(cohort):
        digest.update(struct.pack(">Q", client))
    return digest.digest()


def commit(secret: bytes) -> bytes:
    """A commitment to a uniform secret of 256 bits, which hides it."""
    return hashlib.sha256(b"privet own mask" + secret).digest()


@lru_cache(maxsize=256)
def plan_graph(threat: ServerThreat, clients: int) -> GraphPlan:
    """The plan of the threat; the last ones are cached."""
    return threat.plan(clients)


def draw_neighbours(client: int, cohort: Sequence[int], neighbours: int) -> list[int]:
    """A client's own choice, by secure coins."""
    others = [other for other in cohort if other != client]
    return sorted(secrets.SystemRandom().sample(others, neighbours))


def seat_clients(cohort: Sequence[int], neighbours: int) -> dict[int, list[int]]:
    """The server's choice: clients on a circle in a random order, each beside its nearest k.

    This is the k-regular Harary graph of a random order.
    """
    order = list(cohort)
    secrets.SystemRandom().shuffle(order)
    size = len(order)
    if neighbours >= size - 1:
        return {client: sorted(set(order) - {client}) for client in order}
    half = neighbours // 2
    return {
        client: sorted(order[(seat + step) % size] for step in range(-half, half + 1) if step)
        for seat, client in enumerate(order)
    }
