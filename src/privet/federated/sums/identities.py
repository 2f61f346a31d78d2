"""Who is who, and keys for two: long-term identities that sign, and keys of one round that two clients share.

Identities are Ed25519 keys that every client knows beforehand; that the list is right is assumed (a
public-key infrastructure). Keys of a round are X25519 keys, drawn afresh and signed; what two of them have
in common goes through HKDF-SHA256, with the round in its salt, and so never serves twice.
"""

import hashlib
import hmac
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import final

from cryptography.exceptions import InvalidSignature, InvalidTag
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from privet.errors import InvalidArgument
from privet.federated.sum_protocols import MessageRefused

__all__ = ["Identities", "PairKeys", "agree", "draw_exchange_key", "exchange_public_key", "pair_keys"]

KEY_BYTES = 32
SIGNATURE_BYTES = 64
_NONCE = bytes(12)  # each key seals one message


@final
@dataclass(frozen=True, eq=False)
class Identities:
    """The public key of every client, and the private keys that this process holds.

    One process that plays everybody holds all of them; a client holds its own (``only``), a server none
    (``only()``).

    >>> everybody = Identities.generate(range(3))
    >>> sorted(everybody.only(1).private), sorted(everybody.only().public)
    ([1], [0, 1, 2])
    """

    public: Mapping[int, bytes]
    private: Mapping[int, bytes] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        for keys in (self.public, self.private):
            for client, key in keys.items():
                if not isinstance(client, int) or client < 0 or len(key) != KEY_BYTES:
                    raise InvalidArgument(
                        f"'Identities' needs keys of {KEY_BYTES} bytes by client numbers from 0, and has "
                        "another entry. Make them with Identities.generate."
                    )

    @staticmethod
    def generate(clients: Iterable[int]) -> "Identities":
        """New keys for each client."""
        keys = {client: Ed25519PrivateKey.generate() for client in clients}
        return Identities(
            {client: key.public_key().public_bytes_raw() for client, key in keys.items()},
            {client: key.private_bytes_raw() for client, key in keys.items()},
        )

    def only(self, *clients: int) -> "Identities":
        """All public keys, with the private keys of these clients only."""
        return Identities(self.public, {client: self.private[client] for client in clients})

    @cached_property
    def digest(self) -> bytes:
        """A hash of the whole list, so that two clients with different lists do not talk to each other."""
        digest = hashlib.sha256(b"privet identities")
        for client in sorted(self.public):
            digest.update(client.to_bytes(8, "big") + self.public[client])
        return digest.digest()

    def sign(self, client: int, statement: bytes) -> bytes:
        """The client's signature."""
        if client not in self.private:
            raise MessageRefused(
                f"There is no private key of client {client} here, so it cannot sign. Give the client its "
                "own identity."
            )
        return Ed25519PrivateKey.from_private_bytes(self.private[client]).sign(statement)

    def check(self, client: int, statement: bytes, signature: bytes) -> None:
        """Refuse a signature that is not the client's."""
        if client not in self.public:
            raise MessageRefused(
                f"Client {client} is not on the list of identities. Add its public key at every party."
            )
        try:
            Ed25519PublicKey.from_public_bytes(self.public[client]).verify(signature, statement)
        except (InvalidSignature, ValueError):
            raise MessageRefused(
                f"The keys of client {client} are not signed by its identity. Give it the identity that the "
                "others know."
            ) from None


def draw_exchange_key() -> bytes:
    """A new private X25519 key."""
    return X25519PrivateKey.generate().private_bytes_raw()


def exchange_public_key(private: bytes) -> bytes:
    """The public key of a private one."""
    return X25519PrivateKey.from_private_bytes(private).public_key().public_bytes_raw()


def agree(private: bytes, public: bytes, *, purpose: bytes, salt: bytes, size: int = KEY_BYTES) -> bytes:
    """What the holder of one private key and of the other's public key have in common, for one purpose."""
    try:
        shared = X25519PrivateKey.from_private_bytes(private).exchange(
            X25519PublicKey.from_public_bytes(public)
        )
    except ValueError:  # a point of small order
        raise MessageRefused("A public key is not one of X25519. Draw a new key pair.") from None
    return HKDF(SHA256(), size, salt, purpose).derive(shared)


@final
@dataclass(frozen=True, repr=False)
class PairKeys:
    """What two clients share in one round: a key for each direction, and one for tags."""

    own: int
    other: int
    material: bytes

    def seal(self, content: bytes) -> bytes:
        """``content`` for the neighbour. Called once a round: each key seals one message."""
        return AESGCM(self._sealing_key(self.own, self.other)).encrypt(_NONCE, content, None)

    def unseal(self, sealed: bytes) -> bytes:
        """What the neighbour sealed."""
        try:
            return AESGCM(self._sealing_key(self.other, self.own)).decrypt(_NONCE, sealed, None)
        except InvalidTag:
            raise MessageRefused(
                f"What client {self.other} sealed cannot be opened, so it was changed on its way. Leave "
                "it out."
            ) from None

    def tag(self, word: bytes) -> bytes:
        """``own`` says ``word`` about ``other``; ``other`` alone can check it."""
        return self._tag(self.own, self.other, word)

    def is_tag(self, tag: bytes, word: bytes) -> bool:
        """Whether ``other`` has said ``word`` about ``own``."""
        return hmac.compare_digest(tag, self._tag(self.other, self.own, word))

    def _tag(self, speaker: int, listener: int, word: bytes) -> bytes:
        words = speaker.to_bytes(8, "big") + listener.to_bytes(8, "big") + word
        return hmac.digest(self.material[2 * KEY_BYTES :], words, "sha256")

    def _sealing_key(self, sender: int, receiver: int) -> bytes:
        return self.material[:KEY_BYTES] if sender < receiver else self.material[KEY_BYTES : 2 * KEY_BYTES]


def pair_keys(own: int, other: int, private: bytes, public: bytes, salt: bytes) -> PairKeys:
    """The keys of two clients, from the private key of one and the public key of the other."""
    return PairKeys(own, other, agree(private, public, purpose=b"pair", salt=salt, size=3 * KEY_BYTES))
